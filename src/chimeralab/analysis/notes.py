"""What a reader should know about a table of runs before quoting a number from it."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from chimeralab.analysis.runs import Runs, at_risk_turns
from chimeralab.detection.detectors import LOCKED

UNDECLARED = "no outcome was declared before the runs: everything here is exploratory"


def notes(runs: Runs, *, declared: bool) -> tuple[str, ...]:
    """Sentences on the design, where it is not what the reader would take for granted."""
    return tuple(_notes(runs, declared))


def _notes(runs: Runs, declared: bool) -> Iterator[str]:
    if not declared:
        yield UNDECLARED
    yield from _unbalanced(runs)
    yield from _lengths(runs)
    yield from _constant(runs)
    if np.isnan(runs.at_risk).any() and not isinstance(at_risk_turns(runs), str):
        first = LOCKED.first_turn_at_risk
        yield f"turns at risk are those of the locked detector: from turn {first} on"


def _unbalanced(runs: Runs) -> Iterator[str]:
    sizes = runs.cell_sizes
    usual, _ = Counter(sizes.values()).most_common(1)[0]
    odd = {cell: n for cell, n in sizes.items() if n != usual}
    if odd:
        (condition, seed), n = min(odd.items())
        yield (
            f"unbalanced: {len(odd)} of {len(sizes)} cells have other than {usual} runs "
            f"({condition} x {seed} has {n}); means weigh every run alike, differences every prompt"
        )
    prompts = {name: {seed for c, seed in sizes if c == name} for name in runs.conditions}
    every = set.union(*prompts.values())
    short = {name: len(every - own) for name, own in prompts.items() if own != every}
    if short:
        parts = ", ".join(f"{name} lacks {count}" for name, count in short.items())
        yield f"not every prompt was run under every condition: {parts} of {len(every)}"
    alone = [name for name, own in prompts.items() if len(own) == 1]
    if alone:
        yield f"one seed prompt only under {', '.join(alone)}: nothing is known of other prompts"


def _lengths(runs: Runs) -> Iterator[str]:
    longest = runs.turns.max()
    shorter = int((runs.turns < longest).sum())
    if shorter:
        yield (
            f"{shorter} of {len(runs.rows)} runs ended before turn {longest:g}: their shares of "
            "turns are of shorter runs; the restricted mean allows for that"
        )


def _constant(runs: Runs) -> Iterator[str]:
    for name in runs.conditions:
        rates = (runs.collapsed / runs.turns)[runs.condition == name]
        if len(rates) > 1 and np.ptp(rates) == 0:
            where = (
                "never collapses" if rates[0] == 0 else f"has a share of {rates[0]:.4g} throughout"
            )
            yield f"{name} {where}: how much it varies is unknown, so it has no interval"
