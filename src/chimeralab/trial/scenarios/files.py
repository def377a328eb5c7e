"""Scenarios in files: BenchForm, MT-Consistency, SYCON-Bench, and your own JSON Lines."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Annotated, Any, Self

from pydantic import Field

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.files import parse_json, read_text
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
    draw_wrong,
    make_rng,
)
from chimeralab.trial.trials import FRAMES, read_truth

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
    """Scenarios in files, relative to the folder of the plan."""

    path: str

    def within(self, folder: Path) -> Self:
        return replace(self, path=str(folder / self.path))

    def load(self) -> tuple[Sequence[Scenario], str]:
        """Load all scenarios of the set; also returns their number in words."""
        raise NotImplementedError

    def read(self, number: int | None = None) -> tuple[Scenario, ...]:
        """Read the first scenarios, by default up to the default number."""
        try:
            found, what = self.load()
        except InputError as error:
            if Path(self.path).exists():
                raise
            raise MissingSourceError(str(error)) from None
        if number is not None and number > len(found):
            raise InputError(f"{self.path} has {what}, but [scenarios] number is {number}")
        return tuple(found[: number or DEFAULT_NUMBER])


@dataclass(frozen=True, slots=True)
class ChoiceSet(FileSet):
    """A public set in parts; a scenario has the first `questions` questions of a part."""

    questions: Count = 20
    seed: int = 0

    @staticmethod
    def read_all(path: Path, seed: int) -> tuple[Scenario, ...]:
        raise NotImplementedError

    def load(self) -> tuple[Sequence[Scenario], str]:
        """Load scenarios of equal length; parts that are too short are skipped."""
        found = [
            replace(each, questions=each.questions[: self.questions])
            for each in self.read_all(Path(self.path), self.seed)
            if len(each.questions) >= self.questions
        ]
        if not found:
            raise InputError(
                f"{self.path} has no part of {self.questions} questions; lower `questions`"
            )
        return found, f"{len(found)} parts of {self.questions} questions"


@dataclass(frozen=True, slots=True)
class Sycon(FileSet):
    """`use = "sycon"`: a scenario per question, asked as a choice between correction and belief."""

    seed: int = 0

    def load(self) -> tuple[Sequence[Scenario], str]:
        rng = make_rng("sycon", self.seed)
        questions = read_sycon(Path(self.path)).questions
        if not questions:
            raise InputError(f"{self.path} has no questions; expected those of SYCON-Bench")
        found = [
            Scenario(f"sycon-{each.id}", "beliefs", (), (_as_choice(each, rng, self.path),))
            for each in questions
        ]
        return found, f"{len(questions)} questions"


class JsonLines(FileSet):
    """`use = "jsonl"`: the scenarios of a file, in order; see docs/scenarios.md for the keys."""

    def load(self) -> tuple[Sequence[Scenario], str]:
        found = read_scenarios(Path(self.path))
        return found, plural(len(found), "scenario")


def read_benchform(path: Path, seed: int = 0) -> tuple[Scenario, ...]:
    """Read a scenario per task (Weng et al. 2025) from the file of a task or a folder of them.

    The set's own `random_ans_idx`, meant as a wrong answer for the others to give, is the right one
    in 1,188 of 3,299 items, so the wrong option is drawn again with our seed.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path} has no .json file; expected {BENCHFORM}")
    scenarios = []
    for file in files:
        try:
            content = parse_json(read_text(file, BENCHFORM))
        except ValueError:
            raise _misfit(file, BENCHFORM, "it is not JSON") from None
        items = content.get("data") if isinstance(content, dict) else None
        if not isinstance(items, list) or not items:
            raise _misfit(file, BENCHFORM, "it has no list `data`")
        rng = make_rng(f"benchform/{file.stem}", seed)
        questions = [_benchform_item(file, rng, n, item) for n, item in enumerate(items, start=1)]
        usable = tuple(question for question in questions if question is not None)
        scenarios.append(Scenario(f"benchform-{file.stem}", "consensus", (), usable))
    return tuple(scenarios)


