"""The report of a trial: checks first, then what each arm does, and sessions as they went."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import plural
from chimeralab.report.charts.flow import OUTCOMES, Stage, describe_attempts, format_counts
from chimeralab.report.files import (
    Frame,
    Report,
    common_facts,
    make_page,
    read_lock,
    require_run,
    software_table,
)
from chimeralab.report.named_numbers import assign_names, list_entries
from chimeralab.report.page import (
    Block,
    Fact,
    Section,
    box,
    bullets,
    details,
    find_blocks,
    heading,
    paragraph,
    strong,
)
from chimeralab.stats.effects import short
from chimeralab.study import ConditionFlow, Lock, Study, flow
from chimeralab.study.estimates import Estimates
from chimeralab.study.store import Archive, Row
from chimeralab.study.verify import Verification, verify_study
from chimeralab.trial.analysis import SubjectResult, TrialAnalysis
from chimeralab.trial.kind import analyse_trial
from chimeralab.trial.plan import TrialPlan
from chimeralab.trial.report import tables
from chimeralab.trial.report.figures import (
    dose_figures,
    forests,
    parts_figures,
    summary_figure,
)
from chimeralab.trial.report.words import (
    OUTSIDE,
    few_scenarios,
    finding_of,
    how_sure,
    slopes,
    stressors_in_words,
    trial_methods,
)
from chimeralab.trial.scene import Injection
from chimeralab.trial.script import Script
from chimeralab.trial.store import missing_code, trial_plan
from chimeralab.trial.stressors import SHAM

# A subject that can't be read fails in every arm; a few of them make the point.
MAX_REASONS = 5
MAX_TRIALS = 16
VERDICTS = {1: "right", 0: "wrong", None: "can't be read"}


class TrialMaterial(NamedTuple):
    """A trial as its report sees it, read once."""

    study: Study
    lock: Lock | None
    verification: Verification
    arms: tuple[ConditionFlow, ...]
    injections: Mapping[str, int]
    analysis: TrialAnalysis

    @property
    def plan(self) -> TrialPlan:
        return trial_plan(self.study)


# Effects that are asked and corrected together: their field, a title, and how to read them.
FAMILIES = (
    (
        "contrasts",
        "Each arm against the reference",
        "Each arm minus {reference} on the same scenarios: left of 0 there is less of it, right of "
        "0 more. Lines are 95 % intervals over scenarios; p is Holm-corrected over all effects of "
        "its role, primary or exploratory.",
    ),
    (
        "factorial",
        "Main effects and interactions",
        "A main effect is what a stressor does on average over the others. An interaction (×) is "
        "how much more, or less, two do together than they add up to; with three, how much that "
        "changes under the third.",
    ),
    (
        "doses",
        "Slopes over the dose",
        "What more of a stressor does, with 95 % intervals over scenarios. Dashed: the untouched "
        "control.",
    ),
    (
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


def gather_trial(
    study: Study,
    tell: Callable[[str], None] = lambda doing: None,
    estimates: Estimates | None = None,
) -> TrialMaterial:
    """Verify, measure and analyse everything that a trial has stored."""
    require_run(study)
    tell("computing scores and hashes again")
    verification = verify_study(study)
    tell("analysing")
    analysis = analyse_trial(study, estimates=estimates)
    if not analysis.sessions:
        raise InputError(
            f"{study.path} has no whole session yet, so there is nothing to report; "
            f"go on with `chimera run {study.path}`"
        )
    stress = {name for arm in trial_plan(study).arms.values() for name in arm.stressors}
    with study.archive() as archive:
        rows = archive.rows(_INJECTIONS, json.dumps([*sorted(stress), SHAM]))
        injections = {row["condition"]: row["n"] for row in rows}
        arms = flow(archive)
    return TrialMaterial(study, read_lock(study), verification, arms, injections, analysis)


_INJECTIONS = """
    SELECT t.condition, count(DISTINCT t.id || ' ' || e.turn) AS n
    FROM events e JOIN trajectories t ON t.id = e.trajectory
    WHERE e.kind IN (SELECT value FROM json_each(?)) GROUP BY t.condition
