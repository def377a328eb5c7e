"""The report of a trial: checks first, then what each arm does, and sessions as they went."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from chimeralab.analysis.trial.analysis import SubjectResult
from chimeralab.core.numbers import counted
from chimeralab.report.pages import render
from chimeralab.report.selfplay.asked import deviations, locked, order
from chimeralab.report.selfplay.figures import flow_figure
from chimeralab.report.selfplay.flow import flow_table
from chimeralab.report.selfplay.page import Report
from chimeralab.report.table import Table
from chimeralab.report.trial import tables
from chimeralab.report.trial.figures import Titled, subject_figures
from chimeralab.report.trial.flow import trial_flow
from chimeralab.report.trial.material import TrialMaterial
from chimeralab.report.trial.methods import trial_methods
from chimeralab.report.trial.session import ShownSession, example_sessions
from chimeralab.report.trial.words import FAMILIES, OUTSIDE, few_scenarios, glance, slopes
from chimeralab.report.versions import models, software
from chimeralab.report.words import Fact

# A subject that can't be read fails in every arm; a few of them make the point.
MOST_REASONS = 5


class SubjectPart(NamedTuple):
    """What the page shows of one subject; figures and tables go by what follows its name."""

    result: SubjectResult
    reasons: Sequence[str]
    figures: Mapping[str, Titled]
    tables: Mapping[str, Table]
    slopes: Sequence[str]
    sessions: Sequence[ShownSession]

    def drawn(self, family: str) -> list[Titled]:
        """The figures of one family, one a measure."""
        return [drawn for name, drawn in self.figures.items() if name.startswith(f"{family}_")]


def make_trial_report(material: TrialMaterial) -> Report:
    """Draw every figure, set every table, and put them on one page."""
    flows, said = trial_flow(material), glance(material)
    parts = [_part(subject, material) for subject in material.analysis.subjects]
    figures = {"flow": flow_figure(flows)}
    shared = (flow_table(flows), tables.design_table(material), software(material.study))
    own = {each.name: each for each in (*shared, models(material.study))}
    page = render(
        "trial.html",
        plan=material.study.plan,
        lock=material.lock,
        glance=said,
        few_scenarios=few_scenarios(material),
        facts=list(_facts(material)),
        verification=material.verification,
        deviations=deviations(material.verification),
        figures=figures,
        tables=own,
        parts=parts,
        families=FAMILIES,
        most_reasons=MOST_REASONS,
        outside=OUTSIDE,
        methods=trial_methods(material),
        not_shown=list(_not_shown(material, parts)),
        counted=counted,
    )
    pictures = [drawn.figure for part in parts for drawn in part.figures.values()]
    sheets = [sheet for part in parts for sheet in part.tables.values()]
    return Report(page, [*figures.values(), *pictures], [*own.values(), *sheets], said)


def _part(subject: SubjectResult, material: TrialMaterial) -> SubjectPart:
    name = subject.subject
    return SubjectPart(
        result=subject,
        reasons=[material.short(reason, name) for reason in subject.reasons],
        figures={_after(f.figure.name, name): f for f in subject_figures(subject, material)},
        tables={_after(t.name, name): t for t in _tables(subject, material)},
        slopes=list(slopes(subject)),
        sessions=example_sessions(material, name),
    )


def _after(name: str, subject: str) -> str:
    return name.removeprefix(f"{subject}_")


def _tables(subject: SubjectResult, material: TrialMaterial) -> Iterator[Table]:
    yield tables.checks_table(subject, material)
    yield tables.measures_table(subject, material)
    yield tables.parts_table(subject, material)
    by_lag = tables.lag_table(subject, material)
    if by_lag:
        yield by_lag
    yield from tables.effect_tables(subject, material)


def _facts(material: TrialMaterial) -> Iterator[Fact]:
    """The head of the report: lock, design, scenarios, probes."""
    plan, trial = material.study.plan, material.plan
    yield locked(material.lock)
    yield Fact("Design", f"{material.design}, {counted(plan.conversation.turns, 'trial')} each")
    yield order(plan, "arm")
    first, last = trial.courses[0].id, trial.courses[-1].id
    yield Fact("Scenarios", f"{trial.scenarios.use}, {first} to {last}; the lock holds every word")
    for name, settings in tables.common_settings(material).items():
        yield Fact(name.capitalize(), settings)
    yield Fact("Asked aside", ", ".join(trial.probes) or "nothing")


def _not_shown(material: TrialMaterial, parts: Sequence[SubjectPart]) -> Iterator[str]:
    """What a reader might look for here in vain."""
    hidden = material.analysis.sessions - sum(len(part.sessions) for part in parts)
    if hidden > 0:
        yield f"{counted(hidden, 'other session')}; `chimera export` writes all of them"
    for part in parts:
        if not part.result.informative:
            yield f"any effect on {part.result.subject}, which failed its checks"
    yield "effects on measures that an arm is not aimed at; the tables beside this page hold them"
    yield "corrections for looking at several measures: Holm's correction is within one measure"
