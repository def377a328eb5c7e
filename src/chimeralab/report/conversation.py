"""One conversation as a page: what the detectors found, in words and pictures, and the messages.

Many become a folder of pages: an index with the loops first, and a page for each.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from markupsafe import Markup

from chimeralab.core.errors import InputError
from chimeralab.core.files import atomic_folder
from chimeralab.core.numbers import cutoff, plural
from chimeralab.core.records import Detection, Episode, Loop, Trajectory
from chimeralab.core.result_words import FACT, ResultWords
from chimeralab.core.text import neutralize
from chimeralab.detection.judging import Judge
from chimeralab.detection.loops import LOOPS, DetectorPair
from chimeralab.detection.seam import Detector
from chimeralab.detection.verdict import MAX_FINDINGS, list_looping_turns
from chimeralab.embedding.encoder import Encoder, default_encoder
from chimeralab.report.charts.canvas import Figure, draw, draw_square
from chimeralab.report.charts.timeline import (
    LOOP_WORD,
    MAX_POINTS,
    PairSimilarities,
    SimilarityLine,
    compare_turns,
    heat_map,
    keep_peaks,
    timeline,
)
from chimeralab.report.listing import COLUMNS, ConversationRow, make_row
from chimeralab.report.messages import ShownMessage, Transcript, list_messages, stretches
from chimeralab.report.page import render

MAX_SPANS = 6
MAX_LOOPS = 6
MAX_SPEAKER_CHARACTERS = 120
MAX_FIELDS = 12
MAX_PAIRS = 5
BOTH = DetectorPair()
INDEX = "index.html"
# Pictures take half a second each, so of many conversations those in a loop have one.
MAX_ILLUSTRATED = 20
MAX_PAGES = 2_000
MAX_NAME = 80
MADE_BY_US = '<meta name="generator" content="Chimera Lab'


def verdict_in_words(detection: Detection, words: ResultWords) -> str:
    """The verdict on collapse as a sentence."""
    if detection.reason:
        # Beside a verdict on loops, it has to say which verdict is missing.
        reason = detection.reason.replace("no verdict:", "no verdict on collapse:", 1)
        return f"{reason[0].upper()}{reason[1:]}."
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
    names = [span_name(episode) for episode in episodes]
    if len(names) > MAX_SPANS:
        names = [*names[:MAX_SPANS], f"{len(names) - MAX_SPANS:,} more spans"]
    if len(names) == 1:
        return f"Turn{'s' if episodes[0].turns > 1 else ''} {names[0]}"
    return f"Turns {', '.join(names[:-1])} and {names[-1]}"


def span_name(span: Episode) -> str:
    return str(span.start) if span.start == span.end else f"{span.start}–{span.end}"


def timeline_in_words(detection: Detection) -> str:
    """What the timeline shows, for those who can't see it."""
    trace = detection.trace or ()
    settings = detection.detector["settings"]
    first, second = sum(row.period1 for row in trace), sum(row.period2 for row in trace)
    shaded = f" Shaded: {spans_in_words(detection.episodes)}." if detection.episodes else ""
    looping = loop_spans(detection)
    shaded += f" In a loop: {spans_in_words(looping)}." if looping else ""
    return (
        f"Line chart of the similarities over {len(trace):,} judged turns. Turns at or above the"
        f" threshold: s1 ({cutoff(settings['s1'])}) {first:,},"
        f" s2 ({cutoff(settings['s2'])}) {second:,}.{shaded}"
    )


def loop_spans(detection: Detection) -> list[Episode]:
    """The judged turns that lie between the ends of a loop with a verdict; loops may overlap."""
    covered = list_looping_turns(detection)
    starts = sorted(turn for turn in covered if turn - 1 not in covered)
    ends = sorted(turn for turn in covered if turn + 1 not in covered)
    return [Episode(*span) for span in zip(starts, ends, strict=True)]


