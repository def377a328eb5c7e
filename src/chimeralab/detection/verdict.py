"""From the similarities of one conversation to its verdict, with the evidence and the caveats."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from chimeralab.core.records import Caveat, Detection, Episode, Evidence, TurnTrace
from chimeralab.detection.detectors import Lags, Locked, Signal
from chimeralab.detection.measure import Measured
from chimeralab.embedding.encoder import MODEL, Encoder, model_hash

EXCERPT = 80


def verdict(
    measured: Measured, detector: Locked, encoder: Encoder, *, trace: bool = False
) -> Detection:
    """Judge one measured conversation."""
    signals = judge(measured, detector)
    total = len(signals)
    collapsed = tuple(signal.turn for signal in signals if signal.collapsed)
    at_risk = max(0, total - detector.first_turn_at_risk + 1)
    enough = total >= detector.turns_needed
    return Detection(
        id=measured.trajectory.id,
        source=measured.trajectory.source,
        judged=measured.series.who,
        turns=total,
        at_risk_turns=at_risk if enough else 0,
        collapsed=collapsed,
        positions=measured.series.positions,
        collapsed_turns=len(collapsed) if enough else None,
        collapse_rate=len(collapsed) / total if enough else None,
        at_risk_rate=len(collapsed) / at_risk if enough else None,
        first_collapse_turn=collapsed[0] if collapsed else None,
        episodes=tuple(_episodes(collapsed)),
        evidence=tuple(_evidence(measured, signal) for signal in signals if signal.collapsed),
        warnings=tuple(_caveats(measured, signals, detector)),
        reason=None if enough else _too_short(total, detector),
        detector=describe_detector(detector),
        encoder=describe_encoder(encoder),
        metadata=_scalars(measured.trajectory.metadata),
        trace=tuple(_trace(measured, signals)) if trace else None,
    )


def judge(measured: Measured, detector: Locked) -> list[Signal]:
    """The detector's word on every judged turn."""
    columns = zip(*measured.similarities[:, :2].T.tolist(), measured.blank.tolist(), strict=True)
    return detector.judge(Lags(s1, s2, blank) for s1, s2, blank in columns)


def describe_detector(detector: Locked) -> dict[str, Any]:
    """The settings as they stood, and whether they are the locked operating point."""
    return {
        "name": "locked",
        "operating_point": "changed" if detector.changed else "locked",
        "changed": detector.changed,
        "settings": detector.as_dict(),
        "drift_redundant": detector.drift_redundant,
    }


def describe_encoder(encoder: Encoder) -> dict[str, Any]:
    return {"model": MODEL, "sha256": model_hash(), "precision": encoder.precision}


def _too_short(turns: int, detector: Locked) -> str:
    return f"no verdict: {turns} judged turns, and the rule needs {detector.turns_needed}"


def _episodes(collapsed: Sequence[int]) -> Iterator[Episode]:
    if not collapsed:
        return
    breaks = [(a, b) for a, b in pairwise(collapsed) if b != a + 1]
    starts = [collapsed[0], *(b for _, b in breaks)]
    ends = [*(a for a, _ in breaks), collapsed[-1]]
    yield from (Episode(start, end) for start, end in zip(starts, ends, strict=True))


def _evidence(measured: Measured, signal: Signal) -> Evidence:
    first = signal.period1 and (not signal.period2 or signal.s1 >= signal.s2)
    text = " ".join(measured.series.turns[signal.turn - 1].text.split())
    return Evidence(
        turn=signal.turn,
        repeats=signal.turn - (1 if first else 2),
        similarity=signal.s1 if first else signal.s2,
        excerpt=text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…",
    )


def _caveats(measured: Measured, signals: Sequence[Signal], detector: Locked) -> Iterator[Caveat]:
    counts = {
        "blank_turns": int(measured.blank.sum()),
        "truncated_turns": int(measured.truncated.sum()),
        "repaired_turns": measured.repaired,
        "longer_cycle": _longer_cycle(measured, signals, detector),
    }
    for code, count in counts.items():
        if count:
            plural = "turn" if count == 1 else "turns"
            yield Caveat(code, count, f"{count} {plural} {CAVEATS[code]}")


CAVEATS = {
    "blank_turns": "without a word, judged as they are",
    "truncated_turns": "longer than 256 word pieces, judged by their head alone",
    "repaired_turns": "with broken characters, replaced before judging",
    "longer_cycle": "in a cycle of three or more turns, which this rule does not count",
}


def _longer_cycle(measured: Measured, signals: Sequence[Signal], detector: Locked) -> int:
    """Turns in a sustained repetition at a lag that the rule can't see, outside collapsed ones."""
    far = measured.similarities[:, 2:]
    seen = np.array([signal.collapsed for signal in signals], dtype=bool)
    longest = 0
    for column in far.T:
        run = 0
        repeats = 0
        for again in (column >= detector.s2) & ~seen:
            run = run + 1 if again else 0
            repeats += run >= detector.window
        longest = max(longest, repeats)
    return longest


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
            s1=_known(signal.s1),
            s2=_known(signal.s2),
            period1=signal.period1,
            period2=signal.period2,
            run=signal.run,
            collapsed=signal.collapsed,
            lags=lags,
            same_speaker=lags[back - 1] if 0 < back <= len(lags) else None,
        )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _scalars(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The fields one can group by. Nested ones stay in the log they came from."""
    return {k: v for k, v in metadata.items() if isinstance(v, str | int | float | bool)}
