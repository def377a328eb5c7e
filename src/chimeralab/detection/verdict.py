"""From the similarities of one conversation to its verdict, with its evidence and its caveats."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from chimeralab.core.records import Caveat, Detection, Episode, Evidence, Loop, TurnTrace
from chimeralab.detection.detectors import Detector, Signal
from chimeralab.detection.loops import LOOPS, Loops, LoopStream, is_said, with_echoes
from chimeralab.detection.measure import Measured, handfuls
from chimeralab.detection.screen import Screen

if TYPE_CHECKING:
    from chimeralab.embedding.encoder import Encoder

NO_ENCODER = {"model": None, "sha256": None, "precision": None}

EXCERPT = 80

CAVEATS = {
    "blank_turns": "without a word, judged as they are",
    "truncated_turns": "longer than 256 word pieces, judged by their head alone",
    "repaired_turns": "with broken characters, replaced before judging",
    "longer_cycle": "in a cycle of three or more turns, which this rule does not count",
}


def verdict(
    measured: Measured,
    detector: Detector | None,
    encoder: "Encoder | None",
    *,
    loops: Loops | None = LOOPS,
    trace: bool = False,
) -> Detection:
    """Judge one measured conversation by both detectors, or by one where the other is None.

    `encoder` is what its vectors came from, if it has any.
    """
    return next(verdicts([measured], detector, encoder, loops=loops, trace=trace)).detection


class MeasuredVerdict(NamedTuple):
    """The verdict on a conversation, and what it was measured by."""

    detection: Detection
    measured: Measured


def verdicts(
    measured: Iterable[Measured],
    detector: Detector | None,
    encoder: "Encoder | None",
    *,
    loops: Loops | None = LOOPS,
    trace: bool = False,
) -> Iterator[MeasuredVerdict]:
    """Judge conversations as they come, some thousand messages at a time."""
    screen, described = (Screen(loops), loops.describe()) if loops else (None, None)
    for group in handfuls(measured, lambda each: len(each.trajectory.turns)):
        talks = ([turn.text for turn in each.trajectory.turns if is_said(turn)] for each in group)
        words = screen.hear(talks) if screen else iter(())
        for each in group:
            found: dict[str, Any] = {}
            if loops:
                stream = LoopStream(loops)
                turns, repeats = each.trajectory.turns, dict[int, set[int]]()
                for position, turn in enumerate(turns, start=1):
                    if found_again := stream.take(turn, next(words) if is_said(turn) else None):
                        repeats[position] = found_again
                found = {
                    "steps": stream.steps,
                    "looping": any(loop.level == "verdict" for loop in stream.loops),
                    "loops": with_echoes(stream.loops, turns, repeats),
                    "loop_score": stream.score,
                    "loop_detector": described,
                }
            detection = _uncollapsed(each, **found)
            if detector is not None:
                detection = _judged(detection, each, detector, encoder, trace=trace)
            yield MeasuredVerdict(detection, each)


def _uncollapsed(measured: Measured, **loops: Any) -> Detection:
    """A conversation that nobody judged for collapse, with the loops that were found in it."""
    return Detection(
        id=measured.trajectory.id,
        source=measured.trajectory.source,
        judged=measured.series.who,
        turns=len(measured.series.turns),
        at_risk_turns=0,
        collapsed=(),
        positions=measured.series.positions,
        collapsed_turns=None,
        collapse_rate=None,
        at_risk_rate=None,
        first_collapse_turn=None,
        episodes=(),
        evidence=(),
        warnings=(),
        reason="no collapse verdict: it needs vectors, and none were wanted",
        detector={"name": None, "operating_point": None, "changed": {}, "settings": {}},
        encoder=NO_ENCODER,
        metadata=_fields(measured),
        **loops,
    )


def _judged(
    detection: Detection,
    measured: Measured,
    detector: Detector,
    encoder: "Encoder | None",
    *,
    trace: bool,
) -> Detection:
    """The same conversation, judged for collapse."""
    seen, needs = measured.seen, detector.needs
    signals = detector.judge(seen)
    total = len(signals)
    collapsed = tuple(signal.turn for signal in signals if signal.collapsed)
    at_risk = max(0, total - needs.first_turn_at_risk + 1)
    enough = total >= needs.turns
    return replace(
        detection,
        at_risk_turns=at_risk if enough else 0,
        collapsed=collapsed,
        collapsed_turns=len(collapsed) if enough else None,
        collapse_rate=len(collapsed) / total if enough else None,
        at_risk_rate=len(collapsed) / at_risk if enough else None,
        first_collapse_turn=collapsed[0] if collapsed else None,
        episodes=tuple(_episodes(collapsed)),
        evidence=tuple(_evidence(measured, signals)),
        warnings=tuple(_caveats(measured, detector.cycles_missed(seen, signals))),
        reason=None
        if enough
        else f"no verdict: {total} judged turns, and the rule needs {needs.turns}",
        detector=detector.describe(),
        encoder=_served_by(encoder) if encoder else NO_ENCODER,
        trace=tuple(_trace(measured, signals)) if trace else None,
    )


def _served_by(encoder: "Encoder") -> dict[str, Any]:
    from chimeralab.embedding.encoder import MODEL, model_hash  # noqa: PLC0415 - it is loaded now

    return {"model": MODEL, "sha256": model_hash(), "precision": encoder.precision}


def _fields(measured: Measured) -> dict[str, Any]:
    """The fields one can group by. Nested ones stay in the log they came from."""
    fields = measured.trajectory.metadata.items()
    return {name: value for name, value in fields if isinstance(value, str | int | float | bool)}


def _episodes(collapsed: Sequence[int]) -> Iterator[Episode]:
    if not collapsed:
        return
    breaks = [(a, b) for a, b in pairwise(collapsed) if b != a + 1]
    starts = [collapsed[0], *(b for _, b in breaks)]
    ends = [*(a for a, _ in breaks), collapsed[-1]]
    yield from (Episode(start, end) for start, end in zip(starts, ends, strict=True))


def _evidence(measured: Measured, signals: Sequence[Signal]) -> Iterator[Evidence]:
    for signal, row in zip(signals, measured.similarities.tolist(), strict=True):
        if not signal.collapsed or signal.repeats is None:
            continue
        back = signal.turn - signal.repeats
        text = " ".join(measured.series.turns[signal.turn - 1].text.split())
        yield Evidence(
            turn=signal.turn,
            repeats=signal.repeats,
            similarity=_known(row[back - 1]) if 0 < back <= len(row) else None,
            excerpt=text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…",
        )


def _caveats(measured: Measured, missed: int) -> Iterator[Caveat]:
    counts = {
        "blank_turns": int(measured.blank.sum()),
        "truncated_turns": int(measured.truncated.sum()),
        "repaired_turns": measured.repaired,
        "longer_cycle": missed,
    }
    for code, count in counts.items():
        if count:
            plural = "turn" if count == 1 else "turns"
            yield Caveat(code, count, f"{count} {plural} {CAVEATS[code]}")


def _trace(measured: Measured, signals: Sequence[Signal]) -> Iterator[TurnTrace]:
    last_turn: dict[str | None, int] = {}
    for signal, turn, position, row in zip(
        signals,
        measured.series.turns,
        measured.series.positions,
        measured.similarities.tolist(),
        strict=True,
    ):
        back = signal.turn - last_turn.get(turn.speaker, signal.turn)
        last_turn[turn.speaker] = signal.turn
        lags = tuple(_known(value) for value in row)
        yield TurnTrace(
            turn=signal.turn,
            position=position,
            speaker=turn.speaker,
            s1=lags[0] if lags else None,
            s2=lags[1] if lags else None,
            period1=signal.period1,
            period2=signal.period2,
            run=signal.run,
            collapsed=signal.collapsed,
            lags=lags,
            same_speaker=lags[back - 1] if 0 < back <= len(lags) else None,
        )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def looping_turns(detection: Detection) -> set[int]:
    """The judged turns that lie between the ends of a loop with a verdict."""
    return {
        turn
        for loop in detection.loops
        if loop.level == "verdict"
        for turn in range(
            bisect_left(detection.positions, loop.began) + 1,
            bisect_right(detection.positions, loop.ended or math.inf) + 1,
        )
    }


def as_json(detection: Detection) -> dict[str, Any]:
    """The verdict as a JSON object; `trace` only where it was asked for."""
    row = detection.as_dict()
    if detection.trace is None:
        del row["trace"]
    return row


def from_json(row: Mapping[str, Any]) -> Detection:
    """The verdict that `as_json` wrote.

    >>> import json
    >>> from chimeralab.detection.judging import detect
    >>> found = detect(["Once more."] * 6, trace=True)
    >>> from_json(json.loads(json.dumps(as_json(found)))) == found
    True
    """
    trace = row.get("trace")
    values = {
        **row,
        "collapsed": tuple(row["collapsed"]),
        "positions": tuple(row["positions"]),
        "episodes": tuple(Episode(**e) for e in row["episodes"]),
        "evidence": tuple(Evidence(**e) for e in row["evidence"]),
        "warnings": tuple(Caveat(**w) for w in row["warnings"]),
        "trace": trace and tuple(TurnTrace(**{**t, "lags": tuple(t["lags"])}) for t in trace),
        "loops": tuple(map(_loop, row.get("loops", ()))),
    }
    return Detection(**values)


def _loop(row: Mapping[str, Any]) -> Loop:
    echoes = row.get("echoes")  # which older versions did not store
    tuples = None if echoes is None else tuple(map(tuple, echoes))
    return Loop(**{**row, "repeats": tuple(row["repeats"]), "echoes": tuples})
