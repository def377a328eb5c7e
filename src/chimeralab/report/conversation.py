"""One conversation: what was said, what the detectors found, and the page that shows both."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import NamedTuple

from markupsafe import Markup

from chimeralab.core.numbers import counted, cutoff
from chimeralab.core.records import (
    Call,
    Detection,
    Episode,
    Evidence,
    Loop,
    Trajectory,
    Turn,
    TurnTrace,
)
from chimeralab.core.result_words import FACT, ResultWords
from chimeralab.core.roles import RESULTS, side_of
from chimeralab.core.text import inert
from chimeralab.detection.calls import has_failed
from chimeralab.detection.detectors import LOCKED, LOOPS, Detector, Loops
from chimeralab.detection.loops import LoopStream, loops_beside
from chimeralab.detection.measure import measurer_for
from chimeralab.detection.verdict import verdict
from chimeralab.embedding.encoder import Encoder, default_encoder
from chimeralab.report.charts.canvas import Figure, draw, draw_square
from chimeralab.report.charts.timeline import (
    MOST_POINTS,
    PairSimilarities,
    SimilarityLine,
    TurnSpan,
    blocks,
    compare,
    heat_map,
    peaks,
    timeline,
)
from chimeralab.report.page import Facts, HeadFact, render

# A conversation with more messages than this is shown in parts.
MOST_MESSAGES = 2_000
HEAD, TAIL = 100, 20
BEFORE_EDGE, AFTER_EDGE = 6, 10

# What is longer is folded, and what is far longer is cut, so that any page can be opened.
FOLD_AT = 1_200
FOLD_LINES = 24
# Arguments and results of tools are read in passing.
CALL_FOLD_AT = 400
CALL_FOLD_LINES = 6
MOST_CALLS = 20
MOST_CHARACTERS = 20_000
PAGE_CHARACTERS = 4_000_000

MOST_SPANS_NAMED = 6
MOST_LOOPS_NAMED = 6
MOST_NAME = 120
MOST_FIELDS = 12
PAIRS_NAMED = 5


class Text(NamedTuple):
    """A message's words: what is open to see, what is folded away, how much is left out."""

    head: str
    folded: str
    left_out: int


class Repeat(NamedTuple):
    """Which earlier turn a turn repeats or nearly repeats."""

    turn: int
    similarity: float | None
    run: int


class LoopMark(NamedTuple):
    """That a message lies in a loop: of which kinds, and which earlier messages it repeats.

    One that is not `sure` is a notice, not a verdict.
    """

    kinds: Sequence[str]
    sure: bool
    begins: bool
    repeats: Sequence[int]


class ShownCall(NamedTuple):
    """A tool that a message called, with what came back; None where the log does not say."""

    name: str
    arguments: Text | None
    result: Text | None
    failed: bool


class ShownMessage(NamedTuple):
    """One message in its place. `turn` is its number if it is judged.

    `answers` is the message whose call brought this one; its text stands there.
    """

    position: int
    turn: int | None
    speaker: str | None
    model: str | None
    spoken: bool
    collapsed: bool
    repeat: Repeat | None
    text: Text
    loop: LoopMark | None = None
    calls: Sequence[ShownCall] = ()
    calls_left_out: int = 0
    answers: int | None = None


class Gap(NamedTuple):
    """Messages that the page leaves out, both ends included."""

    first: int
    last: int

    @property
    def messages(self) -> int:
        return self.last - self.first + 1


class Transcript(NamedTuple):
    """Messages next to each other, ready to be shown.

    `links` are turns that the page has, and `places` the anchors of its messages.
    """

    messages: Sequence[ShownMessage | Gap]
    window: int | None
    kept_in: str
    words: ResultWords = FACT
    links: frozenset[int] = frozenset()
    places: Mapping[int, str] = {}


