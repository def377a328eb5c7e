"""A page for one conversation, or an index and a page each for many.

A page shows what the detectors found, as text and figures, and every message.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.core.files import atomic_folder
from chimeralab.core.numbers import cutoff
from chimeralab.core.records import Detection, Episode, Loop, Trajectory, list_verdicts
from chimeralab.core.result_words import FACT, ResultWords
from chimeralab.detection.judging import Judge
from chimeralab.detection.loops import LOOPS, DetectorPair, Loops, restore_echoes
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
from chimeralab.report.listing import COLUMNS, ConversationRow, make_row, message_spans, strip
from chimeralab.report.messages import (
    MAX_MESSAGES,
    Transcript,
    fold_repeats,
    list_messages,
    list_repeated,
    loop_marks,
    positions_shown,
)
from chimeralab.report.page import render, render_sentence

MAX_SPANS = 6
MAX_LOOPS = 6
MAX_SPEAKER_CHARACTERS = 120
MAX_FIELDS = 12
MAX_PAIRS = 5
# Kinds of loops whose messages are counted, because several texts take turns.
IN_TURN = frozenset({"alternating", "cycle"})
BOTH = DetectorPair()
INDEX = "index.html"
# Figures take half a second each: of many conversations, only stuck ones get them.
MAX_ILLUSTRATED = 20
MAX_PAGES = 2_000
MAX_NAME = 80
GENERATOR = '<meta name="generator" content="Chimera Lab'


say = partial(render_sentence, "blocks.html")


def describe_verdict(detection: Detection, words: ResultWords) -> str:
    """Say in a sentence whether and where a conversation collapsed."""
    if detection.reason:
        # Next to a verdict on loops, the reason must say which verdict is missing.
        reason = detection.reason.replace("no verdict:", "no verdict on collapse:", 1)
        return f"{reason[0].upper()}{reason[1:]}."
    spans = format_spans(detection.episodes)
    return say("verdict", detection=detection, spans=spans, words=words)


def format_spans(episodes: Sequence[Episode]) -> str:
    """Name spans of turns.

    >>> format_spans([Episode(5, 9), Episode(12, 12)])
    'Turns 5–9 and 12'
    """
    if not episodes:
        return ""
    names = [_span(episode) for episode in episodes]
    if len(names) > MAX_SPANS:
        names = [*names[:MAX_SPANS], f"{len(names) - MAX_SPANS:,} more spans"]
    if len(names) == 1:
        return f"Turn{'s' if episodes[0].turns > 1 else ''} {names[0]}"
    return f"Turns {', '.join(names[:-1])} and {names[-1]}"


def _span(span: Episode) -> str:
    return str(span.start) if span.start == span.end else f"{span.start}–{span.end}"


def loop_spans(detection: Detection) -> list[Episode]:
    """The judged turns between the ends of loops with a verdict; overlapping loops are merged."""
    covered = list_looping_turns(detection)
    starts = sorted(turn for turn in covered if turn - 1 not in covered)
    ends = sorted(turn for turn in covered if turn + 1 not in covered)
    return [Episode(*span) for span in zip(starts, ends, strict=True)]


def list_loops(trajectory: Trajectory, detection: Detection, loops: Loops) -> list[dict[str, Any]]:
    """What the sentences on loops need: verdicts if there are any, else notices, in order."""
    found = list_verdicts(detection.loops)
    found = found or [loop for loop in detection.loops if loop.level == "notice"]
    found = list(restore_echoes(found, trajectory.turns, loops))
    inside = defaultdict[tuple[str, int], list[int]](list)
    marks = loop_marks(trajectory.turns, found, loops)
    for position, (covering, _) in marks.items():
        for loop in covering:
            inside[loop.stream, loop.began].append(position)
    listed = list[dict[str, Any]]()
    for loop in sorted(found, key=lambda loop: (loop.began, loop.noticed)):
        covered = inside[loop.stream, loop.began]
        alike = {position for pairs in loop.echoes or () for position in pairs}
        calls_only = loop.stream == "calls"
        repeated = list_repeated(trajectory.turns, covered, calls_only=calls_only)
        in_turn = loop.kind in IN_TURN or (loop.kind == "tool" and len(repeated) > 1)
        positions = sorted((not in_turn and alike.intersection(covered)) or covered)
        times = repeated[0][1] if calls_only and len(repeated) == 1 else len(positions)
        names = dict.fromkeys(trajectory.turns[n - 1].speaker for n in positions)
        who = [(name or "")[:MAX_SPEAKER_CHARACTERS] for name in names]
        listed.append(
            {
                "loop": loop,
                "who": who if len(who) == 1 and who[0] else len(who),
                "times": times,
                "frame": fill_frame(loop),
                "in_turn": in_turn,
                "repeated": repeated,
            }
        )
    return listed


def fill_frame(loop: Loop) -> list[str | list[tuple[str, int]]]:
    """The fixed parts of a template, with the fillings of its slots and how often each came."""
    slots = zip(*[row[1:] for row in loop.fillings or ()], strict=True)
    return [
        part if part is not None else Counter(map(str, next(slots, ()))).most_common()
        for part in loop.frame or ()
    ]


def operating_point(detector: Detector) -> str:
    """The rule of a detector, or how its settings differ from the standard ones."""
    if not detector.changed:
        return f"{detector.name}: {detector.rule}"
    usual = {f.name: f.default for f in fields(detector)}  # type: ignore[arg-type]
    changes = (f"{name} = {v} instead of {usual[name]}" for name, v in detector.changed.items())
    return (
        f"{detector.name}, changed, so this is not the {detector.standard} rule: "
        f"{', '.join(changes)}"
    )


def timeline_figure(
    detection: Detection,
    words: ResultWords,
    *,
    name: str = "timeline",
    captions: Sequence[str] = (),
) -> Figure | None:
    """How similar each turn is to the two before it; None with nothing to compare."""
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
    label = timeline_label(detection)
    return draw(name, label, lambda width: chart(width=width), captions=captions)


def timeline_label(detection: Detection) -> str:
    """The text alternative of the timeline."""
    settings = detection.detector["settings"]
    return say(
        "timeline_label",
        trace=detection.trace or (),
        s1=cutoff(settings["s1"]),
        s2=cutoff(settings["s2"]),
        spans=format_spans(detection.episodes),
        looping=format_spans(loop_spans(detection)),
    )


def timeline_caption(detection: Detection, words: ResultWords) -> str:
    return say(
        "timeline_caption",
        collapsed=detection.collapsed,
        looping=loop_spans(detection),
        block=-(-len(detection.trace or ()) // MAX_POINTS),
        words=words,
    )


def heat_map_figure(
    detection: Detection,
    pairs: PairSimilarities,
    *,
    name: str = "heat_map",
    captions: Sequence[str] = (),
) -> Figure:
    """How similar every turn is to every other."""
    best = [
        (_span(earlier), _span(later), similarity)
        for earlier, later, similarity in pairs.most_alike(MAX_PAIRS)
    ]
    label = say("heat_map_label", turns=pairs.spans[-1].end, pairs=best)
    chart = heat_map(pairs.spans, pairs.values, detection.episodes)
    return draw_square(name, label, chart, captions=captions)


def heat_map_caption(detection: Detection, block: int, words: ResultWords) -> str:
    """The caption of a heat map whose squares are `block` turns wide."""
    return say("heat_map_caption", collapsed=detection.collapsed, block=block, words=words)


def draw_conversation(
    trajectory: Trajectory,
    judges: DetectorPair = BOTH,
    *,
    speaker: str | None = None,
    open_encoder: Callable[[], Encoder] = default_encoder,
    words: ResultWords = FACT,
) -> str:
    """Judge a conversation and draw it as one self-contained HTML page.

    Without a detector of collapse, there are no vectors, no timeline and no heat map. `words` are
    those that the gate of the study allows.
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
    """Draw a judged conversation; without an encoder there are no figures.

    `up` is the address of the index page.
    """
    texts = [trajectory.turns[position - 1].text for position in detection.positions]
    pairs = compare_turns(encoder.encode(texts).vectors) if encoder and len(texts) > 1 else None
    figures: dict[str, Any] = dict.fromkeys(("timeline", "heat_map"))
    if encoder:
        captions = [timeline_caption(detection, words)]
        figures["timeline"] = timeline_figure(detection, words, captions=captions)
    if pairs:
        captions = [heat_map_caption(detection, pairs.block, words)]
        figures["heat_map"] = heat_map_figure(detection, pairs, captions=captions)
    figures["most_alike"] = pairs.most_alike(MAX_PAIRS) if pairs else ()
    shown = conversation_page(trajectory, detection, judges, words) | {"up": up}
    return render("conversation.html", frame="base.html", **shown, **figures)


