"""The loop detector on logs that others wrote, by version.

    python -m benchmarks.validity.wild               every set of which logs are on this machine
    python -m benchmarks.validity.wild --list        by kind and source, with each miss and alarm
    python -m benchmarks.validity.wild --peers       next to the rules of other projects
    python -m benchmarks.validity.wild --words       without vectors

`benchmarks/stuck/labels` has the judgements of two blind readers on 259 agent logs and 182 talks
between models, by repository, commit and path: half of the sources for development, half held back.
Logs that are not here, or that can't be read any more, are left out and counted.
`CHIMERA_REPOSITORIES` names the folder with the public repositories.
"""

import argparse
import csv
import json
import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.stuck.logs import Row, choose, is_agreed, make_log, own_logs
from benchmarks.validity.loop_logs import Log, labelled, rated, unlabelled_sessions
from benchmarks.validity.loop_rules import PEERS, length_of, longer_than
from benchmarks.validity.loop_zoo.hosts import LABELS
from chimeralab import Trajectory, readers
from chimeralab.core.errors import ChimeraError
from chimeralab.detection.judging import Judge
from chimeralab.detection.locked import LOCKED
from chimeralab.detection.loops import Loops
from chimeralab.readers.memory import parse_conversation
from tests.wild.files import WildFile, git, wild_files

SELFPLAY_REPOSITORY = "ajobi-uhc/attractor-states"
Logs = list[Log | None]
"""Labelled logs; None for one that is not here."""
Judged = list[tuple[float, Sequence[Any]]]
"""For each log its score and its verdicts, as loops or alarms."""
RESAMPLES = 2_000


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


def read_labels(path: Path) -> Iterator[Row]:
    """Yield the rows on which the readers agree."""
    with path.open(newline="", encoding="utf-8") as file:
        yield from filter(is_agreed, csv.DictReader(file))


def read_named(path: Path | None, name: str) -> Trajectory | None:
    """The conversation of that name in a file, or its only one."""
    try:
        return choose(list(readers.read(path)), name) if path else None
    except ChimeraError:
        return None


def report(name: str, logs: Logs, rules: Mapping[str, Judged], *, listed: bool) -> None:
    """Print a line about a set for each rule, and for the last rule what was missed or wrong."""
    here = [log for log in logs if log is not None]
    print(f"{name}: {len(here)} logs, {len(logs) - len(here)} not here")
    for title, judged in rules.items():
        hits = [bool(alarms) for _, alarms in judged]
        pairs = [(log, hit) for log, hit in zip(here, hits, strict=True)]
        stuck, healthy = ([p for p in pairs if p[0].stuck is truth] for truth in (True, False))
        line = f"  {title}: found {_share(stuck)}, false {_share(healthy)}"
        if title.startswith("loops") and (timed := list(_timing(here, judged))):
            onset, delay = median(abs(off) for off, _ in timed), median(late for _, late in timed)
            line += f"; onset off by {onset}, verdict {delay} messages after it"
        print(line)
    for what, of in (("kind", "host"), ("source", "group")) if listed else ():
        for each in sorted({getattr(log, of) for log in here}):
            mine = [pair for pair in pairs if getattr(pair[0], of) == each]
            found = [hit for log, hit in mine if log.stuck]
            false = [hit for log, hit in mine if not log.stuck]
            of_these = f"found {sum(found)} of {len(found)}, false {sum(false)} of {len(false)}"
            print(f"    {what} {each}: {of_these}")
    for log, (_, alarms) in zip(here, judged, strict=True) if listed else ():
        if bool(alarms) != log.stuck:
            seen = [(each.kind, each.stream, each.began, each.noticed) for each in alarms]
            what = "missed" if log.stuck else "false"
            print(f"    {what}: {log.group} {log.talk.id[-60:]} {log.host} {log.spans} {seen}")


def _timing(logs: Sequence[Log], judged: Judged) -> Iterator[tuple[int, int]]:
    """How far the first verdict's onset is off, and how late it comes, where it is right."""
    for log, (_, loops) in zip(logs, judged, strict=True):
        if log.stuck and loops:
            onset = log.spans[0][0]
            yield loops[0].began - onset, loops[0].noticed - onset