def list_messages(
    trajectory: Trajectory, detection: Detection, loops: Loops = LOOPS
) -> list[ShownMessage | Gap]:
    """The messages in order, with gaps where a very long conversation is not shown."""
    shown = positions_shown(len(trajectory.turns), detection)
    calls = sum(min(MOST_CALLS, len(trajectory.turns[n - 1].calls)) for n in shown)
    texts = max(1, len(shown) + 2 * calls)
    most = min(MOST_CHARACTERS, PAGE_CHARACTERS // texts)
    numbers = {position: turn for turn, position in enumerate(detection.positions, start=1)}
    traces = {trace.position: trace for trace in detection.trace or ()}
    evidence = {each.turn: each for each in detection.evidence}
    marks = loop_marks(trajectory.turns, detection.loops, loops)
    answers = _answers(trajectory.turns)
    items: list[ShownMessage | Gap] = []
    before = 0
    for position in (*shown, len(trajectory.turns) + 1):
        if position > before + 1:
            items.append(Gap(before + 1, position - 1))
        before = position
        if position > len(trajectory.turns):
            break
        turn, trace = trajectory.turns[position - 1], traces.get(position)
        items.append(
            ShownMessage(
                position=position,
                turn=numbers.get(position),
                speaker=turn.speaker or turn.role,
                model=turn.model,
                spoken=turn.spoken,
                collapsed=trace.collapsed if trace else False,
                repeat=_repeat(trace, evidence.get(trace.turn)) if trace else None,
                text=fold(turn.text, max(2 * FOLD_AT, most)),
                loop=marks.get(position),
                calls=[_shown_call(call, most) for call in turn.calls[:MOST_CALLS]],
                calls_left_out=max(0, len(turn.calls) - MOST_CALLS),
                answers=answers.get(position),
            )
        )
    return items


def positions_shown(messages: int, detection: Detection) -> list[int]:
    """All of them, or the head, the tail and the surroundings of collapsed spans and loops."""
    if messages <= MOST_MESSAGES:
        return list(range(1, messages + 1))
    shown = {*range(1, HEAD + 1), *range(messages - TAIL + 1, messages + 1)}
    loops, where = detection.loops, detection.positions
    edges_of_loops = [(loop.began, loop.noticed, loop.ended or messages) for loop in loops]
    edges_of_collapse = [(where[e.start - 1], where[e.end - 1]) for e in detection.episodes]
    for edges in (*edges_of_loops, *edges_of_collapse):
        for at in edges:
            shown.update(range(max(1, at - BEFORE_EDGE), min(messages, at + AFTER_EDGE) + 1))
        if len(shown) >= MOST_MESSAGES:
            break
    return sorted(shown)


def loop_marks(
    turns: Sequence[Turn], found: Sequence[Loop], loops: Loops = LOOPS
) -> dict[int, LoopMark]:
    """Which messages lie in a loop, by position, and what each of them repeats."""
    if not found:
        return {}
    stream = LoopStream(loops)
    repeats = {n: stream.update(turn).repeats for n, turn in enumerate(turns, start=1)}
    covering: defaultdict[int, list[Loop]] = defaultdict(list)
    for loop in found:
        for position in range(loop.began, min(loop.ended or len(turns), len(turns)) + 1):
            if _is_in_stream(turns[position - 1], loop.stream):
                covering[position].append(loop)
    marks = {}
    for position, each in covering.items():
        verdicts = [loop for loop in each if loop.level == "verdict"]
        named = verdicts or each
        marks[position] = LoopMark(
            kinds=list(dict.fromkeys(loop.kind for loop in named)),
            sure=bool(verdicts),
            begins=any(loop.began == position for loop in named),
            # A message before the loop may share a phrase with this one; it is not what goes round.
            repeats=[n for n in repeats[position] if n >= min(loop.began for loop in named)],
        )
    return marks


def _is_in_stream(turn: Turn, stream: str) -> bool:
    """Whether a loop of a stream can be made of this message."""
    if stream == "calls":
        return bool(turn.calls)
    said = turn.spoken and bool(turn.text.strip())
    return said and stream in ("all", f"speaker:{turn.speaker}")


def _answers(turns: Sequence[Turn]) -> dict[int, int]:
    """Which messages bring the result of a call, by position, and where that call stands."""
    waiting: defaultdict[str, list[int]] = defaultdict(list)
    found = {}
    for position, turn in enumerate(turns, start=1):
        if turn.text and not turn.spoken and side_of(turn) in RESULTS and waiting[turn.text]:
            found[position] = waiting[turn.text].pop(0)
        # What the page does not show there has to be seen here.
        for call in turn.calls[:MOST_CALLS]:
            if call.result:
                waiting[call.result].append(position)
    return found


def _shown_call(call: Call, most: int) -> ShownCall:
    arguments = call.arguments
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, default=str)

    def folded(text: str | None) -> Text | None:
        return None if text is None else fold(text, max(2 * CALL_FOLD_AT, most), of_call=True)

    return ShownCall(call.name, folded(arguments), folded(call.result), has_failed(call))


