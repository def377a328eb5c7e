"""The methods of a study as a paragraph with citations, ready to be pasted into a paper."""

from collections.abc import Iterator
from typing import NamedTuple

from chimeralab.analysis import Analysis
from chimeralab.analysis.selfplay.outcomes import MEASURES
from chimeralab.core.numbers import counted
from chimeralab.detection.detectors import Detector
from chimeralab.rating.gate import check_wording
from chimeralab.report.claims import scope_of
from chimeralab.report.references import References
from chimeralab.report.selfplay.material import Material
from chimeralab.report.selfplay.results import Results, primary_of
from chimeralab.study.plan import Condition
from chimeralab.version import __version__


class Methods(NamedTuple):
    """Paragraphs of plain text, and the works that they cite."""

    paragraphs: list[str]
    references: list[str]


def methods(material: Material) -> Methods:
    """Write the methods of a study from its plan and from what was done."""
    references = References()
    paragraphs = [
        " ".join(_design(material, references)),
        " ".join(_outcome(material, references)),
    ]
    if material.results:
        paragraphs.append(" ".join(_statistics(material.results, references)))
    paragraphs.append(" ".join(_reliability(material, references)))
    for paragraph in paragraphs:
        check_wording(paragraph, scope_of(material.reliability))
    return Methods(paragraphs, references.works)


def _design(material: Material, references: References) -> Iterator[str]:
    plan, rules = material.study.plan, material.study.plan.conversation
    talks = len(material.study.talks)
    order = "in random order, conditions interleaved" if plan.run.interleave else "by condition"
    yield (
        f"We planned {counted(talks, 'conversation')} of {counted(rules.turns, 'turn')}: "
        f"{counted(len(plan.conditions), 'condition')} × "
        f"{counted(len(plan.prompts), 'seed prompt')} × {counted(rules.repeats, 'repeat')}, "
        f"held {order} (seed {plan.run.seed})."
    )
    yield " ".join(f"{name}: {_cast(each)}." for name, each in plan.conditions.items())
    if material.lock:
        yield (
            "The plan, with every default and prompt, was locked before the first run "
            f"(SHA-256 {material.lock.sha256})."
        )
    else:
        yield "The plan was not locked beforehand, so all results are exploratory."
    attempts = sum(sum(arm.attempts.values()) for arm in material.arms)
    answered = sum(arm.attempts.get("answered", 0) for arm in material.arms)
    yield (
        f"{counted(attempts, 'question was', 'questions were')} asked and {answered:,} answered; "
        f"the flow of conversations is reported after CONSORT {references.cite('consort')}."
    )


def _cast(condition: Condition) -> str:
    speakers = condition.speakers
    models = list(dict.fromkeys(speaker.model for speaker in speakers))
    temperatures = sorted({speaker.sampling.temperature for speaker in speakers})
    heat = " and ".join(f"{value:g}" for value in temperatures)
    step = f", with {condition.countermeasure.use} on collapse" if condition.countermeasure else ""
    return f"{len(speakers)} speakers on {', '.join(models)} at temperature {heat}{step}"


def _outcome(material: Material, references: References) -> Iterator[str]:
    part = material.study.plan.detector
    detector: Detector = part.settings
    if detector.needs.lags:
        yield f"Each turn was embedded with all-MiniLM-L6-v2 {references.cite('sbert', 'minilm')}."
    own = f" ({part.use}, a detector of our own)" if part.is_outside else ""
    yield f"Collapse was judged by {detector.name}{own}: {detector.rule}."
    if detector.changed:
        what = ", ".join(f"{name} = {value}" for name, value in detector.changed.items())
        yield f"This is not the detector's {detector.standard} operating point ({what})."
    primary = primary_of(material.outcomes)
    if primary and material.lock:
        yield (
            f"The primary outcome was the {MEASURES[primary.measure]}; the unit of analysis is the "
            "seed prompt."
        )


def _statistics(results: Results, references: References) -> Iterator[str]:
    analysis, cite = results.analysis, references.cite
    settings = analysis.settings
    level = f"{100 * settings.level:g} %"
    yield (
        "Repeats of a prompt were treated as one cluster. Means have "
        f"{level} t intervals over prompts, and percentile and studentised intervals from "
        f"{settings.resamples:,} resamples of whole prompts {cite('bootstrap')}."
    )
    if len(analysis.conditions) > 1:
        yield from _comparisons(analysis, references)
    yield (
        "Runs without a collapse were censored at their last turn; curves of the first collapse "
        f"are Kaplan-Meier estimates {cite('kaplan')} with pointwise bands from resampled prompts, "
        f"summarised by the restricted mean to turn {settings.tau:g} {cite('rmst')}."
    )
    if results.curve:
        yield (
            f"The finding was asked again under {results.curve.distinct_detectors:,} settings of "
            f"the detector {cite('curve')}."
        )


def _comparisons(analysis: Analysis, references: References) -> Iterator[str]:
    cite = references.cite
    yield (
        "Conditions were compared within prompts by paired t tests with Holm's correction "
        f"{cite('holm')}, beside {analysis.settings.permutations:,} random exchanges of the sides "
        f"within prompts; Welch tests that ignore the clusters {cite('welch')} are labelled naive."
    )
    if analysis.logrank.chi2 is not None:
        yield (
            f"Curves were compared by the log-rank test {cite('mantel')}, its p from permutations "
            f"within prompts, and restricted means by pseudo-values {cite('pseudo')}."
        )


def _reliability(material: Material, references: References) -> Iterator[str]:
    if material.reliability:
        yield f"Agreement of raters was audited {references.cite('kappa')}."
    yield scope_of(material.reliability).sentence
    yield f"All computations were made with Chimera Lab {__version__}."