def conversation_page(  # noqa: PLR0913 - what was judged, how, and which part of it is shown
    trajectory: Trajectory,
    detection: Detection,
    judges: DetectorPair,
    words: ResultWords,
    *,
    in_study: bool = False,
    limit: int = MAX_MESSAGES,
    at: int | None = None,
) -> dict[str, Any]:
    """The content of `conversation.html` for a judged conversation, except for the figures.

    The locked rule has marks among the messages of a study, and else a fold of its own.
    """
    detector, loops = judges
    total = len(trajectory.turns)
    shown = positions_shown(total, detection, limit, at)
    messages = list_messages(trajectory, detection, loops or LOOPS, shown)
    links = frozenset(shown)
    window = detector.thresholds.window if detector and detector.thresholds else None
    looping = list_loops(trajectory, detection, loops or LOOPS)
    spans = message_spans(detection, total)
    costs = (trajectory.cost, *(turn.cost for turn in trajectory.turns))  # before any price
    return {
        "detection": detection,
        "window": window,
        "rule": detector.rule if detector else None,
        "words": words,
        "in_study": in_study,
        "verdict": describe_verdict(detection, words),
        "evidence": detection.evidence[:MAX_FINDINGS],
        "up": None,
        "run": (),
        "looping": looping[:MAX_LOOPS],
        "more_loops": len(looping) - MAX_LOOPS,
        "paid": "at your prices" if set(costs) == {None} else "as the log says",
        "strip": strip(total, spans),
        "inside": {n for first, last in spans for n in range(first, last + 1)},
        "points": [operating_point(judge) for judge in dict.fromkeys(judges) if judge],
        "most_fields": MAX_FIELDS,
        "trace": [row for row in detection.trace or () if row.position in links],
        "transcript": Transcript(
            fold_repeats(messages), "log", words, links, window if in_study else None
        ),
        "left_out": total - len(shown),
        "total": total,
    }