def fold(text: str, most: int, *, of_call: bool = False) -> Text:
    """Cut a long text into what is open to see, what is folded, and what is left out.

    >>> fold("short", 5_000)
    Text(head='short', folded='', left_out=0)
    """
    fold_at, fold_lines = (CALL_FOLD_AT, CALL_FOLD_LINES) if of_call else (FOLD_AT, FOLD_LINES)
    end = min(len(text), fold_at)
    lines = text[:end].split("\n")
    if len(lines) > fold_lines:
        end = len("\n".join(lines[:fold_lines]))
    elif end < len(text):
        # Cut between two words if there is one near.
        space = max(text.rfind(" ", end - 80, end), text.rfind("\n", end - 80, end))
        end = space if space > 0 else end
    # Nobody wants to unfold a last half line.
    if len(text) - end <= fold_at // 4 and text.count("\n", end) <= fold_lines // 4:
        end = len(text)
    return Text(text[:end], text[end:most], max(0, len(text) - max(most, end)))


def _repeat(trace: TurnTrace, evidence: Evidence | None) -> Repeat | None:
    """The turn that the evidence names; else the closer of the two before, of equals the nearer."""
    if evidence:
        return Repeat(evidence.repeats, evidence.similarity, trace.run)
    found = []
    if trace.period1 and trace.s1 is not None:
        found.append(Repeat(trace.turn - 1, trace.s1, trace.run))
    if trace.period2 and trace.s2 is not None:
        found.append(Repeat(trace.turn - 2, trace.s2, trace.run))
    return max(found, key=lambda repeat: repeat.similarity or 0.0, default=None)


def verdict_in_words(detection: Detection, words: ResultWords) -> str:
    """The verdict as a sentence."""
    if detection.reason:
        return f"{detection.reason[0].upper()}{detection.reason[1:]}."
    if not detection.episodes:
        return f"No {words.event} in {detection.turns:,} judged turns."
    share = f"{len(detection.collapsed):,} of {detection.turns:,} judged turns"
    return (
        f"{spans_in_words(detection.episodes)} {words.were}: {share}"
        f" ({100 * len(detection.collapsed) / detection.turns:.0f}\N{NO-BREAK SPACE}%),"
        f" first at turn {detection.first_collapse_turn}."
    )


def spans_in_words(episodes: Sequence[Episode]) -> str:
    """Collapsed spans as they are spoken of.

    >>> spans_in_words([Episode(5, 9), Episode(12, 12)])
    'Turns 5–9 and 12'
    """
    names = [span_name(episode.start, episode.end) for episode in episodes]
    if len(names) > MOST_SPANS_NAMED:
        names = [*names[:MOST_SPANS_NAMED], f"{len(names) - MOST_SPANS_NAMED:,} more spans"]
    if len(names) == 1:
        return f"Turn{'s' if episodes[0].turns > 1 else ''} {names[0]}"
    return f"Turns {', '.join(names[:-1])} and {names[-1]}"


def span_name(start: int, end: int) -> str:
    return str(start) if start == end else f"{start}–{end}"


def timeline_in_words(detection: Detection) -> str:
    """What the timeline shows, for those who can't see it."""
    trace = detection.trace or ()
    settings = detection.detector["settings"]
    first, second = sum(row.period1 for row in trace), sum(row.period2 for row in trace)
    shaded = f"Shaded: {spans_in_words(detection.episodes)}." if detection.episodes else ""
    return (
        f"Line chart of the similarities over {len(trace):,} judged turns. Turns at or above the"
        f" threshold: s1 ({cutoff(settings['s1'])}) {first:,},"
        f" s2 ({cutoff(settings['s2'])}) {second:,}. {shaded}"
    )


def heat_map_in_words(pairs: PairSimilarities) -> str:
    """What the heat map shows, for those who can't see it."""
    best = "; ".join(
        f"{span_name(*pair.earlier)} and {span_name(*pair.later)}: {pair.similarity:.2f}"
        for pair in pairs.most_alike(PAIRS_NAMED)
    )
    return (
        f"Heat map that compares {pairs.spans[-1].end:,} judged turns with one another,"
        f" dark where two are similar. Most similar: {best}."
    )


