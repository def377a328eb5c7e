"""The report of a self-play study: how much collapsed, when, what differs, and conversations."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, starmap

from chimeralab import weights
from chimeralab.core.numbers import plural
from chimeralab.core.records import Detection, Trajectory
from chimeralab.core.result_words import ResultWords
from chimeralab.detection.loops import LOOPS, Loops, resolve_loops
from chimeralab.embedding.encoder import default_encoder
from chimeralab.rating.study_audit import Reliability, scope_of
from chimeralab.rating.validity import validity_in_words
from chimeralab.report.charts.canvas import Figure
from chimeralab.report.charts.flow import Stage, describe_attempts, describe_outcomes, format_counts
from chimeralab.report.charts.timeline import compare_turns
from chimeralab.report.conversation import (
    heat_map_figure,
    loop_lines,
    timeline_figure,
    verdict_in_words,
)
from chimeralab.report.files import Frame, Report, make_page, software_table
from chimeralab.report.messages import ShownMessage, Transcript, list_messages
from chimeralab.report.named_numbers import assign_names, list_entries
from chimeralab.report.page import (
    Block,
    Section,
    box,
    bullets,
    details,
    find_blocks,
    heading,
    paragraph,
    quote,
    strong,
)
from chimeralab.selfplay.outcomes import MEASURES, measure_name
from chimeralab.selfplay.report import figures, tables
from chimeralab.selfplay.report.material import (
    Material,
    StudyResults,
    facts,
    few_prompts,
    gather,
    glance,
    logrank_in_words,
    loops_in_words,
    measure_of,
    methods,
)
from chimeralab.selfplay.runs import NO_TURN, NOT_JUDGED, TOO_SHORT, UNFINISHED
from chimeralab.study import Study
from chimeralab.study.estimates import Estimates

# Why a conversation that ended has no verdict.
UNREAD = (TOO_SHORT, NO_TURN, NOT_JUDGED)
# How many conversations of each kind are shown in full.
EACH = 2
# How many turns stand open at the beginning, and on both sides of the first collapse.
OPEN_HEAD, OPEN_AROUND = 2, 2

FLOW = (
    "What became of the planned conversations. Ended are those that came to an end of any kind, "
    "parsable those with enough turns for a verdict."
)
ABOUT_SHARES = (
    "At risk: the share among the turns that could have {been}. ICC: how similar the shares of a "
    "prompt's repeats are. It is 1 when they are the same, about 0 when they are no more similar "
    "than those of different prompts, and below 0 when they are less similar; where it is above 0, "
    "runs are not independent."
)
ABOUT_EPISODES = (
    "A run recovered when any later turn is not {collapsed}. The length of an episode that "
    "lasts to the end of its run is taken as at least that long."
)
ABOUT_TESTS = (
    "Holm p: corrected over all primary comparisons, or over all that are not primary. "
    "Permutation p: the sides exchanged at random within prompts. Naive p: Welch's test on runs. "
    "SE ratio: the naive standard error over the honest one."
)


def report_selfplay(study: Study, tell: Callable[[str], None], estimates: Estimates) -> Report:
    """Judge, analyse and draw a self-play study."""
    material = gather(study, tell, estimates)
    tell("drawing")
    return make_report(material)


def make_report(material: Material) -> Report:
    """Draw every figure, set every table, and put them on one page."""
    results, study = material.results, material.study
    choice, scope = choose(material.analysed), scope_of(material.reliability)
    words, loops = scope.words, resolve_loops(study.plan.detector.settings)
    conversations = show(choice, study.trajectories(), words, loops)
    parts = list(_results(material, results)) if results else []
    # How many loop stands beside the declared outcome; old studies do not know.
    if any(found.looping is not None for found in material.detections):
        about = paragraph(loops_in_words(material))
        parts.append(Section("loops", "Which conversations loop", [about, tables.loops(material)]))
    parts.append(reliability_section(material.reliability))
    if conversations:
        blocks = [paragraph(choice_in_words(choice, words)), *conversations]
        parts.append(Section("conversations", "Conversations", blocks))
    unjudged = material.unjudged
    why_not = f" Not all of these were judged, because {unjudged}." if unjudged else ""
    precisions = [each.encoder["precision"] for each in material.detections]
    return make_page(
        Frame(
            kind="study",
            study=study,
            lock=material.lock,
            verification=material.verification,
            glance=glance(material),
            remarks=[
                scope.sentence,
                few_prompts(results.analysis) if results else "",
            ],
            facts=list(facts(material)),
            design=[tables.cast_table(study.plan)],
            flow=study_flow(material),
            flow_note=FLOW + why_not,
            results=parts,
            methods=methods(material),
            software=software_table(study, precisions),
            not_shown=list(not_shown(material, conversations)),
            sheets=list(tables.plain_sheets(results)) if results else [],
            numbers=assign_names(
                list_entries(
                    study,
                    results and results.analysis,
                    material.reliability,
                    detections=material.detections,
                )
            ),
        )
    )


def study_flow(material: Material) -> dict[str, tuple[Stage, ...]]:
    """How many conversations of each condition were planned, attempted, ended and analysed."""
    conditions = material.results.analysis.conditions if material.results else {}
    flows: dict[str, tuple[Stage, ...]] = {}
    for arm in material.arms:
        gone = {e.reason: e.runs for e in material.left_out if e.condition == arm.condition}
        unread = {reason: n for reason, n in gone.items() if reason.startswith(UNREAD)}
        others = {reason: n for reason, n in gone.items() if reason not in (*unread, UNFINISHED)}
        ended = sum(arm.outcomes.values())
        parsable = ended - sum(unread.values())
        analysed = conditions[arm.condition].n if arm.condition in conditions else 0
        asked, steps = list(describe_attempts(arm)), material.interventions[arm.condition]
        if steps:
            # Also conversations that are still open have interventions.
            asked.append(plural(steps, "intervention"))
        flows[arm.condition] = (
            Stage("Planned", arm.planned),
            Stage(
                "Attempted",
                arm.attempted,
                asked,
                format_counts({"not started": arm.planned - arm.attempted}),
            ),
            Stage(
                "Ended",
                ended,
                list(describe_outcomes(arm)),
                format_counts({"still open": arm.attempted - ended}),
            ),
            Stage("Parsable", parsable, (), format_counts(unread)),
            Stage(
                "Analysed",
                analysed,
                (),
                format_counts(others or {"not analysed": parsable - analysed}),
            ),
        )
    return flows


def _results(material: Material, results: StudyResults) -> Iterator[Section]:
    analysis, words = results.analysis, material.words
    yield Section(
        "distributions",
        f"How much {words.was}",
        [
            figures.distribution_figure(results, words),
            tables.shares(analysis),
            paragraph(ABOUT_SHARES.format(been=words.been), "note"),
            *([bullets(analysis.notes, "note")] if analysis.notes else ()),
        ],
    )
    several = len(analysis.conditions) > 1
    yield Section(
        "survival",
        "When it began",
        [
            figures.survival_figure(analysis, words),
            tables.first_collapses(analysis, words),
            details("Runs still followed", [tables.at_risk(analysis, words)]),
            *([paragraph(logrank_in_words(analysis.logrank))] if several else ()),
            heading(f"After the first {words.event}"),
            tables.after_onset(analysis, words),
            paragraph(ABOUT_EPISODES.format(collapsed=words.collapsed), "note"),
        ],
    )
    if several:
        yield _contrasts(material, results)
    order = figures.stability_figure(analysis)
    if order:
        said = " ".join(figures.stability_lines(analysis))
        by_means = "By their means the conditions stand in the order "
        blocks = [
            paragraph(f"{by_means}{figures.order_in_words(analysis)}. {said}"),
            order,
            figures.bucket_figure(results, words),
        ]
        yield Section("ranks", "Does the order hold?", [each for each in blocks if each])
    why_not = results.no_curve or "the declared detector gives no difference"
    curve = figures.curve_figure(material, results)
    varied = curve or paragraph(f"No specification curve: {why_not}.")
    yield Section("robustness", "Does it depend on the detector?", [varied])


def _contrasts(material: Material, results: StudyResults) -> Section:
    analysis, measure = results.analysis, measure_of(material.outcomes)
    others = [
        details(
            f"The same for the {measure_name(name, material.words)}",
            [tables.contrasts(analysis, name)],
        )
        for name in MEASURES
        if name != measure
    ]
    forest = figures.forest_figure(material, results)
    blocks = [
        *([forest] if forest else ()),
        tables.contrasts(analysis, measure),
        *others,
        paragraph(f"{ABOUT_TESTS} {few_prompts(analysis)}", "note"),
    ]
    return Section("contrasts", "Differences between conditions", blocks)


def reliability_section(found: Reliability | None) -> Section:
    """The gate, who rated, and how far they agree."""
    if found is None:
        none = (
            "No reliability audit has been run: only the detector has judged these conversations."
        )
        return Section("reliability", "Reliability", [paragraph(none)])
    sentence = scope_of(found).sentence
    gate = paragraph(strong(found.verdict, before="Gate: ", after=f". {sentence}"))
    if found.figures is None:
        return Section("reliability", "Reliability", [gate])
    blocks = [
        gate,
        paragraph(f"Who rated: {'; '.join(map(str, found.raters))}."),
        tables.reliability_table(found.figures, found.figures["by_stratum"]),
        bullets([found.retest_in_words, *starmap(validity_in_words, found.against.items())]),
    ]
    return Section("reliability", "Reliability", blocks)


# Conversations that are shown, the most telling of their kind first: collapsed, looping, healthy.
Choice = tuple[list[Detection], list[Detection], list[Detection]]


def choice_in_words(choice: Choice, words: ResultWords) -> str:
    """What is shown."""
    collapsed, looping, healthy = choice
    said = f"The largest shares of {words.turns} in the study, and the smallest."
    if not collapsed:
        said = f"The smallest shares of {words.turns} in the study. No conversation {words.was}."
    elif not healthy:
        said = f"The largest shares of {words.turns} in the study. None is smaller."
    if looping:
        said += f" Between them, conversations that loop without a {words.event}."
    return said


def choose(detections: Iterable[Detection], each: int = EACH) -> Choice:
    """The largest shares of collapsed turns, and smaller ones; of equals, the most similar turns.

    Between them come loops without a collapse. A conversation is shown once, and none without a
    verdict.
    """
    known = [found for found in detections if found.collapse_rate is not None]

    def telling(detection: Detection) -> tuple[float, float]:
        """How much is collapsed, and how similar a turn is to the two before it, on average."""
        near = [max(row.s1 or 0.0, row.s2 or 0.0) for row in detection.trace or ()]
        return detection.collapse_rate or 0.0, sum(near) / len(near) if near else 0.0

    worst = sorted(known, key=telling, reverse=True)
    collapsed = [found for found in worst[:each] if found.collapsed]
    # What collapsed as much as these is not healthier than they are.
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
    trajectories: Iterable[Trajectory],
    words: ResultWords,
    loops: Loops = LOOPS,
) -> list[Section]:
    """The chosen conversations, each with its verdict, its pictures and its turns."""
    wanted = {found.id for kind in choice for found in kind}
    texts = {talk.id: talk for talk in trajectories if talk.id in wanted}
    kinds = {
        "collapsed": f"Largest share of {words.turns}",
        "looping": f"Loops without a {words.event}",
        "healthy": "Healthiest",
    }
    return [
        Section(
            f"{kind}-{number}",
            title,
            list(_conversation(f"{kind}-{number}", found, texts[found.id], words, loops)),
            found.id,
        )
        for (kind, title), chosen in zip(kinds.items(), choice, strict=True)
        for number, found in enumerate(chosen, start=1)
    ]


def _conversation(
    key: str, detection: Detection, trajectory: Trajectory, words: ResultWords, loops: Loops
) -> Iterator[Block]:
    look = "collapsed" if detection.collapsed else "looping" if detection.looping else ""
    found = [paragraph(line) for line in loop_lines(detection)]
    yield box([paragraph(verdict_in_words(detection, words)), *found], look)
    prompt = str(trajectory.metadata.get("prompt_text", ""))
    if prompt:
        yield quote(prompt)
    lines = timeline_figure(
        detection,
        words,
        name=f"timeline_{key}",
        captions=[
            "How similar each turn is to the two before it. On or above a dashed line of its own "
            "colour, a turn repeats."
        ],
    )
    if lines:
        yield lines
    # Comparing all turns needs the encoder, and its files are not pulled for it.
    if len(detection.positions) > 1 and weights.locate(weights.ENCODER) is not None:
        kept = [trajectory.turns[place - 1].text for place in detection.positions]
        pairs = compare_turns(default_encoder().encode(kept).vectors)
        caption = "Every turn with every earlier one; the darker, the more similar."
        yield heat_map_figure(detection, pairs, name=f"heat_map_{key}", captions=[caption])
    window = detection.detector["settings"].get("window")
    for is_open, messages in parts(list_messages(trajectory, detection, loops), detection):
        shown = Transcript(messages, window, "study", words)
        first, last = _position(messages[0]), _position(messages[-1])
        summary = f"Turns {first} to {last}" if first != last else f"Turn {first}"
        yield shown if is_open else details(summary, [shown], "rest")


def parts(
    messages: Sequence[ShownMessage | range], detection: Detection
) -> Iterator[tuple[bool, list[ShownMessage | range]]]:
    """The transcript in order, in parts that are open to see or not: what matters is open."""
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


def not_shown(material: Material, conversations: Sequence[Section]) -> Iterator[str]:
    """What a reader might look for here in vain."""
    hidden = len(material.detections) - len(conversations)
    if hidden > 0:
        yield (
            f"the texts of {plural(hidden, 'judged conversation')}; they are in the study, "
            "and `chimera export` writes them"
        )
    for each in material.left_out:
        yield f"{plural(each.runs, 'run')} of {each.condition} in any estimate: {each.reason}"
    if material.results:
        yield "a hazard ratio: it would need hazards that stay proportional, which loops do not"
        if material.results.curve is None:
            yield f"a specification curve: {material.results.no_curve}"
        stability = material.results.analysis.rank_stability
        if stability.by_bucket is None:
            yield f"stability by bucket: {stability.reasons.get('by_bucket', '')}"
    if material.reliability is None:
        yield "how far people agree with the detector: no reliability audit has been run"
    maps = [f for f in find_blocks(Figure, conversations) if f.name.startswith("heat_map_")]
    if len(maps) < len(conversations):
        yield "some heat maps: they need two turns, and the encoder's files on this machine"
    yield "what other co-detectors see in the words alone: `chimera analyse --robustness` tells"
