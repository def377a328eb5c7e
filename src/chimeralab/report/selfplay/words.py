"""What the results of a study say, in sentences: the glance, and a text for every figure."""

from collections.abc import Iterator, Sequence

from chimeralab.analysis import Analysis
from chimeralab.analysis.selfplay.comparisons import Comparison, Held, LogRankTest
from chimeralab.analysis.selfplay.specifications import SpecificationCurve
from chimeralab.core.numbers import counted, p_phrase
from chimeralab.rating.gate import ClaimScope, check_wording
from chimeralab.report.charts.conditions import Bucket
from chimeralab.report.claims import marked, scope_of
from chimeralab.report.numbers import SHARE, UNITS, difference, estimate
from chimeralab.report.selfplay.material import Material
from chimeralab.report.selfplay.results import (
    SIGNIFICANT,
    Results,
    is_found,
    measure_of,
    primary_comparisons,
)
from chimeralab.report.table import in_prompts


def glance(material: Material) -> tuple[str, str]:
    """The result in two sentences, in words that the reliability gate allows."""
    scope = scope_of(material.reliability)
    results = material.results
    if results is None:
        said = ("There is no result yet.", f"{_sentence(material.no_results)}")
    else:
        analysis = results.analysis
        said = (_first(analysis, scope), _second(material, results))
    for sentence in said:
        check_wording(sentence, scope)
    return said


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _first(analysis: Analysis, scope: ClaimScope) -> str:
    order = analysis.rank_stability.order
    runs = counted(analysis.runs, "analysed run")
    if not any(each.incidence for each in analysis.conditions.values()):
        return f"In {runs}, no turn was {marked(scope)}."
    most = analysis.conditions[order[0]]
    share = _share(most.mean, analysis, order[0])
    if len(order) == 1:
        return (
            f"Under {order[0]}, {share} of the turns were {marked(scope)}, on average over {runs}."
        )
    least = _share(analysis.conditions[order[-1]].mean, analysis, order[-1])
    return (
        f"Of {len(order)} conditions, {order[0]} had the largest share of turns "
        f"{marked(scope)}, {share} on average, and {order[-1]} the smallest, {least}."
    )


def _share(mean: float, analysis: Analysis, name: str) -> str:
    return estimate(mean, analysis.conditions[name].cluster_ci, SHARE).removesuffix(" (–)")


def _second(material: Material, results: Results) -> str:
    comparisons = primary_comparisons(results.analysis, material.outcomes)
    name = UNITS[measure_of(material.outcomes)].name
    known = [each for each in comparisons if each.p_holm is not None]
    if not comparisons:
        return _alone(material)
    if not known:
        why = comparisons[0].reasons.get("p") or comparisons[0].reasons.get("difference", "")
        return f"How sure the differences between conditions are can't be said: {in_prompts(why)}."
    if len(comparisons) == 1:
        only = known[0]
        return f"In the {name}, {only.a} minus {only.b} is {_numbers(only)}{_found(only)}."
    differ = [each for each in known if is_found(each)]
    largest = max(known, key=lambda each: abs(each.difference or 0.0))
    return (
        f"On the same prompts, {len(differ)} of {counted(len(comparisons), 'pair')} of conditions "
        f"differ in the {name} after Holm's correction; the largest difference is "
        f"{_effect(largest)}."
    )


def _alone(material: Material) -> str:
    planned = len(material.study.plan.conditions)
    if planned == 1:
        return "With one condition there is nothing to compare it with."
    return f"Only one of {planned} conditions has runs to analyse, so nothing can be compared."


def _effect(each: Comparison) -> str:
    return f"{each.a} minus {each.b}, {_numbers(each)}"


def _numbers(each: Comparison) -> str:
    shown = difference(each.difference, each.ci, UNITS[each.measure])
    return f"{shown}, {p_phrase(each.p_holm)}"


def _found(each: Comparison) -> str:
    if is_found(each):
        return ", a difference that chance alone would rarely bring about"
    return ", which chance alone could bring about"


def distributions_in_words(analysis: Analysis) -> str:
    """What the histograms show."""
    parts = [
        f"{name}: {estimate(each.mean, each.cluster_ci, SHARE)}"
        for name, each in analysis.conditions.items()
    ]
    return f"Histograms of the share of collapsed turns in each run. Means: {'; '.join(parts)}."