def loop_lines(detection: Detection, places: Mapping[int, str] = {}) -> Iterator[Markup]:
    """What the loop detector found, a line for each loop, verdicts first; `places` are linked to.

    A notice that has become a verdict is not named again. There is no line where it was not asked.
    """
    named = sorted(detection.loops, key=lambda loop: loop.level != "verdict")
    sure = {(loop.stream, loop.began) for loop in named if loop.level == "verdict"}
    named = [x for x in named if x.level == "verdict" or (x.stream, x.began) not in sure]
    for loop in named[:MOST_LOOPS_NAMED]:
        yield _loop_line(loop, places)
    if len(named) > MOST_LOOPS_NAMED:
        yield Markup("{}.").format(counted(len(named) - MOST_LOOPS_NAMED, "further loop"))
    if detection.looping is not None and not named:
        steps = counted(detection.steps or 0, "message or tool call", "messages and tool calls")
        yield Markup("No loop in {}.").format(steps)


def _loop_line(loop: Loop, places: Mapping[int, str]) -> Markup:
    """A loop with what repeats.

    >>> found = Loop("verdict", "cycle", "speaker:<bot>", 7, 9, None, 3, (5, 6), "Once more", 0.82)
    >>> print(Markup(_loop_line(found, {})).striptags())  # doctest: +NORMALIZE_WHITESPACE
    Loops: cycle of 3 since message 7 by <bot>, still going on, score 0.82; message 9 repeats
    messages 5 and 6: Once more
    """
    lead = "Loops" if loop.level == "verdict" else "Perhaps loops (a notice, not a verdict)"
    kind = f"cycle of {loop.period}" if loop.kind == "cycle" else loop.kind
    since = Markup("since message {}").format(_to_message(loop.began, places))
    state = "still going on"
    if loop.ended is not None:
        state = Markup("ended with message {}").format(_to_message(loop.ended, places))
    speaker = loop.stream.removeprefix("speaker:") if ":" in loop.stream else ""
    whose = Markup(" by <bdi>{}</bdi>").format(inert(speaker)[:MOST_NAME]) if speaker else ""
    what = Markup("")
    if loop.repeats:
        what = Markup("; message {} repeats message{} {}").format(
            _to_message(loop.noticed, places),
            "s" if len(loop.repeats) > 1 else "",
            Markup(" and ").join(_to_message(place, places) for place in loop.repeats),
        )
    return Markup("<strong>{}:</strong> {} {}{}, {}, score {:.2f}{}: <q><bdi>{}</bdi></q>").format(
        lead, kind, since, whose, state, loop.score, what, inert(loop.excerpt)
    )


def _to_message(position: int, places: Mapping[int, str]) -> Markup:
    if position not in places:
        return Markup("{}").format(position)
    return Markup('<a href="#{}">{}</a>').format(places[position], position)


def facts(
    trajectory: Trajectory, detection: Detection, detectors: Sequence[Detector]
) -> Iterator[HeadFact]:
    """How the verdicts were reached, and what the log says about the conversation."""
    yield HeadFact(
        "Judged",
        f"{detection.judged}: {detection.turns:,} of {len(trajectory.turns):,} messages",
    )
    if detection.steps is not None:
        yield HeadFact("Judged for loops", f"{detection.steps:,} spoken messages and tool calls")
    for detector in detectors:
        point = f"{detector.name}: {detector.rule}"
        if detector.changed:
            usual = {f.name: f.default for f in fields(detector)}  # type: ignore[arg-type]
            what = ", ".join(
                f"{name} = {v} instead of {usual[name]}" for name, v in detector.changed.items()
            )
            point = f"{detector.name}, changed, so this is not the {detector.standard} rule: {what}"
        yield HeadFact("Operating point", point)
    precision = detection.encoder["precision"]
    vectors = "none: the detector compares no vectors"
    if detection.detector["name"] is None:
        vectors = "none were wanted: no collapse verdict, no timeline and no heat map"
    if precision is not None:
        exact = "" if precision == "f32" else "; what lay near a threshold was recomputed in f32"
        vectors = f"{detection.encoder['model']} in {precision}{exact}"
    yield HeadFact("Vectors", vectors)
    if detection.source:
        yield HeadFact("Log", detection.source)
    known = list(detection.metadata.items())
    yield from (HeadFact(name, str(value)) for name, value in known[:MOST_FIELDS])
    if len(known) > MOST_FIELDS:
        yield HeadFact("Further fields", f"{len(known) - MOST_FIELDS:,}, in the log only")


