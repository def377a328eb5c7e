"""Importer for BenchForm: multiple-choice items of 13 reasoning tasks (Weng et al. 2025).

Its own `random_ans_idx`, meant as a wrong answer for the others to give, is the right one in 1,188
of 3,299 items: so the wrong option is drawn anew, with our seed.
"""

from pathlib import Path
from random import Random
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.sandbox.scenarios.draw import source, wrong_one
from chimeralab.sandbox.scenarios.importing import json_of, misfit
from chimeralab.sandbox.scenarios.items import Question, Scenario

WANTED = 'a BenchForm task: {"data": [{"parsed_inputs", "multiple_choice_targets", ...}]}'
CHOICES = "Answer choices:"


def read_benchform(path: Path, seed: int = 0) -> tuple[Scenario, ...]:
    """A scenario a task; `path` is the file of one task, or the folder that holds them."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path}: there is no .json file here; expected {WANTED}")
    return tuple(_task(file, seed) for file in files)


def _task(path: Path, seed: int) -> Scenario:
    content = json_of(path, WANTED)
    items = content.get("data") if isinstance(content, dict) else None
    if not isinstance(items, list) or not items:
        raise misfit(path, WANTED, "it has no list `data`")
    rng = source(f"benchform/{path.stem}", seed)
    questions = [_question(path, rng, n, item) for n, item in enumerate(items, start=1)]
    usable = tuple(question for question in questions if question is not None)
    return Scenario(f"benchform-{path.stem}", "consensus", (), usable)


def _question(path: Path, rng: Random, number: int, item: Any) -> Question | None:
    """One item; None when all its options read the same, as those of one item do."""
    try:
        prompt, _, _ = item["parsed_inputs"].partition(CHOICES)
        options = tuple(str(option).strip() for option in item["multiple_choice_targets"])
        truth = options[item["multiple_choice_scores"].index(1)]
    except (TypeError, KeyError, AttributeError, ValueError, IndexError):
        raise misfit(path, WANTED, f"item {number} has other fields") from None
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
