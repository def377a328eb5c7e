"""The trial part of a plan: arms, scenarios as laid out, probes and measures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeVar

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.parts import (
    Part,
    PartLoader,
    StandIn,
    choose,
    read_part,
    read_record,
    read_value,
)
from chimeralab.core.records import Record
from chimeralab.runner import Prompt, Rules, Speaker
from chimeralab.stats.effects import ArmKey
from chimeralab.study.kind import MissingSourceError
from chimeralab.study.plan import SamplingChange, merge_sampling, read_named_tables
from chimeralab.trial import measures
from chimeralab.trial import probes as probe_seam
from chimeralab.trial.arms import CONTROL, StressorTables, TrialTable, read_arms
from chimeralab.trial.course import Course, Evidence, Layout
from chimeralab.trial.effects import DeclaredEffect
from chimeralab.trial.measures import CustomMeasure
from chimeralab.trial.metrics import MetricWeights
from chimeralab.trial.probes import PROBES, Probe
from chimeralab.trial.scenarios import SCENARIOS, Scenario, items
from chimeralab.trial.scenarios.items import DEFAULT_NUMBER
from chimeralab.trial.scene import DEFAULT_STRENGTH
from chimeralab.trial.script import AnswerRules, Arm, Script
from chimeralab.trial.stressors import SHAM, read_evidence

T = TypeVar("T")
REQUIRED = ("study", "trial", "scenarios")
TABLES = (
    *REQUIRED, "models", "agents", "stressors", "probes", "arms", "layout", "metrics", "measures",
    "sampling", "conversation", "run", "answers", "outcomes"
)  # fmt: skip
MIN_TOKENS, FREE_TOKENS = 24, 96
AtLeastOne = Annotated[int, Field(ge=1)]
AtLeastZero = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class TrialPlan(Record):
    """The resolved plan of a trial. `arms` and `subjects` are keyed by condition.

    `own` has the custom stressors and probes as the plan names them, `agents` the abilities of each
    agent among the subjects.
    """

    arms: Mapping[str, Arm]
    subjects: Mapping[str, str]
    scenarios: Part
    layout: Layout
    probes: Mapping[str, Probe]
    strength: float
    weights: MetricWeights
    courses: tuple[Course, ...]
    own: Mapping[str, Part] = field(default_factory=dict)
    measures: Mapping[str, Part] = field(default_factory=dict)
    agents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    answering: AnswerRules = field(default_factory=AnswerRules)
    declared: tuple[DeclaredEffect, ...] = ()
    evidence: Evidence = "true"

    def __post_init__(self) -> None:
        for name, part in self.measures.items():
            CustomMeasure(name, part.settings)  # rejects an invalid measure before the run

    def as_dict(self) -> dict[str, Any]:
        """The plan as it is locked."""
        return {**Record.as_dict(self), "probes": list(self.probes)}

    @property
    def custom_measures(self) -> tuple[CustomMeasure, ...]:
        return tuple(CustomMeasure(name, part.settings) for name, part in self.measures.items())

    def script(self, condition: str, scenario: str, seed: int) -> Script:
        """The script of one session; the seed determines when events occur."""
        course = next(course for course in self.courses if course.id == scenario)
        # The order in which probes are asked does not depend on the plan.
        ordered = [*PROBES, *(name for name in self.probes if name not in PROBES)]
        probes = {name: self.probes[name] for name in ordered if name in self.probes}
        return Script(
            course,
            self.arms[condition],
            seed,
            probes,
            self.strength,
            self.has_own_memory(self.subjects[condition]),
            self.answering,
            self.evidence,
        )

    def has_own_memory(self, subject: str) -> bool:
        """Whether a subject keeps its own memory, which the lab can't rewrite."""
        can = self.agents.get(subject, ("history",))
        return not {"history", "recall"} & set(can)

    def describe_memory(self, agent: str) -> str:
        """Describe who keeps the memory of an agent, and where its probes are asked."""
        can = self.agents[agent]
        if "history" in can:
            return "gets the whole conversation with every question"
        if "recall" in can:
            memory = "reads its memory through the lab"
        else:
            forgets = "can forget" if "forget" in can else "can't be made to forget"
            memory = f"keeps its own memory, and {forgets}"
        if "fork" in can:
            return f"{memory}; probes are asked in forks"
        return f"{memory}; probes are asked in a sibling session, since it can't be forked"

    def needs_sibling_session(self, subject: str) -> bool:
        """Whether probes are asked in a second session, since the subject can't be forked."""
        can = self.agents.get(subject, ("history",))
        return not {"history", "fork"} & set(can)