def write_index(
    trajectories: Iterable[Trajectory],
    folder: Path,
    judges: DetectorPair = BOTH,
    *,
    speaker: str | None = None,
    open_encoder: Callable[[], Encoder] = default_encoder,
) -> tuple[int, int, int]:
    """Judge conversations, and write a page for each and an index into a folder.

    The folder is moved into place once complete, and only replaces an earlier index. Returns the
    number of conversations, of those that loop, and of those that collapsed.
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
    """Refuse to replace anything but an earlier index, before any work is done."""
    if not folder.parent.is_dir():
        raise InputError(f"{folder}: the folder {folder.parent} does not exist; create it first")
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    index = folder / INDEX
    ours = index.is_file() and GENERATOR in index.read_text("utf-8", errors="replace")[:4_096]
    if not ours:
        raise InputError(f"{folder} exists and is not an index; choose another --out")


def new_page_name(conversation: str, taken: set[str]) -> str:
    """A unique file name for the page of a conversation."""
    first = page_name(conversation)
    name, number = first, 1
    # File names may be case-insensitive.
    while name.lower() in taken:
        number += 1
        name = f"{first.removesuffix('.html')}-{number}.html"
    taken.add(name.lower())
    return name


def page_name(conversation: str) -> str:
    """A file name for the page of a conversation; an unsafe id is sanitised and hashed.

    >>> page_name("run-7"), page_name("models/a b")
    ('conversation-run-7.html', 'conversation-models-a-b-751ac7.html')
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", conversation)[:MAX_NAME].strip("-.")
    if safe == conversation:
        return f"conversation-{safe}.html"
    suffix = hashlib.sha256(conversation.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"conversation-{safe}-{suffix}.html" if safe else f"conversation-{suffix}.html"
