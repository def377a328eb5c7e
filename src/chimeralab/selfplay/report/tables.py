"""Tables of a self-play analysis for the page, the terminal and files, and what they say."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isclose
from typing import TYPE_CHECKING, Any

from chimeralab.core.numbers import between, number, p_value, percent
from chimeralab.core.records import Detection, name_kind
from chimeralab.core.result_words import ResultWords
from chimeralab.report.page import render_sentence, render_text
from chimeralab.report.table import (
    SIGNIFICANT,
    UNITS,
    Cell,
    Dash,
    Table,
    flatten,
    format_difference,
    format_estimate,
    make_table,
    optional_cell,
    ticks_from_0,
)
from chimeralab.selfplay.analysis import Analysis
from chimeralab.selfplay.runs import Runs
from chimeralab.selfplay.specifications import SpecificationCurve
from chimeralab.stats.clusters import cells_of
from chimeralab.stats.effects import Effect, key_of

if TYPE_CHECKING:
    from chimeralab.study.plan import Plan

MAX_SPEAKERS = 6
FIRST = ("n", "incidence", "incidence_ci", "km_median", "rmst", "rmst_ci", "reasons")


def interpret(analysis: Analysis, words: ResultWords) -> list[str]:
    """Interpret an analysis in sentences, worded as the reliability gate allows."""
    declared = {key_of(each) for each in analysis.primary}
    order = analysis.rank_stability.order
    means = {name: each.mean for name, each in analysis.conditions.items()}
    tested = [each for each in analysis.contrasts if each.p_holm is not None]
    iccs = [each.icc for each in analysis.conditions.values() if each.icc is not None]
    designs = [
        (abs(effect.estimate), outlook)
        for effect, outlook in zip(analysis.contrasts, analysis.outlook, strict=True)
        if effect.estimate is not None and len(outlook.designs) > 1
    ]
    found = render_text(
        "selfplay_reading.txt",
        analysis=analysis,
        unseen=describe_unseen(analysis),
        conditions=analysis.conditions,
        order=order,
        ranked=format_order(analysis),
        most=[each for each in order if isclose(means[each], means[order[0]], abs_tol=1e-9)],
        least=[each for each in order if isclose(means[each], means[order[-1]], abs_tol=1e-9)],
        words=words,
        tested=tested,
        alike=[each for each in tested if (each.p_holm or 0) >= SIGNIFICANT],
        undeclared=[each for each in analysis.weighted_contrasts if key_of(each) not in declared],
        ratios=[each.se_ratio for each in analysis.contrasts if each.se_ratio is not None],
        similar=bool(iccs) and min(iccs) > 0,
        collapsed=sum(each.collapsed_runs for each in analysis.after_onset.values()),
        recovered=sum(each.recovered_runs for each in analysis.after_onset.values()),
        # The closest pair is the hardest to tell apart.
        hardest=min(designs, key=lambda pair: pair[0])[1] if designs else None,
    )
    return list(filter(None, found))


def format_order(analysis: Analysis, *, seen: bool = False) -> str:
    """The conditions by their means, with = between equal ones; `seen` counts unseen cycles."""
    order, figure = analysis.rank_stability.order, "mean"
    if seen:
        order, figure = analysis.order_if_seen, "mean_if_seen"
    means = {name: getattr(analysis.conditions[name], figure) for name in order}
    parts = [f"{name} ({percent(means[name])})" if seen else name for name in order]
    for place in range(len(order) - 1, 0, -1):
        tied = isclose(means[order[place - 1]], means[order[place]], abs_tol=1e-9)
        parts.insert(place, "=" if tied else ">")
    return " ".join(parts)


def unseen_cycles(analysis: Analysis) -> Table | None:
    """Runs with cycles that the rule can't count, by condition; None if nothing is known."""
    if all(each.unseen_runs is None for each in analysis.conditions.values()):
        return None
    headings = (
        "condition",
        "runs",
        f"share with an unseen cycle ({_interval_heading(analysis)})",
        "mean share by the rule",
        "mean share if they counted",
    )
    rows = [
        [
            name,
            str(each.n),
            _estimate_cell(each, "unseen_share", "unseen_ci"),
            percent(each.mean),
            _cell(each, "mean_if_seen", percent),
        ]
        for name, each in analysis.conditions.items()
    ]
    names = ("n", "unseen_runs", "unseen_share", "unseen_ci", "mean", "mean_if_seen")
    raw = [
        {"condition": name, **flatten({key: each.as_dict()[key] for key in names})}
        for name, each in analysis.conditions.items()
    ]
    return make_table("unseen_cycles", headings, rows, raw)


