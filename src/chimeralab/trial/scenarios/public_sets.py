"""Public sets of questions on the user's disk, as scenarios: BenchForm, MT-Consistency, SYCON."""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypeVar

from pydantic import Field

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.files import read_text
from chimeralab.core.records import Record
from chimeralab.core.tables import read_rows
from chimeralab.study.kind import SetIsGone
from chimeralab.trial.scenarios.draws import source, wrong_one
from chimeralab.trial.scenarios.items import USUAL_NUMBER, Question, Scenario

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
class BenchForm(Record):
    """`use = "benchform"`: a scenario per task, of its first `questions` questions."""

    path: str
    questions: Count = 20
    seed: int = 0

    def within(self, folder: Path) -> "BenchForm":
        return replace(self, path=str(folder / self.path))

    def read(self, number: int | None = None) -> tuple[Scenario, ...]:
        with noticing_absence(self.path):
            found = read_benchform(Path(self.path), self.seed)
            return _first(found, self.questions, number, self.path)


@dataclass(frozen=True, slots=True)
class MtConsistency(Record):
    """`use = "mt-consistency"`: a scenario per subject, of its first `questions` questions."""

    path: str
    questions: Count = 20
    seed: int = 0

    def within(self, folder: Path) -> "MtConsistency":
        return replace(self, path=str(folder / self.path))

    def read(self, number: int | None = None) -> tuple[Scenario, ...]:
        with noticing_absence(self.path):
            found = read_mt_consistency(Path(self.path), self.seed)
            return _first(found, self.questions, number, self.path)


@dataclass(frozen=True, slots=True)
class Sycon(Record):
    """`use = "sycon"`: a scenario per question, put as a choice between correction and belief."""

    path: str
    seed: int = 0

    def within(self, folder: Path) -> "Sycon":
        return replace(self, path=str(folder / self.path))

    def read(self, number: int | None = None) -> tuple[Scenario, ...]:
        rng = source("sycon", self.seed)
        with noticing_absence(self.path):
            questions = read_sycon(Path(self.path)).questions
        if not questions:
            raise InputError(f"{self.path} has no question; expected those of SYCON-Bench")
        asked = _as_many(questions, number, f"{self.path} has {len(questions)} questions")
        return tuple(
            Scenario(f"sycon-{each.id}", "beliefs", (), (_closed(each, rng, self.path),))
            for each in asked
        )


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


def _first(
    scenarios: Sequence[Scenario], questions: int, number: int | None, path: str
) -> tuple[Scenario, ...]:
    """Scenarios of equal length; those that are too short are passed over."""
    long = [each for each in scenarios if len(each.questions) >= questions]
    if not long:
        raise InputError(f"{path} has no set of {questions} questions; ask for fewer")
    taken = _as_many(long, number, f"{path} has {len(long)} sets of {questions} questions")
    return tuple(replace(each, questions=each.questions[:questions]) for each in taken)


def _as_many(found: Sequence[T], number: int | None, there: str) -> Sequence[T]:
    """The first of them; where nobody said how many, the usual number or all that there are."""
    if number is not None and number > len(found):
        raise InputError(f"{there}, and [scenarios] number asks for {number}; ask for fewer")
    return found[: number or USUAL_NUMBER]


@contextmanager
def noticing_absence(path: str) -> Iterator[None]:
    """Says apart from all else when the files of a set are not there."""
    try:
        yield
    except InputError as error:
        if Path(path).exists():
            raise
        raise SetIsGone(str(error)) from None


def _misfit(path: Path, wanted: str, why: str) -> LogError:
    """The file is not what is read here: `wanted` says what that is."""
    return LogError(str(path), f"not {wanted} ({why})")
