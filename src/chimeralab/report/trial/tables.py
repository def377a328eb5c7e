"""Tables of a trial: arms, checks, measures, parts of metrics, and every effect."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from chimeralab.analysis.trial.analysis import ArmResult, SubjectResult
from chimeralab.analysis.trial.effects import Effect, is_aimed
from chimeralab.analysis.trial.sessions import METRIC_NAMES, Estimated, LagPoint
from chimeralab.core.numbers import number, p_value
from chimeralab.report.numbers import SHARE, difference, estimate
from chimeralab.report.table import Dash, Shown, Table, known, table
from chimeralab.report.trial.material import TrialMaterial
from chimeralab.report.trial.words import FAMILIES, INDEX, unit_of
from chimeralab.sandbox.metrics import PARTS, Metrics
from chimeralab.sandbox.script import Arm

NO_OCCASION = "no trial of this arm gives an occasion for it"
PASSED = {True: "passed", False: "failed", None: "can't be told"}


def design_table(material: TrialMaterial) -> Table:
    """What is done to a subject under each arm, with every dose."""
    plan = material.plan
    arms = {material.short(name, plan.subjects[name]): arm for name, arm in plan.arms.items()}
    varied = _varied(plan.arms.values())
    rows = [[name, _cell(arm), _stress(arm, varied), _measure(arm)] for name, arm in arms.items()]
    keys = ("arm", "cell", "stressors", "countermeasure")
    raw = [dict(zip(keys, row, strict=True)) for row in rows]
    headings = ("arm", "cell", "stressors", "countermeasure")
    return table("design", headings, rows, raw, words=(0, 1, 2, 3))


def _cell(arm: Arm) -> str:
    return "sham" if arm.sham else arm.cell


def common_settings(material: TrialMaterial) -> dict[str, str]:
    """The settings of each stressor that are the same in all of its arms."""
    arms = material.plan.arms.values()
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


def _stress(arm: Arm, varied: set[tuple[str, str]]) -> str:
    if not arm.stressors:
        return "none"
    named = (_named(name, part.as_dict(), varied) for name, part in arm.stressors.items())
    return ("neutral text in the place of " if arm.sham else "") + ", ".join(named)


def _named(name: str, part: Mapping[str, Any], varied: set[tuple[str, str]]) -> str:
    own = _listed({key: value for key, value in part.items() if (name, key) in varied})
    return f"{name} ({own})" if own else name


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items())


def _measure(arm: Arm) -> str:
    return arm.against or "none"


def checks_table(subject: SubjectResult, material: TrialMaterial) -> Table:
    """Everything that has to hold before an effect is worth printing."""
    rows = [
        [
            check.name,
            material.short(check.arm, subject.subject),
            PASSED[check.passed],
            check.message,
        ]
        for check in subject.checks
    ]
    raw = [check.as_dict() for check in subject.checks]
    headings = ("check", "arm", "", "what was seen")
    return table(f"{subject.subject}_checks", headings, rows, raw, words=(0, 1, 2, 3))


def measures_table(subject: SubjectResult, material: TrialMaterial) -> Table:
    """Every measure that any arm has, arm by arm, with intervals over scenarios."""
    own = (name for name in subject.arms[0].measures if name not in METRIC_NAMES)
    names = [name for name in own if any(_has(arm, name) for arm in subject.arms)]
    rows = [
        [
            material.short(arm.arm, subject.subject),
            f"{arm.trials:,}",
            *(_value(arm.measures[name], name) for name in names),
            _never_mended(arm),
        ]
        for arm in subject.arms
    ]
    headings = (
        "arm",
        "trials",
        *(unit_of(name).name for name in names),
        "beliefs never mended",
    )
    raw = [row for arm in subject.arms for row in _raw_measures(subject.subject, arm)]
    return table(f"{subject.subject}_measures", headings, rows, raw)


def _has(arm: ArmResult, name: str) -> bool:
    return arm.measures[name].value is not None


def _value(found: Estimated, name: str) -> Shown:
    return known(estimate(found.value, found.interval, unit_of(name)), found.value, NO_OCCASION)


def _never_mended(arm: ArmResult) -> Shown:
    held = arm.measures["trials_to_correction"].value
    return known(f"{arm.corrections_censored:,}", held, "no wrong belief was held")


def _raw_measures(subject: str, arm: ArmResult) -> Iterator[dict[str, Any]]:
    about = {"subject": subject, "arm": arm.arm, "cell": arm.cell, "dose": arm.dose}
    for name, found in arm.measures.items():
        yield {**about, "measure": name, **_bounded(found.as_dict())}


def _bounded(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose interval is two columns."""
    low, high = row.pop("interval") or (None, None)
    return {**row, "low": low, "high": high}