def timeline_figure(
    detection: Detection,
    words: ResultWords,
    *,
    name: str = "timeline",
    captions: Sequence[str] = (),
) -> Figure | None:
    """How similar each turn is to the two before it; None where there is nothing to compare."""
    trace, settings = detection.trace or (), detection.detector["settings"]
    if len(trace) < 2 or not trace[0].lags or "s1" not in settings:
        return None
    lines = [
        SimilarityLine(
            "s1", "s1, to the turn before", *peaks([row.s1 for row in trace]), settings["s1"]
        ),
        SimilarityLine(
            "s2", "s2, to the one before that", *peaks([row.s2 for row in trace]), settings["s2"]
        ),
    ]
    chart = partial(timeline, lines, _collapsed(detection), len(trace), words)
    label = timeline_in_words(detection)
    return draw(name, label, lambda width: chart(width=width), captions=captions)


def heat_map_figure(
    detection: Detection,
    pairs: PairSimilarities,
    *,
    name: str = "heat_map",
    captions: Sequence[str] = (),
) -> Figure:
    """How similar every turn is to every other."""
    chart = heat_map(pairs.spans, pairs.values, _collapsed(detection))
    return draw_square(name, heat_map_in_words(pairs), chart, captions=captions)


def _collapsed(detection: Detection) -> list[TurnSpan]:
    return [TurnSpan(episode.start, episode.end) for episode in detection.episodes]


def draw_conversation(
    trajectory: Trajectory,
    *,
    speaker: str | None = None,
    detector: Detector | None = LOCKED,
    open_encoder: Callable[[], Encoder] = default_encoder,
    words: ResultWords = FACT,
) -> str:
    """Judge a conversation and draw it as one self-contained HTML page.

    With ``detector=None`` there are no vectors, and only loops are looked for. `words` are those
    that the gate of its study allows.
    """
    measurer = measurer_for(detector, open_encoder, speaker=speaker)
    (measured,) = measurer.measure([trajectory])
    loops = loops_beside(detector)
    detection = verdict(measured, detector, measurer.encoder, loops=loops, trace=True)
    messages = list_messages(trajectory, detection, loops)
    said = [message for message in messages if isinstance(message, ShownMessage)]
    shown = frozenset(message.turn for message in said if message.turn)
    places = {m.position: f"turn-{m.turn}" if m.turn else f"message-{m.position}" for m in said}
    window = detector.thresholds.window if detector and detector.thresholds else None
    texts = [turn.text for turn in measured.series.turns]
    pairs = None
    if measurer.encoder and len(texts) > 1:
        pairs = compare(measurer.encoder.encode(texts).vectors)
    judges = dict.fromkeys((detector, loops) if detector else (loops,))
    return render(
        "conversation.html",
        detection=detection,
        window=window,
        rule=detector.rule if detector else None,
        words=words,
        verdict=verdict_in_words(detection, words),
        loops=list(loop_lines(detection, places)),
        first_loop=next((places[m.position] for m in said if m.loop and m.loop.sure), None),
        facts=Facts(list(facts(trajectory, detection, list(judges)))),
        timeline=timeline_figure(detection, words, captions=[_lines_caption(detection, words)]),
        heat_map=heat_map_figure(detection, pairs, captions=[_map_caption(detection, pairs, words)])
        if pairs
        else None,
        most_alike=pairs.most_alike(PAIRS_NAMED) if pairs else (),
        trace=[row for row in detection.trace or () if row.turn in shown],
        transcript=Transcript(messages, window, "log", words, shown, places),
        left_out=sum(item.messages for item in messages if isinstance(item, Gap)),
        total=len(trajectory.turns),
    )


def _lines_caption(detection: Detection, words: ResultWords) -> str:
    block = blocks(len(detection.trace or ()), MOST_POINTS)[:1]
    parts = ["A turn on or above a dashed line of its own colour repeats an earlier one."]
    if detection.collapsed:
        parts.append(f"Where turns repeat for long enough, they are {words.collapsed} and shaded.")
    if block and block[0].end > 1:
        parts.append(
            f"The conversation is long: each point is the highest value of {block[0].end} turns."
        )
    return " ".join(parts)


def _map_caption(detection: Detection, pairs: PairSimilarities, words: ResultWords) -> str:
    parts = [
        "Each square compares a turn with an earlier one; the darker, the more similar. A dark "
        "block at the diagonal is a loop, a chequered one is two texts in turn, and dark stripes "
        "away from the diagonal are a longer cycle."
    ]
    if detection.collapsed:
        parts.append(f"The bars along the axes show the {words.turns}.")
    if pairs.block > 1:
        parts.append(
            f"The conversation is long: each square is the mean over blocks of {pairs.block} turns."
        )
    return " ".join(parts)
