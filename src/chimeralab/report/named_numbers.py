"""Named numbers of a study, to be referenced from a text instead of copied.

`numbers.json` holds them for programs and for `{{names}}` in a text, `numbers.tex` as macros.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.core.files import write_text
from chimeralab.core.numbers import number, percent
from chimeralab.core.records import Record
from chimeralab.core.schema import json_text
from chimeralab.rating.study_audit import Reliability, load_reliability
from chimeralab.study import Study
from chimeralab.study.estimates import Estimates

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
TEX = str.maketrans(
    {"%": r"\%", "<": "$<$", "−": "$-$", "–": "--", "\N{NO-BREAK SPACE}": "~", "\n": " "}
)


@dataclass(frozen=True, slots=True)
class NamedNumber(Record):
    """A number, its formatted text, and a description."""

    value: float | None
    text: str
    what: str


# A number without a name yet: the words of the name, value, text and description.
Entry = tuple[Sequence[str], float | None, str, str]


def load_numbers(
    study: Study, warn: Callable[[str], None] = lambda text: None
) -> dict[str, NamedNumber]:
    """Load the numbers of a study by name, from stored estimates if they are current."""
    analysis = None
    with suppress(InputError):  # there may be nothing to analyse yet
        analysis = study.plan.kind.analyse(study, Estimates(study, warn=warn))
    return assign_names(list_entries(study, analysis, load_reliability(study)))


def write_numbers(folder: Path, numbers: Mapping[str, NamedNumber]) -> tuple[Path, Path]:
    """Write `numbers.json` and `numbers.tex`, one macro per number."""
    as_json, as_tex = folder / "numbers.json", folder / "numbers.tex"
    write_text(as_json, json_text({name: each.as_dict() for name, each in numbers.items()}) + "\n")
    macros = (
        f"\\newcommand{{\\{name}}}{{{each.text.translate(TEX)}}} % {' '.join(each.what.split())}\n"
        for name, each in numbers.items()
    )
    write_text(as_tex, "".join(macros))
    return as_json, as_tex


def assign_names(entries: Iterable[Entry]) -> dict[str, NamedNumber]:
    """Give every number a unique name; later duplicates are numbered."""
    numbers: dict[str, NamedNumber] = {}
    for words, value, text, what in entries:
        name, count = control_word(*words), 1
        while name in numbers:
            count += 1
            name = control_word(*words, str(count))
        numbers[name] = NamedNumber(value, text, what)
    return numbers


def control_word(*words: str) -> str:
    """Make a LaTeX macro name: letters only, in camel case, digits spelled out.

    >>> control_word("rate", "HOMO_A"), control_word("diff", "t0.7 minus baseline")
    ('rateHomoA', 'diffTZeroSevenMinusBaseline')
    """
    text = " ".join(words).replace("−", " minus ").replace("×", " by ")
    parts = re.findall(r"[A-Za-z]+|[0-9]", text) or ["number"]
    spelled = [DIGITS[int(part)] if part.isdigit() else part for part in parts]
    calm = [part.capitalize() if part.isupper() else part[0].upper() + part[1:] for part in spelled]
    joined = "".join(calm)
    return joined[0].lower() + joined[1:]


def list_entries(
    study: Study, analysis: Any, reliability: Reliability | None = None, **found: Any
) -> Iterator[Entry]:
    """List every number of a study and its gate, in the order of the plan.

    The kind of study loads what it needs in addition to the analysis, unless `found` has it.
    """
    planned = len(study.talks)
    yield ("count", "planned"), planned, f"{planned:,}", "conversations planned"
    if reliability and reliability.figures:
        yield from gate_entries(reliability.figures)
    yield from study.plan.kind.name_numbers(study, analysis, reliability, **found)


def estimate_entries(
    words: Sequence[str],
    what: str,
    estimate: tuple[float | None, Sequence[float] | None],
    show: Callable[[float | None], str],
) -> Iterator[Entry]:
    """Name an estimate and the ends of its interval."""
    value, interval = estimate
    yield words, value, show(value), what
    for side, bound in zip(("low", "high"), interval or (None, None), strict=True):
        yield (*words, side), bound, show(bound), f"{what}, {side} end of its interval"


def gate_entries(figures: Mapping[str, Any]) -> Iterator[Entry]:
    """Name the agreement of the gate's raters."""
    rated = figures["n_valid"]
    yield ("count", "gate", "items"), rated, f"{rated:,}", "items that the gate compares"
    for name, interval in (("kappa", "kappa_ci_score"), ("alpha", "alpha_ci")):
        what, estimate = f"{name} of the gate's raters", (figures[name], figures[interval])
        yield from estimate_entries((name, "gate"), what, estimate, partial(number, digits=2))
    agreement = figures["agreement"]
    what = "share of items that the gate's raters label the same"
    yield ("agreement", "gate"), agreement, percent(agreement), what