def _share(pairs: Sequence[tuple[Log, bool]]) -> str:
    """How many logs have an alarm, with a 95 % bootstrap interval over their sources."""
    groups: dict[str, list[bool]] = defaultdict(list)
    for log, hit in pairs:
        groups[log.group].append(hit)
    total = sum(hit for _, hit in pairs)
    if len(groups) < 2:
        return f"{total}/{len(pairs)}"
    rng, shares = random.Random(1), list[float]()
    for _ in range(RESAMPLES):
        drawn = [hit for hits in rng.choices(list(groups.values()), k=len(groups)) for hit in hits]
        shares.append(sum(drawn) / len(drawn))
    low, high = sorted(shares)[RESAMPLES // 40], sorted(shares)[-RESAMPLES // 40]
    return f"{total}/{len(pairs)} ({low:.2f}-{high:.2f}, {len(groups)} sources)"


def judge_all(here: Sequence[Log], *, words: bool, peers: bool) -> dict[str, Judged]:
    """The score and the verdicts of each log by each rule; loops-2 comes last."""
    rules: dict[str, Judged] = {}
    for title, rule in PEERS.items() if peers else ():
        rules[title] = [(found.score, found.alarms) for found in (rule(log.talk) for log in here)]
    if peers:  # the length baseline gets the length that is best in hindsight
        lengths = [length_of(log.talk) for log in here]

        def right(least: int) -> int:
            return sum((n >= least) == log.stuck for n, log in zip(lengths, here, strict=True))

        rule = longer_than(max(lengths, key=right))
        rules["length alone"] = [(0.0, rule(log.talk).alarms) for log in here]
    for version in (1, 2):
        judge = Judge(None if words else LOCKED, Loops(version=version))
        found = (each for _, each in judge.judge(log.talk for log in here))
        rules[f"loops-{version}"] = [
            (each.loop_score or 0.0, [loop for loop in each.loops if loop.level == "verdict"])
            for each in found
        ]
    return rules


def report_score(scored: Sequence[tuple[float, bool]]) -> None:
    """Print what the scores of wild logs mean: the share of stuck ones."""
    if len({stuck for _, stuck in scored}) < 2:
        return
    pairs = sorted(scored)
    print("| score | logs | stuck |\n|---|---|---|")
    for low, high in pairwise((0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 1.01)):
        inside = [stuck for score, stuck in pairs if low <= score < high]
        if inside:
            print(f"| {low:g}-{min(high, 1):g} | {len(inside)} | {mean(inside):.2f} |")


SETS: dict[str, Callable[[], Logs]] = {
    "agents": lambda: list(agents()),
    "selfplay": lambda: list(selfplay()),
    "labelled": lambda: list(labelled()),
    "tau-bench": lambda: [Log(talk, "tau-bench", "", ()) for _, talk in unlabelled_sessions()],
    "dialogues": lambda: [Log(talk, "dialogues", "", ()) for talk, bad in rated() if not bad],
    "agents-dev": lambda: list(own_logs("agents", "dev")),
    "agents-held": lambda: list(own_logs("agents", "held")),
    "talks-dev": lambda: list(own_logs("talks", "dev")),
    "talks-held": lambda: list(own_logs("talks", "held")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="kinds, sources, misses, false alarms")
    parser.add_argument("--words", action="store_true", help="without vectors")
    parser.add_argument("--peers", action="store_true", help="with the rules of other projects")
    parser.add_argument("--only", default=",".join(SETS), help="sets, separated by commas")
    asked = parser.parse_args()
    scored = list[tuple[float, bool]]()
    for name in asked.only.split(","):
        logs = SETS[name]()
        here = [log for log in logs if log is not None]
        rules = judge_all(here, words=asked.words, peers=asked.peers)
        report(name, logs, rules, listed=asked.list)
        last = rules["loops-2"]
        scored += [(score, log.stuck) for log, (score, _) in zip(here, last, strict=True)]
    report_score(scored)


if __name__ == "__main__":
    main()