def heat_map_in_words(pairs: PairSimilarities) -> str:
    """What the heat map shows, for those who can't see it."""
    best = "; ".join(
        f"{span_name(earlier)} and {span_name(later)}: {similarity:.2f}"
        for earlier, later, similarity in pairs.most_alike(MAX_PAIRS)
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
    for loop in named[:MAX_LOOPS]:
        yield _loop_line(loop, places)
    if len(named) > MAX_LOOPS:
        yield Markup("{}.").format(plural(len(named) - MAX_LOOPS, "further loop"))
    if detection.looping is not None and not named:
        steps = plural(detection.steps or 0, "message or tool call", "messages and tool calls")
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
    whose = (
        Markup(" by <bdi>{}</bdi>").format(neutralize(speaker)[:MAX_SPEAKER_CHARACTERS])
        if speaker
        else ""
    )
    what = Markup("")
    if loop.repeats:
        what = Markup("; message {} repeats message{} {}").format(
            _to_message(loop.noticed, places),
            "s" if len(loop.repeats) > 1 else "",
            Markup(" and ").join(_to_message(place, places) for place in loop.repeats),
        )
    return Markup("<strong>{}:</strong> {} {}{}, {}, score {:.2f}{}: <q><bdi>{}</bdi></q>").format(
        lead, kind, since, whose, state, loop.score, what, neutralize(loop.excerpt)
    )


def _to_message(position: int, places: Mapping[int, str]) -> Markup:
    if position not in places:
        return Markup("{}").format(position)
    return Markup('<a href="#{}">{}</a>').format(places[position], position)


def operating_point(detector: Detector) -> str:
    """The rule of a detector, or how its settings differ from it."""
    if not detector.changed:
        return f"{detector.name}: {detector.rule}"
    usual = {f.name: f.default for f in fields(detector)}  # type: ignore[arg-type]
    changes = (f"{name} = {v} instead of {usual[name]}" for name, v in detector.changed.items())
    what = ", ".join(changes)
    return f"{detector.name}, changed, so this is not the {detector.standard} rule: {what}"


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
            "s1", "s1, to the turn before", *keep_peaks([row.s1 for row in trace]), settings["s1"]
        ),
        SimilarityLine(
            "s2",
            "s2, to the one before that",
            *keep_peaks([row.s2 for row in trace]),
            settings["s2"],
        ),
    ]
    shades = {LOOP_WORD: loop_spans(detection), words.collapsed: detection.episodes}
    chart = partial(timeline, lines, len(trace), shades)
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
    chart = heat_map(pairs.spans, pairs.values, detection.episodes)
    return draw_square(name, heat_map_in_words(pairs), chart, captions=captions)


def draw_conversation(
    trajectory: Trajectory,
    judges: DetectorPair = BOTH,
    *,
    speaker: str | None = None,
    open_encoder: Callable[[], Encoder] = default_encoder,
    words: ResultWords = FACT,
) -> str:
    """Judge a conversation and draw it as one self-contained HTML page.

    With nothing to judge collapse there are no vectors, no timeline and no heat map. `words` are
    those that the gate of its study allows.
    """
    judge = Judge(*judges, open_encoder, speaker=speaker, trace=True)
    [(_, detection)] = judge.judge([trajectory])
    return draw_judged(trajectory, detection, judges, judge.encoder, words)


def draw_judged(  # noqa: PLR0913, PLR0917 - what was judged, how, and where the page stands
    trajectory: Trajectory,
    detection: Detection,
    judges: DetectorPair,
    encoder: Encoder | None,
    words: ResultWords = FACT,
    up: str | None = None,
) -> str:
    """Draw a conversation that was judged; without an encoder there are no pictures.

    `up` is the address of a page that lists it.
    """
    texts = [trajectory.turns[position - 1].text for position in detection.positions]
    pairs = compare_turns(encoder.encode(texts).vectors) if encoder and len(texts) > 1 else None
    figures: dict[str, Any] = dict.fromkeys(("timeline", "heat_map"))
    if encoder:
        captions = [lines_caption(detection, words)]
        figures["timeline"] = timeline_figure(detection, words, captions=captions)
    if pairs:
        captions = [map_caption(detection, pairs.block, words)]
        figures["heat_map"] = heat_map_figure(detection, pairs, captions=captions)
    figures["most_alike"] = pairs.most_alike(MAX_PAIRS) if pairs else ()
    shown = conversation_page(trajectory, detection, judges, words) | {"up": up}
    return render("conversation.html", frame="base.html", **shown, **figures)


def conversation_page(
    trajectory: Trajectory, detection: Detection, judges: DetectorPair, words: ResultWords
) -> dict[str, Any]:
    """What `conversation.html` shows of a conversation that was judged, all but the figures."""
    detector, loops = judges
    messages = list_messages(trajectory, detection, loops or LOOPS)
    said = [message for message in messages if isinstance(message, ShownMessage)]
    shown = frozenset(message.turn for message in said if message.turn)
    places = {m.position: f"turn-{m.turn}" if m.turn else f"message-{m.position}" for m in said}
    window = detector.thresholds.window if detector and detector.thresholds else None
    marks = {message.position: message.loop for message in said if message.loop}
    sure = (n for n, (loops, _) in marks.items() if loops[0].level == "verdict")
    first_loop = next(sure, None)
    return {
        "detection": detection,
        "window": window,
        "rule": detector.rule if detector else None,
        "words": words,
        "verdict": verdict_in_words(detection, words),
        "evidence": detection.evidence[:MAX_FINDINGS],
        "up": None,
        "loops": list(loop_lines(detection, places)),
        "first_loop": places[first_loop] if first_loop else None,
        "repeated": stretches(trajectory, detection, marks),
        "points": [operating_point(judge) for judge in dict.fromkeys(judges) if judge],
        "most_fields": MAX_FIELDS,
        "trace": [row for row in detection.trace or () if row.turn in shown],
        "transcript": Transcript(messages, window, "log", words, shown, places),
        "left_out": len(trajectory.turns) - len(said),
        "total": len(trajectory.turns),
    }


