"""What a trial says, in sentences: the glance, verdicts and measures, and the methods."""

from collections.abc import Iterator

from chimeralab.analysis.contrasts import Effect, short
from chimeralab.analysis.trial.analysis import SubjectResult
from chimeralab.analysis.trial.effects import is_aimed
from chimeralab.analysis.trial.measures import words_of
from chimeralab.core.numbers import counted, p_phrase
from chimeralab.report.frame import computed_with, locked_in_words, verified_in_words
from chimeralab.report.references import Methods, References
from chimeralab.report.table import SHARE, SIGNIFICANT, Unit, difference
from chimeralab.report.trial.material import TrialMaterial
from chimeralab.stats.intervals import FEWEST_CLUSTERS

INDEX = Unit(1, 3, "", "")
# What others have found; our own numbers can be compared with these.
OUTSIDE = (
    "Asch's people gave 32 to 37 % conforming answers on critical trials, and under 1 % errors "
    "alone.",
    "In FlipFlop, 46 % of the answers of language models flip when they are challenged.",
    "On SYCON's false presuppositions, right at turn 1 and flipped by turn 5: Llama-3.1-8B 72.9 %, "
    "Qwen2.5-14B 51.6 %, GPT-4o 13.5 %.",
)


def unit_of(measure: str) -> Unit:
    """How the values of a measure are written: an index as it is, a share in per cent."""
    return INDEX if words_of(measure).unit == "index" else SHARE


def glance(material: TrialMaterial) -> tuple[str, ...]:
    """The result in a few words for each subject."""
    return tuple(_said_of(subject, material) for subject in material.analysis.subjects)


def _said_of(subject: SubjectResult, material: TrialMaterial) -> str:
    """What the arms did to one subject, by what each was aimed at."""
    who = subject.subject
    if not subject.informative:
        reason = subject.short_reasons[0]
        return f"{who}: not informative, so no effect is printed ({reason})."
    aimed = [effect for effect in subject.contrasts if is_aimed(effect)]
    tested = [effect for effect in aimed if effect.p_holm is not None]
    differences = counted(len(tested), "difference")
    reference = short(subject.reference)
    if not tested:
        reasons = [effect.reason for effect in aimed if effect.reason]
        why = f" ({reasons[0]})" if reasons else ""
        return f"{who}: informative, but no difference from {reference} can be tested{why}."
    found = [effect for effect in tested if is_found(effect)]
    if not found:
        return f"{who}: none of {differences} from {reference} stands out, Holm-corrected."
    largest = max(found, key=lambda effect: abs(effect.estimate or 0.0))
    arm = short(next(iter(largest.weights)))
    return (
        f"{who}: {len(found)} of {differences} from {reference} stand out, Holm-corrected; "
        f"the largest: {words_of(largest.measure).says} under {arm}, {effect_in_words(largest)}."
    )


def few_scenarios(material: TrialMaterial) -> str:
    """A warning where resampling has too little to draw from."""
    count = material.analysis.scenarios
    if count >= FEWEST_CLUSTERS:
        return ""
    return (
        f"With {counted(count, 'scenario')} the intervals are too narrow: resampling has too "
        "little to draw from. The p-values, from t tests over scenarios, allow for that."
    )


def is_found(effect: Effect) -> bool:
    """Whether an effect is different from 0 at 5 %, Holm-corrected."""
    return effect.p_holm is not None and effect.p_holm < SIGNIFICANT


def effect_in_words(effect: Effect) -> str:
    """An effect with its interval and p."""
    unit = unit_of(effect.measure)
    return f"{difference(effect.estimate, effect.interval, unit)}, {p_phrase(effect.p_holm)}"


def slopes(subject: SubjectResult) -> Iterator[str]:
    """How each measure that is aimed at moves with a dose, and whether that is more than chance."""
    for effect in subject.doses:
        if is_aimed(effect) and effect.estimate is not None:
            name = words_of(effect.measure).says
            said = effect_in_words(effect)
            yield f"{effect.short_name}, {name}: {said} for each unit of the dose"