def read_trial(
    tables: Mapping[str, Any],
    loader: PartLoader,
    agents: Mapping[str, tuple[str, ...]],
    locked: tuple[Course, ...] = (),
) -> tuple[dict[str, tuple[Speaker, ...]], tuple[Prompt, ...], Rules, TrialPlan]:
    """Read and check the tables of a trial: its speakers, prompts, rules and `TrialPlan`.

    `locked` has the courses of the lock, for scenarios that can't be generated again.
    """
    table = read_record(TrialTable, tables["trial"], "[trial]")
    tested = (*tables.get("models", {}), *tables.get("agents", {}))
    for name in table.subjects:
        choose(name, tested, f"model {name!r} in [trial] subjects")
    stressors = StressorTables(tables, loader)
    arms = read_arms(tables, table, stressors, loader)
    _check_abilities(agents, arms)
    probes, custom_probes = _read_probes(tables, table, arms, loader)
    layout = _read_table(Layout, tables, "layout")
    source, courses = _read_scenarios(tables, layout, arms, loader, locked)
    # Conditions are named after the subject only if there are several.
    several = len(table.subjects) > 1
    keys = [
        ArmKey(f"{subject}.{arm}" if several else arm, subject, arm)
        for subject in table.subjects
        for arm in arms
    ]
    # Arms that do not set the evidence use what [stressors] says.
    parts = [stressors.part(name, {}, "[stressors]") for name in stressors.tables]
    strength, evidence = read_evidence(parts, DEFAULT_STRENGTH, "true")
    plan = TrialPlan(
        arms={key: arms[key.arm] for key in keys},
        subjects={key: key.subject for key in keys},
        scenarios=source,
        layout=layout,
        probes=probes,
        strength=strength,
        weights=_read_table(MetricWeights, tables, "metrics"),
        courses=courses,
        own={**stressors.custom_parts(), **custom_probes},
        measures={
            name: read_part({}, measure, f"[measures.{name}]", loader, measures.SEAM)
            for name, measure in read_named_tables(tables, "measures").items()
        },
        agents=agents,
        answering=_read_table(AnswerRules, tables, "answers"),
        declared=_read_outcomes(tables),
        evidence=evidence,
    )
    _check_declared(plan, arms)
    speakers = _read_speakers(tables, table, keys, estimate_tokens(courses))
    prompts = tuple(Prompt(course.id, course.opening, course.kind) for course in courses)
    return speakers, prompts, _read_rules(tables, table, len(courses[0].steps)), plan


def _read_table(cls: type[T], tables: Mapping[str, Any], name: str) -> T:
    """Read a table of the plan, with defaults if it is missing."""
    return read_record(cls, tables.get(name, {}), f"[{name}]")


def _read_speakers(
    tables: Mapping[str, Any], table: TrialTable, keys: Iterable[ArmKey], max_tokens: int
) -> dict[str, tuple[Speaker, ...]]:
    """The subject of each condition, with `max_tokens` unless the plan sets them."""
    outer = _read_table(SamplingChange, tables, "sampling")
    if outer.max_tokens is None:
        outer = replace(outer, max_tokens=max_tokens)
    tested = {**tables.get("models", {}), **tables.get("agents", {})}
    speakers: dict[str, tuple[Speaker, ...]] = {}
    for key in keys:
        changes = tested[key.subject].get("sampling", {})
        inner = read_record(SamplingChange, changes, f"[models.{key.subject}.sampling]")
        sampling = merge_sampling(outer, inner)
        speakers[key] = (Speaker(key.subject, key.subject, sampling, table.system),)
    return speakers


