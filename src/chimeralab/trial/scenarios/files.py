"""Scenarios in files on the user's disk: one's own, and BenchForm, MT-Consistency and SYCON.

A file of one's own has a JSON object per line, with its facts and questions.
"""

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.files import read_text
from chimeralab.core.numbers import plural
from chimeralab.core.parts import choose, format_value, read_record
from chimeralab.core.records import Record
from chimeralab.core.tables import read_rows
from chimeralab.study.kind import MissingSourceError
from chimeralab.trial.scenarios.items import (
    DEFAULT_NUMBER,
    Fact,
    Question,
    Scenario,
    source,
    wrong_one,
)
from chimeralab.trial.trials import FRAMES, read_truth

T = TypeVar("T")
Count = Annotated[int, Field(ge=1)]

BENCHFORM = 'a BenchForm task: {"data": [{"parsed_inputs", "multiple_choice_targets", ...}]}'
BENCHFORM_CHOICES = "Answer choices:"
MT_CONSISTENCY = "the question table of MT-Consistency (question, choices, answer, level, subject)"
MT_LABEL = re.compile(r"^[A-Z]\. ")
SYCON_TEXTS = ("questions.txt", "presuppositions.txt", "corrections.txt")
SYCON_PUSHES = "push_back.csv"
PUSH_COLUMNS = tuple(f"Pushback_{number}" for number in (1, 2, 3, 4))
SYCON = f"a file of SYCON-Bench's false presuppositions ({', '.join(SYCON_TEXTS)}, {SYCON_PUSHES})"
WHICH = "Which of these two statements is true?"


@dataclass(frozen=True, slots=True)
class FileSet(Record):
    """Scenarios that lie in files, found from the folder of the plan."""

    path: str

    def within(self, folder: Path) -> Self:
        return replace(self, path=str(folder / self.path))

    @contextmanager
    def noticing_absence(self) -> Iterator[None]:
        """Says apart from all else when the files are not there."""
        try:
            yield
        except InputError as error:
            if Path(self.path).exists():
                raise
            raise MissingSourceError(str(error)) from None

    def first(self, found: Sequence[T], number: int | None, there: str) -> Sequence[T]:
        """The first of them; where nobody said how many, the usual number or all there are."""
        if number is not None and number > len(found):
            raise InputError(
                f"{self.path} has {there}, and [scenarios] number asks for {number}; ask for fewer"
            )
        return found[: number or DEFAULT_NUMBER]


@dataclass(frozen=True, slots=True)
class ChoiceSet(FileSet):
    """A public set in parts; a scenario has the first `questions` questions of one."""

    questions: Count = 20
    seed: int = 0

    @staticmethod
    def read_all(path: Path, seed: int) -> tuple[Scenario, ...]:
        raise NotImplementedError

    def read(self, number: int | None = None) -> tuple[Scenario, ...]:
        """Scenarios of equal length; those that are too short are passed over."""
        with self.noticing_absence():
            found = self.read_all(Path(self.path), self.seed)
            long = [each for each in found if len(each.questions) >= self.questions]
            if not long:
                raise InputError(
                    f"{self.path} has no set of {self.questions} questions; ask for fewer"
                )
            taken = self.first(long, number, f"{len(long)} sets of {self.questions} questions")
        return tuple(replace(each, questions=each.questions[: self.questions]) for each in taken)


@dataclass(frozen=True, slots=True)
class Sycon(FileSet):
    """`use = "sycon"`: a scenario per question, put as a choice between correction and belief."""

    seed: int = 0

    def read(self, number: int | None = None) -> tuple[Scenario, ...]:
        rng = source("sycon", self.seed)
        with self.noticing_absence():
            questions = read_sycon(Path(self.path)).questions
        if not questions:
            raise InputError(f"{self.path} has no question; expected those of SYCON-Bench")
        asked = self.first(questions, number, f"{len(questions)} questions")
        return tuple(
            Scenario(f"sycon-{each.id}", "beliefs", (), (_closed(each, rng, self.path),))
            for each in asked
        )


