"""Conversations with a truth about loops, as the product reads them: the zoo's and real logs."""

import csv
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from benchmarks.validity.loop_zoo import Case, make
from benchmarks.validity.loop_zoo.hosts import DIALOGUES, LABELS, SELFCHATS, SESSIONS
from chimeralab import Call, Trajectory, Turn, readers
from chimeralab.core.records import role_of_turn

EVEN, ODD = range(0, 4000, 2), range(1, 4000, 2)
NOTICE_ONLY = frozenset({"paraphrase", "replan", "waiting"})
OPEN = frozenset({"farewell/2", "praise/2", "foreign-courtesy"})
ONE_SIDED = frozenset({"one-sided", "within"})
TROUBLES = (
    "HTTP 429",
    "Error 503",
)  # how results of the zoo's tools begin that are to be waited for


class Log(NamedTuple):
    """A conversation and where it is stuck: positions of messages from 1, one span per reader."""

    talk: Trajectory
    group: str
    host: str
    spans: tuple[tuple[int, int], ...]
    period: int = 0

    @property
    def stuck(self) -> bool:
        return bool(self.spans)


def zoo(seed: int) -> Iterator[Log]:
    """The stuck and the healthy conversation of a seed.

    A user who repeats himself is not an agent's loop, and waiting for a server is not a verdict:
    where only the user would loop, the speakers change places, and a call that is repeated while
    the server has trouble is `waiting`.
    """
    for case in map(_loop_of_agent, make(seed)):
        turns = tuple(
            Turn(
                turn.text,
                turn.speaker,
                spoken=bool(turn.text.strip()) or not turn.calls,
                calls=tuple(Call(*call) for call in turn.calls),
            )
            for turn in case.turns
        )
        yield Log(Trajectory(case.id, turns), _group(case), case.host, _span(case), case.period)


def _loop_of_agent(case: Case) -> Case:
    """The case with its speakers in each other's place if the user alone would loop."""
    if case.first is None or case.kind not in ONE_SIDED:
        return case
    user = case.turns[case.first].speaker
    others = [turn.speaker for turn in case.turns if turn.speaker != user]
    if not others or role_of_turn(Turn("", user)) != "user":
        return case
    places = {user: others[0], others[0]: user}
    turns = [turn._replace(speaker=places.get(turn.speaker, turn.speaker)) for turn in case.turns]
    return case._replace(turns=tuple(turns))


def _group(case: Case) -> str:
    looping = case.turns[case.first : (case.last or 0) + 1] if case.first is not None else ()
    results = [call.result for turn in looping for call in turn.calls if call.result]
    if results and all(result.startswith(TROUBLES) for result in results):
        return "waiting"
    return f"{case.kind}/{case.noise}" if case.noise else case.kind


def _span(case: Case) -> tuple[tuple[int, int], ...]:
    return () if case.first is None or case.last is None else ((case.first + 1, case.last + 1),)


@cache
def labelled() -> tuple[Log, ...]:
    """The 58 logs that two readers have read."""
    chats = {talk.id: talk for talk in readers.read(SELFCHATS)}
    sessions = tuple(readers.read(SESSIONS))
    logs = []
    with LABELS.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            talk = sessions[int(row["index"])] if row["index"] else chats[row["id"]]
            spans = [(row[f"first_{n}"], row[f"last_{n}"]) for n in (1, 2) if row["stuck"] == "1"]
            positions = tuple((int(first), int(last)) for first, last in spans)
            logs.append(Log(talk, row["source"], row["id"], positions))
    return tuple(logs)


def unlabelled_sessions() -> Iterator[tuple[int, Trajectory]]:
    """The 164 sessions of tau-bench that nobody has labelled, with their places in the file."""
    with LABELS.open(newline="", encoding="utf-8") as file:
        known = {int(row["index"]) for row in csv.DictReader(file) if row["index"]}
    for index, talk in enumerate(readers.read(SESSIONS)):
        if index not in known:
            yield index, talk


def rated() -> Iterator[tuple[Trajectory, bool]]:
    """Dialogues that people found repetitive (10 points or fewer) or not (80 or more)."""
    for talk in readers.read(DIALOGUES):
        row = talk.metadata
        points = row["scores"]["repetitive"]
        if row["model"] != "QualityControl" and points is not None and not 10 < points < 80:
            yield talk, points <= 10
