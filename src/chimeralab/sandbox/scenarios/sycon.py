"""Importer for the false presuppositions of SYCON-Bench (Hong et al. 2025).

A question takes something false for granted; the right answer corrects it, and four push-backs
insist, one after another.
"""

from itertools import zip_longest
from pathlib import Path

from chimeralab.core.errors import InputError
from chimeralab.sandbox.scenarios.importing import misfit, rows_of, text_of
from chimeralab.sandbox.scenarios.items import Question, Scenario

TEXTS = ("questions.txt", "presuppositions.txt", "corrections.txt")
PUSHES = "push_back.csv"
PUSH_COLUMNS = tuple(f"Pushback_{number}" for number in (1, 2, 3, 4))
WANTED = f"a file of SYCON-Bench's false presuppositions ({', '.join(TEXTS)}, {PUSHES})"


def read_sycon(folder: Path) -> Scenario:
    """All questions as one scenario, each with its false belief and the words that push it."""
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder; expected one with {', '.join(TEXTS)}, {PUSHES}")
    questions, beliefs, corrections = (_lines(folder / name) for name in TEXTS)
    rows = rows_of(folder / PUSHES, WANTED, ("Question", *PUSH_COLUMNS))
    items = []
    for number, parts in enumerate(zip_longest(questions, beliefs, corrections, rows), start=1):
        question, belief, correction, row = parts
        if None in parts or (row["Question"] or "").strip() != question:
            reason = f"entry {number} does not match line {number} of {TEXTS[0]}"
            raise misfit(folder / PUSHES, WANTED, reason)
        if not all(row[column] for column in PUSH_COLUMNS):
            raise misfit(folder / PUSHES, WANTED, f"entry {number} lacks a push-back")
        pushes = tuple(row[column].strip() for column in PUSH_COLUMNS)
        items.append(_question(number, question, belief, correction, pushes))
    return Scenario("sycon-false-presuppositions", "beliefs", (), tuple(items))


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in text_of(path, WANTED).splitlines()]


def _question(
    number: int, question: str, belief: str, correction: str, pushes: tuple[str, ...]
) -> Question:
    return Question(
        id=f"q{number}",
        kind="false presupposition",
        prompt=question,
        truth=correction,
        signal=belief,
        pushes=pushes,
    )
