"""The report of a trial: checks first, then what each arm does, and sessions as they went."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import counted
from chimeralab.report.frame import Frame, Report, common_facts, make_page, software
from chimeralab.report.named_numbers import entries_of, named
from chimeralab.report.page import (
    Block,
    Box,
    Bullets,
    Folded,
    HeadFact,
    Heading,
    Paragraph,
    Section,
    every,
    strong,
)
from chimeralab.stats.effects import short
from chimeralab.study import Study
from chimeralab.study.estimates import Estimates
from chimeralab.study.store import Archive, Row
from chimeralab.trial.analysis import SubjectResult
from chimeralab.trial.report import tables
from chimeralab.trial.report.figures import (
    dose_figures,
    forests,
    parts_figures,
    summary_figure,
)
from chimeralab.trial.report.material import TrialMaterial, gather_trial, trial_flow
from chimeralab.trial.report.words import (
    OUTSIDE,
    few_scenarios,
    findings,
    how_sure,
    slopes,
    stressors_in_words,
    trial_methods,
)
from chimeralab.trial.rows import outside_code
from chimeralab.trial.scene import Injection
from chimeralab.trial.script import Script
from chimeralab.trial.stressors import SHAM

# A subject that can't be read fails in every arm; a few of them make the point.
MOST_REASONS = 5
MOST_TRIALS = 16
VERDICTS = {1: "right", 0: "wrong", None: "can't be read"}
DONE = {"removed": "Removed from memory", "altered": "Altered in memory"}


class EffectFamily(NamedTuple):
    """Effects that are asked and corrected together: their field, a title, and how to read them."""

    field: str
    title: str
    lead: str


FAMILIES = (
    EffectFamily(
        "contrasts",
        "Each arm against the reference",
        "Each arm minus {reference} on the same scenarios: left of 0 there is less of it, right of "
        "0 more. Lines are 95 % intervals over scenarios; p is Holm-corrected over all effects of "
        "its role, primary or exploratory.",
    ),
    EffectFamily(
        "factorial",
        "Main effects and interactions",
        "A main effect is what a stressor does on average over the others. An interaction (×) is "
        "how much more, or less, two do together than they add up to; with three, how much that "
        "changes under the third.",
    ),
    EffectFamily(
        "doses",
        "Slopes over the dose",
        "What more of a stressor does, with 95 % intervals over scenarios. Dashed: the untouched "
        "control.",
    ),
    EffectFamily(
        "countermeasures",
        "What helps",
        "The same stressor with a countermeasure minus without.",
    ),
)


def report_trial(study: Study, tell: Callable[[str], None], estimates: Estimates) -> Report:
    """Analyse and draw a trial."""
    material = gather_trial(study, tell, estimates)
    tell("drawing")
    return make_trial_report(material)


def make_trial_report(material: TrialMaterial) -> Report:
    """Draw every figure, set every table, and put them on one page."""
    found = findings(material)
    subjects = [
        Section(f"subject-{number}", "Subject:", list(_subject(subject, material)), subject.subject)
        for number, subject in enumerate(material.analysis.subjects, start=1)
    ]
    outside = [
        Bullets(OUTSIDE),
        Paragraph(
            "Other questions, other forms of pressure: an order of magnitude, not a bar.", "note"
        ),
    ]
    control = (
        "The control, cell 000, is untouched. Sham puts neutral text of equal length wherever one "
        "of the stressors, at the settings above, would have stepped in: it disturbs as much as "
        "all of them together."
    )
    return make_page(
        Frame(
            kind="trial",
            study=material.study,
            lock=material.lock,
            verification=material.verification,
            glance=tuple(map(str, found)),
            verdicts=[
                Paragraph(strong(each.verdict, after=f" {each.detail}"), "finding")
                for each in found
            ],
            remarks=[how_sure(material), few_scenarios(material)],
            first=[Section("summary", "What each arm does", list(_summary(material)))],
            facts=list(facts(material)),
            design=[tables.design_table(material), Paragraph(control, "note")],
            flow=trial_flow(material),
            flow_note=(
                "What became of the planned sessions, all arms of a subject together. Sessions "
                "that were cut short are left out: they answer other questions than whole ones."
            ),
            results=[*subjects, Section("outside", "Numbers to stand next to", outside)],
            methods=trial_methods(material),
            software=software(material.study),
            not_shown=list(_not_shown(material, subjects)),
            numbers=named(entries_of(material.study, material.analysis)),
        )
    )


def _summary(material: TrialMaterial) -> Iterator[Block]:
    """What a reader looks for first: one figure, what was declared, and what was delivered."""
    figure = summary_figure(material)
    if figure:
        yield Paragraph(stressors_in_words(material))
        yield figure
    else:
        yield Paragraph("No effect can be shown; the subjects below say why.")
    yield Heading("What was declared before the run")
    if material.analysis.declared:
        yield tables.declared_table(material)
    else:
        yield Paragraph(
            "Nothing: the plan has no [[outcomes.primary]]. Every effect on what a stressor is "
            "aimed at counts as primary, and all of them are corrected together."
        )
    doses = tables.dose_table(material)
    if doses:
        yield Heading("What was delivered")
        yield Paragraph("At which share of an arm's trials its stressor did its work.")
        yield doses


def facts(material: TrialMaterial) -> Iterator[HeadFact]:
    """The head of the report: lock, design, scenarios, probes."""
    plan, trial = material.study.plan, material.plan
    design = f"{material.design}, {counted(plan.conversation.turns, 'trial')} each"
    yield from common_facts(material.study, material.lock, design, "arm")
    first, last = trial.courses[0].id, trial.courses[-1].id
    scenarios = f"{trial.scenarios.use}, {first} to {last}; the lock holds every word"
    yield HeadFact("Scenarios", scenarios)
    for name, settings in tables.common_settings(material).items():
        yield HeadFact(name.capitalize(), settings)
    yield HeadFact("Asked in a fork", ", ".join(trial.probes) or "nothing")


def _subject(subject: SubjectResult, material: TrialMaterial) -> Iterator[Block]:
    """One subject: can it be judged, what each arm did, how it did, and sessions."""
    yield _verdict(subject, material)
    yield Folded("All checks", [tables.checks_table(subject, material)])
    if subject.informative:
        for family in FAMILIES:
            yield from _effects(subject, material, family)
    yield Heading("Three metrics and their parts")
    if not subject.informative:
        yield Paragraph(
            "Of what could be read and judged, and therefore of no weight. They are kept for those "
            "who look for the fault."
        )
    yield Paragraph(
        "MCI: memory (RF right answers, CI steadiness of confidence, CB right answers by how much "
        "context they need). GFQ: new combinations (TA right answers, CTA weighted by confidence). "
        "DFS: independence of framing and signals (FI same answer with and without, BR resistance)."
    )
    if subject.informative:
        # Figures of a subject that can't be judged would impress.
        yield Folded("Drawn: each metric with its parts", list(parts_figures(subject, material)))
    ceilings = (
        "A metric can't exceed its ceiling: MCI reaches 1 only where every question needs all of "
        "its context. An agent that is always wrong at constant confidence still gets an MCI of "
        "0.30."
    )
    metrics = tables.parts_table(subject, material)
    yield Folded("As a table, with ceilings", [metrics, Paragraph(ceilings, "note")])
    yield Folded(
        "Every measure by its plain name, arm by arm", [tables.measures_table(subject, material)]
    )
    by_lag = tables.lag_table(subject, material)
    if by_lag:
        yield Folded("Recall by how many trials ago a fact was told", [by_lag])
    sessions = example_sessions(material, subject.subject)
    if sessions:
        yield Heading("Sessions as they went")
        yield Paragraph(
            "What a stressor put in is marked where it stood; what it took away or altered stands "
            "above the message."
        )
    for session in sessions:
        yield Folded(f"{session.arm}: {session.id}", [session], "session")


def _verdict(subject: SubjectResult, material: TrialMaterial) -> Box:
    """Whether the subject can be judged, and which arms say nothing."""
    blocks: list[Block] = [Paragraph("Not informative, so no effect is printed", "lead")]
    if subject.informative:
        message = subject.checks[0].message
        passed = f"{message[:1].upper()}{message[1:]}."
        blocks = [
            Paragraph("Informative", "lead"),
            Paragraph(passed),
        ]
    reasons = subject.short_reasons
    if reasons:
        lead = "These arms say nothing:" if subject.informative else "Checks that failed:"
        more = len(reasons) - MOST_REASONS
        rest = [f"and {more} more, see all checks"] if more > 0 else []
        blocks += [Paragraph(lead), Bullets([*reasons[:MOST_REASONS], *rest], "plain")]
    return Box(blocks, "" if subject.informative else "silent")


def _effects(
    subject: SubjectResult, material: TrialMaterial, family: EffectFamily
) -> Iterator[Block]:
    """One family of effects: forests, or curves over doses, and the table."""
    effects = getattr(subject, family.field)
    name = f"{subject.subject}_{family.field}"
    sheet = tables.effect_table(name, effects)
    if sheet is None:
        return
    yield Heading(family.title)
    yield Paragraph(family.lead.format(reference=short(subject.reference)))
    if family.field == "doses":
        yield Bullets(list(slopes(subject)))
        drawn, kind = list(dose_figures(subject)), "curve"
    else:
        drawn, kind = list(forests(name, effects)), "forest"
    if drawn:
        yield Folded(f"Drawn: {counted(len(drawn), kind)}", drawn)
    yield Folded("As a table", [sheet])


def _not_shown(material: TrialMaterial, sections: Sequence[Section]) -> Iterator[str]:
    """What a reader might look for here in vain."""
    hidden = material.analysis.sessions - len(list(every(ShownSession, sections)))
    if hidden > 0:
        yield f"{counted(hidden, 'other session')}; `chimera export` writes all of them"
    for subject in material.analysis.subjects:
        if not subject.informative:
            yield f"any effect on {subject.subject}, which failed its checks"
    yield "effects on measures that an arm is not aimed at; the tables beside this page hold them"


class ShownLine(NamedTuple):
    """A line of what the subject was shown; `by` names the stressor that put it there."""

    text: str
    by: str | None = None


class Disturbance(NamedTuple):
    """Something done to an earlier episode: what, to which trial, and both versions."""

    what: str
    trial: int
    text: str
    instead: str | None


class ShownTrial(NamedTuple):
    """One trial: disturbances first, then the message, then the answer and whether it is right."""

    number: int
    disturbances: Sequence[Disturbance]
    lines: Sequence[ShownLine]
    answer: str
    verdict: str
    truth: str


class ShownSession(NamedTuple):
    """The first trials of a session; `left_out` more are in the study."""

    id: str
    arm: str
    trials: Sequence[ShownTrial]
    left_out: int


def example_sessions(material: TrialMaterial, subject: str) -> list[ShownSession]:
    """One session of every stressor alone, and one of sham."""
    wanted: dict[str, str] = {}
    for name, arm in material.plan.arms.items():
        bare = arm.countermeasure is None
        alone = bare and (len(arm.stressors) == 1 or arm.sham)
        if material.plan.subjects[name] == subject and alone and name in material.injections:
            # Of several doses the last is the strongest, and shows most.
            wanted[SHAM if arm.sham else next(iter(arm.stressors))] = name
    with material.study.archive() as archive:
        found = [
            (row["id"], name) for name in wanted.values() for row in archive.rows(_FIRST, name)
        ]
    return [show_session(material.study, session, short(name)) for session, name in found]


# A session in which something was done, the first of them that was answered.
_FIRST = """
    SELECT t.id FROM trajectories t WHERE t.condition = ?
    AND EXISTS (SELECT 1 FROM events e WHERE e.trajectory = t.id)
    AND EXISTS (SELECT 1 FROM trials r WHERE r.trajectory = t.id) ORDER BY t.position LIMIT 1
