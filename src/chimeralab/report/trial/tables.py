"""Tables of a trial: arms, checks, measures, parts of metrics, and every effect."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from chimeralab.analysis.contrasts import Effect, short
from chimeralab.analysis.trial.analysis import ArmResult, SubjectResult
from chimeralab.analysis.trial.effects import Estimated, is_listed
from chimeralab.analysis.trial.measures import METRICS, NO_WRONG_BELIEF, words_of
from chimeralab.core.numbers import number, p_value
from chimeralab.report.table import (
    SHARE,
    Dash,
    Shown,
    Table,
    difference,
    estimate,
    known,
    table,
)
from chimeralab.report.trial.material import TrialMaterial
from chimeralab.report.trial.words import INDEX, unit_of
from chimeralab.sandbox.metrics import PARTS
from chimeralab.sandbox.script import Arm
from chimeralab.sandbox.stressors.sham import SHAM

PASSED = {True: "passed", False: "failed", None: "unknown"}


def design_table(material: TrialMaterial) -> Table:
    """What is done to a subject under each arm, with every dose."""
    plan = material.plan
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
    return table("design", keys, rows, raw, words=(0, 1, 2, 3))


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


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items())


def checks_table(subject: SubjectResult, material: TrialMaterial) -> Table:
    """Everything that has to hold before an effect is worth printing."""
    rows = [
        [
            check.name,
            short(check.arm),
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
    names = [
        name
        for name in subject.arms[0].measures
        if name not in METRICS and any(arm.measures[name].value is not None for arm in subject.arms)
    ]
    rows, raw = [], []
    for arm in subject.arms:
        cells: list[Shown] = [short(arm.arm), f"{arm.trials:,}", _dose(arm)]
        for name in names:
            found = arm.measures[name]
            shown = estimate(found.value, found.interval, unit_of(name))
            cells.append(known(shown, found.value, words_of(name).missing))
        held = arm.measures["trials_to_correction"].value
        never = known(f"{arm.corrections_censored:,}", held, NO_WRONG_BELIEF)
        rows.append([*cells, never])
        about = {"subject": subject.subject, "arm": arm.arm, "cell": arm.cell, "dose": arm.dose}
        raw += [
            {**about, "measure": f"delivered.{name}", **_bounded(_exact(share, arm).as_dict())}
            for name, share in arm.delivered.items()
        ]
        raw += [
            {**about, "measure": name, **_bounded(found.as_dict())}
            for name, found in arm.measures.items()
        ]
    named = (words_of(name).says for name in names)
    headings = ("arm", "trials", "dose delivered", *named, "beliefs never corrected")
    return table(f"{subject.subject}_measures", headings, rows, raw, words=(0, 2))


def _exact(share: float | None, arm: ArmResult) -> Estimated:
    """A share of an arm's trials that is on record, and not estimated."""
    return Estimated(share, None, arm.trials)


def _dose(arm: ArmResult) -> Shown:
    """The share of trials at which each stressor of an arm did its work."""
    if not arm.delivered:
        return Dash("no stressor acts in this arm")
    return ", ".join(
        f"{name} {'unknown' if share is None else f'{share:.0%}'}"
        for name, share in arm.delivered.items()
    )


def _bounded(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose interval is two columns."""
    low, high = row.pop("interval") or (None, None)
    return {**row, "low": low, "high": high}


def lag_table(subject: SubjectResult, material: TrialMaterial) -> Table | None:
    """Recall of earlier facts by how many trials ago they were told; None where none was asked."""
    lags = sorted({point.lag for arm in subject.arms for point in arm.recall_by_lag})
    if not lags:
        return None
    whole = SHARE._replace(digits=0)
    rows, raw = [], []
    for arm in subject.arms:
        told = {point.lag: point.recall for point in arm.recall_by_lag}
        cells = [
            f"{estimate(found.value, found.interval, whole)}, {found.occasions} asked"
            if (found := told.get(lag))
            else Dash("nothing told so long ago was asked for")
            for lag in lags
        ]
        rows.append([short(arm.arm), *cells])
        raw += [
            {"arm": arm.arm, "lag": lag, **_bounded(found.as_dict())} for lag, found in told.items()
        ]
    headings = ("arm", *(f"{lag} ago" for lag in lags))
    return table(f"{subject.subject}_recall_by_lag", headings, rows, raw)


def parts_table(subject: SubjectResult, material: TrialMaterial) -> Table:
    """MCI, GFQ and DFS as published, with their parts, ceilings and companions."""
    columns = {"mci": (*PARTS["mci"], "ceiling"), "gfq": PARTS["gfq"], "dfs": PARTS["dfs"]}
    headings = ["arm"]
    for metric, parts in columns.items():
        headings += [metric.upper(), *(part.upper() for part in parts)]
    rows, raw = [], []
    for arm, metrics in material.of(subject).items():
        why = metrics.undefined
        cells: list[Shown] = [arm]
        for metric, parts in columns.items():
            found = getattr(metrics, metric)
            shown = estimate(found.value, found.interval, INDEX)
            cells.append(known(shown, found.value, why.get(f"{metric}.value") or why.get(metric)))
            for part in parts:
                value = getattr(found, part)
                cells.append(known(number(value, 3), value, why.get(f"{metric}.{part}")))
        rows.append(cells)
        raw.append({"arm": arm, **dict(_flat(metrics.as_dict()))})
    return table(f"{subject.subject}_metrics", headings, rows, raw)


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
        shown = difference(effect.estimate, effect.interval, unit)
        rows.append(
            [
                effect.short_name,
                words_of(effect.measure).says,
                known(shown, effect.estimate, effect.reason),
                known(p_value(effect.p), effect.p, effect.reason),
                known(p_value(effect.p_holm), effect.p_holm, effect.reason),
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
    return table(name, headings, rows, raw, words=(0, 1))
