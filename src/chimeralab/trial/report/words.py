"""What a trial says, in sentences: verdicts and how sure they are, and the methods."""

from collections.abc import Iterable, Iterator, Sequence

from chimeralab.core.numbers import NO_BREAK, between, p_phrase, plural
from chimeralab.embedding.encoder import PAPERS
from chimeralab.report.page import TextBlock, render_methods
from chimeralab.report.table import SHARE, SIGNIFICANT, Unit, format_change, format_difference
from chimeralab.stats.effects import Effect, Key, key_of, short
from chimeralab.stats.intervals import MIN_CLUSTERS
from chimeralab.study import Lock, Study
from chimeralab.study.verify import Verification
from chimeralab.trial.analysis import SubjectResult, TrialAnalysis
from chimeralab.trial.arms import CONTROL
from chimeralab.trial.effects import is_aimed
from chimeralab.trial.measures import find_measure
from chimeralab.trial.plan import TrialPlan
from chimeralab.trial.store import trial_plan

INDEX = Unit(1, 2, "", "")
# So many effects of a subject are named at the top; the figure under it has all.
MAX_EFFECTS = 3
# What the published indices and their parts are about.
INDICES = {"mci": "memory", "gfq": "new combinations", "dfs": "independence"}
PLAIN = {
    "mci.rf": "right answers",
    "mci.ci": "steadiness of confidence",
    "mci.cb": "right answers by the context they need",
    "gfq.ta": "right answers to novel questions",
    "gfq.cta": "the same, weighted by confidence",
    "dfs.fi": "same answer with and without a signal",
    "dfs.br": "resistance to false signals",
}
# What others have found; our own numbers can be compared with these.
OUTSIDE = (
    "Asch's people gave 32 to 37 % conforming answers on critical trials, and under 1 % errors "
    "alone.",
    "In FlipFlop, 46 % of the answers of language models flip when they are challenged.",
    "On SYCON's false presuppositions, right at turn 1 and flipped by turn 5: Llama-3.1-8B 72.9 %, "
    "Qwen2.5-14B 51.6 %, GPT-4o 13.5 %.",
)


def plain_name(measure: str) -> str:
    """What a measure is called by those who have not read the paper.

    >>> plain_name("dfs"), plain_name("mci.rf"), plain_name("recall")
    ('independence (DFS)', 'right answers (RF in MCI)', 'earlier facts recalled')
    """
    index, _, part = measure.partition(".")
    if index not in INDICES:
        return find_measure(measure).says
    if part:
        return f"{PLAIN[measure]} ({part.upper()} in {index.upper()})"
    return f"{INDICES[index]} ({index.upper()})"


def unit_of(measure: str) -> Unit:
    """How the values of a measure are written: an index as it is, a share in per cent."""
    return INDEX if find_measure(measure).unit == "index" else SHARE


def finding_of(subject: SubjectResult) -> tuple[str, str]:
    """Which weakness a subject has, by what was declared to be looked for: the verdict, and how
    sure that is."""
    who = subject.subject
    if not subject.informative:
        # That of the control begins with its name, which is not said twice.
        reason = subject.short_reasons[0].removeprefix(f"{CONTROL}: ")
        known = reason if reason.startswith(f"the {CONTROL}") else subject.short_reasons[0]
        return f"{who}: not informative, so no effect is printed.", f"{_sentence(known)}."
    primary = primary_of(subject)
    tested = [effect for effect in primary if effect.p_holm is not None]
    if not tested:
        why = next((effect.reason for effect in primary if effect.reason), "nothing was asked")
        return f"{who}: nothing can be tested.", f"{_sentence(why)}."
    found = sorted(filter(is_found, tested), key=lambda effect: effect.p_holm or 0.0)
    said = list(_verdicts(found, tested, {key_of(each) for each in subject.countermeasures}))
    shown = (found or tested)[:MAX_EFFECTS]
    more = len(found) - len(shown)
    details = [*map(_changes, shown), *([f"{more} more stand out"] if more > 0 else [])]
    return f"{who}: {'; '.join(said)}.", f"{_sentence('; '.join(details))}."


def _verdicts(found: Sequence[Effect], tested: Sequence[Effect], aids: set[Key]) -> Iterator[str]:
    """What stress did, and then what was done against it; "no" only of what was looked for."""
    stress = [effect for effect in tested if key_of(effect) not in aids]
    for worse, words in ((True, "weak under"), (False, "better under")):
        arms = [_under(e) for e in found if e in stress and is_worse(e) == worse]
        if arms:
            yield f"{words} {_series(dict.fromkeys(arms))}"
        elif worse and stress:
            yield "no weakness found"
    if len(stress) < len(tested):
        helping = [_under(e) for e in found if e not in stress and not is_worse(e)]
        named = _series(dict.fromkeys(helping)) if helping else ""
        yield f"helped by {named}" if named else "no countermeasure found to help"


def primary_of(subject: SubjectResult) -> list[Effect]:
    """The effects that count as primary, each comparison once."""
    primary = (effect for effect in subject.effects if effect.role == "primary")
    return list({key_of(effect): effect for effect in primary}.values())


