"""Self-play as a kind of study: models talk to each other, and a detector judges the result."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import number, p_value, percent, plural
from chimeralab.core.parts import PartLoader, read_record
from chimeralab.core.records import Detection, plain_value
from chimeralab.core.result_words import MARK, ResultWords
from chimeralab.core.tables import Columns
from chimeralab.models.catalogue import MODELS
from chimeralab.rating.calibration import recompute_calibrations
from chimeralab.rating.plan import CALIBRATION, check_raters
from chimeralab.rating.study_audit import (
    Reliability,
    load_reliability,
    recompute_draws,
    recompute_gate,
    scope_of,
)
from chimeralab.report.named_numbers import Entry, estimate_entries
from chimeralab.report.table import UNITS
from chimeralab.runner import Rules
from chimeralab.selfplay.analysis import Analysis, analyse
from chimeralab.selfplay.escape import (
    MEASURES as ESCAPE_MEASURES,
)
from chimeralab.selfplay.escape import (
    Escape,
    EscapeAnalysis,
    arms_of,
    detectable_escapes,
    load_escape,
)
from chimeralab.selfplay.outcomes import MEASURES, PAIRS, Outcomes, measure_name
from chimeralab.selfplay.plan import (
    EXTRA_TABLES,
    ConditionTable,
    PromptTable,
    cross_perturbations,
    read_countermeasure,
    read_extras,
    read_prompts,
    read_speakers,
)
from chimeralab.selfplay.runs import Runs, load_runs, run_from_detection
from chimeralab.stats.clusters import share
from chimeralab.stats.effects import SELF_PLAY, ContrastSpec, Effect, list_pairs
from chimeralab.stats.resample import SampleDesign
from chimeralab.study.estimates import Estimates
from chimeralab.study.folder import Study
from chimeralab.study.forecast import TOKENS_PER_MESSAGE, max_token_count
from chimeralab.study.kind import Design, Kind
from chimeralab.study.plan import Condition, Plan, SamplingChange, read_models, read_named_tables
from chimeralab.study.store import Archive
from chimeralab.study.verdicts import CheckResult, load_detections

# One row per judged conversation, as `chimera analyse` reads it.
OUTCOME_COLUMNS: Columns = {
    "trajectory": str,
    "condition": str,
    "seed_id": str,
    "repeat_index": int,
    "seed_bucket": str,
    "total_turns": int,
    "at_risk_turns": int,
    "collapsed_turns": int,
    "collapse_rate": float,
    "first_collapse_turn": int,
    "episodes": str,
    "blank_turns": int,
    "unseen_turns": int,
    "cycle_turns": int,
    "outcome": str,
}


class SelfPlay(Kind):
    """Conversations between models, by condition and seed prompt."""

    name: ClassVar[str] = "selfplay"
    required: ClassVar[tuple[str, ...]] = ("study", "models", "conditions", "prompts")
    tables: ClassVar[tuple[str, ...]] = (
        *required,
        "sampling",
        "conversation",
        "detector",
        "live",
        "run",
        "perturbations",
        "escape",
        *EXTRA_TABLES,
    )

    def read(
        self, tables: Mapping[str, Any], loader: PartLoader, locked: Mapping[str, Any] | None
    ) -> Design:
        extras = self.read_extras(tables, loader)
        models = read_models(tables, loader, MODELS)
        sampling = read_record(SamplingChange, tables.get("sampling", {}), "[sampling]")
        by_model = {
            name: read_record(SamplingChange, each.get("sampling", {}), f"[models.{name}.sampling]")
            for name, each in tables["models"].items()
        }
        conditions = {}
        for name, table in read_named_tables(tables, "conditions", needed=True).items():
            place = f"[conditions.{name}]"
            read = read_record(ConditionTable, table, place)
            speakers = read_speakers(read, sampling, by_model, place)
            conditions[name] = Condition(
                speakers, read_countermeasure(read, by_model, place, loader)
            )
        prompts = read_prompts(
            read_record(PromptTable, tables["prompts"], "[prompts]"), loader.folder
        )
        rules = read_record(Rules, tables.get("conversation", {}), "[conversation]")
        conditions = cross_perturbations(tables, conditions, rules, by_model, loader)
        if any(condition.schedule for condition in conditions.values()):
            extras["escape"] = read_record(Escape, tables.get("escape", {}), "[escape]")
            extras["escape"].check(arms_of(conditions), rules.turns)
        elif "escape" in tables:
            raise InputError("[escape] needs a treatment; add [perturbations.NAME]")
        extras["outcomes"].check(conditions, {prompt.bucket for prompt in prompts})
        check_raters(extras["gate"], extras["raters"], models)
        return Design(models, conditions, rules, prompts, extras)

    def read_extras(self, tables: Mapping[str, Any], loader: PartLoader) -> dict[str, Any]:
        return read_extras(tables, loader)

    def count_requests(self, plan: Plan, model: str) -> tuple[int, int, int]:
        """An upper bound: every turn of maximum length, with all earlier turns in the prompt."""
        calls = prompt_tokens = completion_tokens = 0
        rules, repeats = plan.conversation, plan.conversation.repeats
        times = len(plan.prompts) * repeats
        seeds = sum(max_token_count(prompt.text) for prompt in plan.prompts)
        for condition in plan.conditions.values():
            earlier = 0
            for turn in range(1, rules.turns + 1):
                slot = (turn - 1) % len(condition.speakers)
                speaker = condition.speakers[slot]
                longest = speaker.sampling.max_tokens
                if speaker.model == model:
                    calls += times
                    completion_tokens += times * longest
                    history = (
                        earlier
                        + max_token_count(speaker.system or "")
                        + TOKENS_PER_MESSAGE * (turn + 1)
                    )
                    prompt_tokens += times * history
                    prompt_tokens += (
                        repeats * seeds if rules.seed_visible == "all" or slot == 0 else 0
                    )
                earlier += longest
        return calls, prompt_tokens, completion_tokens

    def advise(self, plan: Plan) -> Iterator[str]:
        """Warn of sides that differ in more than one factor, and of cycles that can't be seen."""
        outcomes = plan.extras["outcomes"]
        named = {each.name: ContrastSpec(each.by_condition) for each in outcomes.contrasts}
        every = list_pairs(list(plan.conditions))
        asked = [each.contrast for each in outcomes.estimands] or [PAIRS]
        compared = {
            each.name: each
            for name in asked
            for each in (every if name == PAIRS else [named[name]])
        }
        by_factors: dict[str, list[str]] = {}
        for name, contrast in compared.items():
            sides = [
                [
                    plan.conditions[each]
                    for each, weight in contrast.weights.items()
                    if weight * sign > 0
                ]
                for sign in (1, -1)
            ]
            first, second = (_factors(side) for side in sides)
            differing = [factor for factor in first if first[factor] != second[factor]]
            if len(differing) > 1:
                by_factors.setdefault(" and in ".join(differing), []).append(name)
        for factors, names in by_factors.items():
            yield (
                f"{', '.join(names)}: the sides differ in {factors}, so a difference between them "
                "can't be attributed to one of these"
            )
        lags = plan.detector.settings.needs.lags
        declared = any(each.measure not in MEASURES for each in outcomes.estimands)
        for name, condition in plan.conditions.items() if lags and not declared else ():
            if (many := len(condition.speakers)) > lags:
                yield (
                    f"{name}: a cycle of its {many} speakers is longer than the {lags} turns that "
                    "the rule looks back, which marks none of it; an estimand with measure = "
                    "'cycle_share' and role = 'secondary' sees it"
                )

    def detectable(self, plan: Plan) -> tuple[Any, ...]:
        if (declared := plan.extras.get("escape")) is None:
            return ()
        repeats = plan.conversation.repeats
        return detectable_escapes(declared, len(plan.prompts), repeats, plan.conditions)

    def recompute(self, study: Study, archive: Archive) -> Iterator[CheckResult]:
        yield recompute_draws(study, archive)
        yield recompute_gate(study)
        if archive.value("SELECT 1 FROM study WHERE key LIKE ?", f"{CALIBRATION}%"):
            yield recompute_calibrations(study)

    def analyse(self, study: Study, estimates: Estimates) -> Analysis:
        detections = list(load_detections(study))
        return analyse_runs(study, load_runs(study, detections, study.path.name), estimates)

    def name_numbers(
        self,
        study: Study,
        analysis: Analysis | None,
        reliability: Reliability | None = None,
        **found: Any,
    ) -> Iterator[Entry]:
        detections = found.get("detections")
        if detections is None:
            detections = list(load_detections(study))
        if analysis:
            first = (name for name in study.plan.conditions if name in analysis.conditions)
            order = list(dict.fromkeys([*first, *analysis.conditions]))
            yield from selfplay_entries(analysis, order, scope_of(reliability).words)
        yield from loop_entries(detections, list(study.plan.conditions))
        if "escape" in study.plan.extras:
            yield from escape_entries(load_escape(study, detections))

    def report(self, study: Study, on_progress: Callable[[str], None], estimates: Estimates) -> Any:
        from chimeralab.selfplay.report.page import report_selfplay  # noqa: PLC0415 - draws charts

        return report_selfplay(study, on_progress, estimates)

    def describe(self, plan: Plan) -> str:
        sides = [plural(len(plan.conditions), "condition"), plural(len(plan.prompts), "prompt")]
        return " × ".join([*sides, plural(plan.conversation.repeats, "repeat")])

    def facts(self, study: Study) -> Mapping[str, Any]:
        outcomes: Outcomes = study.plan.extras["outcomes"]
        measured = dict.fromkeys(each.measure for each in outcomes.estimands)
        return {
            "detector": study.plan.detector.settings,
            "outcomes": outcomes,
            "escape": study.plan.extras.get("escape"),
            "questions": outcomes.questions,
            "measures": {name: measure_name(name, MARK) for name in measured},
            "exclusions": list(
                dict.fromkeys((each.failed_turns, each.empty_turns) for each in outcomes.estimands)
            ),
            "raters": partial(_count_labels, study),
            "reliability": partial(load_reliability, study),
            "codebook_measures": {},
        }

    def outcome_columns(self) -> Columns:
        return OUTCOME_COLUMNS

    def outcomes(self, study: Study) -> Iterable[Mapping[str, Any]]:
        """One row per judged conversation, as `chimera analyse` reads it."""
        lags = study.plan.detector.settings.needs.lags
        for detection in load_detections(study):
            if run := run_from_detection(detection, lags):
                rate = detection.collapse_rate
                yield {"trajectory": detection.id, **run.as_dict(), "collapse_rate": rate}


