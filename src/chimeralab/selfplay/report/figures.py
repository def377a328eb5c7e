"""Every figure of a self-play study, drawn from its analysis, with its caption and in words."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import isclose

from chimeralab.analysis import Analysis, Runs
from chimeralab.core.numbers import p_phrase, plural
from chimeralab.core.result_words import ResultWords
from chimeralab.embedding.encoder import MARGINS
from chimeralab.report.charts.canvas import Figure, draw
from chimeralab.report.charts.effects import forest
from chimeralab.report.table import (
    SHARE,
    UNITS,
    format_change,
    format_difference,
    format_estimate,
)
from chimeralab.selfplay.comparisons import RankCounts
from chimeralab.selfplay.outcomes import measure_name, per_run
from chimeralab.selfplay.report.charts import (
    buckets,
    distributions,
    specification,
    stability,
    survival,
)
from chimeralab.selfplay.report.material import (
    Material,
    StudyResults,
    is_found,
    measure_of,
    primary_comparisons,
)
from chimeralab.stats.clusters import cells_of
from chimeralab.stats.contrasts import naive_contrast
from chimeralab.stats.effects import Effect
from chimeralab.stats.intervals import Interval

# More contrasts than these make a figure that nobody reads; the table has them all.
MAX_EFFECTS = 15
MAX_BUCKETS = 24


def distribution_figure(results: StudyResults, words: ResultWords) -> Figure:
    """How much of each run collapsed."""
    analysis, runs = results.analysis, results.runs
    rates = runs.collapsed / runs.turns
    means = {
        name: format_estimate(each.mean, each.share_ci, SHARE)
        for name, each in analysis.conditions.items()
    }
    rows = [
        (
            (name, f"{means[name]}, {plural(each.n, 'run')}"),
            rates[runs.condition == name].tolist(),
            each.mean,
            each.share_ci,
        )
        for name, each in analysis.conditions.items()
    ]
    shown = "; ".join(f"{name}: {mean}" for name, mean in means.items())
    return draw(
        "distributions",
        f"Histograms of the share of {words.turns} in each run. Means: {shown}.",
        lambda width: distributions(rows, words, width=width),
        captions=[
            f"Every run by its share of {words.turns}, in steps of 5 %; within a condition, the "
            "higher a bar, the more runs. The diamond is the mean, the line its "
            f"{100 * analysis.settings.level:g} % interval over prompts."
        ],
    )


def survival_figure(analysis: Analysis, words: ResultWords) -> Figure:
    """How many runs have not collapsed yet, turn by turn."""
    curves = analysis.curves
    last = int(max(analysis.settings.tau, *(curve.turns[-1] for curve in curves.values())))
    ends = "; ".join(
        f"{name}: {100 * curve.survival[-1]:.0f} % at turn {curve.turns[-1]:g}"
        for name, curve in curves.items()
    )
    return draw(
        "survival",
        f"Step lines of the runs that have not {words.been} so far. At the end: {ends}.",
        lambda width: survival(curves, last, words, width=width),
        captions=[
            f"The share of runs without a {words.event} so far (Kaplan-Meier). Bands are pointwise "
            f"{100 * analysis.settings.level:g} % intervals over prompts. A run that never "
            f"{words.was} is followed to its last turn, not dropped."
        ],
    )


def forest_figure(material: Material, results: StudyResults) -> Figure | None:
    """The differences of the primary measure: those with weights, then the largest pairs."""
    found = results.analysis.measures[measure_of(material.outcomes)]
    once = results.analysis.rows(found.measure)
    alone = [replace(each, role=None) for each in found.pairs]
    pairs = [each for each in once if replace(each, role=None) in alone]
    widest = sorted(pairs, key=lambda each: -abs(each.estimate or 0.0))[:MAX_EFFECTS]
    effects = [e for e in once if e not in pairs or e in widest or e.role == "primary"]
    if all(each.estimate is None for each in effects):
        return None
    unit, what = UNITS[found.measure], measure_name(found.measure, material.words)

    def numbers(each: Effect) -> str:
        """The numbers without their unit, which the axis has: a phone has room for no more."""
        if each.estimate is None:
            return each.reasons.get("estimate", "")
        shown = format_difference(each.estimate, each.interval, unit, bare=True)
        return f"{shown}, {p_phrase(each.p_holm)}"

    rows = [
        (
            (each.marked_name, numbers(each)),
            each,
            naive_interval(each, results.runs, results.analysis),
        )
        for each in effects
    ]
    shown = "; ".join(
        f"{each.a} minus {each.b}: {format_difference(each.estimate, each.interval, unit)}, "
        f"Holm {p_phrase(each.p_holm)}, naive {p_phrase(each.naive_p)}"
        for each in effects
    )
    caption = (
        f"Differences in the {what}, taken within each prompt and averaged, with "
        "Holm-corrected p. The grey line is the interval one gets by taking all runs for "
        "independent: where it is shorter, it promises too much."
    )
    if len(pairs) > MAX_EFFECTS:
        caption += f" Of {len(pairs)} pairs these are the {MAX_EFFECTS} that differ most."
    chart = partial(forest, rows, f"difference in the {what}", percent=unit.percent)
    label = f"Differences between conditions with their intervals. {shown}."
    return draw("contrasts", label, lambda width: chart(width=width), captions=[caption])


def naive_interval(each: Effect, runs: Runs, analysis: Analysis) -> Interval | None:
    """The interval of an analysis that treats every run as independent."""
    values, _ = per_run(runs, each.measure, analysis.settings.tau)
    if values is None or each.estimate is None:
        return None
    found = naive_contrast(cells_of(values, runs.condition, runs.seed), each.weights)
    return None if found is None else found.interval(analysis.settings.level)


def stability_figure(analysis: Analysis) -> Figure | None:
    """In how many prompts and buckets the order of the conditions holds."""
    found = analysis.rank_stability
    if not found.by_seed or not found.by_seed.total:
        return None
    rows = [
        ((plural(held.total, noun), held_in_words(held)), held)
        for held, noun in ((found.by_seed, "prompt"), (found.by_bucket, "bucket"))
        if held is not None and held.total
    ]
    return draw(
        "rank_stability",
        f"Bars. The order is {order_in_words(analysis)}. {' '.join(stability_lines(analysis))}",
        lambda width: stability(rows, width=width),
        captions=["An order of means may hold in few of the prompts that it is a mean of."],
    )


def order_in_words(analysis: Analysis) -> str:
    """The conditions by their means, with = between those that have the same."""
    order, said = analysis.rank_stability.order, ""
    for before, name in zip((None, *order), order, strict=False):
        if before is not None:
            means = (analysis.conditions[each].mean for each in (before, name))
            ties = isclose(*means, abs_tol=1e-9)
            said += " = " if ties else " > "
        said += name
    return said


def stability_lines(analysis: Analysis) -> Iterator[str]:
    """In how many prompts and buckets the order holds, in sentences."""
    found = analysis.rank_stability
    for held, noun in ((found.by_seed, "prompt"), (found.by_bucket, "bucket")):
        if held is not None and held.total:
            yield f"Of {plural(held.total, noun)}, {held_in_words(held)}."


def held_in_words(held: RankCounts) -> str:
    """How far an order holds.

    >>> held_in_words(RankCounts(held=12, tied=0, inverted=24, total=36, left_out=0))
    'it holds in 12 and is inverted somewhere in 24'
    """
    ties = f", holds but for ties in {held.tied}" if held.tied else ""
    return f"it holds in {held.held}{ties} and is inverted somewhere in {held.inverted}"


def bucket_figure(results: StudyResults, words: ResultWords) -> Figure | None:
    """The conditions in each bucket of prompts."""
    analysis = results.analysis
    if not analysis.buckets or analysis.buckets < 2 or len(analysis.conditions) < 2:
        return None
    names, found = list(analysis.conditions), bucket_means(analysis, results.runs)
    rows = dict(list(found.items())[:MAX_BUCKETS])
    shown = "; ".join(
        f"{bucket}: "
        + ", ".join(
            f"{name} {100 * mean:.0f} %"
            for name, mean in zip(names, means, strict=True)
            if mean is not None
        )
        for bucket, means in rows.items()
    )
    return draw(
        "buckets",
        f"Mean share of {words.turns} by bucket of prompts. {shown}.",
        lambda width: buckets(rows, names, words, width=width),
        captions=["The mean of each condition in each bucket of prompts."],
    )


def bucket_means(analysis: Analysis, runs: Runs) -> dict[str, list[float | None]]:
    """The mean share of each condition in each bucket; None where it has no run."""
    if runs.bucket is None:
        return {}
    cells = cells_of(runs.collapsed / runs.turns, runs.condition, runs.bucket)
    columns = [cells.conditions.index(name) for name in analysis.conditions]
    return {
        str(bucket): [float(cells.means[n, c]) if cells.counts[n, c] else None for c in columns]
        for n, bucket in enumerate(cells.clusters)
    }


def curve_figure(material: Material, results: StudyResults) -> Figure | None:
    """One difference under every detector one could have declared."""
    curve = results.curve
    if curve is None or curve.declared is None:
        return None
    unit, detectors = UNITS[curve.measure], f"{curve.distinct_detectors:,}"
    rows = [each for each in curve.specifications if each.estimate is not None]
    comparisons = primary_comparisons(results.analysis, material.outcomes)
    why = "No difference was found; this is the one that came nearest to it."
    if len(comparisons) == 1:
        why = "This is the contrast that was asked for."
    elif any(is_found(each) for each in comparisons):
        why = "Of the differences found, this is the one that would be the first to fall."
    exact = "."
    rounded = {found.encoder["precision"] for found in material.detections} - {None, "f32"}
    if rounded:
        exact = (
            f", which were made in {' and '.join(sorted(rounded))} and near other thresholds than "
            f"the declared ones are exact to {max(MARGINS[each] for each in rounded)}."
        )
    chart = partial(specification, rows, "difference", percent=unit.percent)
    return draw(
        "specification_curve",
        f"{curve.a} minus {curve.b} under {detectors} detectors, from "
        f"{format_change(curve.lowest, unit)} to {format_change(curve.highest, unit)}; "
        f"{format_change(curve.declared, unit)} as declared. "
        f"{curve.same_sign:,} have the same direction, {curve.significant:,} of them with "
        "an interval that leaves out 0.",
        lambda width: chart(width=width),
        captions=[
            f"{curve.a} minus {curve.b} under {detectors} settings of the detector, from the "
            f"smallest difference to the largest, each with its interval. {why} Under the curve, "
            "the darker a square, the more of the detectors above it made that choice.",
            f"{curve.same_sign:,} of {detectors} agree with the declared detector on the "
            f"direction, {curve.significant:,} of them with an interval that leaves out 0. They "
            f"are judged from the stored similarities{exact}",
        ],
    )
