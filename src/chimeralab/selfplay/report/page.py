"""The report of a self-play study: how much collapsed, when, what differs, and conversations."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, starmap
from math import isclose
from operator import itemgetter
from typing import Any

from chimeralab import weights
from chimeralab.analysis import Analysis, Runs
from chimeralab.core.numbers import between, p_phrase, percent, plural
from chimeralab.core.records import Detection, Trajectory
from chimeralab.core.result_words import FACT, ResultWords
from chimeralab.detection.loops import LOOPS, Loops, resolve_loops
from chimeralab.detection.seam import Detector, summarise_detector
from chimeralab.embedding.encoder import default_encoder
from chimeralab.rating.gate import check_wording
from chimeralab.rating.plan import describe_draft
from chimeralab.rating.study_audit import Reliability, scope_of
from chimeralab.rating.validity import validity_in_words
from chimeralab.report.charts.canvas import Figure
from chimeralab.report.charts.flow import Stage, describe_attempts, describe_outcomes, format_counts
from chimeralab.report.charts.timeline import compare_turns
from chimeralab.report.conversation import (
    describe_verdict,
    heat_map_figure,
    list_loops,
    timeline_figure,
)
from chimeralab.report.files import Frame, Report, common_facts, make_page, software_table
from chimeralab.report.messages import ShownMessage, Transcript, list_messages
from chimeralab.report.named_numbers import assign_names, list_entries
from chimeralab.report.page import (
    Block,
    Fact,
    Section,
    TextBlock,
    box,
    bullets,
    details,
    find_blocks,
    heading,
    paragraph,
    quote,
    render_macro,
    render_text,
    strong,
)
from chimeralab.report.table import SIGNIFICANT, UNITS, clip_interval, format_change
from chimeralab.selfplay.outcomes import PAIRS, measure_name
from chimeralab.selfplay.report import figures, tables
from chimeralab.selfplay.report.escape import describe_escape, escape_section
from chimeralab.selfplay.report.figures import say
from chimeralab.selfplay.report.material import (
    Material,
    gather,
    glance,
    is_found,
    methods,
    primary_comparisons,
)
from chimeralab.selfplay.runs import NO_TURN, NOT_JUDGED, TOO_SHORT, UNFINISHED
from chimeralab.stats.effects import Effect
from chimeralab.study import Study
from chimeralab.study.estimates import Estimates

# Why a conversation that ended has no verdict.
WITHOUT_VERDICT = (TOO_SHORT, NO_TURN, NOT_JUDGED)
# How many conversations of each kind are shown in full.
EACH = 2
# How many turns are expanded at the beginning, and on both sides of the first collapse.
OPEN_HEAD, OPEN_AROUND = 2, 2
MAX_CARDS = 5
MAX_NAMED = 2  # comparisons in the headline
FEW_PROMPTS = 10  # a study of fewer prompts is a pilot


def report_selfplay(
    study: Study, on_progress: Callable[[str], None], estimates: Estimates
) -> Report:
    """Judge, analyse and draw a self-play study."""
    material = gather(study, on_progress, estimates)
    on_progress("drawing")
    return make_report(material)


def make_report(material: Material) -> Report:
    """Draw every figure, build every table, and put them on one page."""
    study, results = material.study, material.results
    choice, scope = choose(material.analysed_detections), scope_of(material.reliability)
    words, loops = scope.words, resolve_loops(study.plan.detector.settings)
    wanted = {found.id for kind in choice for found in kind}
    talks = {talk.id: talk for talk in study.trajectories() if talk.id in wanted}
    conversations = show(choice, talks, words, loops)
    sections = [*_results(material, *results)] if results else []
    first = sections[:1]
    del sections[:1]
    sections[:0] = [escape_section(material.escape)] if material.escape else []
    # Verdicts of earlier versions have no loops.
    if any(found.looping is not None for found in material.detections):
        sections.append(_loops(material))
    sections.append(reliability_section(material.reliability, describe_draft(study)))
    if conversations:
        collapsed, looping, healthy = choice
        about = say("choice", collapsed=collapsed, looping=looping, healthy=healthy, words=words)
        blocks = [paragraph(about), *conversations]
        sections.append(Section("conversations", "Conversations", blocks))
    analysis = results[0] if results else None
    entries = list_entries(study, analysis, material.reliability, detections=material.detections)
    precisions = [each.encoder["precision"] for each in material.detections]
    gate, prompts = study.plan.extras["gate"], len(study.plan.prompts)
    gate_limits = say("gate_limits", limits=list(gate.advise(len(study.talks), prompts)))
    summary = glance(material)
    return make_page(
        Frame(
            kind="study",
            study=study,
            lock=material.lock,
            verification=material.verification,
            glance=summary,
            headline=headline(material),
            verdicts=[
                *(head_blocks(material, results[0]) if results else ()),
                *(looks_like(choice[0][0], talks, loops) if choice[0] else ()),
                *findings(material, summary),
            ],
            first=first,
            remarks=[scope.sentence, gate_limits, few_prompts(analysis) if analysis else ""],
            facts=list(facts(material)),
            design=[tables.cast_table(study.plan)],
            flow=study_flow(material),
            flow_note=say("flow_note", unjudged=material.unjudged),
            results=sections,
            methods=methods(material),
            software=software_table(study, precisions),
            not_shown=_omissions(material, conversations),
            sheets=list(tables.plain_sheets(*results, material.curve)) if results else [],
            numbers=assign_names(entries),
        )
    )


def findings(material: Material, summary: Sequence[str]) -> Iterator[Block]:
    """The sentences at the head; with results, the figure and the cards say the second of them."""
    rest = summary[2 if material.results else 1 :]
    escapes = describe_escape(material.escape) if material.escape else ()
    yield from (paragraph(sentence, "finding") for sentence in (*rest, *escapes))


def head_blocks(material: Material, analysis: Analysis) -> Iterator[Block]:
    """The result in a figure, a card for each declared question, and one on how far to trust it."""
    conditions, prompts = analysis.conditions, len(material.study.plan.prompts)
    top = max(each.mean for each in conditions.values())
    rows = [
        {
            "name": name,
            "value": each.mean,
            "hot": 0 < each.mean >= top / 2,
            "low": each.share_ci and each.share_ci.low,
            "high": each.share_ci and each.share_ci.high,
            "shown": _round_share(each.mean),
            "between": each.share_ci and between(each.share_ci, 0, 100),
        }
        for name, each in conditions.items()
    ]
    title = say("bars_title", words=material.words, prompts=prompts)
    yield TextBlock("result_bars", title, lines=rows)
    asked = analysis.primary or primary_comparisons(analysis, material.outcomes)
    cards = [
        _card(each, number, material) for number, each in enumerate(asked[:MAX_CARDS], start=1)
    ]
    found = material.reliability
    trust = {
        "about": "How far to trust it",
        "number": "detector and people" if found else "detector only",
        "note": found.verdict if found else "no person has rated these conversations",
        "verdict": "a pilot: " + plural(prompts, "prompt") if prompts < FEW_PROMPTS else "",
        "hot": False,
    }
    yield TextBlock("result_cards", lines=[*cards, trust])


def looks_like(
    worst: Detection, talks: Mapping[str, Trajectory], loops: Loops
) -> Iterator[TextBlock]:
    """What repeats most often in the conversation with the largest share of collapsed turns."""
    listed = list_loops(talks[worst.id], worst, loops)
    found = [each for loop in listed for each in loop["repeated"]]
    if found:
        text, times = max(found, key=itemgetter(1))
        about = {"times": times, "turns": len(talks[worst.id].turns), "found": worst}
        yield TextBlock("looks_like", text, lines=[about])


def _card(each: Effect, number: int, material: Material) -> dict[str, Any]:
    """The answer to a declared question, or to one of all comparisons."""
    unit = UNITS[each.measure]
    bounds = between(
        clip_interval(each.interval, unit, each.weights), unit.digits, unit.scale, sign=True
    )
    tested = each.p_holm is not None
    return {
        "about": f"{f'Declared question {number}: ' if each.role == 'primary' else ''}"
        f"{each.a} against {each.b}",
        "number": format_change(each.estimate, unit),
        "note": measure_name(each.measure, material.words)
        + (f"; {bounds}; {p_phrase(each.p_holm)} by a t test" if tested else ""),
        "verdict": ("Difference found" if is_found(each) else "No difference found")
        if tested
        else f"Not tested: {each.reason or 'no interval'}",
        "hot": is_found(each),
    }


def _round_share(share: float) -> str:
    """A share as it is read at a glance.

    >>> _round_share(0.833), _round_share(0.004)
    ('83\\xa0%', '0.4\\xa0%')
    """
    return percent(share, 1 if 0 < share < 0.01 else 0)


def headline(material: Material) -> str:
    """What the study found, for readers who know nothing of it; empty for the usual sentence."""
    if not material.results or not any(
        each.incidence for each in material.results[0].conditions.values()
    ):
        return ""
    analysis = material.results[0]
    order, conditions = analysis.rank_stability.order, analysis.conditions
    most, least = (
        [each for each in order if isclose(conditions[each].mean, conditions[name].mean)]
        for name in (order[0], order[-1])
    )
    asked = analysis.primary or primary_comparisons(analysis, material.outcomes)
    tested = [each for each in asked if each.p_holm is not None][:MAX_NAMED]
    said = say(
        "headline",
        by=material.words is not FACT,
        order=order,
        most=most,
        least=least,
        share=lambda name: _round_share(conditions[name].mean),
        differ=[each for each in tested if is_found(each)],
        alike=[each for each in tested if not is_found(each)],
    )
    check_wording(said, scope_of(material.reliability))
    return said


def facts(material: Material) -> Iterator[Fact]:
    """The head of the report: lock, design, detector and estimands."""
    plan = material.study.plan
    design = f"{plan.kind.describe(plan)}, {plural(plan.conversation.turns, 'turn')} each"
    yield from common_facts(material.study, material.lock, design, "condition")
    own = f" ({plan.detector.use})" if plan.detector.is_outside else ""
    yield "Detector", f"{summarise_detector(plan.detector.settings)}{own}"
    for each in material.outcomes.estimands:
        measure = measure_name(each.measure, material.words)
        asked = say("estimand", each=each, measure=measure, pairs=PAIRS)
        yield each.role.capitalize() if material.lock else "Estimated", asked


def few_prompts(analysis: Analysis) -> str:
    """Warn if there are too few prompts for any permutation p below 5 %."""
    compared = [each.units for each in analysis.contrasts if each.p is not None]
    smallest = 2.0 ** (1 - min(compared, default=1))
    if not compared or smallest < SIGNIFICANT:
        return ""
    return say("few_prompts", prompts=min(compared), smallest=smallest)


def study_flow(material: Material) -> dict[str, tuple[Stage, ...]]:
    """How many conversations of each condition were planned, attempted, ended and analysed."""
    conditions = material.results[0].conditions if material.results else {}
    flows: dict[str, tuple[Stage, ...]] = {}
    for arm in material.arms:
        gone = {e.reason: e.runs for e in material.left_out if e.condition == arm.condition}
        unread = {reason: n for reason, n in gone.items() if reason.startswith(WITHOUT_VERDICT)}
        others = {reason: n for reason, n in gone.items() if reason not in (*unread, UNFINISHED)}
        ended = sum(arm.outcomes.values())
        parsable = ended - sum(unread.values())
        analysed = conditions[arm.condition].n if arm.condition in conditions else 0
        asked, steps = list(describe_attempts(arm)), material.interventions[arm.condition]
        if steps:
            # Open conversations may have interventions, too.
            asked.append(plural(steps, "intervention"))
        not_started = format_counts({"not started": arm.planned - arm.attempted})
        still_open = format_counts({"still open": arm.attempted - ended})
        not_analysed = format_counts(others or {"not analysed": parsable - analysed})
        flows[arm.condition] = (
            Stage("Planned", arm.planned),
            Stage("Attempted", arm.attempted, asked, not_started),
            Stage("Ended", ended, list(describe_outcomes(arm)), still_open),
            Stage("Parsable", parsable, (), format_counts(unread)),
            Stage("Analysed", analysed, (), not_analysed),
        )
    return flows


def _results(material: Material, analysis: Analysis, runs: Runs) -> Iterator[Section]:
    words = material.words
    unseen = tables.unseen_cycles(analysis)
    yield Section(
        "distributions",
        f"How much {words.was}",
        [
            figures.distribution_figure(analysis, runs, words),
            tables.shares(analysis),
            paragraph(say("about_shares", words=words), "note"),
            *([unseen, paragraph(say("about_unseen"), "note")] if unseen else ()),
            *([bullets(analysis.notes, "note")] if analysis.notes else ()),
        ],
    )
    several = len(analysis.conditions) > 1
    log_rank = paragraph(say("log_rank", test=analysis.logrank))
    yield Section(
        "survival",
        "When it began",
        [
            figures.survival_figure(analysis, words),
            tables.first_collapses(analysis, words),
            details("Runs at risk", [tables.at_risk(analysis, words)]),
            *([log_rank] if several else ()),
            heading(f"After the first {words.event}"),
            tables.after_onset(analysis, words),
            paragraph(say("about_episodes", words=words), "note"),
        ],
    )
    if several:
        yield _contrasts(material, analysis, runs)
    if ranks := figures.stability_figure(analysis):
        about, figure = ranks
        by_bucket = figures.bucket_figure(analysis, runs, words)
        blocks = [paragraph(about), figure, *([by_bucket] if by_bucket else ())]
        yield Section("ranks", "Does the order hold?", blocks)
    comparisons = primary_comparisons(analysis, material.outcomes)
    curve = figures.curve_figure(material.curve, comparisons, material.detections)
    why_not = material.no_curve or "the declared detector gives no difference"
    varied = curve or paragraph(f"No specification curve: {why_not}.")
    yield Section("robustness", "Does it depend on the detector?", [varied])


def _contrasts(material: Material, analysis: Analysis, runs: Runs) -> Section:
    def table(measure: str) -> Block:
        rows = analysis.rows(measure)
        return tables.contrasts(f"contrasts_{measure}", rows, analysis.settings.level)

    measure, words = material.measure, material.words
    forest = figures.forest_figure(analysis, runs, measure, words)
    others = [
        details(f"Differences in the {measure_name(name, words)}", [table(name)])
        for name in analysis.measures
        if name != measure
    ]
    note = paragraph(f"{say('about_tests')} {few_prompts(analysis)}", "note")
    unseen = [paragraph(line) for line in [tables.describe_unseen(analysis)] if line]
    blocks = [*([forest] if forest else ()), table(measure), *unseen, *others, note]
    return Section("contrasts", "Differences between conditions", blocks)


def _loops(material: Material) -> Section:
    detector: Detector = material.study.plan.detector.settings
    judged = [found for found in material.detections if found.looping is not None]
    about = say(
        "loops",
        looping=sum(bool(found.looping) for found in judged),
        judged=len(judged),
        declared=resolve_loops(detector) is detector,
        standard=LOOPS.standard,
    )
    table = tables.loops(list(material.study.plan.conditions), material.detections)
    return Section("loops", "Which conversations loop", [paragraph(about), table])


def reliability_section(found: Reliability | None, draft: str) -> Section:
    """The gate, the raters, how far they agree, and that their rubric is a draft if it is one."""
    notes = [paragraph(f"{draft[:1].upper()}{draft[1:]}.")] if draft else []
    if found is None:
        none = (
            "No reliability audit has been run: only the detector has judged these conversations."
        )
        return Section("reliability", "Reliability", [paragraph(none), *notes])
    sentence = scope_of(found).sentence
    gate = paragraph(strong(found.verdict, before="Gate: ", after=f". {sentence}"))
    if found.figures is None:
        return Section("reliability", "Reliability", [gate, *notes])
    blocks = [
        gate,
        paragraph(f"Raters: {'; '.join(map(str, found.raters))}."),
        tables.reliability_table(found.figures, found.figures["by_stratum"]),
        bullets(
            [
                found.retest_in_words,
                *starmap(validity_in_words, found.against.items()),
                *filter(None, [say("gate_limits", limits=found.limits)]),
            ]
        ),
        *notes,
    ]
    return Section("reliability", "Reliability", blocks)


# The conversations that are shown: collapsed, looping, and healthy ones.
Choice = tuple[list[Detection], list[Detection], list[Detection]]


def choose(detections: Iterable[Detection], each: int = EACH) -> Choice:
    """Choose the largest and the smallest shares of collapsed turns, and loops without a collapse.

    Among equal shares, the conversation with the most similar turns comes first. Each is chosen
    once, and only with a verdict.
    """
    known = [found for found in detections if found.collapse_rate is not None]

    def severity(detection: Detection) -> tuple[float, float]:
        """The share of collapsed turns, and the mean similarity to the closer of two turns."""
        near = [max(row.s1 or 0.0, row.s2 or 0.0) for row in detection.trace or ()]
        return detection.collapse_rate or 0.0, sum(near) / len(near) if near else 0.0

    worst = sorted(known, key=severity, reverse=True)
    collapsed = [found for found in worst[:each] if found.collapsed]
    # An equal share is not healthier.
    bound = collapsed[-1].collapse_rate if collapsed else None
    rest = [
        found for found in reversed(worst) if bound is None or (found.collapse_rate or 0.0) < bound
    ]
    unmarked = [found for found in known if found.looping and not found.collapsed]
    looping = sorted(unmarked, key=lambda found: -(found.loop_score or 0.0))[:each]
    shown = {found.id for found in (*collapsed, *looping)}
    healthy = [found for found in rest if found.id not in shown]
    healthy.sort(key=lambda found: bool(found.looping))
    return collapsed, looping, healthy[:each]


def show(
    choice: Choice,
    talks: Mapping[str, Trajectory],
    words: ResultWords,
    loops: Loops = LOOPS,
) -> list[Section]:
    """Show the chosen conversations, each with its verdict, figures and turns."""
    kinds = {
        "collapsed": f"Largest share of {words.turns}",
        "looping": f"Loops without a {words.event}",
        "healthy": "Healthiest",
    }
    return [
        Section(
            f"{kind}-{number}",
            title,
            list(_conversation(f"{kind}-{number}", found, talks[found.id], words, loops)),
            found.id,
        )
        for (kind, title), chosen in zip(kinds.items(), choice, strict=True)
        for number, found in enumerate(chosen, start=1)
    ]


def _conversation(
    key: str, detection: Detection, trajectory: Trajectory, words: ResultWords, loops: Loops
) -> Iterator[Block]:
    look = "collapsed" if detection.collapsed else "looping" if detection.looping else ""
    total = len(trajectory.turns)
    found = [
        paragraph(render_macro("blocks.html", "loop_sentence", each, total))
        for each in list_loops(trajectory, detection, loops)
    ]
    yield box([paragraph(describe_verdict(detection, words)), *found], look)
    prompt = str(trajectory.metadata.get("prompt_text", ""))
    if prompt:
        yield quote(prompt)
    lines = timeline_figure(
        detection,
        words,
        name=f"timeline_{key}",
        captions=[
            "How similar each turn is to the two before it. A turn on or above the dashed line of "
            "its own colour repeats an earlier one."
        ],
    )
    if lines:
        yield lines
    # A heat map needs the encoder, whose files are not downloaded for it.
    if len(detection.positions) > 1 and weights.locate(weights.ENCODER) is not None:
        kept = [trajectory.turns[place - 1].text for place in detection.positions]
        pairs = compare_turns(default_encoder().encode(kept).vectors)
        caption = "Every turn compared with every earlier one; the darker, the more similar."
        yield heat_map_figure(detection, pairs, name=f"heat_map_{key}", captions=[caption])
    window = detection.detector["settings"].get("window")
    for is_open, messages in parts(list_messages(trajectory, detection, loops), detection):
        shown = Transcript(messages, "study", words, window=window)
        first, last = _position(messages[0]), _position(messages[-1])
        summary = f"Turns {first} to {last}" if first != last else f"Turn {first}"
        yield shown if is_open else details(summary, [shown], "rest")


def parts(
    messages: Sequence[ShownMessage | range], detection: Detection
) -> Iterator[tuple[bool, list[ShownMessage | range]]]:
    """Split a transcript into parts to expand, such as the onset of a collapse, and the rest."""
    opened = set(range(1, OPEN_HEAD + 1))
    if detection.first_collapse_turn is not None:
        onset = detection.positions[detection.first_collapse_turn - 1]
        opened |= set(range(onset - OPEN_AROUND, onset + OPEN_AROUND + 1))
    for loop in [each for each in detection.loops if each.level == "verdict"][:1]:
        opened |= set(range(loop.noticed - OPEN_AROUND, loop.noticed + 1))
    for is_open, group in groupby(messages, key=lambda item: _position(item) in opened):
        yield is_open, list(group)


def _position(item: ShownMessage | range) -> int:
    return item[0] if isinstance(item, range) else item.position


def _omissions(material: Material, conversations: Sequence[Section]) -> list[str]:
    """What a reader might expect on the page but won't find."""
    maps = [f for f in find_blocks(Figure, conversations) if f.name.startswith("heat_map_")]
    found = render_text(
        "selfplay_not_shown.txt",
        hidden=len(material.detections) - len(conversations),
        left_out=material.left_out,
        analysis=material.results and material.results[0],
        curve=material.curve,
        no_curve=material.no_curve,
        audited=material.reliability is not None,
        missing_maps=len(maps) < len(conversations),
    )
    return list(filter(None, found))