def describe_unseen(analysis: Analysis) -> str:
    """Say how many runs have a cycle that the rule can't count; empty if none is known."""
    if not any(each.unseen_runs for each in analysis.conditions.values()):
        return ""
    unit = UNITS["share"]
    return render_sentence(
        "selfplay_sentences.txt",
        "unseen_cycles",
        interval=_interval_heading(analysis),
        shares={
            name: f"{format_estimate(each.unseen_share, each.unseen_ci, unit)} of {each.n}"
            for name, each in analysis.conditions.items()
            if each.unseen_share is not None
        },
        order=format_order(analysis),
        order_if_seen=format_order(analysis, seen=True) if analysis.order_if_seen else "",
    )


def cast_table(plan: "Plan") -> Table:
    """Who spoke under each condition."""
    rows = []
    for name, condition in plan.conditions.items():
        speakers = [
            each.name if each.name.startswith(each.model) else f"{each.name} ({each.model})"
            for each in condition.speakers
        ]
        shown = speakers[:MAX_SPEAKERS] + ["…"] * (len(speakers) > MAX_SPEAKERS)
        heats = sorted({each.sampling.temperature for each in condition.speakers})
        step = condition.countermeasure.use if condition.countermeasure else "nothing"
        step += f" {condition.schedule.describe()}" if condition.schedule else ""
        rows.append([name, ", ".join(shown), ", ".join(f"{heat:g}" for heat in heats), step])
    keys = ("condition", "speakers", "temperature", "countermeasure")
    scheduled = any(condition.schedule for condition in plan.conditions.values())
    last = "perturbation" if scheduled else "on collapse"
    headings = ("condition", "speakers, in turn", "temperature", last)
    raw = [dict(zip(keys, row, strict=True)) for row in rows]
    return make_table("design", headings, rows, raw, words=(0, 1, 3))


def _interval_heading(analysis: Analysis) -> str:
    return f"{100 * analysis.settings.level:g} % interval"


def _cell(record: Any, name: str, show: Callable[[float], str]) -> Cell:
    """A number of a record, or a dash with the record's reason."""
    value = getattr(record, name)
    return show(value) if value is not None else Dash(record.reasons.get(name, "unknown"))


def _estimate_cell(record: Any, name: str, interval: str, measure: str = "share") -> Cell:
    """A number of a record with its interval; either may be missing."""
    value, ends = getattr(record, name), getattr(record, interval)
    if value is None:
        return Dash(record.reasons.get(name, "unknown"))
    shown = format_estimate(value, ends, UNITS[measure])
    return shown if ends is not None else Dash(record.reasons.get(interval, "unknown"), shown)


def _points(value: float) -> str:
    return number(value, 1, 100)


def _turns(value: float) -> str:
    return number(value, 0)


def _two_digits(value: float) -> str:
    return number(value, 2)


def shares(analysis: Analysis) -> Table:
    """Shares of collapsed turns, by condition."""
    mean = f"mean ({_interval_heading(analysis)})"
    headings = ("condition", "runs", "prompts", mean, "median", "SD", "at risk", "ICC")
    rows = [
        [
            name,
            f"{each.n:,}",
            f"{each.seeds:,}",
            _estimate_cell(each, "mean", "share_ci"),
            percent(each.median),
            _cell(each, "sd", _points),
            _cell(each, "at_risk_mean", percent),
            _cell(each, "icc", _two_digits),
        ]
        for name, each in analysis.conditions.items()
    ]
    raw = [{"condition": name, **flatten(c.as_dict())} for name, c in analysis.conditions.items()]
    return make_table("conditions", headings, rows, raw)


