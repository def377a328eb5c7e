"""Tables of a trial: arms, checks, measures, parts of metrics, and every effect."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from chimeralab.core.numbers import number, p_value, percent
from chimeralab.report.table import (
    SHARE,
    Cell,
    Dash,
    Table,
    format_difference,
    format_estimate,
    make_table,
    optional_cell,
)
from chimeralab.stats.effects import Effect, short
from chimeralab.trial.analysis import ArmResult, SubjectResult, TrialAnalysis
from chimeralab.trial.effects import is_listed
from chimeralab.trial.measures import PARTS, find_measure
from chimeralab.trial.plan import TrialPlan
from chimeralab.trial.report.words import (
    INDEX,
    is_harm,
    outcome_in_words,
    plain_name,
    unit_of,
)
from chimeralab.trial.script import Arm
from chimeralab.trial.stressors import SHAM

BETTER = {True: "less", False: "more"}
PASSED = {True: "passed", False: "failed", None: "unknown"}


def design_table(plan: TrialPlan) -> Table:
    """What is done to a subject under each arm, with every dose."""
    arms = {short(name): arm for name, arm in plan.arms.items()}
    varied = _varied(plan.arms.values())
    rows = []
    for name, arm in arms.items():
        named = []
        for stressor, part in arm.stressors.items():
            settings = part.as_dict().items()
            own = _listed({key: value for key, value in settings if (stressor, key) in varied})
            named.append(f"{stressor} ({own})" if own else stressor)
        stress = ("neutral text in the place of " if arm.sham else "") + ", ".join(named)
        cell = SHAM if arm.sham else arm.cell
        rows.append([name, cell, stress or "none", arm.against or "none"])
    keys = ("arm", "cell", "stressors", "countermeasure")
    raw = [dict(zip(keys, row, strict=True)) for row in rows]
    return make_table("design", keys, rows, raw, words=(0, 1, 2, 3))


def common_settings(plan: TrialPlan) -> dict[str, str]:
    """The settings of each stressor that are the same in all of its arms."""
    arms = plan.arms.values()
    varied = _varied(arms)
    parts = {name: part.as_dict() for arm in arms for name, part in arm.stressors.items()}
    return {
        name: _listed({key: value for key, value in part.items() if (name, key) not in varied})
        for name, part in parts.items()
    }


def _varied(arms: Iterable[Arm]) -> set[tuple[str, str]]:
    """Stressors and keys that have more than one value in a trial."""
    values: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for arm in arms:
        for name, part in arm.stressors.items():
            for key, value in part.as_dict().items():
                values[name, key].add(repr(value))
    return {place for place, seen in values.items() if len(seen) > 1}


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items())


def checks_table(subject: SubjectResult) -> Table:
    """Everything that has to hold before an effect is worth printing."""
    rows = [
        [check.name, short(check.arm), PASSED[check.passed], check.message]
        for check in subject.checks
    ]
    raw = [check.as_dict() for check in subject.checks]
    headings = ("check", "arm", "", "what was seen")
    return make_table(f"{subject.subject}_checks", headings, rows, raw, words=(0, 1, 2, 3))


def declared_table(analysis: TrialAnalysis) -> Table:
    """What the trial was run for, as declared before it, and what came of it."""
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
                    outcome_in_words(found),
                ]
            )
            raw.append(
                {"subject": subject.subject, **declared.as_dict(),
                 **_bounded({"estimate": value, "interval": interval, "p_holm": p})}
            )  # fmt: skip
    headings = ("subject", "declared outcome", "difference (95 % interval)", "Holm p", "result")
    return make_table("declared", headings, rows, raw, words=(0, 1, 4))


def dose_table(
    subjects: Sequence[SubjectResult], arms: Mapping[str, Arm], injections: Mapping[str, int]
) -> Table | None:
    """How much of each stressor arrived, arm by arm, and how much neutral text under a sham."""

    def delivered(arm: ArmResult) -> Mapping[str, float | None]:
        """The share of an arm's trials at which each stressor did its work, or a sham said a
        word."""
        if not arms[arm.arm].sham:
            return arm.delivered
        said = injections.get(arm.arm, 0)
        return {"neutral text": said / arm.trials if arm.trials else None}

    doses = [
        {each.subject: delivered(each.arms[place]) for each in subjects}
        for place in range(len(subjects[0].arms))
    ]
    what = dict.fromkeys(name for arm in doses for own in arm.values() for name in own)
    if not what:
        return None
    rows, raw = [], []
    for arm, by_subject in zip(subjects[0].arms, doses, strict=True):
        if not any(by_subject.values()):
            continue
        cells = [_dose({who: own.get(name) for who, own in by_subject.items()}) for name in what]
        rows.append([short(arm.arm), *cells])
        raw += [
            {"subject": who, "arm": short(arm.arm), "what": name, "share": share}
            for who, own in by_subject.items()
            for name, share in own.items()
        ]
    return make_table("delivered", ("arm", *what), rows, raw)


def _dose(shares: Mapping[str, float | None]) -> Cell:
    """A share of trials that is the same for all subjects, or each with its subject."""
    if set(shares.values()) == {None}:
        return Dash("not part of this arm, or nothing on record tells")
    if len(set(shares.values())) == 1:
        return percent(next(iter(shares.values())), 0)
    return ", ".join(f"{percent(share, 0)} ({who})" for who, share in shares.items())


def measures_table(subject: SubjectResult) -> Table:
    """Every measure that any arm has, by its plain name, with intervals over scenarios."""
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
    never: list[Cell] = ["wrong beliefs that were never corrected, counted", BETTER[True]]
    for arm in subject.arms:
        held = arm.measures["trials_to_correction"].value
        missing = find_measure("trials_to_correction").missing
        never.append(optional_cell(f"{arm.corrections_censored:,}", held, missing))
    if "trials_to_correction" in measures:
        rows.append(never)
    raw = [
        {"subject": subject.subject, "arm": arm.arm, "cell": arm.cell, "dose": arm.dose,
         "measure": name, **_bounded(found.as_dict())}
        for arm in subject.arms
        for name, found in arm.measures.items()
    ]  # fmt: skip
    headings = ("measure", "better is", *(short(arm.arm) for arm in subject.arms))
    return make_table(f"{subject.subject}_measures", headings, rows, raw, words=(0, 1))


def _bounded(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose interval is two columns."""
    low, high = row.pop("interval") or (None, None)
    return {**row, "low": low, "high": high}


