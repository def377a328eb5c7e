"""What a self-play study says, in sentences: the glance, the head of the page, and the methods."""

from collections.abc import Iterator, Sequence
from itertools import starmap
from math import isclose

from chimeralab.analysis import Analysis
from chimeralab.core.numbers import counted, number, p_phrase
from chimeralab.core.result_words import ResultWords
from chimeralab.detection.loops import LOOPS, loops_beside
from chimeralab.detection.seam import Detector, in_brief
from chimeralab.embedding.encoder import MODEL, PAPERS
from chimeralab.rating.auditing import scope_of
from chimeralab.rating.gate import check_wording
from chimeralab.rating.validity import validity_in_words
from chimeralab.report.frame import common_facts, computed_with, locked_in_words, verified_in_words
from chimeralab.report.page import HeadFact
from chimeralab.report.references import Methods, write_methods
from chimeralab.report.table import (
    SHARE,
    SIGNIFICANT,
    UNITS,
    difference,
    estimate,
)
from chimeralab.selfplay.comparisons import LogRankTest
from chimeralab.selfplay.outcomes import PAIRS, measure_name
from chimeralab.selfplay.report.material import (
    Material,
    StudyResults,
    is_found,
    measure_of,
    primary_comparisons,
)
from chimeralab.stats.effects import Effect


def glance(material: Material) -> tuple[str, str]:
    """The result in two sentences, in words that the reliability gate allows."""
    scope = scope_of(material.reliability)
    results = material.results
    if results is None:
        why = f"{material.no_results[:1].upper()}{material.no_results[1:]}."
        said = ("There is no result yet.", why)
    else:
        differing = _differences(material, results)
        said = (_most_and_least(results.analysis, material.words), differing)
    for sentence in said:
        check_wording(sentence, scope)
    return said


def _most_and_least(analysis: Analysis, words: ResultWords) -> str:
    """Which conditions collapse most and least; those with the same share are named together."""
    runs = counted(analysis.runs, "analysed run")
    if not any(each.incidence for each in analysis.conditions.values()):
        return f"In {runs}, no turn {words.was}."
    order = analysis.rank_stability.order

    def like(name: str) -> list[str]:
        mean = analysis.conditions[name].mean
        return [each for each in order if isclose(analysis.conditions[each].mean, mean)]

    def share(name: str) -> str:
        each = analysis.conditions[name]
        if each.share_ci is None:
            return number(each.mean, 1, 100) + SHARE.value
        return estimate(each.mean, each.share_ci, SHARE)

    most, least = like(order[0]), like(order[-1])
    if len(order) == 1:
        return (
            f"Under {order[0]}, {share(order[0])} of the turns {words.were}, "
            f"on average over {runs}."
        )
    if most == least:
        return (
            f"All {len(order)} conditions had the same share of {words.turns}, "
            f"{share(order[0])} on average."
        )
    return (
        f"Of {len(order)} conditions, {' and '.join(most)} had the largest share of "
        f"{words.turns}, {share(order[0])} on average, and {' and '.join(least)} the smallest, "
        f"{share(order[-1])}."
    )


def _differences(material: Material, results: StudyResults) -> str:
    """How sure it is that conditions differ."""
    comparisons = primary_comparisons(results.analysis, material.outcomes)
    if len(results.analysis.primary) > len(comparisons):
        return _several_primaries(results.analysis.primary, material.words)
    name = measure_name(measure_of(material.outcomes), material.words)
    if not comparisons:
        planned = len(material.study.plan.conditions)
        if planned == 1:
            return "With one condition there is nothing to compare it with."
        return f"Only one of {planned} conditions has runs to analyse, so nothing can be compared."
    known = [each for each in comparisons if each.p_holm is not None]
    if not known:
        why = comparisons[0].reasons.get("p") or comparisons[0].reasons.get("estimate", "")
        return f"How sure the differences between conditions are can't be said: {why}."
    if len(comparisons) == 1:
        chance = "which chance alone could bring about"
        if is_found(known[0]):
            chance = "a difference that chance alone would rarely bring about"
        return f"In the {name}, {_minus(known[0])} is {_numbers(known[0])}, {chance}."
    differ = [each for each in known if is_found(each)]
    largest = max(abs(each.estimate or 0.0) for each in known)
    widest = [each for each in known if isclose(abs(each.estimate or 0.0), largest)]
    if len(widest) > 1:
        most = f"{len(widest)} differences are equally large, such as"
    else:
        most = "the largest difference is"
    return (
        f"On the same prompts, {len(differ)} of {counted(len(comparisons), 'pair')} of conditions "
        f"differ in the {name} at 5 %, Holm-corrected; {most} {_minus(widest[0])}, "
        f"{_numbers(widest[0])}."
    )


