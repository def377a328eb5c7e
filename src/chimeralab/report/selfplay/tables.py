"""The tables of a study's results, on the page and as files."""

from collections.abc import Mapping, Sequence
from typing import Any

from chimeralab.analysis import Analysis
from chimeralab.analysis.selfplay.comparisons import Comparison
from chimeralab.analysis.selfplay.conditions import AfterOnset, ConditionSummary
from chimeralab.analysis.selfplay.outcomes import MEASURES, Measure
from chimeralab.core.numbers import number, p_value
from chimeralab.report.charts.survival import ticks_from_0
from chimeralab.report.numbers import SHARE, UNITS, difference, estimate
from chimeralab.report.table import Dash, Shown, Table, flat, known, table
from chimeralab.stats.intervals import Interval


def level(analysis: Analysis) -> str:
    """The level of all intervals, as it stands over them."""
    return f"{100 * analysis.settings.level:g} % interval"


def shares(analysis: Analysis) -> Table:
    """How much collapses, by condition."""
    between = level(analysis)
    headings = (
        "condition",
        "runs",
        "prompts",
        f"mean ({between})",
        "median",
        "SD",
        "at risk",
        "ICC",
    )
    return table(
        "conditions",
        headings,
        [_share_row(name, each) for name, each in analysis.conditions.items()],
        [{"condition": name, **flat(each.as_dict())} for name, each in analysis.conditions.items()],
    )


def _share_row(name: str, each: ConditionSummary) -> list[Shown]:
    why = each.reasons
    return [
        name,
        f"{each.n:,}",
        f"{each.seeds:,}",
        _with_interval(each.mean, each.cluster_ci, why.get("cluster_ci")),
        number(each.median, 1, 100) + SHARE.value,
        known(number(each.sd, 1, 100), each.sd, why.get("sd")),
        known(
            number(each.at_risk_mean, 1, 100) + SHARE.value,
            each.at_risk_mean,
            why.get("at_risk_mean"),
        ),
        known(number(each.icc, 2), each.icc, why.get("icc")),
    ]


def _with_interval(
    value: float, interval: Interval | None, reason: str | None, measure: Measure = "share"
) -> Shown:
    """A value that is always there, and an interval that may not be."""
    shown = estimate(value, interval, UNITS[measure])
    return shown if interval is not None else Dash(reason or "unknown", shown)


def first_collapses(analysis: Analysis) -> Table:
    """How often and how soon, by condition."""
    tau = f"{analysis.settings.tau:g}"
    between = level(analysis)
    headings = (
        "condition",
        f"any collapse ({between})",
        "median turn of the first",
        f"mean turns without, of {tau} ({between})",
    )
    rows = [_first_row(name, each) for name, each in analysis.conditions.items()]
    raw = [
        {"condition": name, **_picked(each, FIRST)} for name, each in analysis.conditions.items()
    ]
    return table("first_collapse", headings, rows, raw)


FIRST = ("n", "incidence", "incidence_ci", "km_median", "rmst", "rmst_ci", "reasons")


def _picked(each: ConditionSummary, names: Sequence[str]) -> dict[str, Any]:
    return flat({name: value for name, value in each.as_dict().items() if name in names})


def _first_row(name: str, each: ConditionSummary) -> list[Shown]:
    why = each.reasons
    rmst: Shown = Dash(why.get("rmst", "unknown"))
    if each.rmst is not None:
        rmst = _with_interval(each.rmst, each.rmst_ci, why.get("rmst_ci"), "restricted_mean")
    return [
        name,
        _with_interval(each.incidence, each.incidence_ci, why.get("incidence_ci"), "incidence"),
        known(number(each.km_median, 0), each.km_median, why.get("km_median")),
        rmst,
    ]