def trial_methods(material: TrialMaterial) -> Methods:
    """Write the methods of a trial from its plan and from what was done."""
    references = References()
    paragraphs = (
        _design(material, references),
        _stress(material),
        _measurement(material, references),
        _statistics(material, references),
    )
    return Methods([" ".join(sentences) for sentences in paragraphs], references.works)


def _design(material: TrialMaterial, references: References) -> Iterator[str]:
    plan, trial = material.study.plan, material.plan
    trials = counted(len(trial.courses[0].steps), "trial")
    yield (
        f"We planned {counted(len(material.study.talks), 'session')} of {trials}: "
        f"{material.design}. Subjects were {', '.join(dict.fromkeys(trial.subjects.values()))}."
    )
    order = "in random order, arms interleaved" if plan.run.interleave else "arm by arm"
    yield (
        f"Sessions were run {order} (seed {plan.run.seed}); all arms of a scenario share their "
        "seeds, so that events fall on the same trials."
    )
    yield locked_in_words(material.lock, "The plan and every scenario, word by word, were")
    yield verified_in_words(material.verification)
    yield f"The flow of sessions is reported after CONSORT {references.cite('consort')}."


def _stress(material: TrialMaterial) -> Iterator[str]:
    arms = material.plan.arms.values()
    words = {name: part.words for arm in arms for name, part in arm.stressors.items()}
    if words:
        named = (f"{name} ({does})" if does else name for name, does in words.items())
        yield f"Stressors were {', '.join(named)}."
    if any(arm.sham for arm in arms):
        yield "A sham arm got neutral text of equal length in the same places."
    against = dict.fromkeys(arm.against for arm in arms if arm.against)
    if against:
        yield f"Countermeasures were {', '.join(against)}, each compared with its bare arm."


def _measurement(material: TrialMaterial, references: References) -> Iterator[str]:
    probes = [probe.words or name for name, probe in material.plan.probes.items()]
    if probes:
        yield (
            f"Beside the answers, {', '.join(probes)} were asked for in forks of the conversation, "
            "which are thrown away: measuring changes nothing."
        )
    if any(not step.question.options for course in material.plan.courses for step in course.steps):
        yield (
            "Free answers count as right when they match the truth exactly, in number, or by the "
            f"similarity of their tokens (above 0.9) {references.cite('minilm')} without a "
            "contradiction in negation, number or antonym."
        )
    weights = material.plan.weights
    mci, gfq, dfs = (
        " / ".join(f"{weight:g}" for weight in each)
        for each in (weights.mci, weights.gfq, weights.dfs)
    )
    yield f"MCI, GFQ and DFS are computed as published, with weights {mci}, {gfq} and {dfs}."


def _statistics(material: TrialMaterial, references: References) -> Iterator[str]:
    cite = references.cite
    yield (
        "Before any effect, we checked that the control is at least ten points better than "
        "guessing, that no more than 20 % of the answers can't be read, and that each stressor "
        "arrived and was noticed; where this fails no effect is printed. Sessions that were cut "
        "short are left out."
    )
    yield (
        "Differences are taken within scenarios; intervals resample whole scenarios "
        f"{cite('bootstrap')}, their percentiles widened for few of them {cite('expanded')}; "
        "p-values are from paired t tests over scenarios. Effects on what a stressor is aimed at "
        "are primary and Holm-corrected together, over all subjects; so are all others, which are "
        f"exploratory {cite('holm')}."
    )
    if any(arm.dose is not None for arm in material.plan.arms.values()):
        yield "A dose is tested by its least-squares slope within scenarios."
    arms = material.plan.arms.values()
    if any("belief_update" in part.aims for arm in arms for part in arm.stressors.values()):
        yield (
            "Trials to correction are restricted means; beliefs that were never corrected are "
            f"censored at the last piece of evidence {cite('rmst')}."
        )
    yield computed_with()
