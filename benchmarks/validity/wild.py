"""The loop detector on logs that others wrote, by version.

    python -m benchmarks.validity.wild               every set of which logs are on this machine
    python -m benchmarks.validity.wild --list        with every miss and false alarm of loops-2
    python -m benchmarks.validity.wild --words       without vectors

`labels/` has the judgements of two blind readers on 259 agent logs and 182 talks between models,
by repository, commit and path: half of the sources for development, half held back. Logs that are
not here, or that had to be converted, are left out and counted. `CHIMERA_REPOSITORIES` names the
folder with the public repositories.
"""

import argparse
import csv
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from benchmarks.validity.loop_logs import Log, labelled, rated, unlabelled_sessions
from benchmarks.validity.loop_zoo.hosts import LABELS
from chimeralab import Trajectory, readers
from chimeralab.core.errors import ChimeraError
from chimeralab.detection.judging import Judge
from chimeralab.detection.locked import LOCKED
from chimeralab.detection.loops import Loops
from chimeralab.readers.memory import parse_conversation
from tests.wild.files import WildFile, git, wild_files

OWN_LABELS = Path(__file__).parent / "labels"
SELFPLAY_REPOSITORY = "ajobi-uhc/attractor-states"
Logs = list[Log | None]
"""Labelled logs; None for one that is not here."""


def agents() -> Iterator[Log | None]:
    """The labelled agent logs among the wild files."""
    samples = {(each.repository, each.path): each for each in wild_files()}
    with tempfile.TemporaryDirectory() as folder:
        for row in read_labels(LABELS.parent / "agents.csv"):
            place = row["repository"], row["path"]
            file = samples.get(place) or WildFile(row["source"], *place, "")
            path = file.fetch(Path(folder))
            yield make_log(row["source"], row, read_named(path, row["id"]))


def selfplay() -> Iterator[Log | None]:
    """The labelled talks between models of one public repository."""
    for row in read_labels(LABELS.parent / "selfplay.csv"):
        folder, _, number = row["id"].partition("#")
        found = git(SELFPLAY_REPOSITORY, "show", f"HEAD:{folder}/conversations.json")
        if found is None:
            yield None
            continue
        said = json.loads(found)["conversations"][int(number)]["full_conversation"]
        texts = [{"speaker": each["speaker"], "text": each["content"]} for each in said]
        talk = parse_conversation(texts, row["id"])
        onset = int(row["onset"] or 0) + 1
        span = ((onset, len(talk.turns)),) if row["stuck"] == "1" else ()
        yield Log(talk, "selfplay", row["kind"].split("|")[0], span)


def own_labels(kind: str, half: str) -> Iterator[Log | None]:
    """The logs of `labels/`, of one half."""
    with tempfile.TemporaryDirectory() as folder:
        for number, row in enumerate(read_labels(OWN_LABELS / f"{kind}.csv")):
            if row["half"] != half:
                continue
            place = f"{row['commit']}:{row['path']}"
            found = git(row["repository"], "show", place) if row["converted"] == "no" else None
            path = Path(folder) / f"{number}{Path(row['path']).suffix}"
            if found is not None:
                path.write_bytes(found)
            talk = read_named(path if found is not None else None, row["id"])
            yield make_log(row["repository"], row, talk)


def read_labels(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows on which the readers agree."""
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            verdicts = {row[key] for key in ("stuck", "stuck_1", "stuck_2") if key in row}
            if verdicts in ({"0"}, {"1"}):
                yield row


def read_named(path: Path | None, name: str) -> Trajectory | None:
    """The conversation of that name in a file, or its only one."""
    try:
        talks = list(readers.read(path)) if path else []
    except ChimeraError:
        return None
    named = [talk for talk in talks if talk.id == name or talk.id.endswith(name.rpartition("#")[2])]
    chosen = talks if len(talks) == 1 else named
    return chosen[0] if chosen else None


def make_log(group: str, row: dict[str, str], talk: Trajectory | None) -> Log | None:
    if talk is None:
        return None
    ends = [(row[f"onset_{n}"], row[f"last_{n}"]) for n in (1, 2) if row["stuck_1"] == "1"]
    spans = tuple((int(first), int(last or first)) for first, last in ends if first)
    if row["stuck_1"] == "1" and not spans:
        spans = ((1, len(talk.turns)),)
    return Log(talk, group, row["kind_1"], spans)


def report(name: str, logs: Logs, judge: Judge, *, listed: bool) -> None:
    """Print a line about a set, and what was missed or wrong."""
    here = [log for log in logs if log is not None]
    kinds: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    errors, delays, wrong = list[int](), list[int](), list[str]()
    for log, (_, found) in zip(here, judge.judge(log.talk for log in here), strict=True):
        verdicts = [loop for loop in found.loops if loop.level == "verdict"]
        kind = log.host if log.stuck else "healthy"
        kinds[kind][0] += bool(verdicts)
        kinds[kind][1] += 1
        if log.stuck and verdicts:
            errors.append(abs(verdicts[0].began - log.spans[0][0]))
            delays.append(verdicts[0].noticed - log.spans[0][0])
        if bool(verdicts) != log.stuck:
            seen = [(each.kind, each.stream, each.began, each.noticed) for each in verdicts]
            what = "missed" if log.stuck else "false"
            wrong.append(f"    {what}: {log.group} {log.talk.id[-60:]} {kind} {log.spans} {seen}")
    false, healthy = kinds.pop("healthy", [0, 0])
    hits, stuck = (sum(each[n] for each in kinds.values()) for n in (0, 1))
    by_kind = ", ".join(f"{kind} {n}/{of}" for kind, (n, of) in sorted(kinds.items()))
    assert judge.loops is not None
    print(
        f"{name:12} {judge.loops.standard}: found {hits}/{stuck}, false {false}/{healthy}, not here"
        f" {len(logs) - len(here)}; medians: onset off by {median(errors or [0])}, verdict"
        f" {median(delays or [0])} messages after it; {by_kind}"
    )
    print(*(wrong if listed else ()), sep="\n", end="\n" if listed and wrong else "")


SETS: dict[str, Callable[[], Logs]] = {
    "agents": lambda: list(agents()),
    "selfplay": lambda: list(selfplay()),
    "labelled": lambda: list(labelled()),
    "tau-bench": lambda: [Log(talk, "tau-bench", "", ()) for _, talk in unlabelled_sessions()],
    "dialogues": lambda: [Log(talk, "dialogues", "", ()) for talk, bad in rated() if not bad],
    "agents-dev": lambda: list(own_labels("agents", "dev")),
    "agents-held": lambda: list(own_labels("agents", "held")),
    "talks-dev": lambda: list(own_labels("talks", "dev")),
    "talks-held": lambda: list(own_labels("talks", "held")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="every miss and false alarm of loops-2")
    parser.add_argument("--words", action="store_true", help="without vectors")
    parser.add_argument("--only", default=",".join(SETS), help="sets, separated by commas")
    asked = parser.parse_args()
    for name in asked.only.split(","):
        logs = SETS[name]()
        for version in (1, 2):
            judge = Judge(None if asked.words else LOCKED, Loops(version=version))
            report(name, logs, judge, listed=asked.list and version == 2)


if __name__ == "__main__":
    main()
