"""The methods of a trial as paragraphs with citations, ready to be pasted into a paper."""

from collections.abc import Iterator

from chimeralab.core.numbers import counted
from chimeralab.report.references import References
from chimeralab.report.selfplay.methods import Methods
from chimeralab.report.trial.material import TrialMaterial
from chimeralab.version import __version__

DOES = {
    "amnesia": "amnesia (earlier episodes removed from the conversation, or their facts exchanged)",
    "infallibility": "infallibility (false feedback from an authority, then evidence against it)",
    "conformity": "conformity (others who answer first, wrongly on critical trials)",
}
PROBED = {
    "alone": "the same question without the others",
    "confidence": "confidence from 0 to 1",
    "belief": "the likelihood of the wrong answer",
    "recall": "earlier facts",
    "noticed": "which answer the signal had named",
}


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
        f"Sessions were held {order} (seed {plan.run.seed}); all arms of a scenario share their "
        "seeds, so that events fall on the same trials."
    )
    if material.lock:
        yield (
            "The plan and every scenario, word by word, were locked before the first run "
            f"(SHA-256 {material.lock.sha256})."
        )
    else:
        yield "The plan was not locked beforehand, so all results are exploratory."
    yield f"The flow of sessions is reported after CONSORT {references.cite('consort')}."


def _stress(material: TrialMaterial) -> Iterator[str]:
    arms = material.plan.arms.values()
    names = dict.fromkeys(name for arm in arms for name in arm.stressors)
    if names:
        yield f"Stressors were {', '.join(DOES.get(name, name) for name in names)}."
    if any(arm.sham for arm in arms):
        yield "A sham arm got neutral text of equal length in the same places."
    against = dict.fromkeys(arm.against for arm in arms if arm.against)
    if against:
        yield f"Countermeasures were {', '.join(against)}, each compared with its bare arm."


def _measurement(material: TrialMaterial, references: References) -> Iterator[str]:
    probes = [PROBED[probe] for probe in material.plan.probes]
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
    yield (
        "MCI, GFQ and DFS are computed as published, with weights "
        f"{_listed(weights.mci)}, {_listed(weights.gfq)} and {_listed(weights.dfs)}."
    )


def _listed(weights: tuple[float, ...]) -> str:
    return " / ".join(f"{weight:g}" for weight in weights)


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
        "p-values are from paired t tests over scenarios with Holm's correction within each family "
        f"and measure {cite('holm')}."
    )
    if any(arm.dose is not None for arm in material.plan.arms.values()):
        yield "A dose is tested by its least-squares slope within scenarios."
    if any("infallibility" in arm.stressors for arm in material.plan.arms.values()):
        yield (
            "Trials to correction are restricted means; beliefs that were never mended are "
            f"censored at the last piece of evidence {cite('rmst')}."
        )
    yield f"All computations were made with Chimera Lab {__version__}."