def lag_table(subject: SubjectResult) -> Table | None:
    """Recall of earlier facts by how many trials ago they were told; None where none was asked."""
    lags = sorted({point.lag for arm in subject.arms for point in arm.recall_by_lag})
    if not lags:
        return None
    whole = SHARE._replace(digits=0)
    rows, raw = [], []
    for arm in subject.arms:
        told = {point.lag: point.recall for point in arm.recall_by_lag}
        cells = [
            f"{format_estimate(found.value, found.interval, whole)}, {found.occasions} asked"
            if (found := told.get(lag))
            else Dash("nothing told so long ago was asked for")
            for lag in lags
        ]
        rows.append([short(arm.arm), *cells])
        raw += [
            {"arm": arm.arm, "lag": lag, **_bounded(found.as_dict())} for lag, found in told.items()
        ]
    headings = ("arm", *(f"{lag} ago" for lag in lags))
    return make_table(f"{subject.subject}_recall_by_lag", headings, rows, raw)


def parts_table(subject: SubjectResult) -> Table:
    """MCI, GFQ and DFS as published, with their parts, ceilings and companions."""
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
        raw.append({"arm": arm, **dict(_flat(metrics.as_dict()))})
    return make_table(f"{subject.subject}_metrics", headings, rows, raw)


def _flat(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}_")
        else:
            yield f"{before}{key}", value


def effect_table(name: str, effects: Sequence[Effect]) -> Table | None:
    """The effects of a family on what they are aimed at; the file holds all measures."""
    rows = []
    for effect in (each for each in effects if is_listed(each)):
        unit = unit_of(effect.measure)
        shown = format_difference(effect.estimate, effect.interval, unit)
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
        _bounded(
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