def is_harm(measure: str) -> bool:
    """Whether more of a measure is worse; of an index, and of most others, less is."""
    return find_measure(measure).harm == "more"


def is_worse(effect: Effect) -> bool:
    """Whether an effect is for the worse."""
    return ((effect.estimate or 0.0) > 0) == is_harm(effect.measure)


def outcome_in_words(effect: Effect | None) -> str:
    """What became of a declared outcome."""
    if effect is None or effect.p_holm is None:
        return "can't be tested"
    if not is_found(effect):
        return "no difference found"
    return "worse" if is_worse(effect) else "better"


def _under(effect: Effect) -> str:
    """What was done, in the words of the design."""
    return effect.asked.title or short(next(iter(effect.weights)))


def _changes(effect: Effect) -> str:
    """By how much a measure differs, from where to where it may be, and p."""
    unit, interval = unit_of(effect.measure), effect.interval
    about = f"under {_under(effect)}, {plain_name(effect.measure)}"
    p = NO_BREAK.join(p_phrase(effect.p_holm).split())
    if not is_found(effect):
        said = f"{about} differs by {format_difference(effect.estimate, interval, unit)}, {p}"
        # The largest harm that the interval leaves open.
        more_is_worse = is_harm(effect.measure)
        worst = (interval.high if more_is_worse else -interval.low) if interval else 0.0
        if round(worst * unit.scale, unit.digits) <= 0:
            return said
        way, amount = "rise" if more_is_worse else "fall", format_change(worst, unit).lstrip("+")
        return f"{said}, and a {way} of up to {amount} is not ruled out"
    value = effect.estimate or 0.0
    sign = -1 if value < 0 else 1
    size = format_change(sign * value, unit).lstrip("+")
    said = f"{about} {'falls' if sign < 0 else 'rises'} by {size}"
    if interval is not None:
        low, high = sorted(sign * bound for bound in interval)
        said += f" ({between((low, high), unit.digits, unit.scale)})"
    return f"{said}, {p}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _series(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def how_sure(analysis: TrialAnalysis) -> str:
    """What p-values and intervals of the result stand for, once for all subjects."""
    tests = [
        effect
        for subject in analysis.subjects
        for effect in primary_of(subject)
        if effect.p_holm is not None
    ]
    if not tests:
        return ""
    what = "declared before the run" if analysis.declared else "that stressors aim at"
    reference = short(analysis.subjects[0].reference)
    return (
        f"Differences from {reference} within scenarios, with 95 % intervals; p is Holm-corrected "
        f"over the {plural(len(tests), 'effect')} {what}."
    )


def few_scenarios(analysis: TrialAnalysis) -> str:
    """A warning where resampling has too little to draw from."""
    if analysis.scenarios >= MIN_CLUSTERS:
        return ""
    return (
        f"With {plural(analysis.scenarios, 'scenario')} the intervals are too narrow: resampling "
        "has too little to draw from. The p-values, from t tests over scenarios, allow for that."
    )


def is_found(effect: Effect) -> bool:
    """Whether an effect is different from 0 at 5 %, Holm-corrected."""
    return effect.p_holm is not None and effect.p_holm < SIGNIFICANT


def effect_in_words(effect: Effect) -> str:
    """An effect with its interval and p."""
    unit = unit_of(effect.measure)
    return f"{format_difference(effect.estimate, effect.interval, unit)}, {p_phrase(effect.p_holm)}"


def slopes(subject: SubjectResult) -> Iterator[str]:
    """How each measure that is aimed at moves with a dose, and whether that is more than chance."""
    for effect in subject.doses:
        if is_aimed(effect) and effect.estimate is not None:
            name = find_measure(effect.measure).says
            said = effect_in_words(effect)
            yield f"{effect.short_name}, {name}: {said} for each unit of the dose"


def stressors_in_words(plan: TrialPlan) -> str:
    """What was done to the subjects."""
    words = {name: part.words for arm in plan.arms.values() for name, part in arm.stressors.items()}
    named = (f"{name} ({does})" if does else name for name, does in words.items())
    said = [f"Stressors were {', '.join(named)}."] if words else [""]
    if any(arm.sham for arm in plan.arms.values()):
        said.append("A sham arm got neutral text of equal length in the same places.")
    return " ".join(said)


def trial_methods(
    study: Study, lock: Lock | None, verification: Verification, analysis: TrialAnalysis
) -> TextBlock:
    """Write the methods of a trial from its plan and from what was done."""
    plan = trial_plan(study)
    arms, steps = plan.arms.values(), [step for each in plan.courses for step in each.steps]
    return render_methods(
        "trial_methods.txt",
        study=study,
        plan=study.plan,
        trial=plan,
        lock=lock,
        verification=verification,
        stressors=stressors_in_words(plan),
        against=dict.fromkeys(arm.against for arm in arms if arm.against),
        probes=[probe.words or name for name, probe in plan.probes.items()],
        free=any(not step.question.options for step in steps),
        paper=PAPERS[-1],
        declared=[f"{plain_name(each.measure)} under {each.arm}" for each in analysis.declared],
        dosed=any(arm.dose is not None for arm in arms),
        aims={aim for arm in arms for part in arm.stressors.values() for aim in part.aims},
    )
