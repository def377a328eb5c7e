"""stuck-bench: how loop detectors do on logs that two readers have read.

python -m benchmarks.stuck                     every set of which logs are on this machine
python -m benchmarks.stuck --missing           how to get the logs that are not
python -m benchmarks.stuck --add my.module:MyDetector
python -m benchmarks.stuck --list loops-2      each miss and each false alarm of a contestant
python -m benchmarks.stuck --write             also write docs/stuck-bench.md and results.json
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from benchmarks.stuck import page
from benchmarks.stuck.contestants import EVERYBODY, NEEDS_VECTORS, Alarm, judge, load_class
from benchmarks.stuck.logs import FILES, Absent, Row, is_agreed, load, read_rows
from benchmarks.stuck.score import Outcome
from benchmarks.validity.loop_logs import Log, zoo
from benchmarks.validity.loop_zoo import available
from chimeralab.core.errors import ChimeraError
from chimeralab.detection.seam import Detector

CORES, BATCH = 2, 12
ZOO = range(1, 241, 2)  # odd seeds: no parameter was chosen on them
HALVES = {"held": "held back", "dev": "development", "first": "first labels"}
Job = list[Row] | range


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stuck", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--add", action="append", default=[], metavar="MODULE:CLASS")
    parser.add_argument("--only", metavar="NAMES", help="contestants, separated by commas")
    parser.add_argument("--words", action="store_true", help="without those that need vectors")
    parser.add_argument("--list", metavar="NAME", help="misses and false alarms of a contestant")
    parser.add_argument("--missing", action="store_true", help="how to get what is not here")
    parser.add_argument("--write", action="store_true", help="write the page and the results")
    parser.add_argument("--cores", type=int, default=CORES)
    asked = parser.parse_args(arguments)
    try:
        added = {place.rpartition(":")[2]: load_class(place) for place in asked.add}
        titles = choose_titles(asked.only, [*EVERYBODY, *added], words=asked.words)
        if asked.list and asked.list not in titles:
            titles_known = ", ".join(titles)
            parser.error(f"--list {asked.list}: no such contestant; there are: {titles_known}")
    except ChimeraError as error:
        parser.error(str(error))
    outcomes, absent = run(titles, added, cores=asked.cores)
    print(page.tell_absent(absent, len(outcomes), full=asked.missing))
    results = page.summarise(titles, added, outcomes)
    print(page.agreement_table(rows_by_group()))
    print(page.tables(results))
    if asked.list:
        print("\n".join(page.list_errors(asked.list, outcomes)))
    if asked.write:
        page.write(results, rows_by_group(), absent)


def choose_titles(only: str | None, known: Sequence[str], *, words: bool) -> list[str]:
    """The contestants that are asked for, in their order."""
    asked = only.split(";" if ";" in only else ",") if only else known
    chosen = [title for title in known if title in {each.strip() for each in asked}]
    if only and len(chosen) < len(asked):
        raise ChimeraError(f"--only {only}: the contestants are {'; '.join(known)}")
    return [title for title in chosen if not (words and title in NEEDS_VECTORS)]


def rows_by_group() -> dict[str, list[Row]]:
    """All labels by set, in the order of the page."""
    groups: dict[str, list[Row]] = {}
    for half, title in HALVES.items():
        for name in FILES:
            groups[f"{name}, {title}"] = [each for each in read_rows(name) if each["half"] == half]
    return groups


def jobs() -> Iterator[tuple[str, Job]]:
    """Batches of labels on which the readers agree, file by file, and of seeds of the zoo."""
    for group, rows in rows_by_group().items():
        agreed = sorted(filter(is_agreed, rows), key=lambda row: (row["repository"], row["path"]))
        yield from ((group, agreed[n : n + BATCH]) for n in range(0, len(agreed), BATCH))
    if available():
        yield from (("zoo", ZOO[n : n + BATCH]) for n in range(0, len(ZOO), BATCH))


def run(
    titles: Sequence[str], added: Mapping[str, Detector], *, cores: int
) -> tuple[list[Outcome], list[Absent]]:
    """What every contestant says of every log that is here, and what is not."""
    outcomes, absent = list[Outcome](), list[Absent]()
    with ProcessPoolExecutor(cores) as pool:
        for found in pool.map(partial(do, titles, added), jobs()):
            for each in found:
                (outcomes if isinstance(each, Outcome) else absent).append(each)  # type: ignore[arg-type]
    if not available():
        absent += [Absent("the zoo", "needs the talks of ../shared/data")]
    return outcomes, absent


def do(
    titles: Sequence[str], added: Mapping[str, Detector], job: tuple[str, Job]
) -> list[Outcome | Absent]:
    """Load and judge a batch."""
    group, items = job
    if isinstance(items, range):
        logs: list[Log | Absent] = [log for seed in items for log in zoo(seed)]
        counts = ["exact"] * len(logs)
    else:
        logs, counts = [load(row) for row in items], [row["messages"] for row in items]
    talks = [log.talk for log in logs if isinstance(log, Log)]
    found = judge(talks, titles, added)
    outcomes = list[Outcome | Absent]()
    for log, count in zip(logs, counts, strict=True):
        if isinstance(log, Absent):
            outcomes.append(log)
            continue
        place = sum(isinstance(each, Outcome) for each in outcomes)
        alarms = {title: found[title][place] for title in titles}
        outcomes.append(make_outcome(group, log, count, alarms))
    return outcomes


def make_outcome(group: str, log: Log, count: str, alarms: dict[str, list[Alarm]]) -> Outcome:
    """The outcome of a log, with positions if its readers counted messages as the reader does."""
    exact = count in ("exact", str(len(log.talk.turns))) and log.stuck
    is_zoo = group == "zoo"
    return Outcome(
        group,
        log.talk.id,
        log.host.partition("/")[0] if is_zoo else log.group,
        (log.group if is_zoo else log.host) if log.stuck else "none",
        log.stuck,
        len(log.talk.turns),
        tuple(first for first, _ in log.spans) if exact else None,
        max(last for _, last in log.spans) if exact else None,
        alarms,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