class JsonLines(FileSet):
    """`use = "jsonl"`: the scenarios of a file, in their order; docs/scenarios.md has the keys."""

    def read(self, number: int | None = None) -> tuple[Scenario, ...]:
        with self.noticing_absence():
            found = read_scenarios(Path(self.path))
        if number is not None and number > len(found):
            there = plural(len(found), "scenario")
            raise InputError(f"{self.path} has {there}, and {number} are asked for")
        return found[: number or DEFAULT_NUMBER]


def read_benchform(path: Path, seed: int = 0) -> tuple[Scenario, ...]:
    """A scenario per task (Weng et al. 2025); `path` is the file of one task, or their folder.

    The set's own `random_ans_idx`, meant as a wrong answer for the others to give, is the right one
    in 1,188 of 3,299 items: so the wrong option is drawn again, with our seed.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path}: there is no .json file here; expected {BENCHFORM}")
    scenarios = []
    for file in files:
        try:
            content = json.loads(read_text(file, BENCHFORM))
        except (ValueError, RecursionError):
            raise _misfit(file, BENCHFORM, "it is not JSON") from None
        items = content.get("data") if isinstance(content, dict) else None
        if not isinstance(items, list) or not items:
            raise _misfit(file, BENCHFORM, "it has no list `data`")
        rng = source(f"benchform/{file.stem}", seed)
        questions = [_benchform_item(file, rng, n, item) for n, item in enumerate(items, start=1)]
        usable = tuple(question for question in questions if question is not None)
        scenarios.append(Scenario(f"benchform-{file.stem}", "consensus", (), usable))
    return tuple(scenarios)


def _benchform_item(path: Path, rng: Random, number: int, item: Any) -> Question | None:
    """One item; None when all its options read the same, as those of one item do."""
    try:
        prompt, _, _ = item["parsed_inputs"].partition(BENCHFORM_CHOICES)
        options = tuple(str(option).strip() for option in item["multiple_choice_targets"])
        truth = options[item["multiple_choice_scores"].index(1)]
    except (TypeError, KeyError, AttributeError, ValueError, IndexError):
        raise _misfit(path, BENCHFORM, f"item {number} has other fields") from None
    distinct = tuple(dict.fromkeys(options))
    if len(distinct) < 2:
        return None
    return Question(
        id=f"{path.stem}-{number}",
        kind="consensus",
        prompt=prompt.strip(),
        truth=truth,
        options=distinct,
        signal=wrong_one(rng, distinct, truth),
    )


class BenchForm(ChoiceSet):
    """`use = "benchform"`: a scenario per task."""

    read_all = staticmethod(read_benchform)


def read_mt_consistency(path: Path, seed: int = 0) -> tuple[Scenario, ...]:
    """A scenario per subject (Li et al. 2025); wrong options are drawn with our seed."""
    rng = source("mt-consistency", seed)
    by_subject: dict[str, list[Question]] = {}
    rows = read_rows(path, ("question", "choices", "answer", "subject"), kind=".csv")
    for number, (_, row) in enumerate(rows, start=1):
        labelled = _listed_choices(path, number, row["choices"])
        options = tuple(dict.fromkeys(MT_LABEL.sub("", choice) for choice in labelled))
        if row["answer"] not in labelled or len(options) < 2:
            reason = f"entry {number}: the answer is not among the choices"
            raise _misfit(path, MT_CONSISTENCY, reason)
        truth = MT_LABEL.sub("", row["answer"])
        question = Question(
            id=f"q{number}",
            kind=row["subject"],
            prompt=row["question"].strip(),
            truth=truth,
            options=options,
            signal=wrong_one(rng, options, truth),
        )
        by_subject.setdefault(question.kind, []).append(question)
    if not by_subject:
        raise _misfit(path, MT_CONSISTENCY, "it has no row")
    return tuple(
        Scenario(f"mt-consistency-{subject}", "consensus", (), tuple(questions))
        for subject, questions in sorted(by_subject.items())
    )


class MtConsistency(ChoiceSet):
    """`use = "mt-consistency"`: a scenario per subject."""

    read_all = staticmethod(read_mt_consistency)


def _listed_choices(path: Path, number: int, cell: str) -> list[str]:
    """The choices, which stand in their cell as a list in quotes."""
    try:
        choices = ast.literal_eval(cell)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        choices = None
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        raise _misfit(path, MT_CONSISTENCY, f"entry {number}: choices is not a list of texts")
    return choices


def read_sycon(folder: Path) -> Scenario:
    """All false presuppositions of SYCON-Bench (Hong et al. 2025) as one scenario.

    A question takes something false for granted; the right answer corrects it, and four push-backs
    insist, one after another.
    """
    if not folder.is_dir():
        expected = ", ".join((*SYCON_TEXTS, SYCON_PUSHES))
        raise InputError(f"{folder} is not a folder; expected one with {expected}")
    texts = [read_text(folder / name, SYCON).splitlines() for name in SYCON_TEXTS]
    pushes = folder / SYCON_PUSHES
    rows = read_rows(pushes, ("Question", *PUSH_COLUMNS), kind=".csv")
    entries: Iterable[tuple[Any, ...]] = zip_longest(*texts, (cells for _, cells in rows))
    questions = []
    for number, parts in enumerate(entries, start=1):
        if None in parts or parts[-1]["Question"].strip() != parts[0].strip():
            reason = f"entry {number} does not match line {number} of {SYCON_TEXTS[0]}"
            raise _misfit(pushes, SYCON, reason)
        *said, row = parts
        if not all(row[column] for column in PUSH_COLUMNS):
            raise _misfit(pushes, SYCON, f"entry {number} lacks a push-back")
        prompt, belief, correction = (text.strip() for text in said)
        questions.append(
            Question(
                id=f"q{number}",
                kind="false presupposition",
                prompt=prompt,
                truth=correction,
                signal=belief,
                pushes=tuple(row[column].strip() for column in PUSH_COLUMNS),
            )
        )
    return Scenario("sycon-false-presuppositions", "beliefs", (), tuple(questions))


def _closed(question: Question, rng: Random, path: str) -> Question:
    """The question as a choice between two statements, since a free answer needs a judge.

    Quotation marks hold each statement together: in a list, within feedback, and in a reply.
    """
    truth, lure = (f"“{str(said).rstrip(' .')}”" for said in (question.truth, question.signal))
    if truth == lure:
        raise InputError(f"{path}: {question.id} has the same words for what is true and false")
    return replace(
        question,
        prompt=f"{question.prompt} {WHICH}",
        truth=truth,
        signal=lure,
        options=tuple(rng.sample((truth, lure), 2)),
    )


def _misfit(path: Path, wanted: str, why: str) -> LogError:
    """The file is not what is read here: `wanted` says what that is."""
    return LogError(str(path), f"not {wanted} ({why})")


KEYS = ("id", "kind", "facts", "questions")
Table = Mapping[str, Any]


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
    told: dict[str, Fact] = {}
    for number, table in enumerate(_tables(row, "facts"), start=1):
        # The sentence of a fact is made of its parts where it has none of its own.
        parts = [str(table.get(key, "")) for key in ("subject", "relation", "value")]
        usual = {"id": f"f{number}", "text": f"{' '.join(parts)}."}
        fact = read_record(Fact, {**usual, **table}, f"fact {number}")
        if told.setdefault(fact.id, fact) is not fact:
            raise InputError(f"fact {fact.id!r} is there twice")
    tables = _tables(row, "questions")
    questions = tuple(_own_question(table, n, told) for n, table in enumerate(tables, start=1))
    if not questions:
        raise InputError("questions is empty; a scenario needs at least one")
    _refuse_repeats([question.id for question in questions], "question")
    _refuse_halves(questions)
    identity = row.get("id", usual_id)
    if not isinstance(identity, str) or not identity:
        raise InputError(f"id is {format_value(identity)}; it takes a text")
    return Scenario(identity, str(row.get("kind", "own")), tuple(told.values()), questions)


def _tables(row: Table, key: str) -> list[dict[str, Any]]:
    found = row.get(key) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InputError(f"{key} is {format_value(found)}; it takes a list of objects")
    return found


def _own_question(table: Table, number: int, told: Mapping[str, Fact]) -> Question:
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
                raise InputError(
                    f"{place} {key} {format_value(value)} is none of its options: {options}"
                )
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
