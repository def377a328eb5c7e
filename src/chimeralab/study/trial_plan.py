"""The part of a plan that only a trial has: arms, scenarios as they will be put, and probes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from chimeralab.analysis.contrasts import ArmKey
from chimeralab.core.errors import InputError
from chimeralab.core.parts import Part, choose, read_part, read_record
from chimeralab.core.records import Record
from chimeralab.models.seam import Sampling
from chimeralab.runner import Prompt, Rules, Speaker
from chimeralab.sandbox.course import Course, Layout
from chimeralab.sandbox.metrics import MetricWeights
from chimeralab.sandbox.probes import Probe
from chimeralab.sandbox.scenarios import SCENARIOS, Scenario
from chimeralab.sandbox.scenarios.items import USUAL_NUMBER
from chimeralab.sandbox.script import Arm, Script
from chimeralab.sandbox.stressors import Infallibility
from chimeralab.study.sections import SamplingChange, innermost
from chimeralab.study.trial_arms import read_arms
from chimeralab.study.trial_sections import ScenarioCount, TrialTable

REQUIRED = ("study", "models", "trial", "scenarios")
TABLES = (*REQUIRED, "stressors", "arms", "layout", "metrics", "sampling", "conversation", "run")


@dataclass(frozen=True, slots=True)
class TrialPlan(Record):
    """What a trial does to whom. `arms` and `subjects` go by the names of the conditions."""

    arms: Mapping[str, Arm]
    subjects: Mapping[str, str]
    scenarios: Part
    layout: Layout
    probes: tuple[Probe, ...]
    strength: float
    weights: MetricWeights
    courses: tuple[Course, ...]

    @property
    def parts(self) -> list[Part]:
        """The scenarios and countermeasures, which may come from outside this package."""
        arms = self.arms.values()
        return [
            self.scenarios,
            *(Part(arm.against, arm.countermeasure) for arm in arms if arm.against),
        ]

    def script(self, condition: str, scenario: str, seed: int) -> Script:
        """The session of one condition and scenario; the seed decides where events fall."""
        course = next(course for course in self.courses if course.id == scenario)
        return Script(course, self.arms[condition], seed, self.probes, self.strength)


class Trial(NamedTuple):
    """A trial in the words that every study has, and what it has beyond them."""

    speakers: Mapping[str, tuple[Speaker, ...]]
    prompts: tuple[Prompt, ...]
    rules: Rules
    plan: TrialPlan


def read_trial(tables: Mapping[str, Any], folder: Path, locked: tuple[Course, ...] = ()) -> Trial:
    """Read and check everything that a trial adds to a plan, its scenarios written out.

    Where they can't be made anew, `locked` holds them as they were written out before.
    """
    table = read_record(TrialTable, tables["trial"], "[trial]")
    for name in table.subjects:
        choose(name, tables["models"], f"model {name!r} in [trial] subjects")
    arms = read_arms(tables, table, folder)
    _refuse_idle_commitment(arms, table)
    layout = read_record(Layout, tables.get("layout", {}), "[layout]")
    source = _source(tables["scenarios"], folder)
    _refuse_another_number(source.wanted, locked)
    courses = locked or _courses(_scenarios(source, folder), layout, arms, tables)
    cast = _cast(table, arms)
    plan = TrialPlan(
        arms={key: arms[key.arm] for key in cast},
        subjects={key: key.subject for key in cast},
        scenarios=source.part,
        layout=layout,
        probes=table.probes,
        strength=_strength(tables),
        weights=read_record(MetricWeights, tables.get("metrics", {}), "[metrics]"),
        courses=courses,
    )
    speakers: dict[str, tuple[Speaker, ...]] = {
        key: (_speaker(key.subject, table, tables),) for key in cast
    }
    prompts = tuple(Prompt(course.id, course.opening, course.kind) for course in courses)
    return Trial(speakers, prompts, _rules(tables, table, len(courses[0].steps)), plan)


def _cast(table: TrialTable, arms: Mapping[str, Arm]) -> tuple[ArmKey, ...]:
    """Every subject under every arm; a subject's name is only needed where there are several."""
    several = len(table.subjects) > 1
    return tuple(
        ArmKey(f"{subject}.{arm}" if several else arm, subject, arm)
        for subject in table.subjects
        for arm in arms
    )


class _Source(NamedTuple):
    part: Part
    wanted: ScenarioCount