def first_collapses(analysis: Analysis, words: ResultWords) -> Table:
    """How often and how soon runs collapse, by condition."""
    headings = (
        "condition",
        f"any {words.event} ({_interval_heading(analysis)})",
        "median turn of the first",
        f"mean turns without, of {analysis.settings.tau:g} ({_interval_heading(analysis)})",
    )
    rows = [
        [
            name,
            _estimate_cell(each, "incidence", "incidence_ci", "incidence"),
            _cell(each, "km_median", _turns),
            _estimate_cell(each, "rmst", "rmst_ci", "restricted_mean"),
        ]
        for name, each in analysis.conditions.items()
    ]
    raw = []
    for name, each in analysis.conditions.items():
        picked = {key: value for key, value in each.as_dict().items() if key in FIRST}
        raw.append({"condition": name, **flatten(picked)})
    return make_table("first_collapse", headings, rows, raw)


def after_onset(analysis: Analysis, words: ResultWords) -> Table:
    """What happens to runs after their first collapse."""
    headings = (
        "condition",
        f"runs with a {words.event}",
        f"recovered ({_interval_heading(analysis)})",
        "episodes per run",
        "median length, turns",
        "turns in an episode, from the onset on",
    )
    rows = [
        [
            name,
            f"{each.collapsed_runs:,}",
            _estimate_cell(each, "recovered_share", "recovered_ci"),
            _cell(each, "episodes_per_run", lambda value: number(value, 1)),
            _cell(each, "dwell_median", _turns),
            _cell(each, "dwell_share", percent),
        ]
        for name, each in analysis.after_onset.items()
    ]
    raw = [{"condition": n, **flatten(each.as_dict())} for n, each in analysis.after_onset.items()]
    return make_table("after_onset", headings, rows, raw)


def loops(conditions: Sequence[str], detections: Sequence[Detection]) -> Table:
    """How many conversations loop, and in which ways, by condition."""
    rows: list[list[Cell]] = []
    raw = []
    for condition in conditions:
        judged = [
            found
            for found in detections
            if found.metadata["condition"] == condition and found.looping is not None
        ]
        looping = sum(bool(found.looping) for found in judged)
        kinds = Counter(
            kind
            for found in judged
            for kind in dict.fromkeys(loop.kind for loop in found.loops if loop.level == "verdict")
        )
        named, raw_named = (
            ", ".join(f"{name(kind)} {count:,}" for kind, count in kinds.most_common())
            for name in (name_kind, str)
        )
        counts: Cell = Dash("no conversation was judged by the loop detector")
        if judged:
            counts = f"{looping:,} ({percent(looping / len(judged))})"
        rows.append([condition, f"{len(judged):,}", counts, named or "none"])
        row = {"condition": condition, "conversations": len(judged), "looping": looping}
        raw.append(row | {"kinds": raw_named})
    headings = ("condition", "conversations", "looping", "kinds")
    return make_table("loops", headings, rows, raw, words=(0, 3))


def contrasts(name: str, effects: Sequence[Effect], level: float, *, bare: bool = False) -> Table:
    """Differences with their p-values, clustered and naive; `bare` ones without their unit."""
    interval = f"estimate ({100 * level:g} % interval)"
    headings = ("difference of", interval, "Holm p", "permutation p", "naive p", "SE ratio")
    rows, raw = [], []
    for each in effects:
        why = each.reasons
        unit = UNITS[each.measure]
        shown: Cell = format_difference(each.estimate, each.interval, unit, each.weights, bare=bare)
        if each.estimate is None or each.interval is None:
            shown = Dash(why.get("estimate") or why.get("interval") or "unknown", str(shown))
        holm: Cell = Dash(why.get("p_holm") or why.get("p") or "unknown")
        rows.append(
            [
                each.marked_name,
                shown,
                p_value(each.p_holm) if each.p_holm is not None else holm,
                _cell(each, "permutation_p", p_value),
                _cell(each, "naive_p", p_value),
                _cell(each, "se_ratio", _two_digits),
            ]
        )
        weights = "; ".join(f"{k}: {v:g}" for k, v in each.weights.items())
        raw.append({**flatten(each.as_dict()), "weights": weights, "role": each.role})
    return make_table(name, headings, rows, raw)