def _factors(side: Sequence[Condition]) -> dict[str, object]:
    """The factors that a side of a comparison sets."""
    speakers = [speaker for condition in side for speaker in condition.speakers]
    return {
        "models": {speaker.model for speaker in speakers},
        "instructions": {speaker.system for speaker in speakers},
        "temperature": {speaker.sampling.temperature for speaker in speakers},
        "top_p": {speaker.sampling.top_p for speaker in speakers},
        "length of replies": {speaker.sampling.max_tokens for speaker in speakers},
        "countermeasure": {repr(condition.countermeasure) for condition in side},
    }


def _count_labels(study: Study) -> dict[str, int]:
    """Count the labels of each rater."""
    query = (
        "SELECT w.name, count(*) AS n FROM ratings r JOIN raters w ON w.id = r.rater "
        "GROUP BY w.name"
    )
    with study.archive() as archive:
        return {row["name"]: row["n"] for row in archive.rows(query)}


def analyse_runs(
    study: Study, runs: Runs, estimates: Estimates, changed: Mapping[str, Any] | None = None
) -> Analysis:
    """Analyse the runs of a study as its plan declares, or take the stored estimates.

    `changed` are the verdicts that differ from the stored ones.
    """
    outcomes = study.plan.extras.get("outcomes", Outcomes())

    def compute() -> Analysis:
        return analyse(runs, outcomes)

    inputs = (plain_value(runs.left_out), changed or {})
    found = estimates.get_or_compute(Analysis, compute, *inputs, known={"words": SELF_PLAY})
    return replace(found, source=runs.source)


