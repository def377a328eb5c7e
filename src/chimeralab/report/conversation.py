"""One conversation: what was said, what the detector found, and the page that shows both."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from typing import NamedTuple

from chimeralab.core.numbers import cutoff
from chimeralab.core.records import Detection, Episode, Evidence, Trajectory, TurnTrace
from chimeralab.detection.detectors import LOCKED, Detector
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
MOST_CHARACTERS = 20_000
PAGE_CHARACTERS = 4_000_000

MOST_SPANS_NAMED = 6
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


class ShownMessage(NamedTuple):
    """One message in its place. `turn` is its number if it is judged."""

    position: int
    turn: int | None
    speaker: str | None
    model: str | None
    spoken: bool
    collapsed: bool
    repeat: Repeat | None
    text: Text


class Gap(NamedTuple):
    """Messages that the page leaves out, both ends included."""

    first: int
    last: int

    @property
    def messages(self) -> int:
        return self.last - self.first + 1


class Transcript(NamedTuple):
    """Messages next to each other, ready to be shown; `links` are turns that the page has."""

    messages: Sequence[ShownMessage | Gap]
    window: int | None
    kept_in: str
    links: frozenset[int] = frozenset()


def list_messages(trajectory: Trajectory, detection: Detection) -> list[ShownMessage | Gap]:
    """The messages in order, with gaps where a very long conversation is not shown."""
    shown = positions_shown(len(trajectory.turns), detection)
    most = max(2 * FOLD_AT, min(MOST_CHARACTERS, PAGE_CHARACTERS // max(1, len(shown))))
    traces = {trace.position: trace for trace in detection.trace or ()}
    evidence = {each.turn: each for each in detection.evidence}
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
                turn=trace.turn if trace else None,
                speaker=turn.speaker or turn.role,
                model=turn.model,
                spoken=turn.spoken,
                collapsed=trace.collapsed if trace else False,
                repeat=_repeat(trace, evidence.get(trace.turn)) if trace else None,
                text=fold(turn.text, most),
            )
        )
    return items


def positions_shown(messages: int, detection: Detection) -> list[int]:
    """All of them, or the head, the tail and the surroundings of the collapsed spans."""
    if messages <= MOST_MESSAGES:
        return list(range(1, messages + 1))
    shown = {*range(1, HEAD + 1), *range(messages - TAIL + 1, messages + 1)}
    for episode in detection.episodes:
        for edge in (episode.start, episode.end):
            at = detection.positions[edge - 1]
            shown.update(range(max(1, at - BEFORE_EDGE), min(messages, at + AFTER_EDGE) + 1))
        if len(shown) >= MOST_MESSAGES:
            break
    return sorted(shown)


def fold(text: str, most: int) -> Text:
    """Cut a long text into what is open to see, what is folded, and what is left out.

    >>> fold("short", 5_000)
    Text(head='short', folded='', left_out=0)
    """
    end = min(len(text), FOLD_AT)
    lines = text[:end].split("\n")
    if len(lines) > FOLD_LINES:
        end = len("\n".join(lines[:FOLD_LINES]))
    elif end < len(text):
        # Cut between two words if there is one near.
        space = max(text.rfind(" ", end - 80, end), text.rfind("\n", end - 80, end))
        end = space if space > 0 else end
    # Nobody wants to unfold a last half line.
    if len(text) - end <= FOLD_AT // 4 and text.count("\n", end) <= FOLD_LINES // 4:
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


def verdict_in_words(detection: Detection) -> str:
    """The verdict as a sentence."""
    if detection.reason:
        return f"{detection.reason[0].upper()}{detection.reason[1:]}."
    if not detection.episodes:
        return f"No collapse in {detection.turns:,} judged turns."
    share = f"{len(detection.collapsed):,} of {detection.turns:,} judged turns"
    return (
        f"{spans_in_words(detection.episodes)} collapsed: {share}"
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
        f" dark where two are alike. Most alike: {best}."
    )


def facts(trajectory: Trajectory, detection: Detection, detector: Detector) -> Iterator[HeadFact]:
    """How the verdict was reached, and what the log says about the conversation."""
    yield HeadFact(
        "Judged",
        f"{detection.judged}: {detection.turns:,} of {len(trajectory.turns):,} messages",
    )
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
    detection: Detection, *, name: str = "timeline", captions: Sequence[str] = ()
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
    chart = partial(timeline, lines, _collapsed(detection), len(trace))
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
    detector: Detector = LOCKED,
    open_encoder: Callable[[], Encoder] = default_encoder,
) -> str:
    """Judge a conversation and draw it as one self-contained HTML page."""
    measurer = measurer_for(detector, open_encoder, speaker=speaker)
    (measured,) = measurer.measure([trajectory])
    detection = verdict(measured, detector, measurer.encoder, trace=True)
    assert detection.trace is not None
    messages = list_messages(trajectory, detection)
    shown = frozenset(m.turn for m in messages if isinstance(m, ShownMessage) and m.turn)
    window = detector.thresholds.window if detector.thresholds else None
    texts = [turn.text for turn in measured.series.turns]
    pairs = None
    if measurer.encoder and len(texts) > 1:
        pairs = compare(measurer.encoder.encode(texts).vectors)
    return render(
        "conversation.html",
        detection=detection,
        window=window,
        rule=detector.rule,
        verdict=verdict_in_words(detection),
        facts=Facts(list(facts(trajectory, detection, detector))),
        timeline=timeline_figure(detection, captions=[_lines_caption(detection)]),
        heat_map=heat_map_figure(detection, pairs, captions=[_map_caption(detection, pairs)])
        if pairs
        else None,
        most_alike=pairs.most_alike(PAIRS_NAMED) if pairs else (),
        trace=[row for row in detection.trace if row.turn in shown],
        transcript=Transcript(messages, window, "log", shown),
        left_out=sum(item.messages for item in messages if isinstance(item, Gap)),
        total=len(trajectory.turns),
    )


def _lines_caption(detection: Detection) -> str:
    block = blocks(len(detection.trace or ()), MOST_POINTS)[:1]
    parts = ["A turn on or above a dashed line of its own colour repeats an earlier one."]
    if detection.collapsed:
        parts.append(
            "Where turns repeat for long enough, the conversation has collapsed: these turns are "
            "shaded."
        )
    if block and block[0].end > 1:
        parts.append(
            f"The conversation is long: each point is the highest value of {block[0].end} turns."
        )
    return " ".join(parts)


def _map_caption(detection: Detection, pairs: PairSimilarities) -> str:
    parts = [
        "Each square compares a turn with an earlier one; the darker, the more alike. A dark block "
        "at the diagonal is a loop, a chequered one is two texts in turn, and dark stripes away "
        "from the diagonal are a longer cycle."
    ]
    if detection.collapsed:
        parts.append("The bars along the axes mark the collapsed turns.")
    if pairs.block > 1:
        parts.append(
            f"The conversation is long: each square is the mean over blocks of {pairs.block} turns."
        )
    return " ".join(parts)