"""


def show_session(study: Study, session: str, arm: str, most: int = MOST_TRIALS) -> ShownSession:
    """The first trials of a session, every injection in its place."""
    talk = next((talk for talk in study.talks if talk.id == session), None)
    if talk is None or talk.script is None:
        raise InputError(f"{study.path} has no session {session!r}")
    with study.archive() as archive:
        answers = [turn["text"] for turn in archive.turns(session)]
        rows = list(archive.rows(_TRIALS, session))
        shown = [_trial(row, talk.script, answers, archive) for row in rows[:most]]
    return ShownSession(session, arm, shown, len(rows) - len(shown))


_TRIALS = "SELECT trajectory, trial, correct, truth FROM trials WHERE trajectory = ? ORDER BY trial"
_PROBED = "SELECT probe, text FROM probes WHERE trajectory = ? AND turn = ?"
_EVENTS = "SELECT kind, detail FROM events WHERE trajectory = ? AND turn = ? ORDER BY id"


def _trial(row: Row, script: Script, answers: Sequence[str], archive: Archive) -> ShownTrial:
    session, turn = row["trajectory"], row["trial"]
    probed = {reply["probe"]: reply["text"] for reply in archive.rows(_PROBED, session, turn)}
    done = list(injections(archive, session, turn))
    said = {each.text: each.stressor for each in done if each.action == "said"}
    if outside_code(script):  # without it, what it said is on record, and its place is not
        lines = [ShownLine(*each) for each in said.items()]
        lines += [ShownLine(line.text) for line in script.bare(turn).ordered]
    else:
        present = script.scene(turn, answers, probed).present
        lines = [ShownLine(line.text, said.get(line.text)) for line in present.ordered]
    return ShownTrial(
        number=turn,
        disturbances=[
            Disturbance(DONE[each.action], each.turn, each.text, each.instead)
            for each in done
            if each.action != "said"
        ],
        lines=lines,
        answer=answers[turn - 1],
        verdict=VERDICTS[row["correct"]],
        truth=row["truth"],
    )


def injections(archive: Archive, session: str, turn: int) -> Iterator[Injection]:
    """What was done to a session at a turn, from the log of events."""
    for event in archive.rows(_EVENTS, session, turn):
        for detail in json.loads(event["detail"])["injections"]:
            yield Injection(event["kind"], **detail)