"""


def make_trial_report(material: TrialMaterial) -> Report:
    """Draw every figure, set every table, and put them on one page."""
    study, analysis = material.study, material.analysis
    found = [finding_of(subject) for subject in analysis.subjects]
    subjects = [
        Section(f"subject-{number}", "Subject:", list(_subject(subject, material)), subject.subject)
        for number, subject in enumerate(analysis.subjects, start=1)
    ]
    outside = [
        bullets(OUTSIDE),
        paragraph(
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
            study=study,
            lock=material.lock,
            verification=material.verification,
            glance=tuple(map(" ".join, found)),
            verdicts=[
                paragraph(strong(verdict, after=f" {detail}"), "finding")
                for verdict, detail in found
            ],
            remarks=[how_sure(analysis), few_scenarios(analysis)],
            first=[Section("summary", "What each arm does", list(_summary(material)))],
            facts=list(_facts(material)),
            design=[tables.design_table(material.plan), paragraph(control, "note")],
            flow=dict(_flow(material)),
            flow_note=(
                "What became of the planned sessions, all arms of a subject together. Sessions "
                "that were cut short are left out: they answer other questions than whole ones."
            ),
            results=[*subjects, Section("outside", "Numbers to stand next to", outside)],
            methods=trial_methods(study, material.lock, material.verification, analysis),
            software=software_table(study),
            not_shown=list(_not_shown(material, subjects)),
            numbers=assign_names(list_entries(study, analysis)),
        )
    )


def _summary(material: TrialMaterial) -> Iterator[Block]:
    """What a reader looks for first: one figure, what was declared, and what was delivered."""
    figure = summary_figure(material.analysis, material.plan.arms)
    if figure:
        yield paragraph(stressors_in_words(material.plan))
        yield figure
    else:
        yield paragraph("No effect can be shown; the subjects below say why.")
    yield heading("What was declared before the run")
    if material.analysis.declared:
        yield tables.declared_table(material.analysis)
    else:
        yield paragraph(
            "Nothing: the plan has no [[outcomes.primary]]. Every effect on what a stressor is "
            "aimed at counts as primary, and all of them are corrected together."
        )
    doses = tables.dose_table(material.analysis.subjects, material.plan.arms, material.injections)
    if doses:
        yield heading("What was delivered")
        yield paragraph("At which share of an arm's trials its stressor did its work.")
        yield doses


def _facts(material: TrialMaterial) -> Iterator[Fact]:
    """The head of the report: lock, design, scenarios, probes."""
    plan, trial = material.study.plan, material.plan
    design = f"{plan.kind.describe(plan)}, {plural(plan.conversation.turns, 'trial')} each"
    yield from common_facts(material.study, material.lock, design, "arm")
    first, last = trial.courses[0].id, trial.courses[-1].id
    scenarios = f"{trial.scenarios.use}, {first} to {last}; the lock holds every word"
    yield "Scenarios", scenarios
    for name, settings in tables.common_settings(trial).items():
        yield name.capitalize(), settings
    yield "Asked in a fork", ", ".join(trial.probes) or "nothing"


def _subject(subject: SubjectResult, material: TrialMaterial) -> Iterator[Block]:
    """One subject: can it be judged, what each arm did, how it did, and sessions."""
    yield _verdict(subject)
    yield details("All checks", [tables.checks_table(subject)])
    if subject.informative:
        for field, title, lead in FAMILIES:
            yield from _effects(subject, field, title, lead)
    yield heading("Three metrics and their parts")
    if not subject.informative:
        yield paragraph(
            "Of what could be read and judged, and therefore of no weight. They are kept for those "
            "who look for the fault."
        )
    yield paragraph(
        "MCI: memory (RF right answers, CI steadiness of confidence, CB right answers by how much "
        "context they need). GFQ: new combinations (TA right answers, CTA weighted by confidence). "
        "DFS: independence of framing and signals (FI same answer with and without, BR resistance)."
    )
    if subject.informative:
        # Figures of a subject that can't be judged would impress.
        yield details("Drawn: each metric with its parts", list(parts_figures(subject)))
    ceilings = (
        "A metric can't exceed its ceiling: MCI reaches 1 only where every question needs all of "
        "its context. An agent that is always wrong at constant confidence still gets an MCI of "
        "0.30."
    )
    metrics = [tables.parts_table(subject), paragraph(ceilings, "note")]
    yield details("As a table, with ceilings", metrics)
    yield details("Every measure by its plain name, arm by arm", [tables.measures_table(subject)])
    by_lag = tables.lag_table(subject)
    if by_lag:
        yield details("Recall by how many trials ago a fact was told", [by_lag])
    sessions = example_sessions(material, subject.subject)
    if sessions:
        yield heading("Sessions as they went")
        yield paragraph(
            "What a stressor put in is marked where it stood; what it took away or altered stands "
            "above the message."
        )
    for session in sessions:
        yield details(f"{session.arm}: {session.id}", [session], "session")


def _verdict(subject: SubjectResult) -> Block:
    """Whether the subject can be judged, and which arms say nothing."""
    blocks: list[Block] = [paragraph("Not informative, so no effect is printed", "lead")]
    if subject.informative:
        message = subject.checks[0].message
        passed = f"{message[:1].upper()}{message[1:]}."
        blocks = [paragraph("Informative", "lead"), paragraph(passed)]
    reasons = subject.short_reasons
    if reasons:
        lead = "These arms say nothing:" if subject.informative else "Checks that failed:"
        more = len(reasons) - MAX_REASONS
        rest = [f"and {more} more, see all checks"] if more > 0 else []
        blocks += [paragraph(lead), bullets([*reasons[:MAX_REASONS], *rest], "plain")]
    return box(blocks, "" if subject.informative else "silent")


def _effects(subject: SubjectResult, field: str, title: str, lead: str) -> Iterator[Block]:
    """One family of effects: forests, or curves over doses, and the table."""
    effects = getattr(subject, field)
    name = f"{subject.subject}_{field}"
    sheet = tables.effect_table(name, effects)
    if sheet is None:
        return
    yield heading(title)
    yield paragraph(lead.format(reference=short(subject.reference)))
    if field == "doses":
        yield bullets(list(slopes(subject)))
        drawn, kind = list(dose_figures(subject)), "curve"
    else:
        drawn, kind = list(forests(name, effects)), "forest"
    if drawn:
        yield details(f"Drawn: {plural(len(drawn), kind)}", drawn)
    yield details("As a table", [sheet])


def _not_shown(material: TrialMaterial, sections: Sequence[Section]) -> Iterator[str]:
    """What a reader might look for here in vain."""
    hidden = material.analysis.sessions - len(list(find_blocks(ShownSession, sections)))
    if hidden > 0:
        yield f"{plural(hidden, 'other session')}; `chimera export` writes all of them"
    for subject in material.analysis.subjects:
        if not subject.informative:
            yield f"any effect on {subject.subject}, which failed its checks"
    yield "effects on measures that an arm is not aimed at; the tables beside this page hold them"


def _flow(material: TrialMaterial) -> Iterator[tuple[str, tuple[Stage, ...]]]:
    """How many sessions of each subject were planned, attempted and analysed, all arms together."""
    scored = {arm.arm: arm.sessions for each in material.analysis.subjects for arm in each.arms}
    subjects = material.plan.subjects
    for subject in dict.fromkeys(subjects.values()):
        own = [arm for arm in material.arms if subjects[arm.condition] == subject]
        planned, attempted = sum(arm.planned for arm in own), sum(arm.attempted for arm in own)
        outcomes = sum((Counter(arm.outcomes) for arm in own), Counter[str]())
        attempts = sum((Counter(arm.attempts) for arm in own), Counter[str]())
        injected = sum(material.injections.get(arm.condition, 0) for arm in own)
        # A session that is not whole answers other questions, and is left out.
        cut_short = {
            "still open": attempted - outcomes.total(),
            **{OUTCOMES.get(n, n): count for n, count in outcomes.items() if n != "completed"},
        }
        stages = (
            Stage("Planned", planned),
            Stage(
                "Attempted",
                attempted,
                list(describe_attempts(replace(own[0], attempts=attempts))),
                format_counts({"not started": planned - attempted}),
            ),
            Stage(
                "Analysed",
                sum(scored.get(arm.condition, 0) for arm in own),
                [plural(injected, "trial with an injection", "trials with an injection")],
                format_counts(cut_short),
            ),
        )
        yield subject, stages


class ShownSession(NamedTuple):
    """The first trials of a session; `left_out` more are in the study.

    Of each trial its number, what was done to earlier episodes, the lines of its message, each with
    the stressor that put it there, then the answer, whether it is right, and the truth.
    """

    id: str
    arm: str
    trials: Sequence[Mapping[str, Any]]
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


def show_session(study: Study, session: str, arm: str, most: int = MAX_TRIALS) -> ShownSession:
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


def _trial(row: Row, script: Script, answers: Sequence[str], archive: Archive) -> dict[str, Any]:
    session, turn = row["trajectory"], row["trial"]
    probed = {reply["probe"]: reply["text"] for reply in archive.rows(_PROBED, session, turn)}
    done = [
        Injection(event["kind"], **detail)
        for event in archive.rows(_EVENTS, session, turn)
        for detail in json.loads(event["detail"])["injections"]
    ]
    said = {each.text: each.stressor for each in done if each.action == "said"}
    if missing_code(script):  # without it, what it said is on record, and its place is not
        lines = [*said.items(), *((line.text, None) for line in script.bare(turn).ordered)]
    else:
        present = script.scene(turn, answers, probed).present
        lines = [(line.text, said.get(line.text)) for line in present.ordered]
    return {
        "number": turn,
        "disturbances": [each for each in done if each.action != "said"],
        "lines": lines,
        "answer": answers[turn - 1],
        "verdict": VERDICTS[row["correct"]],
        "truth": row["truth"],
    }