def _several_primaries(comparisons: Sequence[Effect], words: ResultWords) -> str:
    """Every primary comparison, where several estimands are primary."""
    differ = sum(map(is_found, comparisons))
    said = "; ".join(
        f"{measure_name(each.measure, words)}, {_minus(each)}: {_numbers(each)}"
        for each in comparisons
    )
    return (
        f"Of {len(comparisons)} primary comparisons, corrected against each other by Holm's "
        f"method, {differ} {'differs' if differ == 1 else 'differ'} on the same prompts ({said})."
    )


def _minus(each: Effect) -> str:
    return f"{each.a} minus {each.b}"


def _numbers(each: Effect) -> str:
    shown = difference(each.estimate, each.interval, UNITS[each.measure])
    return f"{shown}, {p_phrase(each.p_holm)}"


def logrank_in_words(test: LogRankTest) -> str:
    """The test of all curves against one another, its p beside the naive one."""
    if test.chi2 is None:
        return f"Log-rank test: –, {test.reasons['chi2']}."
    honest = f"{p_phrase(test.permutation_p)} by permutation within prompts"
    if test.permutation_p is None:
        honest = f"without a p by permutation, since {test.reasons['permutation_p']}"
    return (
        f"Log-rank test over {counted(len(test.conditions), 'condition')}: "
        f"χ²({test.df}) = {test.chi2:.1f}, {honest}"
        f" (naive, as if runs were independent: {p_phrase(test.p)})."
    )


def loops_in_words(material: Material) -> str:
    """What the loop detector looked for, and whether the plan had declared it."""
    detector: Detector = material.study.plan.detector.settings
    judged = [found for found in material.detections if found.looping is not None]
    looping = sum(bool(found.looping) for found in judged)
    count = f"{looping:,} of {counted(len(judged), 'conversation')} loop"
    ways = "A conversation may loop in several ways."
    if loops_beside(detector) is detector:
        return f"The plan declares the loop detector; this is its outcome by kind: {count}. {ways}"
    return (
        f"Beside the declared detector, {count} by the loop detector ({LOOPS.standard}), which"
        " looks for repeated words, templates, cycles and courtesy without end. The plan did not"
        f" declare it, so this is exploratory. {ways}"
    )


def few_prompts(analysis: Analysis) -> str:
    """A warning where so few prompts were compared that no exchange of sides could be rare."""
    compared = [each.units for each in analysis.contrasts if each.p is not None]
    if not compared or 2.0 ** (1 - min(compared)) < SIGNIFICANT:
        return ""
    return (
        f"With {counted(min(compared), 'prompt')} no permutation p can be below "
        f"{2.0 ** (1 - min(compared)):.3g}: the smaller p of the t tests trust that differences "
        "between prompts are normally distributed."
    )


def facts(material: Material) -> Iterator[HeadFact]:
    """The head of the report: lock, design, detector, and what was asked."""
    plan = material.study.plan
    sides = (
        counted(len(plan.conditions), "condition"),
        counted(len(plan.prompts), "prompt"),
        counted(plan.conversation.repeats, "repeat"),
    )
    design = f"{' × '.join(sides)}, {counted(plan.conversation.turns, 'turn')} each"
    yield from common_facts(material.study, material.lock, design, "condition")
    own = f" ({plan.detector.use})" if plan.detector.is_outside else ""
    yield HeadFact("Detector", f"{in_brief(plan.detector.settings)}{own}")
    for each in material.outcomes.estimands:
        whom = f" among {', '.join(each.population)}" if each.population else ""
        how = "every pair of conditions" if each.contrast == PAIRS else each.contrast
        failed = "left out" if each.failed_turns == "leave_out" else "kept as far as they went"
        what = measure_name(each.measure, material.words)
        asked = f"{what}{whom}: {how}; runs cut short are {failed}"
        yield HeadFact(each.role.capitalize() if material.lock else "Estimated", asked)


def methods(material: Material) -> Methods:
    """Write the methods of a study from its plan and from what was done."""
    study, audit, scope = material.study, material.reliability, scope_of(material.reliability)
    plan, primary = study.plan, material.outcomes.primary
    detector: Detector = plan.detector.settings
    beside = loops_beside(detector) is not detector and any(d.steps for d in material.detections)
    found = write_methods(
        "selfplay_methods.txt",
        plan=plan,
        rules=plan.conversation,
        talks=study.talks,
        locked=locked_in_words(material.lock, "The plan, with every default and prompt, was"),
        verified=verified_in_words(material.verification),
        attempts=sum(sum(arm.attempts.values()) for arm in material.arms),
        answered=sum(arm.attempts.get("answered", 0) for arm in material.arms),
        detector=detector,
        encoder=MODEL.rpartition("/")[2],
        papers=PAPERS,
        live=plan.live and in_brief(plan.live.settings),
        loops=LOOPS.standard if beside else None,
        primary=measure_name(primary.measure, material.words)
        if primary and material.lock
        else None,
        results=material.results,
        words=material.words,
        audit=audit,
        validity=list(starmap(validity_in_words, audit.against.items())) if audit else [],
        scope=scope,
        computed_with=computed_with(),
    )
    for each in found.paragraphs:
        check_wording(each, scope)
    return found