def at_risk(analysis: Analysis, words: ResultWords) -> Table:
    """Runs at risk: followed without a collapse up to a turn; the file has every turn."""
    ticks = ticks_from_0(int(analysis.settings.tau), 300)
    rows, raw = [], []
    for name, curve in analysis.curves.items():
        numbers = list(zip(curve.turns, curve.at_risk, strict=True))
        # The runs at risk at a turn are those counted at the next change of the curve.
        followed = (next((n for turn, n in numbers if turn >= tick), 0) for tick in ticks)
        rows.append([name, *(f"{n:,}" for n in followed)])
        absent = [None] * len(curve.turns)
        raw += [
            {
                "condition": name,
                "turn": turn,
                "without_collapse": share,
                "low": low,
                "high": high,
                "at_risk": n,
            }
            for (turn, n), share, low, high in zip(
                numbers, curve.survival, curve.low or absent, curve.high or absent, strict=True
            )
        ]
    headings = (f"runs without a {words.event} before turn", *map(str, ticks))
    return make_table("survival", headings, rows, raw)


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


def plain_sheets(
    analysis: Analysis, runs: Runs, curve: SpecificationCurve | None
) -> Iterator[Table]:
    """Tables that are only written as files: every run, every detector, every test."""
    stability = analysis.rank_stability
    sheets: dict[str, list[Mapping[str, Any]]] = {
        "runs": [run.as_dict() for run in runs.rows],
        "logrank": [
            {**flatten(test.as_dict()), "conditions": ", ".join(test.conditions)}
            for test in (analysis.logrank, *analysis.logrank_pairs)
        ],
        "rank_stability": [
            {"unit": unit, "order": " > ".join(stability.order), **counts.as_dict()}
            for unit, counts in (("prompt", stability.by_seed), ("bucket", stability.by_bucket))
            if counts is not None
        ],
        "outlook": [
            {"a": each.a, "b": each.b, "measure": each.measure, **design.as_dict()}
            for each in analysis.outlook
            for design in each.designs
        ],
    }
    if runs.bucket is not None:
        sheets["buckets"] = [
            {"bucket": bucket, "condition": name, "mean": mean}
            for bucket, means in bucket_means(analysis, runs).items()
            for name, mean in zip(analysis.conditions, means, strict=True)
        ]
    if curve is not None:
        records = [flatten(each.as_dict()) for each in curve.specifications]
        sheets["specification_curve"] = [
            {"a": curve.a, "b": curve.b, **row.pop("settings"), **row} for row in records
        ]
    for name, rows in sheets.items():
        yield make_table(name, (), (), rows)


def reliability_table(
    overall: Mapping[str, Any], by_stratum: Mapping[str, Mapping[str, Any]]
) -> Table:
    """Agreement of the raters over all items and in each stratum."""
    panels = {"all items": overall, **by_stratum}
    intervals = {"kappa": "kappa_ci_score", "ac1": "ac1_ci", "alpha": "alpha_ci"}
    shown = ["agreement", "kappa", "pabak", "ac1", "alpha"]
    # Of two raters, Fleiss' kappa says what alpha says.
    shown += ["fleiss"] if overall["pairs"] else []
    names = ("n_valid", "n_total", *shown, *intervals.values(), "fleiss_n")
    raw = [
        {"items": items, **flatten({name: figures.get(name) for name in names})}
        for items, figures in panels.items()
    ]
    rows: list[list[Cell]] = []
    for items, figures in panels.items():
        why = figures["reasons"]
        rows.append([items, f"{figures['n_valid']:,} of {figures['n_total']:,}"])
        for name in shown:
            cell = optional_cell(number(figures[name], 2), figures[name], why.get(name))
            ends = figures.get(intervals.get(name, ""))
            if ends is not None:
                cell = f"{cell} ({between(ends, 2)})"
            elif name == "fleiss" and figures[name] is not None:
                cell = f"{cell} (n {figures['fleiss_n']:,})"
            rows[-1].append(cell)
    titles = {"pabak": "PABAK", "ac1": "AC1", "fleiss": "Fleiss' kappa"}
    headings = [
        f"{titles.get(name, name)}{' (95 % interval)' * (name in intervals)}" for name in shown
    ]
    return make_table("reliability", ("items", "rated", *headings), rows, raw)