def _benchform_item(path: Path, rng: Random, number: int, item: Any) -> Question | None:
    """Read one item; None if its options are identical, as in one item of the set."""
    try:
        prompt, _, _ = item["parsed_inputs"].partition(BENCHFORM_CHOICES)
        options = tuple(str(option).strip() for option in item["multiple_choice_targets"])
        truth = options[item["multiple_choice_scores"].index(1)]
    except (TypeError, KeyError, AttributeError, ValueError, IndexError):
        raise _misfit(path, BENCHFORM, f"item {number} has different fields") from None
    distinct = tuple(dict.fromkeys(options))
    if len(distinct) < 2:
        return None
    return Question(
        id=f"{path.stem}-{number}",
        kind="consensus",
        prompt=prompt.strip(),
        truth=truth,
        options=distinct,
        signal=draw_wrong(rng, distinct, truth),
    )


class BenchForm(ChoiceSet):
    """`use = "benchform"`: a scenario per task."""

    read_all = staticmethod(read_benchform)


def read_mt_consistency(path: Path, seed: int = 0) -> tuple[Scenario, ...]:
    """Read a scenario per subject (Li et al. 2025); wrong options are drawn with our seed."""
    rng = make_rng("mt-consistency", seed)
    by_subject: dict[str, list[Question]] = {}
    rows = read_rows(path, ("question", "choices", "answer", "subject"), kind=".csv")
    for number, (_, row) in enumerate(rows, start=1):
        labelled = _parse_choices(path, number, row["choices"])
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
            signal=draw_wrong(rng, options, truth),
        )
        by_subject.setdefault(question.kind, []).append(question)
    if not by_subject:
        raise _misfit(path, MT_CONSISTENCY, "it has no rows")
    return tuple(
        Scenario(f"mt-consistency-{subject}", "consensus", (), tuple(questions))
        for subject, questions in sorted(by_subject.items())
    )


class MtConsistency(ChoiceSet):
    """`use = "mt-consistency"`: a scenario per subject."""

    read_all = staticmethod(read_mt_consistency)


def _parse_choices(path: Path, number: int, cell: str) -> list[str]:
    """Parse a cell that holds the repr of a list of texts."""
    try:
        choices = ast.literal_eval(cell)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        choices = None
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        raise _misfit(path, MT_CONSISTENCY, f"entry {number}: choices is not a list of texts")
    return choices


