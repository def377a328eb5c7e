"""The report of a study: one page with everything in it, its figures and its tables."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chimeralab.analysis.selfplay.outcomes import MEASURES
from chimeralab.core.numbers import counted
from chimeralab.report.charts.figure import Figure
from chimeralab.report.claims import scope_of
from chimeralab.report.numbers import UNITS
from chimeralab.report.pages import render
from chimeralab.report.reliability_panel import reliability_table
from chimeralab.report.selfplay import tables
from chimeralab.report.selfplay.asked import cast_table, deviations, facts
from chimeralab.report.selfplay.conversations import Shown, choose, show
from chimeralab.report.selfplay.figures import MOST_EFFECTS, flow_figure, result_figures
from chimeralab.report.selfplay.flow import flow_table, study_flow
from chimeralab.report.selfplay.material import Material
from chimeralab.report.selfplay.methods import methods
from chimeralab.report.selfplay.results import Results, measure_of
from chimeralab.report.selfplay.words import (
    few_prompts,
    glance,
    logrank_in_words,
    stability_lines,
    why_this_contrast,
)
from chimeralab.report.sheets import plain_sheets
from chimeralab.report.table import Table
from chimeralab.report.versions import models, software


class Report(NamedTuple):
    """A report that is made but not yet written."""

    page: str
    figures: Sequence[Figure]
    tables: Sequence[Table]
    glance: tuple[str, ...]


def make_report(material: Material) -> Report:
    """Draw every figure, set every table, and put them on one page."""
    arms, said = study_flow(material), glance(material)
    results = material.results
    figures = {each.name: each for each in [flow_figure(arms), *_figures(material)]}
    shown = show(choose(material.analysed), material.study.trajectories())
    own = {each.name: each for each in [flow_table(arms), *_tables(material)]}
    page = render(
        "study.html",
        plan=material.study.plan,
        material=material,
        results=results,
        glance=said,
        scope=scope_of(material.reliability),
        facts=list(facts(material)),
        lock=material.lock,
        verification=material.verification,
        deviations=deviations(material.verification),
        figures=figures,
        tables=own,
        measures=MEASURES,
        measure=measure_of(material.outcomes),
        most_effects=MOST_EFFECTS,
        unit=UNITS[measure_of(material.outcomes)],
        stability=list(stability_lines(results.analysis)) if results else [],
        few_prompts=few_prompts(results.analysis) if results else "",
        fast_vectors=any(found.encoder["precision"] != "f32" for found in material.detections),
        logrank=logrank_in_words(results.analysis.logrank) if results else "",
        why_this_contrast=why_this_contrast(results, material) if results else "",
        conversations=shown,
        methods=methods(material),
        not_shown=list(not_shown(material, shown)),
        counted=counted,
    )
    pictures = [f for each in shown for f in (each.timeline, each.heat_map) if f is not None]
    sheets = [*own.values(), *plain_sheets(material)]
    return Report(page, [*figures.values(), *pictures], sheets, said)


def _figures(material: Material) -> Iterator[Figure]:
    if material.results:
        yield from result_figures(material, material.results)


def _tables(material: Material) -> Iterator[Table]:
    yield cast_table(material)
    if material.results:
        analysis = material.results.analysis
        yield tables.shares(analysis)
        yield tables.first_collapses(analysis)
        yield tables.at_risk(analysis)
        yield tables.after_onset(analysis)
        if len(analysis.conditions) > 1:
            yield from tables.all_contrasts(analysis).values()
    if material.reliability:
        yield reliability_table(material.reliability)
    yield software(material.study, (each.encoder["precision"] for each in material.detections))
    yield models(material.study)


def not_shown(material: Material, shown: Sequence[Shown]) -> Iterator[str]:
    """What a reader might look for here in vain."""
    hidden = len(material.detections) - len(shown)
    if hidden > 0:
        yield (
            f"the texts of {counted(hidden, 'judged conversation')}; they are in the study, "
            "and `chimera export` writes them"
        )
    yield from _left_out(material)
    if material.results:
        yield from _results_not_shown(material.results)
    if material.reliability is None:
        yield "how far people agree with the detector: no reliability audit has been run"
    if any(each.heat_map is None for each in shown):
        yield "some heat maps: they need two turns, and the encoder's files on this machine"
    yield "what other co-detectors see in the words alone: `chimera analyse --robustness` tells"


def _left_out(material: Material) -> Iterator[str]:
    for each in material.left_out:
        yield f"{counted(each.runs, 'run')} of {each.condition} in any estimate: {each.reason}"


def _results_not_shown(results: Results) -> Iterator[str]:
    yield "a hazard ratio: it would need hazards that stay proportional, which loops do not"
    if results.curve is None:
        yield f"a specification curve: {results.no_curve}"
    stability = results.analysis.rank_stability
    if stability.by_bucket is None:
        yield f"stability by bucket: {stability.reasons.get('by_bucket', '')}"
