"""The numbers of a study, each under a name of its own, so that a text can't drift from them.

`numbers.json` holds them for programs and for `{{names}}` in a text, `numbers.tex` as macros.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chimeralab import pipeline
from chimeralab.analysis import Analysis
from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text, write_text
from chimeralab.core.numbers import number, p_value, percent
from chimeralab.core.records import Detection, Record
from chimeralab.core.result_words import ResultWords
from chimeralab.detection.verdict import from_json
from chimeralab.rating.auditing import Reliability, reliability, scope_of
from chimeralab.report.table import UNITS
from chimeralab.selfplay.outcomes import measure_name
from chimeralab.selfplay.runs import study_runs
from chimeralab.stats.clusters import share
from chimeralab.stats.effects import Effect, short
from chimeralab.stats.resample import SampleDesign
from chimeralab.study import Study
from chimeralab.study.detecting import stored_detections
from chimeralab.study.estimates import Estimates
from chimeralab.trial.analysis import TrialAnalysis

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
TEX = str.maketrans(
    {"%": r"\%", "<": "$<$", "−": "$-$", "–": "--", "\N{NO-BREAK SPACE}": "~", "\n": " "}
)


@dataclass(frozen=True, slots=True)
class NamedNumber(Record):
    """A number, as a text prints it, and what it is."""

    value: float | None
    text: str
    what: str


class Entry(NamedTuple):
    """A number before it has a name, which its words will make."""

    words: Sequence[str]
    value: float | None
    text: str
    what: str


def study_numbers(
    study: Study, tell: Callable[[str], None] = lambda said: None
) -> dict[str, NamedNumber]:
    """The numbers of a study as it is stored, by name."""
    of_trial = study.plan.study.kind == "trial"
    detections = [] if of_trial else [from_json(row) for row in stored_detections(study)]
    estimates = Estimates(study, tell=tell)
    analysis: Analysis | TrialAnalysis | None = None
    with suppress(InputError):  # there may be nothing to analyse yet
        if of_trial:
            analysis = pipeline.analyse_trial(study, estimates=estimates)
        else:
            runs = study_runs(study, detections, study.path.name)
            analysis = pipeline.analyse_selfplay(study, runs, estimates)
    return named(entries_of(study, analysis, reliability(study), detections))


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


def named(entries: Iterable[Entry]) -> dict[str, NamedNumber]:
    """Give every number a name of its own: of two equal ones, the later gets a number."""
    numbers: dict[str, NamedNumber] = {}
    for words, value, text, what in entries:
        name, count = control_word(*words), 1
        while name in numbers:
            count += 1
            name = control_word(*words, str(count))
        numbers[name] = NamedNumber(value, text, what)
    return numbers


def control_word(*words: str) -> str:
    """Words as LaTeX can name a macro: letters only, in camel case, digits spelled out.

    >>> control_word("rate", "HOMO_A"), control_word("diff", "t0.7 minus baseline")
    ('rateHomoA', 'diffTZeroSevenMinusBaseline')
    """
    text = " ".join(words).replace("−", " minus ").replace("×", " by ")
    parts = re.findall(r"[A-Za-z]+|[0-9]", text) or ["number"]
    spelled = [DIGITS[int(part)] if part.isdigit() else part for part in parts]
    calm = [part.capitalize() if part.isupper() else part[0].upper() + part[1:] for part in spelled]
    joined = "".join(calm)
    return joined[0].lower() + joined[1:]


def entries_of(
    study: Study,
    analysis: Analysis | TrialAnalysis | None,
    decided: Reliability | None = None,
    detections: Sequence[Detection] = (),
) -> Iterator[Entry]:
    """Every number of a study with its decided gate, in the order of its plan."""
    planned = len(study.talks)
    yield Entry(("count", "planned"), planned, f"{planned:,}", "conversations planned")
    if decided and decided.figures:
        yield from gate_entries(decided.figures)
    if isinstance(analysis, TrialAnalysis):
        yield from trial_entries(analysis)
    elif analysis:
        first = (name for name in study.plan.conditions if name in analysis.conditions)
        order = list(dict.fromkeys([*first, *analysis.conditions]))
        yield from selfplay_entries(analysis, order, scope_of(decided).words)
    yield from loop_entries(detections, list(study.plan.conditions))


def _estimate(
    words: Sequence[str],
    what: str,
    estimate: tuple[float | None, Sequence[float] | None],
    show: Callable[[float | None], str],
) -> Iterator[Entry]:
    """A number, and the ends of its interval under the same name."""
    value, interval = estimate
    yield Entry(words, value, show(value), what)
    for side, bound in zip(("low", "high"), interval or (None, None), strict=True):
        yield Entry((*words, side), bound, show(bound), f"{what}, {side} end of its interval")


def gate_entries(figures: Mapping[str, Any]) -> Iterator[Entry]:
    """How far the raters of the gate agree."""
    rated = figures["n_valid"]
    yield Entry(("count", "gate", "items"), rated, f"{rated:,}", "items that the gate compares")
    for name, interval in (("kappa", "kappa_ci_score"), ("alpha", "alpha_ci")):
        what, estimate = f"{name} of the gate's raters", (figures[name], figures[interval])
        yield from _estimate((name, "gate"), what, estimate, partial(number, digits=2))
    agreement = figures["agreement"]
    what = "share of items with the same label of the gate's raters"
    yield Entry(("agreement", "gate"), agreement, percent(agreement), what)


def selfplay_entries(
    analysis: Analysis, order: Sequence[str], words: ResultWords
) -> Iterator[Entry]:
    """Each condition in this order, and how they compare."""
    counts = {"runs": analysis.runs, "prompts": analysis.seeds}
    for name, count in counts.items():
        yield Entry(("count", name), count, f"{count:,}", f"{name} in the analysis")
    for name in order:
        of = analysis.conditions[name]
        yield Entry(("count", "runs", name), of.n, f"{of.n:,}", f"runs of {name}")
        what = f"{measure_name('share', words)}, {name}"
        yield from _estimate(("rate", name), what, (of.mean, of.share_ci), percent)
        what = f"{measure_name('incidence', words)}, {name}"
        yield from _estimate(("incidence", name), what, (of.incidence, of.incidence_ci), percent)
    for comparison in analysis.contrasts:
        yield from _of_comparison((), comparison, words)
    for answer in analysis.answers:
        for comparison in answer.comparisons:
            prefix = (answer.estimand.role, comparison.measure)
            yield from _of_comparison(prefix, comparison, words)


def loop_entries(detections: Sequence[Detection], order: Sequence[str]) -> Iterator[Entry]:
    """How many conversations loop by the loop detector; those on one prompt are one cluster."""
    for name in order:
        judged = [
            found
            for found in detections
            if found.metadata["condition"] == name and found.looping is not None
        ]
        if not judged:
            continue
        hits = np.array([found.looping for found in judged], dtype=np.float64)
        design = SampleDesign(clusters=[str(found.metadata["prompt"]) for found in judged])
        looping = share(hits, np.ones_like(hits), design)
        what = f"conversations that loop by the loop detector, {name}"
        yield Entry(("count", "looping", name), looping.hits, f"{looping.hits:,}", what)
        estimate = (looping.value, looping.interval)
        yield from _estimate(("looping", name), f"share of {what}", estimate, percent)


def _of_comparison(prefix: Sequence[str], each: Effect, words: ResultWords) -> Iterator[Entry]:
    unit, pair = UNITS[each.measure], (each.a, "minus", each.b)
    name = measure_name(each.measure, words)
    what = " ".join((*prefix, f"difference in the {name}, {each.a} minus {each.b}"))
    show = partial(number, digits=unit.digits, scale=unit.scale, sign=True)
    yield from _estimate((*prefix, "diff", *pair), what, (each.estimate, each.interval), show)
    corrected = f"Holm-corrected p of the {what}"
    yield Entry((*prefix, "holm p", *pair), each.p_holm, p_value(each.p_holm), corrected)


def trial_entries(analysis: TrialAnalysis) -> Iterator[Entry]:
    """Each arm of each subject, and what the stressors do to it."""
    counts = {"sessions": analysis.sessions, "scenarios": analysis.scenarios}
    for name, count in counts.items():
        yield Entry(("count", name), count, f"{count:,}", f"{name} in the analysis")
    for subject in analysis.subjects:
        who = subject.subject
        for arm in subject.arms:
            cell = short(arm.arm)
            for measure, found in arm.measures.items():
                what, estimate = f"{measure} of {who} under {cell}", (found.value, found.interval)
                show = partial(number, digits=3)
                yield from _estimate((measure, who, cell), what, estimate, show)
        for effect in subject.effects:
            name = effect.short_name
            what = f"effect on {effect.measure} of {who}, {name}"
            words = (effect.measure, who, name)
            show = partial(number, digits=3, sign=True)
            estimate = (effect.estimate, effect.interval)
            yield from _estimate(("effect", *words), what, estimate, show)
            corrected = p_value(effect.p_holm)
            yield Entry(("holm p", *words), effect.p_holm, corrected, f"Holm-corrected p, {what}")