def selfplay_entries(
    analysis: Analysis, order: Sequence[str], words: ResultWords
) -> Iterator[Entry]:
    """Name the numbers of each condition, in this order, and of their comparisons."""
    counts = {"runs": analysis.runs, "prompts": analysis.seeds}
    for name, count in counts.items():
        yield ("count", name), count, f"{count:,}", f"{name} in the analysis"
    for name in order:
        of = analysis.conditions[name]
        yield ("count", "runs", name), of.n, f"{of.n:,}", f"runs of {name}"
        what = f"{measure_name('share', words)}, {name}"
        yield from estimate_entries(("rate", name), what, (of.mean, of.share_ci), percent)
        what = f"{measure_name('incidence', words)}, {name}"
        found = (of.incidence, of.incidence_ci)
        yield from estimate_entries(("incidence", name), what, found, percent)
        what = f"share of runs with a cycle that the declared rule can't count, {name}"
        unseen = (of.unseen_share, of.unseen_ci)
        yield from estimate_entries(("unseen", "cycles", name), what, unseen, percent)
    for comparison in analysis.contrasts:
        yield from _of_comparison((), comparison, words)
    for answer in analysis.answers:
        for comparison in answer.comparisons:
            prefix = (answer.estimand.role, comparison.measure)
            yield from _of_comparison(prefix, comparison, words)