def _source(table: Any, folder: Path) -> _Source:
    if not isinstance(table, Mapping):
        raise InputError("[scenarios] takes a table of keys")
    common = {key: table[key] for key in ("number", "first") if key in table}
    count = read_record(ScenarioCount, common, "[scenarios]")
    rest = {key: value for key, value in table.items() if key not in common}
    return _Source(read_part(SCENARIOS, rest, "[scenarios]", folder), count)


def _scenarios(source: _Source, folder: Path) -> tuple[Scenario, ...]:
    settings, wanted = source.part.settings, source.wanted
    if hasattr(settings, "within"):
        found: tuple[Scenario, ...] = settings.within(folder).read(wanted.number)
        return found
    made = range(wanted.first, wanted.first + (wanted.number or USUAL_NUMBER))
    return tuple(settings.make(seed) for seed in made)


def _refuse_another_number(wanted: ScenarioCount, locked: Sequence[Course]) -> None:
    """The number is seen in the scenarios alone, so nothing else would notice its change."""
    if locked and wanted.number not in (None, len(locked)):
        raise InputError(
            f"[scenarios] number = {wanted.number}, but {len(locked)} were locked; "
            "undo the change, or bring the files of the set back and start a new study"
        )


def _courses(
    scenarios: Sequence[Scenario],
    layout: Layout,
    arms: Mapping[str, Arm],
    tables: Mapping[str, Any],
) -> tuple[Course, ...]:
    rounds = max((_rounds(arm) for arm in arms.values()), default=0)
    seed = tables.get("run", {}).get("seed", 0)
    courses = tuple(layout.lay_out(scenario, rounds, seed) for scenario in scenarios)
    lengths = {len(course.steps) for course in courses}
    if len(lengths) > 1 or 0 in lengths:
        raise InputError(f"[scenarios] must all have as many questions; these have {lengths}")
    _refuse_idle(courses, arms)
    return courses


def _rounds(arm: Arm) -> int:
    part = arm.stressors.get("infallibility")
    return part.rounds if isinstance(part, Infallibility) else 0


def _refuse_idle_commitment(arms: Mapping[str, Arm], table: TrialTable) -> None:
    """Without the answer given alone there is nothing to commit to, and the arm would be bare."""
    committed = next((name for name, arm in arms.items() if arm.against == "commit"), None)
    if committed and "alone" not in table.probes:
        raise InputError(
            f'[trial] probes lack "alone", which the countermeasure of {committed!r} rests on; '
            "add it, or leave the arm out"
        )


def _refuse_idle(courses: Sequence[Course], arms: Mapping[str, Arm]) -> None:
    """A stressor that never meets what it acts on would look like a subject without weakness."""
    steps = [step for course in courses for step in course.steps]
    acts_on = {
        "amnesia": any(step.told for step in steps),
        "infallibility": any(step.phase for step in steps),
        "conformity": any(step.consensus for step in steps),
    }
    for name in dict.fromkeys(name for arm in arms.values() for name in arm.stressors):
        if not acts_on.get(name, True):
            raise InputError(
                f"[stressors.{name}] never acts on these scenarios; "
                "choose others in [scenarios], or see beliefs and consensus in [layout]"
            )


def _strength(tables: Mapping[str, Any]) -> float:
    table = tables.get("stressors", {}).get("infallibility", {})
    return float(table.get("strength", Infallibility().strength))


def _speaker(subject: str, table: TrialTable, tables: Mapping[str, Any]) -> Speaker:
    outer = read_record(SamplingChange, tables.get("sampling", {}), "[sampling]")
    place = f"[models.{subject}.sampling]"
    inner = read_record(SamplingChange, tables["models"][subject].get("sampling", {}), place)
    sampling: Sampling = innermost(outer, inner)
    return Speaker(subject, subject, sampling, table.system)


def _rules(tables: Mapping[str, Any], table: TrialTable, turns: int) -> Rules:
    given = tables.get("conversation", {})
    rules = read_record(Rules, given, "[conversation]")
    for key in ("turns", "repeats", "seed_visible", "stop_early"):
        if key in given:
            raise InputError(f"[conversation] {key} is not for trials; see [trial] and [layout]")
    if rules.rule("overflow").keep:
        raise InputError("[conversation] on_overflow can't trim a trial: that would be amnesia")
    return replace(rules, turns=turns, repeats=table.repeats)
