"""Every figure of a study's results, drawn from its analysis."""

from collections.abc import Iterator, Sequence
from functools import partial

from chimeralab.analysis import Analysis, Runs
from chimeralab.analysis.selfplay.comparisons import Comparison
from chimeralab.analysis.selfplay.outcomes import per_run
from chimeralab.analysis.selfplay.specifications import SpecificationCurve
from chimeralab.core.numbers import counted, cutoff, p_phrase
from chimeralab.report.charts import contrasts as charts_contrasts
from chimeralab.report.charts import specification as charts_specification
from chimeralab.report.charts.canvas import Label
from chimeralab.report.charts.conditions import Bucket, Distribution, buckets, distributions
from chimeralab.report.charts.contrasts import Effect, forest, stability
from chimeralab.report.charts.figure import Figure, draw
from chimeralab.report.charts.flow import ArmFlow, flow_diagram
from chimeralab.report.charts.specification import specification
from chimeralab.report.charts.survival import Survivors, survival
from chimeralab.report.numbers import SHARE, UNITS, difference, estimate
from chimeralab.report.selfplay.flow import flow_in_words
from chimeralab.report.selfplay.material import Material
from chimeralab.report.selfplay.results import Results, measure_of
from chimeralab.report.selfplay.words import (
    buckets_in_words,
    curve_in_words,
    distributions_in_words,
    forest_in_words,
    held_in_words,
    stability_in_words,
    survival_in_words,
)
from chimeralab.stats.clusters import cells_of
from chimeralab.stats.contrasts import naive_contrast
from chimeralab.stats.intervals import Interval, t_interval

# More contrasts than these make a figure that nobody reads; the table has them all.
MOST_EFFECTS = 15
MOST_BUCKETS = 24


def flow_figure(arms: Sequence[ArmFlow]) -> Figure:
    return draw("flow", flow_in_words(arms), lambda width: flow_diagram(arms, width=width))


def result_figures(material: Material, results: Results) -> Iterator[Figure]:
    """The figures that the analysis allows."""
    analysis, runs = results.analysis, results.runs
    yield distribution_figure(analysis, runs)
    yield survival_figure(analysis)
    effects = shown_effects(results, material)
    if any(each.difference is not None for each in effects):
        yield forest_figure(effects, runs, analysis)
    if analysis.rank_stability.by_seed and analysis.rank_stability.by_seed.total:
        yield stability_figure(analysis)
    if analysis.buckets and analysis.buckets > 1 and len(analysis.conditions) > 1:
        yield bucket_figure(analysis, runs)
    if results.curve is not None and results.curve.declared is not None:
        yield curve_figure(results.curve)


def distribution_figure(analysis: Analysis, runs: Runs) -> Figure:
    rates = runs.collapsed / runs.turns
    rows = [
        Distribution(
            Label(name, f"{estimate(each.mean, each.cluster_ci, SHARE)}, {counted(each.n, 'run')}"),
            rates[runs.condition == name].tolist(),
            each.mean,
            each.cluster_ci,
        )
        for name, each in analysis.conditions.items()
    ]
    label = distributions_in_words(analysis)
    return draw("distributions", label, lambda width: distributions(rows, width=width))


def survival_figure(analysis: Analysis) -> Figure:
    curves = [
        Survivors(name, curve.turns, curve.survival, curve.low, curve.high)
        for name, curve in analysis.curves.items()
    ]
    label = survival_in_words(analysis)
    last = int(max(analysis.settings.tau, *(curve.turns[-1] for curve in curves)))
    return draw("survival", label, lambda width: survival(curves, last, width=width))


def shown_effects(results: Results, material: Material) -> list[Comparison]:
    """The differences of the primary measure: those with weights, then the largest pairs."""
    found = results.analysis.measures[measure_of(material.outcomes)]
    pairs = sorted(found.pairs, key=lambda each: -abs(each.difference or 0.0))
    chosen = set(map(id, pairs[:MOST_EFFECTS]))
    return [*found.weighted, *(each for each in found.pairs if id(each) in chosen)]


def forest_figure(effects: Sequence[Comparison], runs: Runs, analysis: Analysis) -> Figure:
    unit = UNITS[effects[0].measure]
    rows = [
        Effect(
            Label(f"{each.a} − {each.b}", _effect_numbers(each)),
            each.difference,
            each.ci,
            naive_interval(each, runs, analysis),
        )
        for each in effects
    ]
    title = f"difference in the {unit.name}"
    chart = partial(forest, rows, title, percent=unit.percent)
    return draw("contrasts", forest_in_words(effects), lambda width: chart(width=width))


def _effect_numbers(each: Comparison) -> str:
    if each.difference is None:
        return each.reasons.get("difference", "")
    shown = difference(each.difference, each.ci, UNITS[each.measure])
    return f"{shown.replace(UNITS[each.measure].difference, '')}, {p_phrase(each.p_holm)}"


def naive_interval(each: Comparison, runs: Runs, analysis: Analysis) -> Interval | None:
    """The interval of an analysis that takes every run for independent."""
    values, _ = per_run(runs, each.measure, analysis.settings.tau)
    if values is None or each.difference is None:
        return None
    found = naive_contrast(cells_of(values, runs.condition, runs.seed), each.weights)
    if found is None:
        return None
    return t_interval(found.estimate, found.standard_error, found.df, analysis.settings.level)


def stability_figure(analysis: Analysis) -> Figure:
    found = analysis.rank_stability
    rows = [
        charts_contrasts.Stability(
            Label(counted(held.total, noun), held_in_words(held)),
            held.held,
            held.tied,
            held.inverted,
        )
        for held, noun in ((found.by_seed, "prompt"), (found.by_bucket, "bucket"))
        if held is not None and held.total
    ]
    label = stability_in_words(analysis)
    return draw("rank_stability", label, lambda width: stability(rows, width=width))


def bucket_figure(analysis: Analysis, runs: Runs) -> Figure:
    names, rows = list(analysis.conditions), bucket_means(analysis, runs)[:MOST_BUCKETS]
    label = buckets_in_words(names, rows)
    return draw("buckets", label, lambda width: buckets(rows, names, width=width))


def bucket_means(analysis: Analysis, runs: Runs) -> list[Bucket]:
    """The mean share of each condition in each bucket; None where it has no run."""
    if runs.bucket is None:
        return []
    cells = cells_of(runs.collapsed / runs.turns, runs.condition, runs.bucket)
    columns = [cells.conditions.index(name) for name in analysis.conditions]
    return [
        Bucket(
            str(bucket),
            [float(cells.means[n, c]) if cells.counts[n, c] else None for c in columns],
        )
        for n, bucket in enumerate(cells.clusters)
    ]


def curve_figure(curve: SpecificationCurve) -> Figure:
    unit = UNITS[curve.measure]
    rows = [
        charts_specification.Specification(
            each.estimate, each.ci, each.declared, _choices(each.settings.as_dict())
        )
        for each in curve.specifications
        if each.estimate is not None
    ]
    chart = partial(specification, rows, "difference", percent=unit.percent)
    return draw("specification_curve", curve_in_words(curve), lambda width: chart(width=width))


def _choices(settings: dict[str, float | int | str]) -> dict[str, str]:
    """The settings that the curve varies, as its rows are called."""
    thresholds = {f"{name} ≥": cutoff(float(settings[name])) for name in ("s1", "s2")}
    drifts = {f"{name} ≤": cutoff(float(settings[name])) for name in ("d1", "d2")}
    readings = {name: str(settings[name]) for name in ("sustain", "drift", "marking", "empty")}
    return {**thresholds, **drifts, **readings}