def lines_caption(detection: Detection, words: ResultWords) -> str:
    """What a reader of the timeline has to know."""
    block = -(-len(detection.trace or ()) // MAX_POINTS)
    parts = ["A turn on or above a dashed line of its own colour repeats an earlier one."]
    if detection.collapsed:
        parts.append(f"Where turns repeat for long enough, they are {words.collapsed} and shaded.")
    if loop_spans(detection):
        parts.append("The violet bar is under the turns that the loop detector finds in a loop.")
    if block > 1:
        parts.append(f"The conversation is long: each point is the highest value of {block} turns.")
    return " ".join(parts)


def map_caption(detection: Detection, block: int, words: ResultWords) -> str:
    """What a reader of the heat map has to know; each square is `block` turns wide."""
    parts = [
        "Each square compares a turn with an earlier one; the darker, the more similar. A dark "
        "block at the diagonal is a loop, a chequered one is two texts in turn, and dark stripes "
        "away from the diagonal are a longer cycle."
    ]
    if detection.collapsed:
        parts.append(f"The bars along the axes show the {words.turns}.")
    if block > 1:
        parts.append(
            f"The conversation is long: each square is the mean over blocks of {block} turns."
        )
    return " ".join(parts)


def write_index(
    trajectories: Iterable[Trajectory],
    folder: Path,
    judges: DetectorPair = BOTH,
    *,
    speaker: str | None = None,
    open_encoder: Callable[[], Encoder] = default_encoder,
) -> tuple[int, int, int]:
    """Judge conversations, and write a page for each and an index of them into a folder.

    The folder takes its place when all is written, and replaces none but one of ours. Gives how
    many conversations there are, how many loop and how many collapsed.
    """
    check_target(folder)
    judge = Judge(*judges, open_encoder, speaker=speaker, trace=True)
    coming = iter(trajectories)
    first = list(islice(coming, MAX_ILLUSTRATED + 1))
    pictures, few = MAX_ILLUSTRATED, len(first) <= MAX_ILLUSTRATED
    listed, names = list[ConversationRow](), set[str]()
    looping = collapsed = 0
    with atomic_folder(folder) as made:
        for trajectory, detection in judge.judge(chain(first, coming)):
            if len(listed) == MAX_PAGES:
                raise InputError(
                    f"there are more than {MAX_PAGES:,} conversations: choose one with --id, or"
                    " browse them with `chimera view`"
                )
            drawn = pictures > 0 and bool(few or detection.looping or detection.collapsed)
            pictures -= drawn
            encoder = judge.encoder if drawn else None
            name = new_page_name(detection.id, names)
            page = draw_judged(trajectory, detection, judges, encoder, up=INDEX)
            (made / name).write_text(page, encoding="utf-8", errors="replace")
            listed.append(make_row(detection, len(trajectory.turns), name))
            looping += bool(detection.looping)
            collapsed += bool(detection.collapse_rate)
        page = render(
            "index.html",
            frame="base.html",
            headings=[(name, title, None, None) for name, title in COLUMNS.items()],
            rows=sorted(listed, key=lambda row: row.rank),
            conversations=len(listed),
            looping=looping,
            collapsed=collapsed,
            pictured=None if few or not judge.encoder else MAX_ILLUSTRATED - pictures,
        )
        (made / INDEX).write_text(page, encoding="utf-8", errors="replace")
    return len(listed), looping, collapsed


def check_target(folder: Path) -> None:
    """Refuse to replace what is no index of ours, before any work is done."""
    if not folder.parent.is_dir():
        raise InputError(f"{folder}: there is no folder {folder.parent}; make it first")
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    index = folder / INDEX
    ours = index.is_file() and MADE_BY_US in index.read_text("utf-8", errors="replace")[:4_096]
    if not ours:
        raise InputError(f"{folder} is there already and is no index of ours; name another --out")


def new_page_name(conversation: str, taken: set[str]) -> str:
    """A file name for a page that is not taken yet; two conversations never share one."""
    first = page_name(conversation)
    name, number = first, 1
    # Some systems take Run-1 and run-1 for the same file.
    while name.lower() in taken:
        number += 1
        name = f"{first.removesuffix('.html')}-{number}.html"
    taken.add(name.lower())
    return name


def page_name(conversation: str) -> str:
    """A file name for a page. An id that can't be one as it is gets a mark of its own.

    >>> page_name("run-7"), page_name("models/a b")
    ('conversation-run-7.html', 'conversation-models-a-b-751ac7.html')
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", conversation)[:MAX_NAME].strip("-.")
    if safe == conversation:
        return f"conversation-{safe}.html"
    mark = hashlib.sha256(conversation.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"conversation-{safe}-{mark}.html" if safe else f"conversation-{mark}.html"
