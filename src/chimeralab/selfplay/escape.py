"""What a perturbation does to a loop: does the conversation escape, and does the loop come back?"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.parts import choose
from chimeralab.core.records import Detection, Record
from chimeralab.runner.interventions import Count, Mark, Sham
from chimeralab.stats.arrays import Floats
from chimeralab.stats.clusters import cluster_mean, cluster_slope, effective_wilson
from chimeralab.stats.effects import (
    SELF_PLAY,
    ContrastSpec,
    Effect,
    Family,
    Role,
    deduplicate_effects,
    empty_effect,
)
from chimeralab.stats.intervals import Interval, student_sf
from chimeralab.stats.planning import detectable_difference
from chimeralab.stats.transitions import (
    STATES,
    Occupation,
    Passages,
    estimate_passage,
    is_followed,
    occupation,
    probability_left,
    pseudo_values,
    transition_counts,
    turns_free,
    turns_until_left,
)

if TYPE_CHECKING:
    from chimeralab.study import Study
    from chimeralab.study.estimates import Estimates
    from chimeralab.study.plan import Condition

EscapeMeasure = Literal["escape", "turns_to_escape", "relapse", "turns_to_relapse", "turns_free"]
Verdicts = Literal["declared", "loops"]


class Formula(NamedTuple):
    """How a measure is computed: on which clock, from what, and whether it is a probability."""

    name: str
    of: Occupation
    after_escape: bool = False
    share: bool = False


MEASURES: dict[str, Formula] = {
    "escape": Formula("share that escaped", probability_left, share=True),
    "turns_to_escape": Formula("mean turns to the escape", turns_until_left),
    "relapse": Formula("share that relapsed", probability_left, after_escape=True, share=True),
    "turns_to_relapse": Formula("mean turns to the relapse", turns_until_left, after_escape=True),
    "turns_free": Formula("mean turns free of the loop", turns_free),
}
# Outcomes of conversations that reached their planned end, which censors; others compete.
ENDED = ("completed", None)
NOT_LOOPING, NOT_TREATED = "not in a loop at the moment", "no moment came"
ALONE = "needs two prompts that differ"


@dataclass(frozen=True, slots=True)
class Against(Record):
    """[[escape.comparisons]]: a treatment minus another arm, on a measure."""

    treatment: str
    against: str
    measure: EscapeMeasure = "escape"
    role: Role = "primary"


@dataclass(frozen=True, slots=True)
class Escape(Record):
    """[escape]: what counts as an escape, and what is compared.

    An escape is complete at the last of `free` judged turns in a row without a collapse; a relapse
    is the first collapsed turn after that. Both are counted within `horizon` turns. `verdicts` are
    those of the declared detector, or of the loop detector.
    """

    free: Count = 3
    horizon: Count = 12
    verdicts: Verdicts = "declared"
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    comparisons: tuple[Against, ...] = ()

    def check(self, arms: Iterable[str], turns: int) -> None:
        """Reject unknown arms, and a horizon that no conversation reaches."""
        known = list(arms)
        for each in self.comparisons:
            for name in (each.treatment, each.against):
                choose(name, known, f"perturbation {name!r} in [[escape.comparisons]]")
            if each.treatment == each.against:
                raise InputError(f"[[escape.comparisons]] compares {name} with itself")
        if not self.free <= self.horizon < turns:
            raise InputError(
                f"[escape] horizon = {self.horizon} must lie between free = {self.free} and the "
                f"{turns} turns of a conversation"
            )


class PerturbedLoop(NamedTuple):
    """A perturbed conversation from the moment on, in turns; None for what did not happen.

    `looping` counts the collapsed turns in a row up to the moment.
    """

    condition: str
    arm: str
    prompt: str
    moment: int
    looping: int
    followed: int
    stopped: bool
    escape: int | None
    relapse: int | None


def follow_turns(
    collapsed: Iterable[int], judged: Sequence[int], moment: int, free: int = 3
) -> tuple[int, int | None, int | None]:
    """The turns in the loop up to a moment, and the turns from it to the escape and to a relapse.

    >>> follow_turns({3, 4, 5, 6, 12}, range(1, 15), moment=5)
    (3, 4, 7)
    """
    marked, looping, run = set(collapsed), 0, 0
    escape: int | None = None
    for turn in judged:
        if turn <= moment:
            looping = looping + 1 if turn in marked else 0
        elif escape is None:
            run = 0 if turn in marked else run + 1
            escape = turn - moment if run >= free else None
        elif turn in marked:
            return looping, escape, turn - moment
    return looping, escape, None


def list_collapsed_turns(
    detection: Detection, verdicts: Verdicts
) -> tuple[set[int], Sequence[int]]:
    """The collapsed turns of a conversation, and all that were judged, by position."""
    places = detection.positions
    if verdicts == "declared":
        return {places[turn - 1] for turn in detection.collapsed}, places
    last = max(places, default=0)
    found = [loop for loop in detection.loops if loop.level == "verdict"]
    spans = [range(loop.noticed, (loop.ended or last) + 1) for loop in found]
    return {turn for span in spans for turn in span}, range(1, last + 1)


def load_courses(
    study: "Study", detections: Iterable[Detection]
) -> tuple[list[PerturbedLoop], Counter[tuple[str, str]]]:
    """Each perturbed conversation from its first moment on, and how many had none, by reason."""
    plan, settings = study.plan, study.plan.extras["escape"]
    moments: dict[str, int] = {}
    with study.archive() as archive:
        for row in archive.rows("SELECT trajectory, turn, detail FROM events ORDER BY id"):
            if "arm" in json.loads(row["detail"]):
                moments.setdefault(row["trajectory"], row["turn"])
    courses, left_out = list[PerturbedLoop](), Counter[tuple[str, str]]()
    for found in detections:
        schedule = plan.conditions[found.metadata["condition"]].schedule
        if schedule is None:
            continue
        moment = moments.get(found.id)
        marked, judged = list_collapsed_turns(found, settings.verdicts)
        looping, escape, relapse = follow_turns(marked, judged, moment or 0, settings.free)
        if moment is None or not looping:
            left_out[schedule.arm, NOT_LOOPING if moment else NOT_TREATED] += 1
            continue
        followed = (found.messages or len(judged)) - moment
        stopped = found.metadata.get("outcome") not in ENDED
        place = schedule.condition, schedule.arm, str(found.metadata["prompt"]), moment
        courses.append(PerturbedLoop(*place, looping, followed, stopped, escape, relapse))
    return courses, left_out


@dataclass(frozen=True, slots=True)
class PassageEstimate(Record):
    """A measure of one arm, or the reason why there is none; `runs` are those that count for it."""

    measure: str
    runs: int
    value: float | None
    interval: Interval | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class EscapeArm(Record):
    """An arm: conversations in a loop at the moment, and the probability of each state after it.

    ``left_out`` counts the others by reason.
    """

    arm: str
    runs: int
    prompts: int
    left_out: Mapping[str, int]
    estimates: Mapping[str, PassageEstimate]
    states: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Entrenchment(Record):
    """By how much the probability of escape changes with each turn in the loop before, within arms.

    Loops that began earlier may differ in more than their age.
    """

    slope: float | None
    interval: Interval | None
    p: float | None
    runs: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class EscapeAnalysis(Record):
    """What became of loops that were perturbed; comparisons are Holm-corrected by role."""

    settings: Escape
    arms: Mapping[str, EscapeArm]
    comparisons: tuple[Effect, ...]
    entrenchment: Entrenchment


def analyse_escape(
    courses: Sequence[PerturbedLoop],
    settings: Escape,
    arms: Sequence[str],
    asked: Sequence[Against],
    left_out: Mapping[tuple[str, str], int] | None = None,
) -> EscapeAnalysis:
    """Estimate every measure in every arm, and the comparisons `asked`."""
    by_arm = {arm: [each for each in courses if each.arm == arm] for arm in arms}
    effects = [compare_arms(by_arm, each, settings) for each in asked]
    by_role = [
        [effect for effect, each in zip(effects, asked, strict=True) if each.role == role]
        for role in ("primary", "exploratory", "secondary")
    ]
    listed = list(deduplicate_effects(*by_role))
    return EscapeAnalysis(
        settings=settings,
        arms={
            arm: summarise_arm(arm, by_arm[arm], settings, left_out or Counter()) for arm in arms
        },
        comparisons=Family(listed).correct(listed),
        entrenchment=estimate_entrenchment(by_arm, settings),
    )


def passages_of(courses: Sequence[PerturbedLoop]) -> Passages:
    columns = [[each.escape, each.relapse, each.followed] for each in courses]
    escape, relapse, followed = np.array(columns, dtype=np.float64).reshape(-1, 3).T
    stopped = np.array([each.stopped for each in courses], dtype=np.bool_)
    return Passages(escape, relapse, followed, stopped)


def choose_runs(
    courses: Sequence[PerturbedLoop], formula: Formula
) -> tuple[list[PerturbedLoop], Passages]:
    """The courses that count for a measure, on its clock."""
    runs = passages_of(courses)
    if not formula.after_escape:
        return list(courses), runs
    return [each for each in courses if each.escape is not None], runs.after_escape()


def summarise_arm(
    arm: str,
    courses: Sequence[PerturbedLoop],
    settings: Escape,
    left_out: Mapping[tuple[str, str], int],
) -> EscapeArm:
    estimates = {}
    for name, formula in MEASURES.items():
        kept, runs = choose_runs(courses, formula)
        prompts = [each.prompt for each in kept]
        if not kept:
            why = "no loop ended" if courses else "no conversation was in a loop"
            estimates[name] = PassageEstimate(name, 0, None, None, why)
            continue
        found = estimate_passage(runs, formula.of, settings.horizon, prompts)
        interval, rows = found.interval(settings.level), Counter(prompts)
        if formula.share and found.value is not None:
            sizes = np.array(list(rows.values()), dtype=np.float64)
            interval = effective_wilson(found.value, found, sizes, settings.level)
        elif interval:  # no turns are fewer than none, or more than the horizon
            interval = Interval(*np.clip(interval, 0, settings.horizon).tolist())
        reason = found.reason or (None if interval else ALONE)
        estimates[name] = PassageEstimate(name, len(kept), found.value, interval, reason)
    totals = transition_counts(passages_of(courses), settings.horizon).sum(axis=0, keepdims=True)
    states = occupation(totals)[0].tolist() if courses and is_followed(totals) else []
    return EscapeArm(
        arm=arm,
        runs=len(courses),
        prompts=len({each.prompt for each in courses}),
        left_out={reason: n for (name, reason), n in sorted(left_out.items()) if name == arm},
        estimates=estimates,
        states=dict(zip(STATES, map(tuple, states), strict=False)),
    )


def compare_arms(
    by_arm: Mapping[str, Sequence[PerturbedLoop]], asked: Against, settings: Escape
) -> Effect:
    """The difference of an arm to another within each prompt and condition, clustered by prompt."""
    formula = MEASURES[asked.measure]
    spec = ContrastSpec({asked.treatment: 1.0, asked.against: -1.0})
    cells: list[dict[tuple[str, str], float]] = []
    for arm in (asked.treatment, asked.against):
        kept, runs = choose_runs(by_arm[arm], formula)
        totals = transition_counts(runs, settings.horizon)
        if not kept or not is_followed(totals):
            why = f"{arm}: no conversation counts" if not kept else f"{arm}: followed too briefly"
            return empty_effect(spec, SELF_PLAY, asked.measure, why)
        cells.append(mean_cells(kept, pseudo_values(runs, formula.of, settings.horizon)))
    both = sorted(cells[0].keys() & cells[1].keys())
    if not both:
        return empty_effect(spec, SELF_PLAY, asked.measure, SELF_PLAY.unpaired)
    changes = np.array([cells[0][cell] - cells[1][cell] for cell in both])
    found = cluster_mean(changes.round(12), [prompt for _, prompt in both], settings.level)
    if formula.share and abs(found.mean) > 1:  # pseudo-values of few runs go astray
        why = "too few conversations were followed for the whole horizon"
        return empty_effect(spec, SELF_PLAY, asked.measure, why)
    unknown = {} if found.interval else dict.fromkeys(("interval", "p", "p_holm"), ALONE)
    error, df = found.standard_error, found.clusters - 1
    return Effect(
        spec=spec,
        words=SELF_PLAY,
        measure=asked.measure,
        estimate=found.mean,
        interval=found.interval,
        p=2 * student_sf(abs(found.mean) / error, df) if error else None,
        units=found.clusters,
        left_out=len({prompt for _, prompt in cells[0].keys() ^ cells[1].keys()}),
        reasons=unknown,
    )


def mean_cells(courses: Sequence[PerturbedLoop], values: Floats) -> dict[tuple[str, str], float]:
    cells: dict[tuple[str, str], list[float]] = {}
    for course, value in zip(courses, values.tolist(), strict=True):
        cells.setdefault((course.condition, course.prompt), []).append(value)
    return {cell: float(np.mean(each)) for cell, each in cells.items()}


def estimate_entrenchment(
    by_arm: Mapping[str, Sequence[PerturbedLoop]], settings: Escape
) -> Entrenchment:
    """The slope of escape over the turns in the loop before, both centred within arms."""
    ages: list[float] = []
    values: list[float] = []
    prompts: list[str] = []
    for courses in by_arm.values():
        runs = passages_of(courses)
        if not courses or not is_followed(transition_counts(runs, settings.horizon)):
            continue
        found = pseudo_values(runs, probability_left, settings.horizon)
        age = np.array([each.looping for each in courses], dtype=np.float64)
        ages += (age - age.mean()).tolist()
        values += (found - found.mean()).tolist()
        prompts += [each.prompt for each in courses]
    slope = cluster_slope(ages, values, prompts) if ages else None
    if slope is None:
        why = "all loops were equally old" if len(set(prompts)) > 1 else ALONE
        return Entrenchment(None, None, None, len(ages), why)
    return Entrenchment(slope.value, slope.interval(settings.level), slope.p, len(ages))


def list_comparisons(conditions: Mapping[str, "Condition"], declared: Escape) -> list[Against]:
    """The declared comparisons; by default every treatment against its sham and its mark."""
    if declared.comparisons:
        return list(declared.comparisons)
    parts = {
        each.schedule.arm: each.countermeasure
        for each in conditions.values()
        if each.schedule and each.countermeasure
    }
    shams = {arm: part.settings for arm, part in parts.items() if part.use == Sham.name}
    marks = [arm for arm, part in parts.items() if part.use == Mark.name]
    pairs = [
        (arm, other)
        for arm, part in parts.items()
        if part.use != Mark.name
        for other in (*(name for name, sham in shams.items() if sham.of == part.settings), *marks)
    ]
    return [
        Against(arm, other, measure, "exploratory")
        for measure in ("escape", "relapse", "turns_free")
        for arm, other in pairs
    ]


def arms_of(conditions: Mapping[str, "Condition"]) -> list[str]:
    """The perturbations of a plan, in its order."""
    return list(dict.fromkeys(c.schedule.arm for c in conditions.values() if c.schedule))


def load_escape(study: "Study", detections: Iterable[Detection]) -> EscapeAnalysis:
    """Analyse what became of the loops of a study that perturbs some."""
    declared: Escape = study.plan.extras["escape"]
    courses, left_out = load_courses(study, detections)
    conditions = study.plan.conditions
    asked = list_comparisons(conditions, declared)
    return analyse_escape(courses, declared, arms_of(conditions), asked, left_out)


def estimate_escape(
    study: "Study",
    detections: Iterable[Detection],
    estimates: "Estimates",
    changed: Mapping[str, Any] | None = None,
) -> EscapeAnalysis:
    """The stored analysis, or a new one; `changed` are verdicts that differ from stored ones."""
    known = {"words": SELF_PLAY}
    return estimates.get_or_compute(
        EscapeAnalysis, lambda: load_escape(study, detections), changed or {}, known=known
    )


# The variance of an escape between repeats if half of them escape, and of a difference between
# arms from prompt to prompt.
WITHIN, BETWEEN = 0.5, 0.05
LOOPING: tuple[float, ...] = (1.0, 0.5, 0.25)


@dataclass(frozen=True, slots=True)
class DetectableEscape(Record):
    """The smallest difference that a comparison finds with 80 % power, by how many loop.

    Half of the loops are assumed to end. None stands for more than there can be.
    """

    measure: str
    treatment: str
    against: str
    role: Role
    differences: Mapping[float, float | None]

    def __str__(self) -> str:
        shown = (
            f"{'none' if found is None else f'{found:.2f}'} if {share:.0%} of the runs loop"
            for share, found in self.differences.items()
        )
        return (
            f"{self.measure}, {self.treatment} − {self.against}: the smallest difference found "
            f"with 80 % power is {', '.join(shown)}"
        )


def detectable_escapes(
    declared: Escape, prompts: int, repeats: int, conditions: Mapping[str, "Condition"]
) -> tuple[DetectableEscape, ...]:
    """What each primary comparison of shares can find, or else the first of all."""
    asked = list_comparisons(conditions, declared)
    chosen = [each for each in asked if each.role == "primary"] or asked[:1]
    return tuple(
        DetectableEscape(
            each.measure, each.treatment, each.against, each.role,
            {share: smallest_difference(prompts, repeats, share) for share in LOOPING},
        )
        for each in chosen
        if MEASURES[each.measure].share
    )  # fmt: skip


def smallest_difference(prompts: int, repeats: int, looping: float) -> float | None:
    """Fewer loops are fewer repeats of a prompt, and then fewer prompts."""
    runs = prompts * repeats * looping
    used = min(prompts, int(runs))
    if used < 2:
        return None
    found = detectable_difference((BETWEEN, WITHIN), used, max(1, int(runs / used)))
    return found if found < 1 else None
