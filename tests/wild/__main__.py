"""Print how the wild logs are read, by source: `python -m tests.wild [SOURCE …]`."""

import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from tests.wild.compare import compare
from tests.wild.files import wild_files
from tests.wild.raw_counts import is_log


def main(asked: list[str]) -> None:
    rows: dict[str, list[int]] = defaultdict(lambda: [0] * 5)
    with tempfile.TemporaryDirectory() as folder:
        for file in wild_files():
            if asked and file.source not in asked:
                continue
            row = rows[file.source]
            row[0] += 1
            path = file.fetch(Path(folder))
            if path is None:
                continue
            row[1] += 1
            found = compare(file.source, path)
            if not is_log(path):
                row[2] += 1
                if found.talks:
                    print(f"{file.source} {file.path}: not a log, but read as one")
                continue
            row[3] += found.talks > 0
            row[4] += found.talks > 0 and not found.wrong()
            for wrong in found.wrong() if found.talks else ["no conversation"]:
                print(f"{file.source} {file.path[-60:]}: {wrong}")
    print(f"{'source':20} {'listed':>7} {'here':>5} {'no log':>7} {'read':>5} {'right':>6}")
    for source, row in [*rows.items(), ("all", [sum(c) for c in zip(*rows.values(), strict=True)])]:
        print(f"{source:20} {row[0]:7} {row[1]:5} {row[2]:7} {row[3]:5} {row[4]:6}")


main(sys.argv[1:])