def lag_table(subject: SubjectResult, material: TrialMaterial) -> Table | None:
    """Recall of earlier facts by how many trials ago they were told; None where none was asked."""
    lags = sorted({point.lag for arm in subject.arms for point in arm.recall_by_lag})
    if not lags:
        return None
    rows, raw = [], []
    for arm in subject.arms:
        points = {point.lag: point for point in arm.recall_by_lag}
        cells = [_lag_cell(points.get(lag)) for lag in lags]
        rows.append([material.short(arm.arm, subject.subject), *cells])
        raw += [
            {"arm": arm.arm, "lag": point.lag, **_bounded(point.recall.as_dict())}
            for point in arm.recall_by_lag
        ]
    headings = ("arm", *(f"{lag} ago" for lag in lags))
    return table(f"{subject.subject}_recall_by_lag", headings, rows, raw)


def _lag_cell(point: LagPoint | None) -> Shown:
    if point is None:
        return Dash("nothing told so long ago was asked for")
    found = point.recall
    shown = estimate(found.value, found.interval, SHARE._replace(digits=0))
    return f"{shown}, {found.occasions} asked"


def parts_table(subject: SubjectResult, material: TrialMaterial) -> Table:
    """MCI, GFQ and DFS as published, with their parts, ceilings and companions."""
    metrics = material.of(subject)
    columns = [("mci", *PARTS["mci"], "ceiling"), ("gfq", *PARTS["gfq"]), ("dfs", *PARTS["dfs"])]
    headings = ["arm"]
    for metric, *parts in columns:
        headings += [metric.upper(), *(part.upper() for part in parts)]
    rows = [
        [arm, *(cell for column in columns for cell in _part_cells(found, *column))]
        for arm, found in metrics.items()
    ]
    raw = [{"arm": arm, **dict(_flat(found.as_dict()))} for arm, found in metrics.items()]
    return table(f"{subject.subject}_metrics", headings, rows, raw)


def _part_cells(metrics: Metrics, metric: str, *parts: str) -> Iterator[Shown]:
    found = getattr(metrics, metric)
    reason = metrics.undefined.get(f"{metric}.value") or metrics.undefined.get(metric)
    yield known(estimate(found.value, found.interval, INDEX), found.value, reason)
    for part in parts:
        value = getattr(found, part)
        yield known(number(value, 3), value, metrics.undefined.get(f"{metric}.{part}"))


def _flat(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}_")
        else:
            yield f"{before}{key}", value


def effect_tables(subject: SubjectResult, material: TrialMaterial) -> Iterator[Table]:
    """The effects of each family on what they are aimed at; the files hold all measures."""
    for family in FAMILIES:
        effects = getattr(subject, family)
        aimed = [material.shortened(e, subject.subject) for e in effects if is_aimed(e)]
        if aimed:
            name = f"{subject.subject}_{family}"
            raw = [_raw_effect(effect) for effect in effects]
            headings = ("effect", "measure", "estimate (95 % interval)", "p", "p Holm", "scenarios")
            yield table(name, headings, list(map(_effect, aimed)), raw, words=(0, 1))


def _effect(effect: Effect) -> Sequence[Shown]:
    unit = unit_of(effect.measure)
    shown = difference(effect.estimate, effect.interval, unit)
    return [
        effect.name,
        unit.name,
        known(shown, effect.estimate, effect.reason),
        known(p_value(effect.p), effect.p, effect.reason),
        known(p_value(effect.p_holm), effect.p_holm, effect.reason),
        f"{effect.scenarios}",
    ]


def _raw_effect(effect: Effect) -> dict[str, Any]:
    weights = " ".join(f"{arm}:{weight:g}" for arm, weight in effect.weights.items())
    about = " ".join(effect.about)
    return _bounded({**effect.as_dict(), "weights": weights, "about": about})
