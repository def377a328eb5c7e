"""Conversations for the winding-down channel: what its settings are chosen on, with vectors."""

import csv
import json
import random
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from benchmarks.validity.loop_logs import Log, labelled, rated, unlabelled_sessions, zoo
from benchmarks.validity.loop_zoo.hosts import LABELS
from benchmarks.validity.winding_sentences import Grammar
from chimeralab import Trajectory, Turn
from chimeralab.core.records import RESULT_ROLES, role_of_turn
from chimeralab.detection.calls import CallLog, has_failed
from chimeralab.detection.courtesy import is_polite
from chimeralab.detection.loops import has_text
from chimeralab.detection.words import tokenize

SELFPLAY = LABELS.with_name("selfplay.csv")
ATTRACTORS = Path("/work/.mirror/ajobi-uhc+attractor-states/repo")
DIALOGUES = 300
ZOO = 300  # healthy talks of each parity
CLOSING = ("thanks", "farewell", "farewell", "assent")
CLOSING_HOSTS = 60


class Case(NamedTuple):
    """A conversation of a group, with its kinds of loop; halves share no source of talks."""

    group: str
    log: Log
    kind: str = "none"
    half: int = 0

    @property
    def stuck(self) -> bool:
        return self.log.stuck


class Message(NamedTuple):
    """A spoken message by its position from 1, and whether a tool has brought news before it."""

    position: int
    text: str
    news: bool


def spoken_messages(talk: Trajectory) -> Iterator[Message]:
    """The messages that the channel sees, as `LoopStream` would pass them on."""
    calls, news = CallLog(16), False
    for position, turn in enumerate(talk.turns, start=1):
        if has_text(turn):
            yield Message(position, turn.text, news)
            news = False
        elif not turn.spoken and role_of_turn(turn) in RESULT_ROLES:
            news |= calls.add_result(turn.text)
        for call in turn.calls:
            news |= calls.add_result(call.result) and not has_failed(call)


def half_of(source: str) -> int:
    return crc32(source.encode()) % 2


@cache
def selfplay() -> tuple[Case, ...]:
    """The talks of set 1 on which both readers agree; no other talk of the repository is kept."""
    cases = []
    with SELFPLAY.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["stuck"]]
    for row in rows:
        folder, _, number = row["id"].rpartition("#")
        turns = _conversations(folder)[int(number)]["full_conversation"]
        talk = Trajectory(row["id"], tuple(Turn(t["content"], t["speaker"]) for t in turns))
        spans = ((int(row["onset"]) + 1, len(turns)),) if row["stuck"] == "1" else ()
        log = Log(talk, "selfplay", row["id"], spans)
        cases.append(Case("set 1", log, row["kind"].split("|")[0], half_of(folder)))
    return tuple(cases)


@cache
def _conversations(folder: str) -> Sequence[dict[str, Any]]:
    command = ["git", "--git-dir", str(ATTRACTORS), "show", f"HEAD:{folder}/conversations.json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return list(found if isinstance(found, list) else found["conversations"])


def read_labelled() -> Iterator[Case]:
    """Selfchats and sessions of tau-bench that two readers have read."""
    with LABELS.open(newline="", encoding="utf-8") as file:
        kinds = {row["id"]: row["kind_1"] for row in csv.DictReader(file)}
    for log in labelled():
        yield Case(log.group, log, kinds[log.host], half_of(log.host))


def sessions() -> Iterator[Case]:
    for index, talk in unlabelled_sessions():
        host = f"tau-bench {index}"
        yield Case("tau-bench", Log(talk, "tau-bench", host, ()), half=half_of(host))


def dialogues() -> Iterator[Case]:
    """A sample of the dialogues that people rated as not repetitive."""
    healthy = [talk for talk, repetitive in rated() if not repetitive]
    for talk in random.Random(1).sample(healthy, DIALOGUES):
        yield Case("dialogues", Log(talk, "dialogues", talk.id, ()), half=half_of(talk.id))


def zoo_talks(count: int = ZOO) -> Iterator[Case]:
    """Healthy talks and endless courtesy of the zoo; the halves are even and odd seeds."""
    for seed in range(2 * count):
        for log in zoo(seed):
            kind = log.group.split("/")[0]
            if not log.stuck:
                yield Case("zoo", log, half=seed % 2)
            elif kind in ("farewell", "praise", "emoji"):
                yield Case("zoo", log, log.group, seed % 2)


def closings(hosts: Sequence[Case], lines: int) -> Iterator[Case]:
    """Healthy talks, without a goodbye of their own, that end with lines of ordinary courtesy."""
    rng = random.Random(lines)
    grammar = Grammar(rng, held_out=True)
    for case in rng.sample(list(hosts), min(CLOSING_HOSTS, len(hosts))):
        turns = list(case.log.talk.turns)
        while turns and (not has_text(turns[-1]) or _is_courteous(turns[-1].text)):
            turns.pop()
        speakers = [turn.speaker for turn in turns if has_text(turn)][-2:]
        said = [grammar.sentence("empty", rng.choice(CLOSING)) for _ in range(lines)]
        turns += [Turn(text, speakers[n % len(speakers)]) for n, text in enumerate(said)]
        talk = Trajectory(f"{case.log.talk.id} closed", tuple(turns))
        yield Case(f"{lines} closing lines", case.log._replace(talk=talk), half=case.half)


def _is_courteous(text: str) -> bool:
    return is_polite(text, tokenize(text)) or "###" in text  # how tau-bench ends a session
