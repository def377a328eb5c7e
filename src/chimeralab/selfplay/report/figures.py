"""Figures of a self-play study, each with its caption and text alternative."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from chimeralab.analysis import Analysis, Runs
from chimeralab.core.numbers import p_phrase, plural
from chimeralab.core.records import Detection
from chimeralab.core.result_words import ResultWords
from chimeralab.embedding.encoder import MARGINS
from chimeralab.report.charts.canvas import Figure, draw
from chimeralab.report.charts.effects import forest
from chimeralab.report.page import render_sentence
from chimeralab.report.table import (
    SHARE,
    UNITS,
    format_change,
    format_difference,
    format_estimate,
)
from chimeralab.selfplay.comparisons import RankCounts
from chimeralab.selfplay.outcomes import Measure, measure_name, per_run
from chimeralab.selfplay.report.charts import (
    buckets,
    distributions,
    specification,
    stability,
    survival,
)
from chimeralab.selfplay.report.material import is_found
from chimeralab.selfplay.report.tables import bucket_means, format_order
from chimeralab.selfplay.specifications import SpecificationCurve
from chimeralab.stats.clusters import cells_of
from chimeralab.stats.contrasts import naive_contrast
from chimeralab.stats.effects import Effect
from chimeralab.stats.intervals import Interval

# A figure with more rows than this is hard to read; the tables have them all.
MAX_EFFECTS = 15
MAX_BUCKETS = 24
say = partial(render_sentence, "selfplay_sentences.txt")


def distribution_figure(analysis: Analysis, runs: Runs, words: ResultWords) -> Figure:
    """The share of collapsed turns of every run."""
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
    return draw(
        "distributions",
        say("distributions_label", means=means, words=words),
        lambda width: distributions(rows, words, width=width),
        captions=[say("distributions_caption", level=analysis.settings.level, words=words)],
    )


def survival_figure(analysis: Analysis, words: ResultWords) -> Figure:
    """The share of runs that have not collapsed yet, turn by turn."""
    curves = analysis.curves
    last = int(max(analysis.settings.tau, *(curve.turns[-1] for curve in curves.values())))
    return draw(
        "survival",
        say("survival_label", curves=curves, words=words),
        lambda width: survival(curves, last, words, width=width),
        captions=[say("survival_caption", level=analysis.settings.level, words=words)],
    )


def forest_figure(
    analysis: Analysis, runs: Runs, measure: Measure, words: ResultWords
) -> Figure | None:
    """Differences in a measure: weighted contrasts, then the largest pairs."""
    once = analysis.rows(measure)
    alone = [replace(each, role=None) for each in analysis.measures[measure].pairs]
    pairs = [each for each in once if replace(each, role=None) in alone]
    widest = sorted(pairs, key=lambda each: -abs(each.estimate or 0.0))[:MAX_EFFECTS]
    effects = [e for e in once if e not in pairs or e in widest or e.role == "primary"]
    if all(each.estimate is None for each in effects):
        return None
    unit, name = UNITS[measure], measure_name(measure, words)

    def numbers(each: Effect) -> str:
        """The axis has the unit: there is no space for it on a phone."""
        if each.estimate is None:
            return each.reasons.get("estimate", "")
        shown = format_difference(each.estimate, each.interval, unit, each.weights, bare=True)
        return f"{shown}, {p_phrase(each.p_holm)}"

    rows = [
        ((each.marked_name, numbers(each)), each, naive_interval(each, runs, analysis))
        for each in effects
    ]
    return draw(
        "contrasts",
        say(
            "forest_label",
            effects=effects,
            shown=lambda each: format_difference(each.estimate, each.interval, unit, each.weights),
        ),
        lambda width: forest(rows, f"difference in the {name}", percent=unit.percent, width=width),
        captions=[say("forest_caption", measure=name, pairs=len(pairs), limit=MAX_EFFECTS)],
    )


def naive_interval(each: Effect, runs: Runs, analysis: Analysis) -> Interval | None:
    """The interval of an analysis that treats every run as independent."""
    values, _ = per_run(runs, each.measure, analysis.settings.tau)
    if values is None or each.estimate is None:
        return None
    found = naive_contrast(cells_of(values, runs.condition, runs.seed), each.weights)
    return None if found is None else found.interval(analysis.settings.level)


def stability_figure(analysis: Analysis) -> tuple[str, Figure] | None:
    """For how many prompts and buckets the order of the conditions holds, in words and drawn."""
    units = list(_count_units(analysis))
    if not units or units[0][0] != "prompt":
        return None
    rows = [
        ((plural(counts.total, noun), say("stability", counts=counts)), counts)
        for noun, counts in units
    ]
    sentences = say("order", order=format_order(analysis), units=units)
    figure = draw(
        "rank_stability",
        f"Bars. {sentences}",
        lambda width: stability(rows, width=width),
        captions=["An order of means may hold for few of the prompts behind the means."],
    )
    return sentences, figure


def _count_units(analysis: Analysis) -> Iterator[tuple[str, RankCounts]]:
    found = analysis.rank_stability
    for noun, counts in (("prompt", found.by_seed), ("bucket", found.by_bucket)):
        if counts is not None and counts.total:
            yield noun, counts


def bucket_figure(analysis: Analysis, runs: Runs, words: ResultWords) -> Figure | None:
    """The mean of each condition in each bucket of prompts."""
    if not analysis.buckets or analysis.buckets < 2 or len(analysis.conditions) < 2:
        return None
    names = list(analysis.conditions)
    rows = dict(list(bucket_means(analysis, runs).items())[:MAX_BUCKETS])
    return draw(
        "buckets",
        say(
            "buckets_label",
            rows={bucket: zip(names, means, strict=True) for bucket, means in rows.items()},
            words=words,
        ),
        lambda width: buckets(rows, names, words, width=width),
        captions=["The mean of each condition in each bucket of prompts."],
    )


def curve_figure(
    curve: SpecificationCurve | None,
    comparisons: Sequence[Effect],
    detections: Sequence[Detection],
) -> Figure | None:
    """One difference under every detector that could have been declared."""
    if curve is None or curve.declared is None:
        return None
    unit = UNITS[curve.measure]
    rows = [each for each in curve.specifications if each.estimate is not None]
    rounded = sorted({found.encoder["precision"] for found in detections} - {None, "f32"})
    return draw(
        "specification_curve",
        say("curve_label", curve=curve, shown=lambda value: format_change(value, unit)),
        lambda width: specification(rows, "difference", percent=unit.percent, width=width),
        captions=[
            say(
                "curve_caption",
                curve=curve,
                comparisons=len(comparisons),
                found=any(is_found(each) for each in comparisons),
            ),
            say(
                "curve_agreement",
                curve=curve,
                rounded=rounded,
                margin=max((MARGINS[each] for each in rounded), default=None),
            ),
        ],
    )