def loop_entries(detections: Sequence[Detection], order: Sequence[str]) -> Iterator[Entry]:
    """Name the counts and shares of looping conversations; prompts are clusters."""
    for name in order:
        judged = [
            found
            for found in detections
            if found.metadata["condition"] == name and found.looping is not None
        ]
        if not judged:
            continue
        hits = np.array([found.looping for found in judged], dtype=np.float64)
        design = SampleDesign(clusters=[str(found.metadata["prompt"]) for found in judged])
        looping = share(hits, np.ones_like(hits), design)
        what = f"conversations that loop by the loop detector, {name}"
        yield ("count", "looping", name), looping.hits, f"{looping.hits:,}", what
        estimate = (looping.value, looping.interval)
        yield from estimate_entries(("looping", name), f"share of {what}", estimate, percent)


def escape_entries(found: EscapeAnalysis) -> Iterator[Entry]:
    """Name what became of the perturbed loops, by arm, and the differences between arms."""
    for name, arm in found.arms.items():
        for measure, each in arm.estimates.items():
            what = f"{ESCAPE_MEASURES[measure].name} after a loop was perturbed, {name}"
            show = percent if ESCAPE_MEASURES[measure].share else partial(number, digits=1)
            words = (*measure.split("_"), name)
            yield from estimate_entries(words, what, (each.value, each.interval), show)
    for comparison in found.comparisons:
        measure = comparison.measure
        name = ESCAPE_MEASURES[measure].name
        what = f"difference in the {name}, {comparison.a} minus {comparison.b}"
        words = (*measure.split("_"), "diff", comparison.a, "minus", comparison.b)
        show = partial(number, digits=UNITS[measure].digits, scale=UNITS[measure].scale, sign=True)
        estimate = (comparison.estimate, comparison.interval)
        yield from estimate_entries(words, what, estimate, show)


def _of_comparison(prefix: Sequence[str], each: Effect, words: ResultWords) -> Iterator[Entry]:
    unit, pair = UNITS[each.measure], (each.a, "minus", each.b)
    name = measure_name(each.measure, words)
    what = " ".join((*prefix, f"difference in the {name}, {each.a} minus {each.b}"))
    show = partial(number, digits=unit.digits, scale=unit.scale, sign=True)
    yield from estimate_entries(
        (*prefix, "diff", *pair), what, (each.estimate, each.interval), show
    )
    corrected = f"Holm-corrected p of the {what}"
    yield (*prefix, "holm p", *pair), each.p_holm, p_value(each.p_holm), corrected
