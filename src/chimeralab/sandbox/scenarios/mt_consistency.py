"""Importer for MT-Consistency: multiple-choice questions of 39 subjects (Li et al. 2025)."""

import ast
import re
from pathlib import Path
from random import Random

from chimeralab.sandbox.scenarios.draw import source, wrong_one
from chimeralab.sandbox.scenarios.importing import misfit, rows_of
from chimeralab.sandbox.scenarios.items import Question, Scenario

WANTED = "the question table of MT-Consistency (question, choices, answer, level, subject)"
LABEL = re.compile(r"^[A-Z]\. ")


def read_mt_consistency(path: Path, seed: int = 0) -> tuple[Scenario, ...]:
    """A scenario a subject; wrong options are drawn with our seed."""
    rows = rows_of(path, WANTED, ("question", "choices", "answer", "subject"))
    if not rows:
        raise misfit(path, WANTED, "it has no row")
    rng = source("mt-consistency", seed)
    by_subject: dict[str, list[Question]] = {}
    for number, row in enumerate(rows, start=1):
        question = _question(path, rng, number, row)
        by_subject.setdefault(question.kind, []).append(question)
    return tuple(
        Scenario(f"mt-consistency-{subject}", "consensus", (), tuple(questions))
        for subject, questions in sorted(by_subject.items())
    )


def _question(path: Path, rng: Random, number: int, row: dict[str, str]) -> Question:
    labelled = _choices(path, number, row["choices"])
    options = tuple(dict.fromkeys(LABEL.sub("", choice) for choice in labelled))
    if row["answer"] not in labelled or len(options) < 2:
        raise misfit(path, WANTED, f"entry {number}: the answer is not among the choices")
    truth = LABEL.sub("", row["answer"])
    return Question(
        id=f"q{number}",
        kind=row["subject"],
        prompt=row["question"].strip(),
        truth=truth,
        options=options,
        signal=wrong_one(rng, options, truth),
    )


def _choices(path: Path, number: int, cell: str) -> list[str]:
    """The choices, which stand in their cell as a list in quotes."""
    try:
        choices = ast.literal_eval(cell)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        choices = None
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        raise misfit(path, WANTED, f"entry {number}: choices is not a list of texts")
    return choices
