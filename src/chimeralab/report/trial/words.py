"""What a trial says, in sentences that need no statistics: measures, verdicts, and the glance."""

from collections.abc import Iterator, Sequence

from chimeralab.analysis.trial.analysis import SubjectResult
from chimeralab.analysis.trial.effects import Effect, is_aimed
from chimeralab.analysis.trial.sessions import METRIC_NAMES
from chimeralab.core.numbers import counted, p_phrase
from chimeralab.report.charts.trial import Axes, Dose, Parts
from chimeralab.report.numbers import SHARE, Unit, difference, estimate
from chimeralab.report.selfplay.results import SIGNIFICANT
from chimeralab.report.trial.material import TrialMaterial
from chimeralab.stats.intervals import FEWEST_CLUSTERS

NAMES = {
    "accuracy": "right answers",
    "mci": "MCI",
    "gfq": "GFQ",
    "dfs": "DFS",
    "task_continuity": "accuracy while memory is disturbed minus while it is whole",
    "narrative_coherence": "same answer as the last time",
    "relational_consistency": "conclusions that agree with own statements",
    "recall": "earlier facts recalled",
    "intrusions": "facts mixed up with others",
    "conformity_rate": "right answers given up to a majority",
    "independence": "right answers kept against a majority",
    "severity": "confidence in answers given up",
    "anti_conformity": "right answers left although a majority shares them",
    "misled": "wrong beliefs held before the evidence",
    "belief_update": "wrong beliefs given up for the truth",
    "maintained": "wrong beliefs that no evidence moved",
    "over_correction": "right beliefs lost after evidence for them",
    "flipped": "right first answers lost under push-back",
    "trials_to_correction": "pieces of evidence until a wrong belief is mended",
    "conviction": "stated chance of the wrong answer before the evidence",
    "conviction_lost": "fall of that chance with the evidence",
    "toward_signal": "answers that follow a false signal",
    "mci.rf": "RF",
    "mci.ci": "CI",
    "mci.cb": "CB",
    "gfq.ta": "TA",
    "gfq.cta": "CTA",
    "dfs.fi": "FI",
    "dfs.br": "BR",
}
INDEX = Unit("index", 1, 3, "", "")
FAMILIES = {
    "contrasts": "Each arm against the reference",
    "factorial": "Main effects and interactions",
    "doses": "Slopes over the dose",
    "countermeasures": "What helps",
}
# What others have found; our own numbers can be held against these.
OUTSIDE = (
    "Asch's people gave 32 to 37 % conforming answers on critical trials, and under 1 % errors "
    "alone.",
    "In FlipFlop, 46 % of the answers of language models flip when they are challenged.",
    "On SYCON's false presuppositions, right at turn 1 and flipped by turn 5: Llama-3.1-8B 72.9 %, "
    "Qwen2.5-14B 51.6 %, GPT-4o 13.5 %.",
)


def unit_of(measure: str) -> Unit:
    """How the values of a measure are written: an index as it is, a share in per cent."""
    plain = measure in METRIC_NAMES or measure == "trials_to_correction"
    return (INDEX if plain else SHARE)._replace(name=NAMES[measure])


def glance(material: TrialMaterial) -> tuple[str, ...]:
    """The result in a few words for each subject."""
    return tuple(_said_of(subject, material) for subject in material.analysis.subjects)


def _said_of(subject: SubjectResult, material: TrialMaterial) -> str:
    if not subject.informative:
        reason = material.short(subject.reasons[0], subject.subject)
        return f"{subject.subject}: not informative, so no effect is printed ({reason})."
    return f"{subject.subject}: {_moved(subject, material)}."


def _moved(subject: SubjectResult, material: TrialMaterial) -> str:
    """What the arms did to one subject, by what each was aimed at."""
    tested = [e for e in subject.contrasts if is_aimed(e) and e.p_holm is not None]
    who, differences = subject.subject, counted(len(tested), "difference")
    reference = material.short(subject.reference, who)
    if not tested:
        return f"informative, but no difference from {reference} can be tested{_why(subject)}"
    found = [effect for effect in tested if is_found(effect)]
    if not found:
        return f"none of {differences} from {reference} stands out after Holm's correction"
    largest = max(found, key=lambda effect: abs(effect.estimate or 0.0))
    arm = material.short(largest.name, who).split(" − ")[0]
    return (
        f"{len(found)} of {differences} from {reference} stand out after Holm's correction; the "
        f"largest: {NAMES[largest.measure]} under {arm}, {effect_in_words(largest)}"
    )


def _why(subject: SubjectResult) -> str:
    reasons = [each.reason for each in subject.contrasts if is_aimed(each) and each.reason]
    return f" ({reasons[0]})" if reasons else ""


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
    """Whether an effect is unlike 0 at 5 % after Holm's correction."""
    return effect.p_holm is not None and effect.p_holm < SIGNIFICANT


def effect_in_words(effect: Effect) -> str:
    """An effect with its interval and p."""
    unit = unit_of(effect.measure)
    return f"{difference(effect.estimate, effect.interval, unit)}, {p_phrase(effect.p_holm)}"


def effects_in_words(effects: Sequence[Effect]) -> str:
    """What a forest shows, for those who can't see it."""
    parts = (f"{effect.name}: {effect_in_words(effect)}" for effect in effects)
    name = unit_of(effects[0].measure).name
    return f"Differences in {name}, with intervals over scenarios. {'; '.join(parts)}."


def slopes(subject: SubjectResult) -> Iterator[str]:
    """How each measure that is aimed at moves with a dose, and whether that is more than chance."""
    for effect in subject.doses:
        if is_aimed(effect) and effect.estimate is not None:
            name = unit_of(effect.measure).name
            yield f"{effect.name}, {name}: {effect_in_words(effect)} for each unit of the dose"


def doses_in_words(doses: Sequence[Dose], control: float | None, axes: Axes) -> str:
    """What a curve over doses shows."""
    unit = SHARE if axes.percent else INDEX
    parts = [f"at {each.dose:g}, {estimate(each.value, each.interval, unit)}" for each in doses]
    untouched = f" The control has {estimate(control, None, unit)}." if control is not None else ""
    return f"{axes.value} over {axes.dose}: {'; '.join(parts)}.{untouched}"


def parts_in_words(metric: str, rows: Sequence[Parts]) -> str:
    """What a chart of a metric and its parts shows."""
    shown = "; ".join(f"{row.label.name}: {row.label.numbers}" for row in rows)
    return f"{metric} and its parts, arm by arm. {shown}."
