"""How often the causes of loops are right, by cause and set of labels.

    python -m benchmarks.validity.causes             of which logs are on this machine
    python -m benchmarks.validity.causes --list      with every cause that is wrong or missed

`benchmarks/stuck/labels/causes.csv` names loops by repository, path and position, with the causes
that two blind readers gave; rows on which they agree count. `dev` and `held` are all loops of their
logs. `tuned` are other loops whose causes were read while the rules were chosen, and `fired` those
that the finished rules named in logs that had not been looked at: these show precision alone.
"""

import argparse
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from benchmarks.stuck.logs import read_rows
from benchmarks.validity.loop_zoo.hosts import SELFCHATS, SESSIONS
from benchmarks.validity.wild import SELFPLAY_REPOSITORY, read_named
from chimeralab import Trajectory, readers
from chimeralab.detection.cause import find_cause
from chimeralab.detection.judging import detect_all
from chimeralab.readers.memory import parse_conversation
from tests.wild.files import git, wild_files

Row = dict[str, str]


def load_rows() -> list[Row]:
    return read_rows("causes")


def load_talk(row: Row, folder: Path) -> Trajectory | None:
    """The conversation of a row; None if it is not on this machine."""
    if row["repository"] == "selfchats":
        return chats().get(row["id"])
    if row["repository"] == "tau-bench":
        return dict(enumerate(sessions())).get(int(row["id"]))
    sample = samples().get((row["repository"], row["path"]))
    if sample:
        return read_named(sample, row["id"])
    found = git(row["repository"], "show", f"{row['commit']}:{row['path']}")
    if found is None:
        return None
    if row["repository"] == SELFPLAY_REPOSITORY:
        number = int(row["id"].rpartition("#")[2])
        said = json.loads(found)["conversations"][number]["full_conversation"]
        texts = [{"speaker": each["speaker"], "text": each["content"]} for each in said]
        return parse_conversation(texts, row["id"])
    path = folder / f"{row['sha256']}{Path(row['path']).suffix}"
    path.write_bytes(found)
    return read_named(path, row["id"])


@cache
def chats() -> dict[str, Trajectory]:
    return {talk.id: talk for talk in readers.read(SELFCHATS)} if SELFCHATS.is_file() else {}


@cache
def sessions() -> tuple[Trajectory, ...]:
    return tuple(readers.read(SESSIONS)) if SESSIONS.is_file() else ()


@cache
def samples() -> dict[tuple[str, str], Path]:
    """The files of the index that lie next to it."""
    with tempfile.TemporaryDirectory() as folder:
        found = ((each, each.fetch(Path(folder))) for each in wild_files() if each.sample)
        return {(each.repository, each.path): path for each, path in found if path}


def judge_rows() -> Iterator[tuple[Row, str | None]]:
    """Each row with the cause that the rules give its loop; None if loop or log are not here."""
    with tempfile.TemporaryDirectory() as folder:
        talks = [(row, load_talk(row, Path(folder))) for row in load_rows()]
    here = [(row, talk) for row, talk in talks if talk]
    yield from ((row, None) for row, talk in talks if talk is None)
    verdicts = detect_all((talk for _, talk in here), detector=None)
    for (row, talk), found in zip(here, verdicts, strict=True):
        place = int(row["began"]), int(row["noticed"]), row["stream"]
        loops = (each for each in found.loops if (each.began, each.noticed, each.stream) == place)
        loop = next(loops, None)
        cause = find_cause(talk.turns, loop) if loop else None
        yield row, cause.kind if cause else "none" if loop else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="every cause that is wrong or missed")
    asked = parser.parse_args([] if __name__ != "__main__" else None)
    counts: dict[str, Counter[tuple[str, bool]]] = defaultdict(Counter)
    missed, rest = defaultdict[str, Counter[str]](Counter), Counter[str]()
    for row, found in judge_rows():
        half, truth = row["half"], row["cause_1"]
        if found is None or not truth or row["cause_2"] != truth:
            rest[f"{half}: " + ("not here" if found is None else "readings differ")] += 1
            continue
        if found != "none":
            counts[half][found, found == truth] += 1
        elif truth != "none":
            missed[half][truth] += 1
        if asked.list and found != truth:
            place = f"{row['repository']} {row['id'][-50:]} {row['began']}"
            print(f"    {half}: {place}: {truth}, found {found}")
    for half, sums in counts.items():
        right = sum(n for (_, ok), n in sums.items() if ok)
        each = ", ".join(
            f"{kind} {sums[kind, True]}/{sums[kind, True] + sums[kind, False]}"
            for kind in sorted({kind for kind, _ in sums})
        )
        print(f"{half}: right {right}/{sum(sums.values())}: {each}; missed {dict(missed[half])}")
    print(dict(rest))


if __name__ == "__main__":
    main()
