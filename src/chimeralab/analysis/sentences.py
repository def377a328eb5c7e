"""An analysis in plain words, in the order in which a reader would ask."""

from collections.abc import Iterator

from chimeralab.analysis.answers import Answer
from chimeralab.analysis.collapse import Analysis
from chimeralab.analysis.comparisons import Comparison
from chimeralab.analysis.conditions import ConditionSummary
from chimeralab.analysis.first_collapse import LogRankTest
from chimeralab.stats.intervals import Interval

SIGNIFICANT = 0.05


def sentences(analysis: Analysis) -> tuple[str, ...]:
    """What the numbers say, without a number that the tables do not have."""
    return tuple(_sentences(analysis))


def shown_p(p: float | None) -> str:
    """A p-value, as exact as anyone reads it.

    >>> shown_p(0.0163), shown_p(0.0002), shown_p(2.8e-22), shown_p(None)
    ('0.016', '0.0002', '2.8e-22', '–')
    """
    if p is None:
        return "–"
    return f"{p:.1e}" if p < 1e-4 else f"{p:.{3 if p >= 1e-3 else 4}f}"


def shown_interval(interval: Interval | None, digits: int = 3, scale: float = 1.0) -> str:
    """Both bounds of an interval.

    >>> shown_interval(Interval(0.387, 0.5266), 1, 100)
    '38.7 to 52.7'
    """
    if interval is None:
        return "–"
    low, high = (f"{bound * scale:.{digits}f}" for bound in interval)
    return f"{low} to {high}"


def _sentences(analysis: Analysis) -> Iterator[str]:
    yield from (_declared(answer) for answer in analysis.answers if _is_primary(answer))
    yield from _extremes(analysis)
    yield from _differing(analysis)
    for comparison in analysis.weighted:
        yield f"{_difference(comparison)} on the share of collapsed turns."
    yield from _clustering(analysis)
    yield _log_rank(analysis.logrank)
    yield from _order(analysis)
    yield from _recovery(analysis)
    yield from _next_time(analysis)


def _is_primary(answer: Answer) -> bool:
    return answer.estimand.role == "primary"


def _declared(answer: Answer) -> str:
    if answer.reason:
        return f"Primary: {answer.summary}: no estimate, {answer.reason}."
    parts = "; ".join(_difference(each) for each in answer.comparisons)
    return f"Primary: {answer.summary}: {parts}."


def _difference(comparison: Comparison) -> str:
    if comparison.difference is None:
        why = comparison.reasons["difference"]
        return f"{comparison.a} against {comparison.b}: unknown ({why})"
    between = shown_interval(comparison.ci)
    numbers = f"{comparison.difference:+.3f} ({between}, Holm p {shown_p(comparison.p_holm)})"
    return f"{comparison.a} against {comparison.b}: {numbers}"


def _extremes(analysis: Analysis) -> Iterator[str]:
    order, conditions = analysis.rank_stability.order, analysis.conditions
    most, least = (_share(name, conditions[name]) for name in (order[0], order[-1]))
    yield f"Most collapsed is {most}" + (f", least {least}." if len(order) > 1 else ".")
    waits = [
        f"{name} {conditions[name].rmst:.1f}" for name in order if conditions[name].rmst is not None
    ]
    if waits:
        tau = analysis.settings.tau
        yield f"Mean turns to the first collapse, of {tau:g}: {', '.join(waits)}."


def _share(name: str, found: ConditionSummary) -> str:
    between = f", {shown_interval(found.cluster_ci, 1, 100)}" if found.cluster_ci else ""
    return f"{name} ({100 * found.mean:.1f} % of turns{between})"


def _differing(analysis: Analysis) -> Iterator[str]:
    known = [each for each in analysis.contrasts if each.p_holm is not None]
    if not known:
        return
    alike = [each for each in known if (each.p_holm or 0) >= SIGNIFICANT]
    yield (
        f"{len(known) - len(alike)} of {len(known)} pairs differ in their share of collapsed turns "
        "at 5 % after Holm's correction" + _except(alike) + "."
    )


def _except(alike: list[Comparison]) -> str:
    if not alike:
        return ""
    return "; not " + ", ".join(f"{each.a} and {each.b}" for each in alike)


def _clustering(analysis: Analysis) -> Iterator[str]:
    ratios = [each.se_ratio for each in analysis.contrasts if each.se_ratio is not None]
    if ratios and min(ratios) < 1:
        yield (
            "Repeats of a prompt are alike: an analysis that takes runs for independent would "
            f"claim standard errors {min(ratios):.2f} to {max(ratios):.2f} times the true ones."
        )


def _log_rank(test: LogRankTest) -> str:
    if test.chi2 is None:
        return f"No log-rank test: {test.reasons['chi2']}."
    return (
        f"Log-rank over {len(test.conditions)} conditions: chi2({test.df}) = {test.chi2:.2f}; "
        f"p {shown_p(test.permutation_p)} by permutation within prompts "
        f"(naive p {shown_p(test.p)}, which takes every run for independent)."
    )


def _order(analysis: Analysis) -> Iterator[str]:
    stability = analysis.rank_stability
    if stability.by_seed is None or not stability.by_seed.total:
        return
    held, total = stability.by_seed.held, stability.by_seed.total
    buckets = stability.by_bucket
    more = f" and is inverted in {buckets.inverted} of {buckets.total} buckets" if buckets else ""
    yield f"The order {' > '.join(stability.order)} holds in {held} of {total} prompts{more}."


def _recovery(analysis: Analysis) -> Iterator[str]:
    collapsed = sum(each.collapsed_runs for each in analysis.after_onset.values())
    recovered = sum(each.recovered_runs for each in analysis.after_onset.values())
    if collapsed:
        yield f"{recovered} of {collapsed} collapsed runs came out again at least once."


def _next_time(analysis: Analysis) -> Iterator[str]:
    """For the closest pair, which is the hardest to tell apart."""
    pairs = zip(analysis.contrasts, analysis.outlook, strict=True)
    known = [
        (abs(contrast.difference), outlook)
        for contrast, outlook in pairs
        if contrast.difference is not None and len(outlook.designs) > 1
    ]
    if not known:
        return
    _, hardest = min(known, key=lambda pair: pair[0])
    best, present = hardest.designs[0], hardest.designs[-1]
    yield (
        f"Next time, for {hardest.a} against {hardest.b}: {best.prompts} prompts x {best.repeats} "
        f"would find a difference of {best.detectable:.3f} at the cost at which {present.prompts} "
        f"x {present.repeats} find {present.detectable:.3f}."
    )
