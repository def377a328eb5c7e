"""The tables of a self-play study, on the page and as files; some are written as files alone."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from chimeralab.analysis import Analysis
from chimeralab.core.numbers import between, number, p_value
from chimeralab.core.result_words import ResultWords
from chimeralab.report.table import (
    SHARE,
    UNITS,
    Cell,
    Dash,
    Table,
    flatten,
    format_difference,
    format_estimate,
    make_table,
    optional_cell,
)
from chimeralab.selfplay.outcomes import Measure
from chimeralab.selfplay.report.charts import ticks_from_0
from chimeralab.selfplay.report.figures import bucket_means
from chimeralab.selfplay.report.material import Material, StudyResults
from chimeralab.stats.intervals import Interval
from chimeralab.study.plan import Plan

SPEAKERS_NAMED = 6
FIRST = ("n", "incidence", "incidence_ci", "km_median", "rmst", "rmst_ci", "reasons")


def cast_table(plan: Plan) -> Table:
    """Who spoke under each condition."""
    rows = []
    for name, condition in plan.conditions.items():
        speakers = [
            each.name if each.name.startswith(each.model) else f"{each.name} ({each.model})"
            for each in condition.speakers
        ]
        named = speakers[:SPEAKERS_NAMED] + ["…"] * (len(speakers) > SPEAKERS_NAMED)
        heats = sorted({each.sampling.temperature for each in condition.speakers})
        step = condition.countermeasure.use if condition.countermeasure else "nothing"
        rows.append([name, ", ".join(named), ", ".join(f"{heat:g}" for heat in heats), step])
    keys = ("condition", "speakers", "temperature", "countermeasure")
    headings = ("condition", "speakers, in turn", "temperature", "on collapse")
    raw = [dict(zip(keys, row, strict=True)) for row in rows]
    return make_table("design", headings, rows, raw, words=(0, 1, 3))


def level(analysis: Analysis) -> str:
    """The level of all intervals, as it stands over them."""
    return f"{100 * analysis.settings.level:g} % interval"


def shares(analysis: Analysis) -> Table:
    """How much collapses, by condition."""
    headings = (
        "condition",
        "runs",
        "prompts",
        f"mean ({level(analysis)})",
        "median",
        "SD",
        "at risk",
        "ICC",
    )
    rows = []
    for name, each in analysis.conditions.items():
        why = each.reasons
        at_risk = number(each.at_risk_mean, 1, 100) + SHARE.value
        rows.append(
            [
                name,
                f"{each.n:,}",
                f"{each.seeds:,}",
                _with_interval(each.mean, each.share_ci, why.get("share_ci")),
                number(each.median, 1, 100) + SHARE.value,
                optional_cell(number(each.sd, 1, 100), each.sd, why.get("sd")),
                optional_cell(at_risk, each.at_risk_mean, why.get("at_risk_mean")),
                optional_cell(number(each.icc, 2), each.icc, why.get("icc")),
            ]
        )
    raw = [{"condition": name, **flatten(c.as_dict())} for name, c in analysis.conditions.items()]
    return make_table("conditions", headings, rows, raw)


def _with_interval(
    value: float, interval: Interval | None, reason: str | None, measure: Measure = "share"
) -> Cell:
    """A value that is always there, and an interval that may not be."""
    shown = format_estimate(value, interval, UNITS[measure])
    return shown if interval is not None else Dash(reason or "unknown", shown)


def first_collapses(analysis: Analysis, words: ResultWords) -> Table:
    """How often and how soon, by condition."""
    headings = (
        "condition",
        f"any {words.event} ({level(analysis)})",
        "median turn of the first",
        f"mean turns without, of {analysis.settings.tau:g} ({level(analysis)})",
    )
    rows, raw = [], []
    for name, each in analysis.conditions.items():
        why = each.reasons
        rmst: Cell = Dash(why.get("rmst", "unknown"))
        if each.rmst is not None:
            rmst = _with_interval(each.rmst, each.rmst_ci, why.get("rmst_ci"), "restricted_mean")
        any_ci, any_why = each.incidence_ci, why.get("incidence_ci")
        rows.append(
            [
                name,
                _with_interval(each.incidence, any_ci, any_why, "incidence"),
                optional_cell(number(each.km_median, 0), each.km_median, why.get("km_median")),
                rmst,
            ]
        )
        picked = {key: value for key, value in each.as_dict().items() if key in FIRST}
        raw.append({"condition": name, **flatten(picked)})
    return make_table("first_collapse", headings, rows, raw)


def after_onset(analysis: Analysis, words: ResultWords) -> Table:
    """What becomes of runs once they have collapsed."""
    headings = (
        "condition",
        words.runs,
        f"recovered ({level(analysis)})",
        "episodes per run",
        "median length, turns",
        f"{words.turns}, from the onset on",
    )
    rows = []
    for name, each in analysis.after_onset.items():
        why = each.reasons
        share: Cell = Dash(why.get("recovered_share", "unknown"))
        if each.recovered_share is not None:
            share = _with_interval(each.recovered_share, each.recovered_ci, why.get("recovered_ci"))
        dwell, many = number(each.dwell_share, 1, 100) + SHARE.value, each.episodes_per_run
        rows.append(
            [
                name,
                f"{each.collapsed_runs:,}",
                share,
                optional_cell(number(many, 1), many, why.get("episodes_per_run")),
                optional_cell(
                    number(each.dwell_median, 0), each.dwell_median, why.get("dwell_median")
                ),
                optional_cell(dwell, each.dwell_share, why.get("dwell_share")),
            ]
        )
    raw = [{"condition": n, **flatten(each.as_dict())} for n, each in analysis.after_onset.items()]
    return make_table("after_onset", headings, rows, raw)


def loops(material: Material) -> Table:
    """How many conversations loop, and in which ways, by condition."""
    rows: list[list[Cell]] = []
    raw = []
    for name in material.study.plan.conditions:
        judged = [
            found
            for found in material.detections
            if found.metadata["condition"] == name and found.looping is not None
        ]
        looping = sum(bool(found.looping) for found in judged)
        kinds = Counter(
            kind
            for found in judged
            for kind in dict.fromkeys(loop.kind for loop in found.loops if loop.level == "verdict")
        )
        said = ", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common())
        counts: Cell = Dash("no conversation was judged by the loop detector")
        if judged:
            share = number(looping / len(judged), 1, 100) + SHARE.value
            counts = f"{looping:,} ({share})"
        rows.append([name, f"{len(judged):,}", counts, said or "none"])
        raw.append(
            {"condition": name, "conversations": len(judged), "looping": looping, "kinds": said}
        )
    headings = ("condition", "conversations", "looping", "kinds")
    return make_table("loops", headings, rows, raw, words=(0, 3))


def contrasts(analysis: Analysis, measure: Measure) -> Table:
    """The differences of one measure, every p beside what an analysis without clusters says."""
    headings = (
        "difference of",
        f"estimate ({level(analysis)})",
        "Holm p",
        "permutation p",
        "naive p",
        "SE ratio",
    )
    rows, raw = [], []
    for each in analysis.rows(measure):
        why = each.reasons
        shown: Cell = format_difference(each.estimate, each.interval, UNITS[each.measure])
        if each.estimate is None or each.interval is None:
            shown = Dash(why.get("estimate") or why.get("interval") or "unknown", str(shown))
        rows.append(
            [
                each.marked_name,
                shown,
                optional_cell(p_value(each.p_holm), each.p_holm, why.get("p_holm") or why.get("p")),
                optional_cell(
                    p_value(each.permutation_p), each.permutation_p, why.get("permutation_p")
                ),
                optional_cell(p_value(each.naive_p), each.naive_p, why.get("naive_p")),
                optional_cell(number(each.se_ratio, 2), each.se_ratio, why.get("se_ratio")),
            ]
        )
        weights = "; ".join(f"{k}: {v:g}" for k, v in each.weights.items())
        raw.append({**flatten(each.as_dict()), "weights": weights, "role": each.role})
    return make_table(f"contrasts_{measure}", headings, rows, raw)


def at_risk(analysis: Analysis, words: ResultWords) -> Table:
    """How many runs were still followed without a collapse at some turns; the file has them all."""
    ticks = ticks_from_0(int(analysis.settings.tau), 300)
    rows, raw = [], []
    for name, curve in analysis.curves.items():
        numbers = list(zip(curve.turns, curve.at_risk, strict=True))
        # Runs at risk at a turn are those that the next change finds.
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
    return make_table(
        "survival", (f"runs without a {words.event} before turn", *map(str, ticks)), rows, raw
    )


def plain_sheets(results: StudyResults) -> Iterator[Table]:
    """Tables for files alone: every run, every detector, every test."""
    analysis, curve = results.analysis, results.curve
    sheets: dict[str, list[Mapping[str, Any]]] = {
        "runs": [run.as_dict() for run in results.runs.rows],
        "logrank": [
            {**flatten(test.as_dict()), "conditions": ", ".join(test.conditions)}
            for test in (analysis.logrank, *analysis.logrank_pairs)
        ],
        "rank_stability": [
            {"unit": unit, "order": " > ".join(analysis.rank_stability.order), **held.as_dict()}
            for unit, held in (
                ("prompt", analysis.rank_stability.by_seed),
                ("bucket", analysis.rank_stability.by_bucket),
            )
            if held is not None
        ],
        "outlook": [
            {"a": each.a, "b": each.b, "measure": each.measure, **design.as_dict()}
            for each in analysis.outlook
            for design in each.designs
        ],
    }
    if results.runs.bucket is not None:
        sheets["buckets"] = [
            {"bucket": bucket, "condition": name, "mean": mean}
            for bucket, means in bucket_means(analysis, results.runs).items()
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
    names = ("n_valid", "n_total", "agreement", "kappa", "pabak", "ac1")
    raw = [
        {"items": items, **{name: figures.get(name) for name in names}}
        for items, figures in panels.items()
    ]
    rows: list[list[Cell]] = []
    for items, figures in panels.items():
        why = figures["reasons"]
        agreement, pabak, ac1 = (
            optional_cell(number(figures[name], 2), figures[name], why.get(name))
            for name in ("agreement", "pabak", "ac1")
        )
        kappa: Cell = Dash(why.get("kappa", "unknown"))
        if figures["kappa"] is not None:
            kappa = f"{number(figures['kappa'], 2)} ({between(figures['kappa_ci_score'], 2)})"
        rated = f"{figures['n_valid']:,} of {figures['n_total']:,}"
        rows.append([items, rated, agreement, kappa, pabak, ac1])
    headings = ("items", "rated", "agreement", "kappa (95 % interval)", "PABAK", "AC1")
    return make_table("reliability", headings, rows, raw)
