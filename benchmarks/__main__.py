"""Run every benchmark: `python -m benchmarks`, or some: `python -m benchmarks speed.guard`.

Then name the results that are older than the code they measure; `--stale` does only that.
"""

import argparse
import ast
import importlib
from collections.abc import Sequence
from pathlib import Path

from benchmarks.age import benchmark_of, head, old_rows
from benchmarks.table import ROOT, read_rows

FOLDER = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="BENCHMARK", help="such as speed.guard")
    parser.add_argument("--stale", action="store_true", help="measure nothing, name old results")
    options = parser.parse_args()
    names = options.names or all_benchmarks()
    if unknown := set(names) - set(all_benchmarks()):
        parser.error(f"no benchmark {', '.join(unknown)}; there are: {', '.join(all_benchmarks())}")
    for name in [] if options.stale else names:
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
    print_old_rows(names)


def print_old_rows(benchmarks: Sequence[str]) -> None:
    if not head(ROOT):
        print("The age of the results is unknown: git or the history of this folder is missing.")
        return
    rows = {
        name: row
        for name, row in read_rows().items()
        if benchmark_of(str(row["command"])) in benchmarks
    }
    old = old_rows(ROOT, rows)
    print(
        f"{sum(map(len, old.values()))} of {len(rows)} results are older than the code they measure"
    )
    for age, names in old.items():
        print(f"{age}: {'; '.join(names)}")


def all_benchmarks() -> list[str]:
    """The modules with a `main`. They are read, not imported: some need what is not installed."""
    return [
        ".".join(file.relative_to(FOLDER).with_suffix("").parts)
        for file in sorted(FOLDER.glob("*/*.py"))
        if any(
            isinstance(node, ast.FunctionDef) and node.name == "main"
            for node in ast.parse(file.read_text(encoding="utf-8")).body
        )
    ]


if __name__ == "__main__":
    main()