def _read_outcomes(tables: Mapping[str, Any]) -> tuple[DeclaredEffect, ...]:
    """Read the primary effects; all others are exploratory."""
    table = tables.get("outcomes", {})
    for key in table:
        choose(key, ("primary",), f"key {key!r} in [outcomes]")
    effects: tuple[DeclaredEffect, ...] = read_value(
        tuple[DeclaredEffect, ...], table.get("primary", []), "[outcomes] primary"
    )
    return effects


def _check_declared(plan: TrialPlan, arms: Mapping[str, Arm]) -> None:
    """Reject a declared effect that does not exist."""
    known = (*measures.METRICS, *measures.MEASURES, *plan.custom_measures)
    for each in plan.declared:
        place = "[[outcomes.primary]]"
        choose(each.measure, dict.fromkeys(known), f"measure {each.measure!r} in {place}")
        for name in filter(None, (each.arm, each.against)):
            choose(name, arms, f"arm {name!r} in {place}")
        if each.arm in each.pair(find_reference(arms))[1:]:
            raise InputError(f"{place} compares {each.arm!r} with itself; name another arm")


def find_reference(arms: Mapping[str, Arm]) -> str:
    """The arm that others are compared with by default: the sham, or else the control."""
    return SHAM if SHAM in arms else CONTROL


