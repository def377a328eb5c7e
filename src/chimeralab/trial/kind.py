"""Trials as a kind of study: subjects go through scenarios, with and without stressors."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import between, number, p_value, plural
from chimeralab.core.parts import PartLoader, choose, read_value
from chimeralab.core.tables import Columns
from chimeralab.core.text import escape_markdown
from chimeralab.models.catalogue import MODELS
from chimeralab.models.seam import Model
from chimeralab.rating.study_audit import recompute_draws
from chimeralab.runner import SessionScript
from chimeralab.selfplay.plan import read_extras
from chimeralab.stats.effects import TRIAL, short
from chimeralab.study.estimates import Estimates
from chimeralab.study.export import TALK
from chimeralab.study.folder import Study, plan_talks
from chimeralab.study.forecast import TOKENS_PER_MESSAGE, max_token_count
from chimeralab.study.kind import Design, Kind, Units
from chimeralab.study.plan import (
    Condition,
    Plan,
    Subject,
    read_models,
    read_named_tables,
    read_subject,
)
from chimeralab.study.store import Archive
from chimeralab.study.verdicts import CheckResult, Finding
from chimeralab.trial import plan as plans
from chimeralab.trial.agents import AGENTS, find_abilities, open_agent
from chimeralab.trial.agents import seam as agents
from chimeralab.trial.analysis import (
    RESAMPLES,
    SEED,
    SessionsLeftOut,
    TrialAnalysis,
    analyse_sessions,
)
from chimeralab.trial.course import Course
from chimeralab.trial.effects import measure_sessions, split_quarters
from chimeralab.trial.forecast import detectable, max_requests
from chimeralab.trial.measures import MEASURES, METRIC_TEXTS, PARTS, find_measure
from chimeralab.trial.metrics import MetricWeights, RunningMetrics
from chimeralab.trial.phantoms import SUBJECTS, PhantomSubjectSettings
from chimeralab.trial.plan import TrialPlan, estimate_tokens, read_trial
from chimeralab.trial.store import (
    count_sessions,
    incomplete_sessions,
    load_trials,
    missing_code,
    recount,
    rescore,
    restore_plan,
    trial_plan,
)
from chimeralab.trial.trials import COLUMNS as TRIAL_COLUMNS
from chimeralab.trial.trials import COMPLETE, TrialLog, TrialRow

MAX_TRIALS_SHOWN = 200
# One row per complete session and measure.
OUTCOME_COLUMNS: Columns = {
    "trajectory": str,
    "condition": str,
    "prompt": str,
    "repeat": int,
    "dose": float,
    "measure": str,
    "hits": float,
    "among": float,
    "value": float,
}
INDICES = {
    metric if name == "value" else f"{metric}.{name}": (
        each["title"] if name == "value" else f"{each['title']}, a part of the {metric.upper()}"
    )
    for metric, texts in METRIC_TEXTS.items()
    for name, each in texts.items()
    if "title" in each
}


class Trial(Kind):
    """Sessions of subjects: an arm is a condition, a scenario is a prompt."""

    name: ClassVar[str] = "trial"
    units: ClassVar[Units] = Units("trial", "session", "arm", "scenario", "question")
    required: ClassVar[tuple[str, ...]] = plans.REQUIRED
    tables: ClassVar[tuple[str, ...]] = plans.TABLES
    # A subject may give the same short answer twice without having collapsed.
    judged: ClassVar[bool] = False
    templates: ClassVar[str] = "chimeralab.trial"

    def read(
        self, tables: Mapping[str, Any], loader: PartLoader, locked: Mapping[str, Any] | None
    ) -> Design:
        extras = self.read_extras(tables, loader)
        agents_named = read_named_tables(tables, "agents")
        models = read_models(tables, loader, MODELS | SUBJECTS, needed=not agents_named)
        models |= _read_agents(agents_named, models, loader)
        able = {name: _abilities(name, models[name].part.settings, loader) for name in agents_named}
        kept = ((locked or {}).get("trial") or {}).get("courses", [])
        courses: tuple[Course, ...] = read_value(tuple[Course, ...], kept, "plan.lock courses")
        speakers, prompts, rules, own = read_trial(tables, loader, able, courses)
        conditions = {name: Condition(each) for name, each in speakers.items()}
        return Design(models, conditions, rules, prompts, extras, own)

    def read_extras(self, tables: Mapping[str, Any], loader: PartLoader) -> dict[str, Any]:
        """The defaults: a trial has its own outcomes and is not rated."""
        return read_extras({}, loader)

    def script(self, plan: Plan, condition: str, prompt: str, seed: int) -> SessionScript:
        own: TrialPlan = plan.own
        return own.script(condition, prompt, seed)

    def agents(self, plan: Plan) -> Mapping[str, tuple[str, ...]]:
        own: TrialPlan = plan.own
        return own.agents

    def describe_agents(self, plan: Plan) -> Mapping[str, str]:
        own: TrialPlan = plan.own
        return {name: own.describe_memory(name) for name in own.agents}

    def open_agent(self, plan: Plan, name: str, folder: Path) -> Model:
        settings = plan.models[name].part.settings
        if plan.consent is None and hasattr(settings, "code"):
            raise InputError("it is code; allow it with Study(path, allow_code=True)")
        return open_agent(settings, self.agents(plan)[name], folder)

    def finish_run(self, study: Study) -> None:
        count_sessions(study)

    def count_requests(self, plan: Plan, model: str) -> tuple[int, int, int]:
        """The maximum calls, prompt tokens and reply tokens of a subject, probes included."""
        own = [talk for talk in plan_talks(plan) if talk.speakers[0].model == model]
        calls, prompt_bytes, answers_shown = max_requests(talk.script for talk in own)
        longest = max((talk.speakers[0].sampling.max_tokens for talk in own), default=0)
        system = max((max_token_count(talk.speakers[0].system or "") for talk in own), default=0)
        messages = 2 * answers_shown + 2 * calls
        prompt = prompt_bytes + longest * answers_shown + TOKENS_PER_MESSAGE * messages
        if plan.own.needs_sibling_session(model):
            calls += sum(len(talk.script.course.steps) for talk in own)
        return calls, prompt + system * calls, calls * longest

    def advise(self, plan: Plan) -> Iterator[str]:
        """Warn of answers that would be truncated or lost, and of undeclared outcomes."""
        needed = estimate_tokens(plan.own.courses)
        speakers = {c.speakers[0].model: c.speakers[0] for c in plan.conditions.values()}
        for name, speaker in speakers.items():
            if speaker.sampling.max_tokens < needed:
                yield (
                    f"max_tokens = {speaker.sampling.max_tokens} may truncate answers of {name}; "
                    f"leave it out of [sampling], or allow {needed}"
                )
        if not plan.own.declared:
            yield (
                "no [[outcomes.primary]]: all effects on the targets of stressors are primary; "
                "declare the outcomes of interest, and `check` estimates their power"
            )
        if not plan.own.answering.constrained:
            yield "constrained = false in [answers]: replies that name no option are lost"

    def detectable(self, plan: Plan) -> tuple[Any, ...]:
        parts = {name: subject.part.settings for name, subject in plan.models.items()}
        phantoms = {n: p for n, p in parts.items() if isinstance(p, PhantomSubjectSettings)}
        return detectable(plan.own, phantoms)

    def recompute(self, study: Study, archive: Archive) -> Iterator[CheckResult]:
        """Score every trial again from its answers, and repeat the counts of custom parts."""
        scripts = (talk.script for talk in study.talks)
        skipped = Counter(filter(None, map(missing_code, scripts)))
        some = "the trials of the other sessions" if skipped else "every trial"
        yield CheckResult(
            tuple(Finding(*found) for found in rescore(study, archive)),
            (f"{some}, scored again from its answers",),
            tuple(
                f"not recomputed: the trials of {plural(n, 'session')} under a part of {code}"
                for code, n in skipped.items()
            ),
        )
        yield recompute_draws(study, archive)
        found, unchecked = recount(study)
        yield CheckResult(
            tuple(Finding(*each) for each in found),
            unchecked=tuple(
                f"not recomputed: {n:,} counts of {code}" for code, n in unchecked.items()
            ),
        )

    def export_tables(self) -> Mapping[str, tuple[Columns, str]]:
        return {
            "trials": (
                {**TALK, "outcome": str, **TRIAL_COLUMNS},
                "SELECT c.condition, c.prompt, c.bucket, c.repeat, c.outcome, t.* FROM trials t "
                "JOIN trajectories c ON c.id = t.trajectory ORDER BY c.position, t.trial",
            ),
            "probes": (
                {**TALK, "turn": int, "probe": str, "text": str, "hash": str},
                "SELECT c.condition, c.prompt, c.bucket, c.repeat, p.* FROM probes p "
                "JOIN trajectories c ON c.id = p.trajectory ORDER BY c.position, p.turn",
            ),
        }

    def analyse(self, study: Study, estimates: Estimates) -> TrialAnalysis:
        return analyse_trial(study, estimates=estimates)

    def name_numbers(
        self, study: Study, analysis: TrialAnalysis | None, reliability: Any = None, **found: Any
    ) -> Iterator[Any]:
        """The measures of each arm of each subject, and the effects."""
        from chimeralab.report.named_numbers import estimate_entries  # noqa: PLC0415 - rarely needed

        if analysis is None:
            return
        counts = {"sessions": analysis.sessions, "scenarios": analysis.scenarios}
        for name, count in counts.items():
            yield ("count", name), count, f"{count:,}", f"{name} in the analysis"
        show = partial(number, digits=3)
        for subject in analysis.subjects:
            who = subject.subject
            for arm in subject.arms:
                cell = short(arm.arm)
                for name, each in arm.measures.items():
                    what, estimate = f"{name} of {who} under {cell}", (each.value, each.interval)
                    yield from estimate_entries((name, who, cell), what, estimate, show)
            for effect in subject.effects:
                words = (effect.measure, who, effect.short_name)
                what = f"effect on {effect.measure} of {who}, {effect.short_name}"
                estimate = (effect.estimate, effect.interval)
                signed = partial(show, sign=True)
                yield from estimate_entries(("effect", *words), what, estimate, signed)
                p = effect.p_holm
                yield ("holm p", *words), p, p_value(p), f"Holm-corrected p, {what}"

    def report(self, study: Study, on_progress: Callable[[str], None], estimates: Estimates) -> Any:
        from chimeralab.trial.report.page import report_trial  # noqa: PLC0415 - draws charts

        return report_trial(study, on_progress, estimates)

    def describe(self, plan: Plan) -> str:
        own: TrialPlan = plan.own
        subjects = len(set(own.subjects.values()))
        sides = {
            "subject": subjects,
            "arm": len(own.arms) // subjects,
            "scenario": len(own.courses),
            "repeat": plan.conversation.repeats,
        }
        return " × ".join(plural(n, noun) for noun, n in sides.items())

    def facts(self, study: Study) -> Mapping[str, Any]:
        names = (*MEASURES, *study.plan.own.custom_measures)
        measures = {str(name): find_measure(name).says for name in names}
        said = {name: escape_markdown(says) for name, says in measures.items()}
        return {"measures": measures, "indices": INDICES, "codebook_measures": said | INDICES}

    def outcome_columns(self) -> Columns:
        return OUTCOME_COLUMNS

    def outcomes(self, study: Study) -> Iterable[Mapping[str, Any]]:
        plan = restore_plan(study)
        trials = load_trials(study, complete=True)
        for measured in measure_sessions(trials, plan.weights, plan.custom_measures):
            (row, *_), tallies = measured
            for part in split_quarters([measured], plan.weights):
                quarter = part.arm.rpartition(" ")[2]
                tallies |= {f"{name}.{quarter}": tally for name, tally in part.tallies.items()}
            session = (row.session, row.arm, row.scenario, row.repeat, row.dose)
            for name, tally in tallies.items():
                cells = (*session, str(name), float(tally.hits), float(tally.among), tally.share)
                yield dict(zip(OUTCOME_COLUMNS, cells, strict=True))

    def load_rows(self, study: Study) -> Iterator[tuple[Sequence[TrialRow], bool]]:
        if not study.has_begun:
            return
        with study.archive() as archive:
            ended = {talk["id"] for talk in archive.talks() if talk["outcome"] is not None}
        for session, rows in groupby(load_trials(study), key=attrgetter("session")):
            yield tuple(rows), session in ended

    def live_results(self, study: Study) -> Mapping[str, Mapping[str, str]]:
        """The metrics of each arm so far, with intervals."""
        weights = study.plan.own.weights
        arms: dict[str, RunningMetrics] = {}
        for rows, _ in self.load_rows(study):
            arms.setdefault(str(rows[0].arm), RunningMetrics(weights)).add(rows)
        found = {}
        for arm, running in arms.items():
            metrics = running.measure()
            cells = {"sessions": f"{metrics.sessions:,}", "trials": f"{metrics.trials:,}"}
            for name in PARTS:
                part = getattr(metrics, name)
                cells[name] = number(part.value, 2)
                if part.value is not None and part.interval is not None:
                    cells[name] += f" ({between(part.interval, 2)})"
            found[arm] = cells
        return found

    def show_talk(self, study: Study, talk: str, condition: str) -> Any:
        """A session as in the report."""
        from chimeralab.trial.report.page import show_session  # noqa: PLC0415 - drawing is slow

        found = show_session(study, talk, condition, limit=MAX_TRIALS_SHOWN)
        return found if found.lines else None


def _read_agents(
    named: Mapping[str, Any], known: Mapping[str, Subject], loader: PartLoader
) -> dict[str, Subject]:
    found = {}
    for name, table in named.items():
        place = f"[agents.{name}]"
        if name in known:
            raise InputError(f"{place}: a model already has this name; rename one of them")
        subject = read_subject(AGENTS, table, place, loader, agents.SEAM)
        if not any(hasattr(subject.part.settings, each) for each in ("start", "open", "within")):
            raise InputError(
                f"use = {subject.part.use!r} in {place} is not an agent; it needs a method "
                "start(session)"
            )
        found[name] = subject
    return found


def _abilities(name: str, settings: Any, loader: PartLoader) -> tuple[str, ...]:
    """The abilities of an agent, from the lock if there is one: reading a study runs no code."""
    for words, file in (
        settings.code(loader.folder).items() if callable(getattr(settings, "code", None)) else ()
    ):
        loader.register_code(words, file)
    known = (loader.locked().get("trial") or {}).get("agents", {})
    place = f"[agents.{name}]"
    if name in known:
        return tuple(known[name])
    if loader.consent is None and not hasattr(settings, "can"):
        raise InputError(
            f"{place} is code, which this command does not run, and no lock or run describes it; "
            "`chimera lock STUDY --allow-code` does"
        )
    return find_abilities(settings, loader.folder, place)


def analyse_trial(
    study: Study,
    estimates: Estimates | None = None,
    *,
    seed: int = SEED,
    resamples: int = RESAMPLES,
) -> TrialAnalysis:
    """Analyse the complete sessions of a trial; see `TrialAnalysis`.

    Estimates with a non-default seed or number of resamples are not stored.
    """

    def compute() -> TrialAnalysis:
        plan, trials = restore_plan(study), load_trials(study, complete=True)
        found = analyse_sessions(trials, plan, seed=seed, resamples=resamples)
        planned, source = len(study.talks), str(study.path)
        return replace(found, source=source, planned=planned, left_out=incomplete_sessions(study))

    if (seed, resamples) != (SEED, RESAMPLES):
        return compute()
    plan: TrialPlan = study.plan.own
    names = {f"{type(each).__name__} {each}": each for each in (*plan.arms, *plan.custom_measures)}
    known = {"words": TRIAL, **names}
    stored = estimates or Estimates(study)
    # Whether code may run matters: without it, a custom stressor can't check what it removed.
    found = stored.get_or_compute(TrialAnalysis, compute, study.consent is not None, known=known)
    return replace(found, source=str(study.path))


def find_plan(table: Path) -> Study | None:
    """The plan that a table of trials was exported with: next to it, or one folder above."""
    folders = (table.parent, table.parent.parent)
    return next((Study(each) for each in folders if (each / "plan.toml").is_file()), None)


def analyse_table(path: Path, *, seed: int = SEED, resamples: int = RESAMPLES) -> TrialAnalysis:
    """Analyse an exported table of trials; the plan next to it says what was compared."""
    log, study = TrialLog(path), find_plan(path)
    if study is None or not log.exported:
        raise InputError(
            f"{path} needs the plan of the trial: export it again, or put its plan.toml (and "
            "plan.lock) next to it; `chimera measure` reads any table of trials"
        )
    plan = trial_plan(study)
    for name in (*plan.measures, *plan.own):
        raise InputError(
            f"{path}: {name} is counted by the code of its study; analyse the study or its bundle"
        )
    trials = log.read_complete()
    for row in trials:
        choose(str(row.arm), plan.arms, f"arm {row.arm!r} in {path}, with {study.plan_path}")
    found = analyse_sessions(trials, plan, seed=seed, resamples=resamples)
    cut = Counter(
        (arm, outcome or "not finished")
        for (arm, _), outcome in log.outcomes.items()
        if outcome != COMPLETE
    )
    left_out = tuple(SessionsLeftOut(*key, count) for key, count in cut.items())
    return replace(found, source=str(path), planned=len(study.talks), left_out=left_out)


def load_complete(path: Path) -> tuple[list[TrialRow], MetricWeights]:
    """The complete sessions of a trial or a table of trials, and the weights of the plan."""
    study = Study(path) if path.is_dir() else find_plan(path)
    weights = MetricWeights() if study is None else trial_plan(study).weights
    if study is not None and path.is_dir():
        return list(load_trials(study, complete=True)), weights
    return TrialLog(path).read_complete(), weights
