"""Scenarios of one's own in a file: a JSON object per line, with its facts and questions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.numbers import counted
from chimeralab.core.parts import choose, read_record, shown
from chimeralab.core.records import Record
from chimeralab.core.tables import read_rows
from chimeralab.trial.scenarios.items import USUAL_NUMBER, Fact, Question, Scenario
from chimeralab.trial.scenarios.public_sets import noticing_absence
from chimeralab.trial.trials import FRAMES, read_truth

KEYS = ("id", "kind", "facts", "questions")
Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JsonLines(Record):
    """`use = "jsonl"`: the scenarios of a file, in their order; docs/scenarios.md has the keys."""

    path: str

    def within(self, folder: Path) -> "JsonLines":
        return replace(self, path=str(folder / self.path))

    def read(self, number: int | None = None) -> tuple[Scenario, ...]:
        with noticing_absence(self.path):
            found = read_scenarios(Path(self.path))
        if number is not None and number > len(found):
            there = counted(len(found), "scenario")
            raise InputError(f"{self.path} has {there}, and {number} are asked for")
        return found[: number or USUAL_NUMBER]


def read_scenarios(path: Path) -> tuple[Scenario, ...]:
    """Every scenario of a file; what is wrong with one is said with its line."""
    found: list[Scenario] = []
    for line, row in read_rows(path, ("questions",), kind=".jsonl"):
        try:
            scenario = _scenario(row, f"{path.stem}-{line}")
            if scenario.id in {each.id for each in found}:
                raise InputError(f"the id {scenario.id!r} was used before")
        except InputError as error:
            raise LogError(str(path), str(error), line) from None
        found.append(scenario)
    if not found:
        raise InputError(f"{path} holds no scenario; it takes a JSON object per line")
    return tuple(found)


def _scenario(row: Table, usual_id: str) -> Scenario:
    for key in row:
        choose(key, KEYS, f"key {key!r} in a scenario")
    tables = _tables(row, "facts")
    facts = tuple(_fact(table, number) for number, table in enumerate(tables, start=1))
    told = {fact.id: fact for fact in facts}
    tables = _tables(row, "questions")
    questions = tuple(_question(table, n, told) for n, table in enumerate(tables, start=1))
    if not questions:
        raise InputError("questions is empty; a scenario needs at least one")
    _refuse_repeats([fact.id for fact in facts], "fact")
    _refuse_repeats([question.id for question in questions], "question")
    _refuse_halves(questions)
    identity = row.get("id", usual_id)
    if not isinstance(identity, str) or not identity:
        raise InputError(f"id is {shown(identity)}; it takes a text")
    return Scenario(identity, str(row.get("kind", "own")), facts, questions)


def _tables(row: Table, key: str) -> list[dict[str, Any]]:
    found = row.get(key) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InputError(f"{key} is {shown(found)}; it takes a list of objects")
    return found


def _fact(table: Table, number: int) -> Fact:
    """A fact; its sentence is made of its parts where it has none of its own."""
    parts = [str(table.get(key, "")) for key in ("subject", "relation", "value")]
    usual = {"id": f"f{number}", "text": f"{' '.join(parts)}."}
    return read_record(Fact, {**usual, **table}, f"fact {number}")


def _question(table: Table, number: int, told: Mapping[str, Fact]) -> Question:
    place = f"question {number}"
    needs = table.get("needs", [])
    names = needs if isinstance(needs, list) else []
    for need in names:
        choose(need, told, f"fact {need!r} in {place} needs")
    usual: dict[str, Any] = {"id": f"q{number}", "kind": "question"}
    truth = table.get("truth")
    if isinstance(truth, list | dict):
        accepted = read_truth(truth)
        usual["accepts"] = accepted.as_dict()
        first = accepted.forms[0] if accepted.forms else accepted.pattern
        table = {**table, "truth": first}
    # A question for one fact is told from others by its kind: coherence is measured on it.
    if len(names) == 1 and told[names[0]].value == table.get("truth"):
        usual["kind"] = "recall"
    question = read_record(Question, {**usual, **table}, place)
    _check(question, place)
    return question


def _check(question: Question, place: str) -> None:
    if question.options:
        options = ", ".join(question.options)
        for key, value in (("truth", question.truth), ("signal", question.signal)):
            if value is not None and str(value) not in question.options:
                raise InputError(f"{place} {key} {shown(value)} is none of its options: {options}")
        _refuse_repeats(question.options, f"option of {place}")
    if question.signal is not None and question.signal == question.truth:
        raise InputError(f"{place} signal is its truth; it has to be a wrong answer")
    if question.weight is not None and not 0 <= question.weight <= 1:
        raise InputError(f"{place} weight is {question.weight:g}; it must lie between 0 and 1")
    if question.frame is not None and question.pair is None:
        raise InputError(f"{place} has a frame and no pair; give both halves the same pair")


def _refuse_repeats(names: Sequence[str], what: str) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(f"{what} {twice[0]!r} is there twice")


def _refuse_halves(questions: Sequence[Question]) -> None:
    """A pair is the neutral and the biased wording of one decision."""
    for pair in {question.pair for question in questions if question.pair is not None}:
        frames = sorted(str(each.frame) for each in questions if each.pair == pair)
        if frames != sorted(FRAMES):
            raise InputError(
                f"pair {pair!r} has the frames {', '.join(frames)}; it takes one neutral and one "
                "biased question"
            )