def estimate_tokens(courses: Iterable[Course]) -> int:
    """Estimate the tokens for the longest option; a free answer gets a sentence or two."""
    questions = [
        question
        for course in courses
        for step in course.steps
        for question in (step.question, step.recall)
        if question is not None
    ]
    if not all(question.options for question in questions):
        return FREE_TOKENS
    longest = max(len(option.encode()) for each in questions for option in each.options)
    # Few tokenizers need more than one token for two bytes.
    return max(MIN_TOKENS, longest // 2 + 4)


def _read_scenarios(
    tables: Mapping[str, Any],
    layout: Layout,
    arms: Mapping[str, Arm],
    loader: PartLoader,
    locked: tuple[Course, ...],
) -> tuple[Part, tuple[Course, ...]]:
    """Read [scenarios], and lay out each scenario."""
    table = tables["scenarios"]
    if not isinstance(table, Mapping):
        raise InputError("[scenarios] must be a table")
    number = read_value(AtLeastOne | None, table.get("number"), "[scenarios] number")
    first = read_value(AtLeastZero, table.get("first", 1), "[scenarios] first")
    rest = {key: value for key, value in table.items() if key not in ("number", "first")}
    source = read_part(SCENARIOS, rest, "[scenarios]", loader, items.SEAM)
    if locked:
        # No other check would notice a changed number.
        if number not in (None, len(locked)):
            raise InputError(
                f"[scenarios] number = {number}, but {len(locked)} were locked; "
                "undo the change, or restore the files of the set and start a new study"
            )
        return source, locked
    parts = [part for arm in arms.values() for part in arm.stressors.values()]
    if any(isinstance(part, StandIn) for part in (source.settings, *parts)):
        raise MissingSourceError("code that this command does not run generates the scenarios")
    scenarios: Iterable[Scenario]
    if hasattr(source.settings, "within"):
        scenarios = source.settings.within(loader.folder).read(number)
    else:
        seeds = range(first, first + (number or DEFAULT_NUMBER))
        scenarios = (source.settings.make(seed) for seed in seeds)
    rounds = max((part.rounds_needed for part in parts), default=0)
    seed = tables.get("run", {}).get("seed", 0)
    courses = tuple(layout.lay_out(scenario, rounds, seed) for scenario in scenarios)
    lengths = {len(course.steps) for course in courses}
    if len(lengths) > 1 or 0 in lengths:
        raise InputError(f"[scenarios] need the same number of questions; these have {lengths}")
    _check_exposure(courses, arms)
    return source, courses


def _check_abilities(agents: Mapping[str, tuple[str, ...]], arms: Mapping[str, Arm]) -> None:
    """Reject a stressor on a memory that can't be changed, which would look resilient."""
    stressors = {
        name: part for arm in arms.values() if not arm.sham for name, part in arm.stressors.items()
    }
    for agent, can in agents.items():
        for name, part in stressors.items():
            needed = part.acts_on_memory
            if needed is None or {needed, "recall", "history"} & set(can):
                continue
            raise InputError(
                f"[stressors.{name}] can't act on [agents.{agent}], which keeps its own memory and "
                f"has no {needed}(); leave it out, or see `can` in docs/agents.md"
            )


def _check_exposure(courses: Sequence[Course], arms: Mapping[str, Arm]) -> None:
    """Reject a stressor that never acts, since its subject would look resilient."""
    steps = [step for course in courses for step in course.steps]
    parts = {name: part for arm in arms.values() for name, part in arm.stressors.items()}
    for name, part in parts.items():
        if not any(part.acts_on(step) for step in steps):
            raise InputError(
                f"[stressors.{name}] never acts on these scenarios; "
                "choose others in [scenarios], or see beliefs and consensus in [layout]"
            )
        short = next((course for course in courses if len(course.beliefs) < 2), None)
        if part.evidence_mode == "mixed" and short is not None:
            raise InputError(
                f'[stressors.{name}] evidence = "mixed" needs two beliefs in every scenario, but '
                f"{short.id} has {len(short.beliefs)}; see beliefs in [layout]"
            )


def _read_probes(
    tables: Mapping[str, Any], table: TrialTable, arms: Mapping[str, Arm], loader: PartLoader
) -> tuple[dict[str, Probe], dict[str, Part]]:
    """The probes of a trial, and those of them that [probes.NAME] defines."""
    custom: dict[str, Part] = {}
    for name, settings in read_named_tables(tables, "probes").items():
        place = f"[probes.{name}]"
        if name in PROBES:
            raise InputError(f"{place}: {name!r} is a built-in probe; choose another name")
        custom[name] = read_part({}, settings, place, loader, probe_seam.SEAM)
        if not isinstance(custom[name].settings, Probe):
            raise InputError(
                f"{place} use = {custom[name].use!r} is not a Probe; inherit from "
                "chimeralab.trial.probes.Probe"
            )
    known = {**PROBES, **{name: part.settings for name, part in custom.items()}}
    wanted = tuple(known) if table.probes is None else table.probes
    for name in wanted:
        choose(name, known, f"probe {name!r} in [trial] probes")
    unused = [name for name in custom if name not in wanted]
    if unused:
        raise InputError(f"[probes.{unused[0]}] is never asked; name it in [trial] probes")
    for name, arm in arms.items():
        # Without these probes, the countermeasure does nothing.
        for probe in getattr(arm.countermeasure, "rests_on", ()):
            if probe not in wanted:
                raise InputError(
                    f'[trial] probes lacks "{probe}", which the countermeasure of {name!r} needs; '
                    "add it, or leave the arm out"
                )
    own = {f"probes.{name}": part for name, part in custom.items()}
    return {name: known[name] for name in wanted}, own


def _read_rules(tables: Mapping[str, Any], table: TrialTable, turns: int) -> Rules:
    rules = _read_table(Rules, tables, "conversation")
    for key in ("turns", "repeats", "seed_visible", "stop_early"):
        if key in tables.get("conversation", {}):
            raise InputError(
                f"[conversation] {key} does not apply to trials; see [trial] and [layout]"
            )
    if rules.rule("overflow").keep:
        raise InputError("[conversation] on_overflow can't trim a trial: that would be amnesia")
    return replace(rules, turns=turns, repeats=table.repeats)
