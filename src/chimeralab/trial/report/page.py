"""The report of a trial: a verdict per subject, the effects of each arm, and example sessions."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import NO_BREAK, between, number, p_phrase, plural
from chimeralab.core.parts import validate
from chimeralab.embedding.encoder import PAPERS
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
    Fact,
    Section,
    TextBlock,
    paragraph,
    render_block,
    render_methods,
    render_sentence,
    render_text,
)
from chimeralab.report.table import clip_interval, format_change, format_difference
from chimeralab.stats.effects import Effect, key_of, short
from chimeralab.stats.intervals import MIN_CLUSTERS
from chimeralab.study import Study, flow
from chimeralab.study.database import name_cell
from chimeralab.study.estimates import Estimates
from chimeralab.study.store import Archive, Row
from chimeralab.study.verify import Verification, verify_study
from chimeralab.trial.analysis import FAMILIES, SubjectResult, TrialAnalysis
from chimeralab.trial.effects import is_aimed
from chimeralab.trial.kind import analyse_trial
from chimeralab.trial.measures import find_measure
from chimeralab.trial.plan import TrialPlan
from chimeralab.trial.report import blocks
from chimeralab.trial.report.blocks import is_found, is_harm, is_worse, plain_name, unit_of
from chimeralab.trial.scene import Injection
from chimeralab.trial.script import Script
from chimeralab.trial.store import missing_code, trial_plan
from chimeralab.trial.stressors import SHAM

MAX_REASONS = 5
# Effects of a subject that the verdict at the top names.
MAX_EFFECTS = 3
MAX_TRIALS = 16
MAX_CARDS, MAX_BARS = 6, 8
NOT_FOUND = "No difference found"
_block = partial(render_block, "trial_blocks.html")
_sentence = partial(render_sentence, "trial_sentences.txt")
VERDICTS = {1: "right", 0: "wrong", None: "can't be read"}


def report_trial(study: Study, on_progress: Callable[[str], None], estimates: Estimates) -> Report:
    """Verify, analyse and report a trial."""
    require_run(study)
    on_progress("recomputing scores and hashes")
    verification = verify_study(study, is_reporting=True)
    on_progress("analysing")
    analysis = analyse_trial(study, estimates=estimates)
    if not analysis.sessions:
        raise InputError(
            f"{study.path} has no complete session yet, so there is nothing to report; "
            f"continue with `chimera run {study.path}`"
        )
    on_progress("drawing")
    return make_trial_report(study, verification, analysis)


def make_trial_report(study: Study, verification: Verification, analysis: TrialAnalysis) -> Report:
    """Draw every figure, build every table, and render the page."""
    plan, injections = trial_plan(study), _count_injections(study)
    verdicts = [judge(subject) for subject in analysis.subjects]
    sessions = {
        subject.subject: example_sessions(study, subject.subject, injections)
        for subject in analysis.subjects
    }
    subjects = [
        Section(
            f"subject-{number}",
            "Subject:",
            list(_subject_blocks(subject, sessions[subject.subject])),
            subject.subject,
        )
        for number, subject in enumerate(analysis.subjects, start=1)
    ]
    hidden = analysis.sessions - sum(map(len, sessions.values()))
    summary = _block(
        "summary",
        figure=blocks.summary_figure(analysis, plan.arms),
        declared=blocks.primary_table(analysis) if analysis.declared else None,
        delivered=blocks.dose_table(analysis.subjects, plan.arms, injections),
        **_stressors(plan),
    )
    outside = Section("outside", "Published numbers to compare", [_block("outside")])
    return make_page(
        Frame(
            kind="trial",
            study=study,
            lock=read_lock(study),
            verification=verification,
            glance=tuple(map(" ".join, verdicts)),
            headline=headline(analysis.subjects),
            verdicts=list(head_blocks(analysis)),
            remarks=[remarks(analysis)],
            first=[Section("summary", "What each arm does", [summary])],
            facts=list(_facts(study, plan)),
            design=[blocks.design_table(plan), _block("design_note")],
            flow=dict(_flow(study, plan, analysis, injections)),
            flow_note=_sentence("flow_note"),
            results=[*subjects, outside],
            methods=_methods(study, plan, verification, analysis),
            software=software_table(study),
            not_shown=render_text("trial_not_shown.txt", analysis=analysis, hidden=hidden),
            numbers=assign_names(list_entries(study, analysis)),
        )
    )


def _count_injections(study: Study) -> dict[str, int]:
    """The trials of each arm on which a stressor, or its sham, acted."""
    stressors = {name for arm in trial_plan(study).arms.values() for name in arm.stressors}
    with study.archive() as archive:
        rows = archive.rows(_INJECTIONS, json.dumps([*sorted(stressors), SHAM]))
        return {row["condition"]: row["n"] for row in rows}


_INJECTIONS = """
    SELECT t.condition, count(DISTINCT t.id || ' ' || e.turn) AS n
    FROM events e JOIN trajectories t ON t.id = e.trajectory
    WHERE e.kind IN (SELECT value FROM json_each(?)) GROUP BY t.condition
