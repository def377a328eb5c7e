"""The numbers of a self-play study for texts: each condition, each comparison, each loop."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from chimeralab.core.numbers import number, p_value, percent
from chimeralab.core.records import Detection
from chimeralab.core.result_words import ResultWords
from chimeralab.report.named_numbers import Entry, estimate_entries
from chimeralab.report.table import UNITS
from chimeralab.selfplay.analysis import Analysis
from chimeralab.selfplay.outcomes import measure_name
from chimeralab.stats.clusters import share
from chimeralab.stats.effects import Effect
from chimeralab.stats.resample import SampleDesign


def selfplay_entries(
    analysis: Analysis, order: Sequence[str], words: ResultWords
) -> Iterator[Entry]:
    """Each condition in this order, and how they compare."""
    counts = {"runs": analysis.runs, "prompts": analysis.seeds}
    for name, count in counts.items():
        yield ("count", name), count, f"{count:,}", f"{name} in the analysis"
    for name in order:
        of = analysis.conditions[name]
        yield ("count", "runs", name), of.n, f"{of.n:,}", f"runs of {name}"
        what = f"{measure_name('share', words)}, {name}"
        yield from estimate_entries(("rate", name), what, (of.mean, of.share_ci), percent)
        what = f"{measure_name('incidence', words)}, {name}"
        found = (of.incidence, of.incidence_ci)
        yield from estimate_entries(("incidence", name), what, found, percent)
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
        yield ("count", "looping", name), looping.hits, f"{looping.hits:,}", what
        estimate = (looping.value, looping.interval)
        yield from estimate_entries(("looping", name), f"share of {what}", estimate, percent)


def _of_comparison(prefix: Sequence[str], each: Effect, words: ResultWords) -> Iterator[Entry]:
    unit, pair = UNITS[each.measure], (each.a, "minus", each.b)
    name = measure_name(each.measure, words)
    what = " ".join((*prefix, f"difference in the {name}, {each.a} minus {each.b}"))
    show = partial(number, digits=unit.digits, scale=unit.scale, sign=True)
    yield from estimate_entries(
        (*prefix, "diff", *pair), what, (each.estimate, each.interval), show
    )
    corrected = f"Holm-corrected p of the {what}"
    yield (*prefix, "holm p", *pair), each.p_holm, p_value(each.p_holm), corrected
