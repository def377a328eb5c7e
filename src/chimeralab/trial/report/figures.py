"""Every figure of a trial, drawn from its analysis subject by subject, and the same in words."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from chimeralab.core.numbers import between, number, p_phrase
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
from chimeralab.report.table import format_difference, format_estimate
from chimeralab.stats.effects import Effect, short
from chimeralab.trial.analysis import SubjectResult, TrialAnalysis
from chimeralab.trial.effects import HEADLINES, is_aimed, is_listed
from chimeralab.trial.measures import PARTS, find_measure
from chimeralab.trial.report.words import (
    INDEX,
    INDICES,
    effect_in_words,
    is_found,
    plain_name,
    unit_of,
)
from chimeralab.trial.script import Arm


def summary_figure(analysis: TrialAnalysis, arms: Mapping[str, Arm]) -> Figure | None:
    """What every arm does to MCI, GFQ and DFS, all subjects in one figure on one scale."""
    groups = [_summarised(subject, analysis, arms) for subject in analysis.subjects]
    if not any(rows for _, rows, _ in groups):
        return None
    said = []
    for subject, rows, _ in groups:
        for name, cells in rows.items():
            shown = [
                f"{index} {format_difference(cell.estimate, cell.interval, INDEX)}"
                + (", which stands out" if cell.found else "")
                for index, cell in cells.items()
            ]
            said.append(f"{subject}, {name}: {', '.join(shown)}")
    silent = [f"{subject}: {note}" for subject, _, note in groups if note]
    indices = {name.upper(): about for name, about in INDICES.items()}
    return draw(
        "summary",
        f"Differences in MCI, GFQ and DFS on one scale. {'; '.join([*said, *silent])}.",
        lambda width: summary(groups, indices, width=width),
        captions=[
            "Every comparison is made within scenarios; left of 0 is worse. Lines are 95 % "
            "intervals over scenarios. A filled mark with a thick line stands out after "
            "correction, a hollow one does not. "
            + ("Shaded: declared before the run." if analysis.declared else "")
        ],
    )


def _summarised(
    subject: SubjectResult, analysis: TrialAnalysis, arms: Mapping[str, Arm]
) -> SummaryGroup:
    """Each bare arm against the reference, and each countermeasure against its bare arm."""
    if not subject.informative:
        return subject.subject, {}, "not informative, so no effect is printed"
    helped = {name for name, arm in arms.items() if arm.countermeasure is not None}
    bare = [each for each in subject.contrasts if not helped & each.weights.keys()]
    # What mere disturbance does comes last: it is no weakness.
    bare.sort(key=lambda each: not each.about)
    rows: dict[str, dict[str, SummaryCell]] = {}
    usual = f" − {short(subject.reference)}"
    for effect in (*bare, *subject.countermeasures):
        cells = rows.setdefault(effect.short_name.removesuffix(usual), {})
        # A difference of one scenario alone would look like a finding.
        if effect.measure in INDICES and effect.estimate is not None and effect.units > 1:
            cells[effect.measure.upper()] = SummaryCell(
                effect.estimate, effect.interval, is_found(effect),
                bool(analysis.declared) and effect.role == "primary",
            )  # fmt: skip
    return f"{subject.subject}, against {short(subject.reference)}", rows, ""


def forests(name: str, effects: Sequence[Effect]) -> Iterator[Figure]:
    """One forest for each measure that is aimed at or declared; the summary has the indices."""
    known = [effect for effect in effects if effect.p is not None and is_listed(effect)]
    others = (effect.measure for effect in known if effect.measure not in HEADLINES)
    for measure in dict.fromkeys(others):
        unit, says = unit_of(measure), plain_name(measure)
        group = [effect for effect in known if effect.measure == measure]
        rows = []
        for each in group:
            # The axis has the unit: a phone has no room for it beside the numbers.
            shown = format_difference(each.estimate, each.interval, unit, bare=True)
            label = (each.short_name, f"{shown}, {p_phrase(each.p_holm)}")
            rows.append((label, each, None))
        chart = partial(forest, rows, f"difference: {says}", percent=unit.percent)
        parts = "; ".join(f"{effect.short_name}: {effect_in_words(effect)}" for effect in group)
        yield _titled(
            f"{name}_{measure}",
            says,
            f"Differences in {says}, with intervals over scenarios. {parts}.",
            chart,
        )


def dose_figures(subject: SubjectResult) -> Iterator[Figure]:
    """A curve for each dosed key and each measure that its stressor is aimed at."""
    for key in dict.fromkeys(arm.dosed for arm in subject.arms if arm.dosed):
        slopes = (effect for effect in subject.doses if effect.asked.dosed == key)
        for measure in (effect.measure for effect in slopes if is_aimed(effect)):
            doses = doses_of(subject, key, measure)
            if len(doses) < 2:
                continue
            unit, control = unit_of(measure), subject.arms[0].measures[measure].value
            said = [
                f"at {dose:g}, {format_estimate(value, interval, unit)}"
                for dose, value, interval in doses
            ]
            untouched = ""
            if control is not None:
                untouched = f" The control has {format_estimate(control, None, unit)}."
            says = find_measure(measure).says
            title = f"{says} over {key}"
            yield _titled(
                f"{subject.subject}_dose_{'_'.join(key.split('.'))}_{measure}",
                title,
                f"{title}: {'; '.join(said)}.{untouched}",
                partial(dose_response, doses, control, (key, says), percent=unit.percent),
            )


def doses_of(subject: SubjectResult, key: str, measure: str) -> list[Dose]:
    """What each dose did to a measure, from the smallest on; arms that say nothing are left out."""
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
            said = "; ".join(": ".join(label) for label, _, _, _ in rows)
            yield _titled(
                f"{subject.subject}_{metric}",
                title,
                f"{title} and its parts, arm by arm. {said}.",
                partial(metric_parts, rows, title),
            )


def _titled(name: str, title: str, label: str, chart: partial[Any]) -> Figure:
    headed = title[:1].upper() + title[1:]
    return draw(name, label, lambda width: chart(width=width), title=headed)