"""


def judge(subject: SubjectResult) -> tuple[str, str]:
    """The verdict on a subject by its primary effects, and the evidence for it, as sentences."""
    verdict, evidence = _judge(subject)
    return f"{subject.subject}: {verdict}", evidence


def headline(subjects: Sequence[SubjectResult]) -> str:
    """The verdicts, each with all of its subjects; what is weak comes first."""
    groups: dict[str, list[str]] = {}
    weak = [s for s in subjects if any(map(_is_weakness, primary_effects(s)))]
    for subject in [*weak, *(each for each in subjects if each not in weak)]:
        groups.setdefault(_judge(subject)[0].rstrip("."), []).append(subject.subject)
    return _sentence("headline", groups=groups)


def _is_weakness(effect: Effect) -> bool:
    return is_found(effect) and is_worse(effect)


def head_blocks(analysis: TrialAnalysis) -> Iterator[TextBlock]:
    """The declared measure of each subject in a figure, and a card for each declared question."""
    asked = [(each, effect) for each in analysis.subjects for effect in primary_effects(each)]
    asked.sort(key=lambda pair: (not _is_weakness(pair[1]), not is_found(pair[1])))
    measure = next((effect.measure for _, effect in asked), "")
    rows = {
        (each.subject, group): row
        for each in analysis.subjects
        if each.informative
        for effect in primary_effects(each)
        if effect.measure == measure
        for group in reversed(list(effect.weights))
        if (row := _bar(each, effect, group))
    }
    if rows:
        title = _sentence("bars_title", measure=plain_name(measure))
        yield TextBlock("result_bars", title, lines=list(rows.values())[:MAX_BARS])
    cards = [_card(each, effect) for each, effect in asked if each.informative][:MAX_CARDS]
    for each in analysis.subjects:
        if not each.informative:
            reason = each.short_reasons[0]
            cards.append(_make_card(each.subject, "not informative", f"failed check of {reason}"))
    yield TextBlock("result_cards", lines=cards)


def _bar(subject: SubjectResult, effect: Effect, group: str) -> dict[str, Any] | None:
    """A measure of an arm; None if it is not known or not between 0 and 1."""
    arm = next((arm for arm in subject.arms if short(arm.arm) == short(group)), None)
    found = arm.measures.get(effect.measure) if arm else None
    if not found or found.value is None or not 0 <= found.value <= 1:
        return None
    unit, ends = unit_of(effect.measure), found.interval
    return {
        "name": f"{subject.subject}: {short(group)}",
        "value": found.value,
        "hot": _is_weakness(effect) and effect.weights[group] > 0,
        "low": ends and max(0.0, ends.low),
        "high": ends and min(1.0, ends.high),
        "shown": number(found.value, unit.digits, unit.scale) + unit.value,
        "between": ends and between(ends, unit.digits, unit.scale),
    }


def _card(subject: SubjectResult, effect: Effect) -> dict[str, Any]:
    told = _describe(effect)
    asked = f"{subject.subject}, under {told['under']}"
    if effect.p_holm is None:
        return _make_card(asked, told["measure"], f"not tested: {effect.reason}")
    unit = unit_of(effect.measure)
    ends = clip_interval(effect.interval, unit, effect.weights)
    bounds = f"; {between(ends, unit.digits, unit.scale, sign=True)}" if ends else ""
    note = f"{told['measure']}{bounds}; {told['p']}"
    verdict = ("Worse" if is_worse(effect) else "Better") if is_found(effect) else NOT_FOUND
    if not is_found(effect) and told["worst"]:
        verdict += f"; a {'rise' if told['harm'] else 'fall'} of {told['worst']} is not ruled out"
    shown = format_change(effect.estimate, unit)
    return _make_card(asked, shown, note, verdict, hot=_is_weakness(effect))


def _make_card(
    about: str, shown: str, note: str, verdict: str = "", *, hot: bool = False
) -> dict[str, Any]:
    return {"about": about, "number": shown, "note": note, "verdict": verdict, "hot": hot}


def _judge(subject: SubjectResult) -> tuple[str, str]:
    """The verdict on a subject without its name, and the evidence."""
    primary = primary_effects(subject)
    tested = [effect for effect in primary if effect.p_holm is not None]
    found = sorted(filter(is_found, tested), key=lambda effect: effect.p_holm or 0.0)
    against = {key_of(each) for each in subject.countermeasures}
    stress = [effect for effect in tested if key_of(effect) not in against]
    shown = (found or tested)[:MAX_EFFECTS]

    def arms(effects: Sequence[Effect]) -> list[str]:
        return list(dict.fromkeys(map(_treatment, effects)))

    verdict, evidence = render_text(
        "trial_glance.txt",
        subject=subject,
        tested=tested,
        why=next((effect.reason for effect in primary if effect.reason), "nothing was asked"),
        stressors=bool(stress),
        weak=arms([e for e in found if e in stress and is_worse(e)]),
        better=arms([e for e in found if e in stress and not is_worse(e)]),
        countermeasures=len(stress) < len(tested),
        helpful=arms([e for e in found if e not in stress and not is_worse(e)]),
        effects=[_describe(effect) for effect in shown],
        more=len(found) - len(shown),
    )
    return verdict, evidence


def primary_effects(subject: SubjectResult) -> list[Effect]:
    """The primary effects, each comparison once."""
    primary = (effect for effect in subject.effects if effect.role == "primary")
    return list({key_of(effect): effect for effect in primary}.values())


def _treatment(effect: Effect) -> str:
    return effect.spec.title or short(next(iter(effect.weights)))


def _describe(effect: Effect) -> dict[str, Any]:
    """The numbers of an effect for its sentence; `worst` is the largest harm not ruled out."""
    unit, value = unit_of(effect.measure), effect.estimate or 0.0
    interval = clip_interval(effect.interval, unit, effect.weights)
    sign, harm = -1 if value < 0 else 1, is_harm(effect.measure)
    worst = (interval.high if harm else -interval.low) if interval else 0.0
    bounds = sorted(sign * bound for bound in interval) if interval else None
    return {
        "under": _treatment(effect),
        "measure": plain_name(effect.measure),
        "found": is_found(effect),
        "difference": format_difference(effect.estimate, interval, unit, effect.weights),
        "p": NO_BREAK.join(p_phrase(effect.p_holm).split()),
        "down": value < 0,
        "size": format_change(sign * value, unit).lstrip("+"),
        "bounds": between(bounds, unit.digits, unit.scale) if bounds else "",
        "harm": harm,
        "worst": (
            format_change(worst, unit).lstrip("+")
            if round(worst * unit.scale, unit.digits) > 0
            else ""
        ),
    }


def remarks(analysis: TrialAnalysis) -> str:
    """What the p-values and intervals of the verdicts refer to."""
    effects = [each for subject in analysis.subjects for each in primary_effects(subject)]
    return _sentence(
        "remarks",
        analysis=analysis,
        reference=short(analysis.subjects[0].reference),
        tests=sum(effect.p_holm is not None for effect in effects),
        min_scenarios=MIN_CLUSTERS,
    )


def _stressors(plan: TrialPlan) -> dict[str, Any]:
    """The values for the sentences about stressors."""
    arms = plan.arms.values()
    words = {name: part.words for arm in arms for name, part in arm.stressors.items()}
    return {"stressors": words, "sham": any(arm.sham for arm in arms)}


def _facts(study: Study, plan: TrialPlan) -> Iterator[Fact]:
    """The head of the report: lock, design, scenarios and probes."""
    turns = plural(study.plan.conversation.turns, "trial")
    design = f"{study.plan.kind.describe(study.plan)}, {turns} each"
    yield from common_facts(study, read_lock(study), design, "arm")
    first, last = plan.courses[0].id, plan.courses[-1].id
    yield "Scenarios", f"{plan.scenarios.use}, {first} to {last}; the lock has their full text"
    for name, settings in blocks.common_settings(plan).items():
        yield name.capitalize(), settings
    yield "Probes", ", ".join(plan.probes) or "none"


def _subject_blocks(subject: SubjectResult, sessions: Sequence[TextBlock]) -> Iterator[TextBlock]:
    """Whether a subject can be judged, its effects and metrics, and sessions."""
    yield _block(
        "verdict",
        subject=subject,
        checks=blocks.checks_table(subject),
        max_reasons=MAX_REASONS,
    )
    slopes = [
        (effect.short_name, find_measure(effect.measure).says, blocks.format_effect(effect))
        for effect in subject.doses
        if is_aimed(effect) and effect.estimate is not None
    ]
    for family in FAMILIES:
        name, effects = f"{subject.subject}_{family}", getattr(subject, family)
        table = blocks.effect_table(name, effects)
        if table is None:
            continue
        doses = family == "doses"
        yield _block(
            "family",
            name=family,
            reference=short(subject.reference),
            slopes=slopes,
            figures=list(blocks.dose_figures(subject) if doses else blocks.forests(name, effects)),
            table=table,
        )
    yield _block(
        "metrics",
        informative=subject.informative,
        # Figures of a subject that can't be judged would mislead.
        figures=list(blocks.parts_figures(subject)) if subject.informative else [],
        parts=blocks.parts_table(subject),
        measures=blocks.measures_table(subject),
        lags=blocks.lag_table(subject),
        quarters=blocks.quarters_table(subject),
    )
    if sessions:
        yield _block("sessions", sessions=list(sessions))


def _flow(
    study: Study, plan: TrialPlan, analysis: TrialAnalysis, injections: Mapping[str, int]
) -> Iterator[tuple[str, tuple[Stage, ...]]]:
    """How many sessions of each subject were planned, attempted and analysed, over all arms."""
    scored = {arm.arm: arm.sessions for each in analysis.subjects for arm in each.arms}
    with study.archive() as archive:
        arms = flow(archive)
    for subject in dict.fromkeys(plan.subjects.values()):
        own = [arm for arm in arms if plan.subjects[arm.condition] == subject]
        planned, attempted = sum(arm.planned for arm in own), sum(arm.attempted for arm in own)
        outcomes = sum((Counter(arm.outcomes) for arm in own), Counter[str]())
        attempts = sum((Counter(arm.attempts) for arm in own), Counter[str]())
        injected = sum(injections.get(arm.condition, 0) for arm in own)
        incomplete = {
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
                format_counts(incomplete),
            ),
        )
        yield subject, stages


def _methods(
    study: Study, plan: TrialPlan, verification: Verification, analysis: TrialAnalysis
) -> TextBlock:
    arms, steps = plan.arms.values(), [step for each in plan.courses for step in each.steps]
    return render_methods(
        "trial_methods.txt",
        study=study,
        plan=study.plan,
        trial=plan,
        lock=read_lock(study),
        verification=verification,
        against=dict.fromkeys(arm.against for arm in arms if arm.against),
        probes=[probe.words or name for name, probe in plan.probes.items()],
        free=any(not step.question.options for step in steps),
        paper=PAPERS[-1],
        declared=[f"{plain_name(each.measure)} under {each.arm}" for each in analysis.declared],
        dosed=any(arm.dose is not None for arm in arms),
        aims={aim for arm in arms for part in arm.stressors.values() for aim in part.aims},
        **_stressors(plan),
    )


def example_sessions(study: Study, subject: str, injections: Mapping[str, int]) -> list[TextBlock]:
    """A session of each stressor alone, and one of the sham."""
    plan = trial_plan(study)
    arms: dict[str, str] = {}
    for name, arm in plan.arms.items():
        alone = arm.countermeasure is None and (len(arm.stressors) == 1 or arm.sham)
        if plan.subjects[name] == subject and alone and name in injections:
            # Of several doses, the last is the strongest.
            arms[SHAM if arm.sham else next(iter(arm.stressors))] = name
    with study.archive() as archive:
        found = [(row["id"], name) for name in arms.values() for row in archive.rows(_FIRST, name)]
    return [show_session(study, session, short(name)) for session, name in found]


# The first session of an arm in which something was done and that was answered.
_FIRST = """
    SELECT t.id FROM trajectories t WHERE t.condition = ?
    AND EXISTS (SELECT 1 FROM events e WHERE e.trajectory = t.id)
    AND EXISTS (SELECT 1 FROM trials r WHERE r.trajectory = t.id) ORDER BY t.position LIMIT 1
