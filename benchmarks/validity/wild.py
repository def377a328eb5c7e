"""The loop detector on logs that others wrote, version by version.

    python -m benchmarks.validity.wild                  the development sets
    python -m benchmarks.validity.wild --list           with every miss and false alarm

Logs that are not on this machine are left out and counted. `CHIMERA_REPOSITORIES` names the folder
with the public repositories.
"""

import argparse
import csv
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.validity.loop_logs import Log, labelled, rated, unlabelled_sessions
from benchmarks.validity.loop_zoo.hosts import LABELS
from chimeralab import Trajectory, readers
from chimeralab.detection.judging import Judge
from chimeralab.detection.loops import Loops
from chimeralab.readers.memory import parse_conversation
from tests.wild.files import WildFile, git, wild_files

SHARED = LABELS.parent
SELFPLAY_REPOSITORY = "ajobi-uhc/attractor-states"
COUNTED = {"who-and-when", "agentrx"}  # sources whose logs nobody has labelled


def agents() -> Iterator[Log | None]:
    """The labelled agent logs; None for one that is not here or that the readers differ on."""
    samples = {(each.repository, each.path): each for each in wild_files()}
    with tempfile.TemporaryDirectory() as folder:
        for row in read_labels("agents.csv"):
            if "?" in (row["stuck_1"], row["stuck_2"]) or row["stuck_1"] != row["stuck_2"]:
                continue
            place = row["repository"], row["path"]
            file = samples.get(place) or WildFile(row["source"], *place, "")
            path = file.fetch(Path(folder))
            talk = choose(path, row["id"]) if path else None
            yield talk and Log(talk, row["source"], row["kind_1"], spans(row))


def choose(path: Path, name: str) -> Trajectory | None:
    talks = list(readers.read(path))
    named = [talk for talk in talks if talk.id == name]
    return (named or talks or [None])[0]


def spans(row: dict[str, str]) -> tuple[tuple[int, int], ...]:
    if row["stuck_1"] != "1":
        return ()
    pairs = [(row[f"onset_{n}"], row[f"last_{n}"]) for n in (1, 2)]
    return tuple((int(first), int(last)) for first, last in pairs if first and last)


def selfplay() -> Iterator[Log | None]:
    """The labelled talks between models."""
    for row in read_labels("selfplay.csv"):
        if row["stuck"] not in ("0", "1"):
            continue
        folder, _, number = row["id"].partition("#")
        found = git(SELFPLAY_REPOSITORY, "show", f"HEAD:{folder}/conversations.json")
        if found is None:
            yield None
            continue
        said = json.loads(found)["conversations"][int(number)]["full_conversation"]
        talk = parse_conversation(
            [{"speaker": each["speaker"], "text": each["content"]} for each in said], row["id"]
        )
        onset = int(row["onset"] or 0) + 1
        span = ((onset, len(talk.turns)),) if row["stuck"] == "1" else ()
        yield Log(talk, "selfplay", row["kind"].split("|")[0], span)


def read_labels(name: str) -> list[dict[str, str]]:
    with (SHARED / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def report(name: str, logs: list[Log | None], settings: Loops, *, listed: bool) -> None:
    here = [log for log in logs if log is not None]
    kinds: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    alarms, errors, delays = [], [], []
    judge = Judge(None if os.environ.get("WORDS") else judge_vectors(), settings)
    for log, (_, found) in zip(here, judge.judge(log.talk for log in here), strict=True):
        verdicts = [loop for loop in found.loops if loop.level == "verdict"]
        kind = log.host if log.stuck else "healthy"
        kinds[kind][0] += bool(verdicts)
        kinds[kind][1] += 1
        if log.stuck and verdicts:
            first = verdicts[0]
            errors.append(abs(first.began - log.spans[0][0]))
            delays.append(first.noticed - log.spans[0][0])
        if listed and bool(verdicts) != log.stuck:
            what = "MISSED" if log.stuck else "FALSE"
            loops = [
                (v.kind, v.stream, v.began, v.noticed, v.ended, v.excerpt[:60]) for v in verdicts
            ]
            alarms.append(f"   {what} {log.group} {log.talk.id[-60:]} {kind} {log.spans} {loops}")
    stuck = [v for k, v in kinds.items() if k != "healthy"]
    found_all, total = sum(v[0] for v in stuck), sum(v[1] for v in stuck)
    row = ", ".join(f"{k} {v[0]}/{v[1]}" for k, v in sorted(kinds.items()) if k != "healthy")
    print(
        f"{name:10} {settings.standard}: found {found_all}/{total}, false {kinds['healthy'][0]}/"
        f"{kinds['healthy'][1]}, not here {len(logs) - len(here)}; onset error "
        f"{median(errors or [0])}, delay {median(delays or [0])}; {row}"
    )
    print(*alarms, sep="\n" if alarms else "")


def judge_vectors():  # type: ignore[no-untyped-def]
    from chimeralab.detection.locked import LOCKED  # noqa: PLC0415

    return LOCKED


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--versions", default="1,2")
    asked = parser.parse_args()
    sets = {
        "agents": lambda: list(agents()),
        "selfplay": lambda: list(selfplay()),
        "labelled": lambda: list(labelled()),
        "tau": lambda: [Log(talk, "tau", "", ()) for _, talk in unlabelled_sessions()],
        "dialogues": lambda: [Log(t, "dialogue", "", ()) for t, bad in rated() if not bad],
    }
    for name, load in sets.items():
        if asked.only and name not in asked.only.split(","):
            continue
        logs = load()
        for version in map(int, asked.versions.split(",")):
            report(name, logs, Loops(version=version), listed=asked.list and version == 2)


if __name__ == "__main__":
    main()
