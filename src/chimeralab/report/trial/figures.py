"""Every figure of a trial, subject by subject, drawn from its analysis."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from chimeralab.analysis.trial.analysis import SubjectResult
from chimeralab.analysis.trial.effects import Effect, is_aimed
from chimeralab.core.numbers import between, number
from chimeralab.report.charts.canvas import Label
from chimeralab.report.charts.contrasts import Effect as Bar
from chimeralab.report.charts.contrasts import forest
from chimeralab.report.charts.figure import Figure, draw
from chimeralab.report.charts.timeline import Chart
from chimeralab.report.charts.trial import Axes, Dose, Parts, dose_response, metric_parts
from chimeralab.report.trial.material import TrialMaterial
from chimeralab.report.trial.words import (
    FAMILIES,
    doses_in_words,
    effect_in_words,
    effects_in_words,
    parts_in_words,
    unit_of,
)
from chimeralab.sandbox.metrics import PARTS, Metrics


class Titled(NamedTuple):
    """A figure, and what stands over it."""

    title: str
    figure: Figure


def subject_figures(subject: SubjectResult, material: TrialMaterial) -> Iterator[Titled]:
    """All figures of one subject; none where it is not informative, since they would impress."""
    if not subject.informative:
        return
    metrics = material.of(subject)
    for metric in PARTS:
        if any(getattr(each, metric).value is not None for each in metrics.values()):
            drawn = parts_figure(f"{subject.subject}_{metric}", metric, metrics)
            yield Titled(metric.upper(), drawn)
    for family in (name for name in FAMILIES if name != "doses"):
        effects = [material.shortened(e, subject.subject) for e in getattr(subject, family)]
        yield from forests(f"{subject.subject}_{family}", effects)
    yield from dose_figures(subject)


def forests(name: str, effects: Sequence[Effect]) -> Iterator[Titled]:
    """A forest for each measure that the arms are aimed at."""
    # A difference of one scenario alone has no p, and a point would look like a finding.
    known = [effect for effect in effects if effect.p is not None and is_aimed(effect)]
    for measure in dict.fromkeys(effect.measure for effect in known):
        group = [effect for effect in known if effect.measure == measure]
        chart = partial(_forest, group)
        drawn = draw(f"{name}_{measure}", effects_in_words(group), _any_width(chart))
        yield Titled(_headed(unit_of(measure).name), drawn)


def _forest(effects: Sequence[Effect], *, width: int) -> Chart:
    unit = unit_of(effects[0].measure)
    bars = [
        Bar(Label(each.name, _numbers(each)), each.estimate, each.interval, None)
        for each in effects
    ]
    return forest(bars, f"difference: {unit.name}", percent=unit.percent, width=width)


def _numbers(effect: Effect) -> str:
    """The numbers without their unit, which the axis has: a phone has room for no more."""
    return effect_in_words(effect).replace(unit_of(effect.measure).difference, "")


def dose_figures(subject: SubjectResult) -> Iterator[Titled]:
    """A curve for each dosed key and each measure that its stressor is aimed at."""
    for key in dict.fromkeys(arm.dosed for arm in subject.arms if arm.dosed):
        for measure in aimed_at(subject, key):
            doses = doses_of(subject, key, measure)
            if len(doses) > 1:
                title = _headed(f"{unit_of(measure).name} over {key}")
                yield Titled(title, _dose_figure(subject, key, measure, doses))


def _dose_figure(subject: SubjectResult, key: str, measure: str, doses: Sequence[Dose]) -> Figure:
    unit, control = unit_of(measure), subject.arms[0].measures[measure].value
    chart = partial(dose_response, doses, control, Axes(key, unit.name, unit.percent))
    name = f"{subject.subject}_dose_{key.replace('.', '_')}_{measure}"
    return draw(
        name, doses_in_words(doses, control, Axes(key, unit.name, unit.percent)), _any_width(chart)
    )


def aimed_at(subject: SubjectResult, key: str) -> list[str]:
    """The measures that a dose is meant to move."""
    slopes = (effect for effect in subject.doses if effect.name == f"dose of {key}")
    return [effect.measure for effect in slopes if is_aimed(effect)]


def doses_of(subject: SubjectResult, key: str, measure: str) -> list[Dose]:
    """What each dose did to a measure, from the smallest on; arms that say nothing are left out."""
    failed = {check.arm for check in subject.checks if check.passed is False}
    found = [
        Dose(arm.dose, estimated.value, estimated.interval)
        for arm in subject.arms
        if arm.dose is not None
        and arm.dosed == key
        and arm.arm not in failed
        and (estimated := arm.measures[measure]).value is not None
    ]
    return sorted(found)


def parts_figure(name: str, metric: str, metrics: Mapping[str, Metrics]) -> Figure:
    """One metric with its parts, arm by arm."""
    rows = [_parts(arm, metric, found) for arm, found in metrics.items()]
    chart = partial(metric_parts, rows, metric.upper())
    return draw(name, parts_in_words(metric.upper(), rows), _any_width(chart))


def _parts(arm: str, metric: str, metrics: Metrics) -> Parts:
    found = getattr(metrics, metric)
    values = {part.upper(): getattr(found, part) for part in PARTS[metric]}
    known = {part: value for part, value in values.items() if value is not None}
    shown = ", ".join(f"{part} {number(value, 2)}" for part, value in values.items())
    numbers = f"{number(found.value, 3)} ({between(found.interval, 2)}): {shown}"
    return Parts(Label(arm, numbers), found.value, found.interval, known)


def _headed(title: str) -> str:
    return title[:1].upper() + title[1:]


def _any_width(chart: Callable[..., Chart]) -> Callable[[int], Chart]:
    return lambda width: chart(width=width)