"""


def show_session(study: Study, session: str, arm: str, limit: int = MAX_TRIALS) -> TextBlock:
    """The first trials of a session, with every injection in its place.

    A line has the number of its trial, what was done to earlier episodes, the lines of the message
    with the stressor that added them, the answer, its verdict, and the truth.
    """
    talk = next((talk for talk in study.talks if talk.id == session), None)
    if talk is None or talk.script is None:
        raise InputError(f"{study.path} has no session {session!r}")
    with study.archive() as archive:
        answers = [turn["text"] for turn in archive.turns(session)]
        rows = list(archive.rows(_TRIALS, session))
        trials = [_trial(row, talk.script, answers, archive) for row in rows[:limit]]
    left = plural(len(rows) - len(trials), "further trial")
    more = [paragraph(f"{left} in the study.", "note")] if len(rows) > len(trials) else []
    return TextBlock("session", f"{arm}: {session}", lines=trials, blocks=more)


_TRIALS = "SELECT trajectory, trial, correct, truth FROM trials WHERE trajectory = ? ORDER BY trial"
_PROBES = "SELECT probe, text FROM probes WHERE trajectory = ? AND turn = ?"
_EVENTS = "SELECT id, kind, detail FROM events WHERE trajectory = ? AND turn = ? ORDER BY id"


def _trial(row: Row, script: Script, answers: Sequence[str], archive: Archive) -> dict[str, Any]:
    session, turn = row["trajectory"], row["trial"]
    probed = {reply["probe"]: reply["text"] for reply in archive.rows(_PROBES, session, turn)}
    injections = []
    for event in archive.rows(_EVENTS, session, turn):
        with name_cell("events", event, "detail"):
            for each in json.loads(event["detail"])["injections"]:
                injections.append(validate(Injection, {"stressor": event["kind"], **each}))
    added = {each.text: each.stressor for each in injections if each.action == "said"}
    if missing_code(script):  # what was added is on record, but not its place
        lines = [
            *added.items(),
            *((line.text, None) for line in script.baseline(turn).sorted_lines),
        ]
    else:
        present = script.scene(turn, answers, probed).present
        lines = [(line.text, added.get(line.text)) for line in present.sorted_lines]
    return {
        "number": turn,
        "disturbances": [each for each in injections if each.action != "said"],
        "lines": lines,
        "answer": answers[turn - 1],
        "verdict": VERDICTS[row["correct"]],
        "truth": row["truth"],
    }