def survival_in_words(analysis: Analysis) -> str:
    """What the survival curves show."""
    parts = [
        f"{name}: {100 * curve.survival[-1]:.0f} % at turn {curve.turns[-1]:g}"
        for name, curve in analysis.curves.items()
    ]
    return f"Step lines of the runs that have not collapsed so far. At the end: {'; '.join(parts)}."


def logrank_in_words(test: LogRankTest) -> str:
    """The test of all curves against one another, its p beside the naive one."""
    if test.chi2 is None:
        return f"Log-rank test: –, {in_prompts(test.reasons['chi2'])}."
    honest = f"{p_phrase(test.permutation_p)} by permutation within prompts"
    if test.permutation_p is None:
        honest = f"without a p by permutation, since {test.reasons['permutation_p']}"
    return (
        f"Log-rank test over {counted(len(test.conditions), 'condition')}: "
        f"χ²({test.df}) = {test.chi2:.1f}, {honest}"
        f" (naive, as if runs were independent: {p_phrase(test.p)})."
    )


def forest_in_words(comparisons: Sequence[Comparison]) -> str:
    """What the forest of differences shows."""
    parts = (
        f"{each.a} minus {each.b}: "
        + difference(each.difference, each.ci, UNITS[each.measure])
        + f", Holm {p_phrase(each.p_holm)}, naive {p_phrase(each.naive_p)}"
        for each in comparisons
    )
    return f"Differences between conditions with their intervals. {'; '.join(parts)}."


def stability_in_words(analysis: Analysis) -> str:
    """What the bars of rank stability show."""
    return f"Bars. The order is {' > '.join(analysis.rank_stability.order)}. " + " ".join(
        f"{_sentence(line)}" for line in stability_lines(analysis)
    )


def stability_lines(analysis: Analysis) -> Iterator[str]:
    """In how many prompts and buckets the order holds."""
    stability = analysis.rank_stability
    for held, noun in ((stability.by_seed, "prompt"), (stability.by_bucket, "bucket")):
        if held is not None and held.total:
            yield f"of {counted(held.total, noun)}, {held_in_words(held)}"


def held_in_words(held: Held) -> str:
    """How far an order holds.

    >>> held_in_words(Held(held=12, tied=0, inverted=24, total=36, left_out=0))
    'it holds in 12 and is inverted somewhere in 24'
    """
    ties = f", holds but for ties in {held.tied}" if held.tied else ""
    return f"it holds in {held.held}{ties} and is inverted somewhere in {held.inverted}"


def buckets_in_words(conditions: Sequence[str], rows: Sequence[Bucket]) -> str:
    """What the chart of buckets shows."""
    parts = (f"{row.name}: {', '.join(_means(conditions, row))}" for row in rows)
    return f"Mean share of collapsed turns by bucket of prompts. {'; '.join(parts)}."


def _means(conditions: Sequence[str], row: Bucket) -> Iterator[str]:
    for name, mean in zip(conditions, row.means, strict=True):
        if mean is not None:
            yield f"{name} {100 * mean:.0f} %"


def few_prompts(analysis: Analysis) -> str:
    """A warning where so few prompts were compared that no exchange of sides could be rare."""
    compared = [each.seeds for each in analysis.contrasts if each.p is not None]
    if not compared or 2.0 ** (1 - min(compared)) < SIGNIFICANT:
        return ""
    return (
        f"With {counted(min(compared), 'prompt')} no permutation p can be below "
        f"{2.0 ** (1 - min(compared)):.3g}: the smaller p of the t tests trust that differences "
        "between prompts are normally distributed."
    )


def why_this_contrast(results: Results, material: Material) -> str:
    """Why the curve is drawn for its contrast and not for another."""
    comparisons = primary_comparisons(results.analysis, material.outcomes)
    if len(comparisons) == 1:
        return "This is the contrast that was asked for."
    if any(is_found(each) for each in comparisons):
        return "Of the differences found, this is the one that would be the first to fall."
    return "No difference was found; this is the one that came nearest to it."


def curve_in_words(curve: SpecificationCurve) -> str:
    """What the specification curve shows."""
    unit = UNITS[curve.measure]
    low, high = (
        difference(end, None, unit).split(" (")[0] for end in (curve.lowest, curve.highest)
    )
    declared = difference(curve.declared, None, unit).split(" (")[0]
    return (
        f"{curve.a} minus {curve.b} under {curve.distinct_detectors:,} detectors, from {low} to "
        f"{high}; {declared} as declared. {curve.same_sign:,} have the same direction, "
        f"{curve.significant:,} of them with an interval that leaves out 0."
    )
