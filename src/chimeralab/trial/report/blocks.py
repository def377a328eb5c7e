"""Figures and tables of a trial's report."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from chimeralab.core.numbers import between, number, p_phrase, p_value, percent
from chimeralab.report.charts.canvas import Figure, draw
from chimeralab.report.charts.effects import (
    Dose,
    SummaryCell,
    SummaryGroup,
    dose_response,
    forest,
    metric_parts,
    summary,
)
from chimeralab.report.page import render_sentence
from chimeralab.report.table import (
    SHARE,
    SIGNIFICANT,
    Cell,
    Dash,
    Table,
    Unit,
    format_difference,
    format_estimate,
    make_table,
    optional_cell,
)
from chimeralab.stats.effects import Effect, short
from chimeralab.trial.analysis import ArmResult, SubjectResult, TrialAnalysis
from chimeralab.trial.effects import QUARTERS, is_aimed, is_listed
from chimeralab.trial.measures import METRIC_TEXTS, PARTS, find_measure
from chimeralab.trial.plan import TrialPlan
from chimeralab.trial.script import Arm
from chimeralab.trial.stressors import SHAM

INDEX = Unit(1, 2, "", "")
BETTER = {True: "less", False: "more"}
PASSED = {True: "passed", False: "failed", None: "unknown"}


def plain_name(measure: str) -> str:
    """The name of a measure for readers who have not read the paper.

    >>> plain_name("dfs"), plain_name("mci.rf"), plain_name("recall")
    ('independence (DFS)', 'right answers (RF in MCI)', 'earlier facts recalled')
    """
    metric, _, part = measure.partition(".")
    if metric not in PARTS:
        return find_measure(measure).says
    plain = METRIC_TEXTS[metric][part or "value"]["plain"]
    return (
        f"{plain} ({part.upper()} in {metric.upper()})" if part else f"{plain} ({metric.upper()})"
    )


def unit_of(measure: str) -> Unit:
    """The unit of a measure: none for an index, per cent for a share."""
    return INDEX if find_measure(measure).unit == "index" else SHARE


def is_harm(measure: str) -> bool:
    """Whether more of a measure is worse."""
    return find_measure(measure).harm == "more"


def is_worse(effect: Effect) -> bool:
    return ((effect.estimate or 0.0) > 0) == is_harm(effect.measure)


def is_found(effect: Effect) -> bool:
    """Whether an effect is significant at 5 %, Holm-corrected."""
    return effect.p_holm is not None and effect.p_holm < SIGNIFICANT


def format_effect(effect: Effect) -> str:
    """An effect with its interval and corrected p."""
    shown = format_difference(
        effect.estimate, effect.interval, unit_of(effect.measure), effect.weights
    )
    return f"{shown}, {p_phrase(effect.p_holm)}"


def summary_figure(analysis: TrialAnalysis, arms: Mapping[str, Arm]) -> Figure | None:
    """The effects of every arm on MCI, GFQ and DFS, all subjects on one scale."""
    groups = [_summary_group(subject, analysis, arms) for subject in analysis.subjects]
    if not any(rows for _, rows, _ in groups):
        return None
    lines = [f"{subject}: {note}" for subject, _, note in groups if note]
    for subject, rows, _ in groups:
        for name, cells in rows.items():
            shown = [
                f"{index} {format_difference(cell.estimate, cell.interval, INDEX)}"
                + (", significant" if cell.significant else "")
                for index, cell in cells.items()
            ]
            lines.append(f"{subject}, {name}: {', '.join(shown)}")
    plain = {name.upper(): texts["value"]["plain"] for name, texts in METRIC_TEXTS.items()}
    caption = render_sentence("trial_sentences.txt", "summary_caption", declared=analysis.declared)
    return draw(
        "summary",
        f"Differences in MCI, GFQ and DFS on one scale. {'; '.join(lines)}.",
        lambda width: summary(groups, plain, width=width),
        captions=[caption],
    )


def _summary_group(
    subject: SubjectResult, analysis: TrialAnalysis, arms: Mapping[str, Arm]
) -> SummaryGroup:
    """The arms without countermeasure against the reference, and each countermeasure."""
    if not subject.informative:
        return subject.subject, {}, "not informative, so no effect is printed"
    helped = {name for name, arm in arms.items() if arm.countermeasure is not None}
    bare = [each for each in subject.contrasts if not helped & each.weights.keys()]
    # The effect of sham text is not a weakness: it comes last.
    bare.sort(key=lambda each: not each.about)
    rows: dict[str, dict[str, SummaryCell]] = {}
    usual = f" − {short(subject.reference)}"
    for effect in (*bare, *subject.countermeasures):
        cells = rows.setdefault(effect.short_name.removesuffix(usual), {})
        # A single scenario has no spread: its difference would look like a finding.
        if effect.measure in PARTS and effect.estimate is not None and effect.units > 1:
            cells[effect.measure.upper()] = SummaryCell(
                effect.estimate, effect.interval, is_found(effect),
                bool(analysis.declared) and effect.role == "primary",
            )  # fmt: skip
    return f"{subject.subject}, against {short(subject.reference)}", rows, ""


def forests(name: str, effects: Sequence[Effect]) -> Iterator[Figure]:
    """A forest plot for each measure aimed at or declared; the summary has the metrics."""
    known = [effect for effect in effects if effect.p is not None and is_listed(effect)]
    others = (effect.measure for effect in known if effect.measure not in PARTS)
    for measure in dict.fromkeys(others):
        unit, says = unit_of(measure), plain_name(measure)
        group = [effect for effect in known if effect.measure == measure]
        rows = []
        for each in group:
            # The unit is on the axis: a phone has no room for it next to the numbers.
            shown = format_difference(each.estimate, each.interval, unit, each.weights, bare=True)
            label = (each.short_name, f"{shown}, {p_phrase(each.p_holm)}")
            rows.append((label, each, None))
        chart = partial(forest, rows, f"difference: {says}", percent=unit.percent)
        parts = "; ".join(f"{effect.short_name}: {format_effect(effect)}" for effect in group)
        yield _draw(
            f"{name}_{measure}",
            says,
            f"Differences in {says}, with intervals over scenarios. {parts}.",
            chart,
        )


def dose_figures(subject: SubjectResult) -> Iterator[Figure]:
    """A curve for each dosed key and each measure that its stressor is aimed at."""
    for key in dict.fromkeys(arm.dosed for arm in subject.arms if arm.dosed):
        slopes = (effect for effect in subject.doses if effect.spec.dosed == key)
        for measure in (effect.measure for effect in slopes if is_aimed(effect)):
            doses = doses_of(subject, key, measure)
            if len(doses) < 2:
                continue
            unit, control = unit_of(measure), subject.arms[0].measures[measure].value
            shown = [
                f"at {dose:g}, {format_estimate(value, interval, unit)}"
                for dose, value, interval in doses
            ]
            if control is not None:
                shown.append(f"control, {format_estimate(control, None, unit)}")
            says = find_measure(measure).says
            title = f"{says} over {key}"
            yield _draw(
                f"{subject.subject}_dose_{'_'.join(key.split('.'))}_{measure}",
                title,
                f"{title}: {'; '.join(shown)}.",
                partial(dose_response, doses, control, (key, says), percent=unit.percent),
            )


def doses_of(subject: SubjectResult, key: str, measure: str) -> list[Dose]:
    """A measure at each dose, in ascending order, without arms that failed a check."""
    failed = {check.arm for check in subject.checks if check.passed is False}
    found = [
        (arm.dose, estimated.value, estimated.interval)
        for arm in subject.arms
        if arm.dose is not None
        and arm.dosed == key
        and arm.arm not in failed
        and (estimated := arm.measures[measure]).value is not None
    ]
    return sorted(found)


def parts_figures(subject: SubjectResult) -> Iterator[Figure]:
    """Each metric with its parts, arm by arm."""
    for metric, names in PARTS.items():
        rows = []
        for arm, metrics in subject.metrics.items():
            found = getattr(metrics, metric)
            values = {part.upper(): getattr(found, part) for part in names}
            shown = ", ".join(f"{part} {number(value, 2)}" for part, value in values.items())
            numbers = f"{number(found.value, 3)} ({between(found.interval, 2)}): {shown}"
            known = {part: value for part, value in values.items() if value is not None}
            rows.append(((arm, numbers), found.value, found.interval, known))
        if any(value is not None for _, value, _, _ in rows):
            title = metric.upper()
            lines = "; ".join(": ".join(label) for label, _, _, _ in rows)
            yield _draw(
                f"{subject.subject}_{metric}",
                title,
                f"{title} and its parts, arm by arm. {lines}.",
                partial(metric_parts, rows, title),
            )


def _draw(name: str, title: str, label: str, chart: partial[Any]) -> Figure:
    return draw(name, label, lambda width: chart(width=width), title=title)


def design_table(plan: TrialPlan) -> Table:
    """The stressors and countermeasure of each arm, with every dose."""
    arms = {short(name): arm for name, arm in plan.arms.items()}
    varied = _find_varied(plan.arms.values())
    rows = []
    for name, arm in arms.items():
        named = []
        for stressor, part in arm.stressors.items():
            settings = part.as_dict().items()
            own = _format_settings(
                {key: value for key, value in settings if (stressor, key) in varied}
            )
            named.append(f"{stressor} ({own})" if own else stressor)
        stress = ("neutral text in place of " if arm.sham else "") + ", ".join(named)
        cell = SHAM if arm.sham else arm.cell
        rows.append([name, cell, stress or "none", arm.against or "none"])
    keys = ("arm", "cell", "stressors", "countermeasure")
    raw = [dict(zip(keys, row, strict=True)) for row in rows]
    return make_table("design", keys, rows, raw, words=(0, 1, 2, 3))


def common_settings(plan: TrialPlan) -> dict[str, str]:
    """The settings of each stressor that are the same in all its arms."""
    arms = plan.arms.values()
    varied = _find_varied(arms)
    parts = {name: part.as_dict() for arm in arms for name, part in arm.stressors.items()}
    return {
        name: _format_settings(
            {key: value for key, value in part.items() if (name, key) not in varied}
        )
        for name, part in parts.items()
    }


def _find_varied(arms: Iterable[Arm]) -> set[tuple[str, str]]:
    """Stressors and keys with more than one value in a trial."""
    values: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for arm in arms:
        for name, part in arm.stressors.items():
            for key, value in part.as_dict().items():
                values[name, key].add(repr(value))
    return {place for place, seen in values.items() if len(seen) > 1}


def _format_settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items() if value is not None)


def checks_table(subject: SubjectResult) -> Table:
    """All checks of a subject."""
    rows = [
        [check.name, short(check.arm), PASSED[check.passed], check.message]
        for check in subject.checks
    ]
    raw = [check.as_dict() for check in subject.checks]
    headings = ("check", "arm", "", "observed")
    return make_table(f"{subject.subject}_checks", headings, rows, raw, words=(0, 1, 2, 3))


def primary_table(analysis: TrialAnalysis) -> Table:
    """The declared outcomes and their results."""
    rows, raw = [], []
    for subject in analysis.subjects:
        reference = short(subject.reference)
        for declared in analysis.declared:
            found = next((e for e in subject.effects if declared.is_of(e, reference)), None)
            outcome = f"{plain_name(declared.measure)}, {' − '.join(declared.pair(reference))}"
            unit = unit_of(declared.measure)
            reason = found.reason if found else "the subject is not informative"
            value, p = (found.estimate, found.p_holm) if found else (None, None)
            interval = found.interval if found else None
            rows.append(
                [
                    subject.subject,
                    outcome,
                    optional_cell(format_difference(value, interval, unit), value, reason),
                    optional_cell(p_value(p), p, reason),
                    _judge(found),
                ]
            )
            raw.append(
                {"subject": subject.subject, **declared.as_dict(),
                 **_split_interval({"estimate": value, "interval": interval, "p_holm": p})}
            )  # fmt: skip
    headings = ("subject", "declared outcome", "difference (95 % interval)", "Holm p", "result")
    return make_table("declared", headings, rows, raw, words=(0, 1, 4))


def _judge(effect: Effect | None) -> str:
    if effect is None or effect.p_holm is None:
        return "can't be tested"
    if not is_found(effect):
        return "no difference found"
    return "worse" if is_worse(effect) else "better"


def dose_table(
    subjects: Sequence[SubjectResult], arms: Mapping[str, Arm], injections: Mapping[str, int]
) -> Table | None:
    """The share of trials on which each stressor acted, or a sham added text, arm by arm."""

    def doses_in(arm: ArmResult) -> Mapping[str, float | None]:
        if not arms[arm.arm].sham:
            return arm.delivered
        texts = injections.get(arm.arm, 0)
        return {"neutral text": texts / arm.trials if arm.trials else None}

    doses = [
        {each.subject: doses_in(each.arms[place]) for each in subjects}
        for place in range(len(subjects[0].arms))
    ]
    what = dict.fromkeys(name for arm in doses for own in arm.values() for name in own)
    if not what:
        return None
    rows, raw = [], []
    for arm, by_subject in zip(subjects[0].arms, doses, strict=True):
        if not any(by_subject.values()):
            continue
        cells = [
            _format_dose({who: own.get(name) for who, own in by_subject.items()}) for name in what
        ]
        rows.append([short(arm.arm), *cells])
        raw += [
            {"subject": who, "arm": short(arm.arm), "what": name, "share": share}
            for who, own in by_subject.items()
            for name, share in own.items()
        ]
    return make_table("delivered", ("arm", *what), rows, raw)


def _format_dose(shares: Mapping[str, float | None]) -> Cell:
    """Format the share of trials, by subject if subjects differ."""
    if set(shares.values()) == {None}:
        return Dash("not part of this arm, or not recorded")
    if len(set(shares.values())) == 1:
        return percent(next(iter(shares.values())), 0)
    return ", ".join(f"{percent(share, 0)} ({who})" for who, share in shares.items())


def measures_table(subject: SubjectResult) -> Table:
    """Every measure that is defined in some arm, with intervals over scenarios."""
    measures = [
        name
        for name in subject.arms[0].measures
        if any(arm.measures[name].value is not None for arm in subject.arms)
    ]
    rows = []
    for name in measures:
        cells: list[Cell] = [plain_name(name), BETTER[is_harm(name)]]
        for arm in subject.arms:
            found = arm.measures[name]
            shown = format_estimate(found.value, found.interval, unit_of(name))
            cells.append(optional_cell(shown, found.value, find_measure(name).missing))
        rows.append(cells)
    for name, title, count in (
        ("trials_to_correction", "wrong beliefs never corrected", "corrections_censored"),
        ("narrative_coherence", "answers that contradict an earlier one", "contradictions"),
    ):
        if name in measures:
            cells, missing = [f"number of {title}", BETTER[True]], find_measure(name).missing
            for arm in subject.arms:
                found = arm.measures[name]
                shown = f"{getattr(arm, count):,} of {found.occasions:,}"
                cells.append(optional_cell(shown, found.value, missing))
            rows.append(cells)
    raw = [
        {"subject": subject.subject, "arm": arm.arm, "cell": arm.cell, "dose": arm.dose,
         "measure": name, **_split_interval(found.as_dict())}
        for arm in subject.arms
        for name, found in arm.measures.items()
    ]  # fmt: skip
    headings = ("measure", "better is", *(short(arm.arm) for arm in subject.arms))
    return make_table(f"{subject.subject}_measures", headings, rows, raw, words=(0, 1))


def _split_interval(row: dict[str, Any]) -> dict[str, Any]:
    """Replace the interval of a row with two columns."""
    low, high = row.pop("interval") or (None, None)
    return {**row, "low": low, "high": high}


def lag_table(subject: SubjectResult) -> Table | None:
    """Recall of earlier facts by how many trials ago they were stated; None if none was asked."""
    lags = sorted({point.lag for arm in subject.arms for point in arm.recall_by_lag})
    if not lags:
        return None
    whole = SHARE._replace(digits=0)
    rows, raw = [], []
    for arm in subject.arms:
        by_lag = {point.lag: point.recall for point in arm.recall_by_lag}
        cells = [
            f"{format_estimate(found.value, found.interval, whole)}, {found.occasions} asked"
            if (found := by_lag.get(lag))
            else Dash("no fact that old was asked for")
            for lag in lags
        ]
        rows.append([short(arm.arm), *cells])
        raw += [
            {"arm": arm.arm, "lag": lag, **_split_interval(found.as_dict())}
            for lag, found in by_lag.items()
        ]
    headings = ("arm", *(f"{lag} ago" for lag in lags))
    return make_table(f"{subject.subject}_recall_by_lag", headings, rows, raw)


def quarters_table(subject: SubjectResult) -> Table | None:
    """MCI, GFQ and DFS in each quarter of the sessions, and what stressors delivered there."""
    if not subject.quarters:
        return None
    rows, raw = [], []
    drifts = {(min(each.weights)[: -len(" q1")], each.measure): each for each in subject.drifts}
    followed = (
        (arm.arm, name, values)
        for arm in subject.arms
        for name, values in subject.quarters.get(arm.arm, {}).items()
    )
    for arm, name, values in followed:
        drift = drifts.get((arm, name))
        unit = INDEX if drift else SHARE
        missing = "no session has an occasion for it in this quarter"
        cells: list[Cell] = [short(arm), plain_name(name) if drift else f"{name} delivered"]
        for found in values:
            shown = format_estimate(found.value, found.interval, unit)
            cells.append(optional_cell(shown, found.value, missing))
        if drift is None:
            cells += [Dash("not compared"), Dash("not compared")]
        else:
            shown = format_difference(drift.estimate, drift.interval, INDEX)
            cells += [
                optional_cell(shown, drift.estimate, drift.reason or missing),
                optional_cell(p_value(drift.p_holm), drift.p_holm, drift.reason),
            ]
        rows.append(cells)
        numbers: dict[str, Any] = {"arm": arm, "name": name}
        for quarter, found in zip(QUARTERS, values, strict=True):
            own = _split_interval(found.as_dict())
            numbers |= {f"{quarter}_{key}": value for key, value in own.items()}
        if drift:
            numbers |= {"drift": drift.estimate, "p": drift.p, "p_holm": drift.p_holm}
        raw.append(numbers)
    headings = ("arm", "", "to 25 %", "to 50 %", "to 75 %", "to the end", "last − first", "Holm p")
    return make_table(f"{subject.subject}_quarters", headings, rows, raw, words=(0, 1))


def parts_table(subject: SubjectResult) -> Table:
    """MCI, GFQ and DFS with their parts and ceilings; the file adds the companions."""
    columns = {"mci": (*PARTS["mci"], "ceiling"), "gfq": PARTS["gfq"], "dfs": PARTS["dfs"]}
    headings = ["arm"]
    for metric, parts in columns.items():
        headings += [metric.upper(), *(part.upper() for part in parts)]
    rows, raw = [], []
    for arm, metrics in subject.metrics.items():
        why = metrics.undefined
        cells: list[Cell] = [arm]
        for metric, parts in columns.items():
            found = getattr(metrics, metric)
            shown = format_estimate(found.value, found.interval, INDEX)
            cells.append(
                optional_cell(shown, found.value, why.get(f"{metric}.value") or why.get(metric))
            )
            for part in parts:
                value = getattr(found, part)
                cells.append(optional_cell(number(value, 3), value, why.get(f"{metric}.{part}")))
        rows.append(cells)
        raw.append({"arm": arm, **dict(_flatten(metrics.as_dict()))})
    return make_table(f"{subject.subject}_metrics", headings, rows, raw)


def _flatten(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{before}{key}_")
        else:
            yield f"{before}{key}", value


def effect_table(name: str, effects: Sequence[Effect]) -> Table | None:
    """The listed effects of a family; the file has all measures."""
    rows = []
    for effect in (each for each in effects if is_listed(each)):
        unit = unit_of(effect.measure)
        shown = format_difference(effect.estimate, effect.interval, unit, effect.weights)
        rows.append(
            [
                effect.short_name,
                plain_name(effect.measure),
                optional_cell(shown, effect.estimate, effect.reason),
                optional_cell(p_value(effect.p), effect.p, effect.reason),
                optional_cell(p_value(effect.p_holm), effect.p_holm, effect.reason),
                f"{effect.units}",
            ]
        )
    if not rows:
        return None
    raw = [
        _split_interval(
            {
                **effect.as_dict(),
                "weights": " ".join(f"{arm}:{w:g}" for arm, w in effect.weights.items()),
                "about": " ".join(effect.about),
            }
        )
        for effect in effects
    ]
    headings = ("effect", "measure", "estimate (95 % interval)", "p", "Holm p", "scenarios")
    return make_table(name, headings, rows, raw, words=(0, 1))