def after_onset(analysis: Analysis) -> Table:
    """What becomes of runs once they have collapsed."""
    headings = (
        "condition",
        "collapsed runs",
        f"came out again ({level(analysis)})",
        "episodes a run",
        "median length, turns",
        "turns collapsed from onset on",
    )
    rows = [_onset_row(name, each) for name, each in analysis.after_onset.items()]
    raw = [{"condition": n, **flat(each.as_dict())} for n, each in analysis.after_onset.items()]
    return table("after_onset", headings, rows, raw)


def _onset_row(name: str, each: AfterOnset) -> list[Shown]:
    why = each.reasons
    share: Shown = Dash(why.get("recovered_share", "unknown"))
    if each.recovered_share is not None:
        share = _with_interval(each.recovered_share, each.recovered_ci, why.get("recovered_ci"))
    dwell = number(each.dwell_share, 1, 100) + SHARE.value
    return [
        name,
        f"{each.collapsed_runs:,}",
        share,
        known(number(each.episodes_per_run, 1), each.episodes_per_run, why.get("episodes_per_run")),
        known(number(each.dwell_median, 0), each.dwell_median, why.get("dwell_median")),
        known(dwell, each.dwell_share, why.get("dwell_share")),
    ]


def contrasts(analysis: Analysis, measure: Measure) -> Table:
    """The differences of one measure, every p beside what an analysis without clusters says."""
    found = analysis.measures[measure]
    headings = (
        "difference of",
        f"estimate ({level(analysis)})",
        "Holm p",
        "permutation p",
        "naive p",
        "SE ratio",
    )
    both = (*found.weighted, *found.pairs)
    rows = [_contrast_row(each) for each in both]
    return table(f"contrasts_{measure}", headings, rows, [_raw(each) for each in both])


def _raw(each: Comparison) -> dict[str, Any]:
    row = flat(each.as_dict())
    return {**row, "weights": "; ".join(f"{k}: {v:g}" for k, v in each.weights.items())}


def _contrast_row(each: Comparison) -> list[Shown]:
    why = each.reasons
    shown: Shown = difference(each.difference, each.ci, UNITS[each.measure])
    if each.difference is None or each.ci is None:
        shown = Dash(why.get("difference") or why.get("ci") or "unknown", str(shown))
    return [
        f"{each.a} − {each.b}",
        shown,
        known(p_value(each.p_holm), each.p_holm, why.get("p_holm") or why.get("p")),
        known(p_value(each.permutation_p), each.permutation_p, why.get("permutation_p")),
        known(p_value(each.naive_p), each.naive_p, why.get("naive_p")),
        known(number(each.se_ratio, 2), each.se_ratio, why.get("se_ratio")),
    ]


def all_contrasts(analysis: Analysis) -> Mapping[Measure, Table]:
    """A table for each measure."""
    return {measure: contrasts(analysis, measure) for measure in MEASURES}


def at_risk(analysis: Analysis) -> Table:
    """How many runs were still followed without a collapse at some turns; the file has them all."""
    ticks = ticks_from_0(int(analysis.settings.tau), 300)
    rows = [
        [name, *(f"{_followed(curve.turns, curve.at_risk, tick):,}" for tick in ticks)]
        for name, curve in analysis.curves.items()
    ]
    raw = [
        {
            "condition": name,
            "turn": turn,
            "without_collapse": share,
            "low": low,
            "high": high,
            "at_risk": n,
        }
        for name, curve in analysis.curves.items()
        for turn, share, low, high, n in zip(
            curve.turns,
            curve.survival,
            curve.low or [None] * len(curve.turns),
            curve.high or [None] * len(curve.turns),
            curve.at_risk,
            strict=True,
        )
    ]
    return table("survival", ("runs without a collapse before turn", *map(str, ticks)), rows, raw)


def _followed(turns: Sequence[float], at_risk: Sequence[int], tick: int) -> int:
    """Runs at risk at a turn: those that the next change finds."""
    return next((n for turn, n in zip(turns, at_risk, strict=True) if turn >= tick), 0)