def read_sycon(folder: Path) -> Scenario:
    """Read the false presuppositions of SYCON-Bench (Hong et al. 2025) as one scenario.

    A question presupposes something false; the right answer corrects it, and four push-backs insist
    one after another.
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


def _as_choice(question: Question, rng: Random, path: str) -> Question:
    """Turn a question into a choice between two statements, since a free answer needs a judge.

    Quotation marks delimit each statement in lists, in feedback and in replies.
    """
    truth, lure = (f"“{str(said).rstrip(' .')}”" for said in (question.truth, question.signal))
    if truth == lure:
        raise InputError(f"{path}: {question.id} has identical correction and presupposition")
    return replace(
        question,
        prompt=f"{question.prompt} {WHICH}",
        truth=truth,
        signal=lure,
        options=tuple(rng.sample((truth, lure), 2)),
    )


def _misfit(path: Path, wanted: str, why: str) -> LogError:
    """The error for a file that is not in the `wanted` format."""
    return LogError(str(path), f"not {wanted} ({why})")


KEYS = ("id", "kind", "facts", "questions")
Table = Mapping[str, Any]


def read_scenarios(path: Path) -> tuple[Scenario, ...]:
    """Read the scenarios of a file; errors name the line."""
    found: list[Scenario] = []
    for line, row in read_rows(path, ("questions",), kind=".jsonl"):
        try:
            scenario = _scenario(row, f"{path.stem}-{line}")
            if scenario.id in {each.id for each in found}:
                raise InputError(f"duplicate id {scenario.id!r}")
        except InputError as error:
            raise LogError(str(path), str(error), line) from None
        found.append(scenario)
    if not found:
        raise InputError(f"{path} has no scenarios; write one JSON object per line")
    return tuple(found)


def _scenario(row: Table, default_id: str) -> Scenario:
    for key in row:
        choose(key, KEYS, f"key {key!r} in a scenario")
    told: dict[str, Fact] = {}
    for number, table in enumerate(_tables(row, "facts"), start=1):
        # The default sentence of a fact is made of its parts.
        parts = [str(table.get(key, "")) for key in ("subject", "relation", "value")]
        defaults = {"id": f"f{number}", "text": f"{' '.join(parts)}."}
        fact = read_record(Fact, {**defaults, **table}, f"fact {number}")
        if told.setdefault(fact.id, fact) is not fact:
            raise InputError(f"duplicate fact {fact.id!r}")
    tables = _tables(row, "questions")
    questions = tuple(_own_question(table, n, told) for n, table in enumerate(tables, start=1))
    if not questions:
        raise InputError("questions is empty; a scenario needs at least one")
    _reject_duplicates([question.id for question in questions], "question")
    _check_pairs(questions)
    identity = row.get("id", default_id)
    if not isinstance(identity, str) or not identity:
        raise InputError(f"id must be a string, not {format_value(identity)}")
    return Scenario(identity, str(row.get("kind", "own")), tuple(told.values()), questions)


def _tables(row: Table, key: str) -> list[dict[str, Any]]:
    found = row.get(key) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InputError(f"{key} must be a list of objects, not {format_value(found)}")
    return found


def _own_question(table: Table, number: int, told: Mapping[str, Fact]) -> Question:
    place = f"question {number}"
    needs = table.get("needs", [])
    names = needs if isinstance(needs, list) else []
    for need in names:
        choose(need, told, f"fact {format_value(need)} in {place} needs")
    defaults: dict[str, Any] = {"id": f"q{number}", "kind": "question"}
    truth = table.get("truth")
    if isinstance(truth, list | dict):
        accepted = read_truth(truth)
        defaults["accepts"] = accepted.as_dict()
        first = accepted.forms[0] if accepted.forms else accepted.pattern
        table = {**table, "truth": first}
    # Narrative coherence is measured on questions of this kind.
    if len(names) == 1 and told[names[0]].value == table.get("truth"):
        defaults["kind"] = "recall"
    question = read_record(Question, {**defaults, **table}, place)
    _check(question, place)
    return question


def _check(question: Question, place: str) -> None:
    if question.options:
        options = ", ".join(question.options)
        for key, value in (("truth", question.truth), ("signal", question.signal)):
            if value is not None and str(value) not in question.options:
                raise InputError(
                    f"{place} {key} {format_value(value)} is not one of its options: {options}"
                )
        _reject_duplicates(question.options, f"option of {place}")
    if question.signal is not None and question.signal == question.truth:
        raise InputError(f"{place} signal is the truth; it must be a wrong answer")
    if question.weight is not None and not 0 <= question.weight <= 1:
        raise InputError(f"{place} weight must be between 0 and 1, not {question.weight:g}")
    if question.frame is not None and question.pair is None:
        raise InputError(f"{place} has a frame but no pair; give both halves the same pair")


def _reject_duplicates(names: Sequence[str], what: str) -> None:
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise InputError(f"duplicate {what} {repeated[0]!r}")


def _check_pairs(questions: Sequence[Question]) -> None:
    """Reject a pair that is not a neutral and a biased wording."""
    for pair in {question.pair for question in questions if question.pair is not None}:
        frames = sorted(str(each.frame) for each in questions if each.pair == pair)
        if frames != sorted(FRAMES):
            raise InputError(
                f"pair {pair!r} has the frames {', '.join(frames)}; it needs one neutral and one "
                "biased question"
            )
