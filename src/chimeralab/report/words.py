"""What a verdict and its pictures say, in sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import NamedTuple

from chimeralab.core.numbers import cutoff
from chimeralab.core.records import Detection, Episode, Trajectory, TurnTrace
from chimeralab.detection.detectors import Detector
from chimeralab.report.similarities import Pairs

MOST_SPANS_NAMED = 6
MOST_FIELDS = 12
PAIRS_NAMED = 5


class Fact(NamedTuple):
    """A line of the page's head."""

    term: str
    value: str


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


def timeline_in_words(detection: Detection, trace: Sequence[TurnTrace]) -> str:
    """What the timeline shows, for those who can't see it."""
    settings = detection.detector["settings"]
    first, second = sum(row.period1 for row in trace), sum(row.period2 for row in trace)
    shaded = f"Shaded: {spans_in_words(detection.episodes)}." if detection.episodes else ""
    return (
        f"Line chart of the similarities over {len(trace):,} judged turns. Turns at or above the"
        f" threshold: s1 ({cutoff(settings['s1'])}) {first:,},"
        f" s2 ({cutoff(settings['s2'])}) {second:,}. {shaded}"
    )


def heat_map_in_words(pairs: Pairs, turns: int) -> str:
    """What the heat map shows, for those who can't see it."""
    best = "; ".join(
        f"{span_name(*pair.earlier)} and {span_name(*pair.later)}: {pair.similarity:.2f}"
        for pair in pairs.most_alike(PAIRS_NAMED)
    )
    return (
        f"Heat map that compares {turns:,} judged turns with one another,"
        f" dark where two are alike. Most alike: {best}."
    )


def facts(trajectory: Trajectory, detection: Detection, detector: Detector) -> Iterator[Fact]:
    """How the verdict was reached, and what the log says about the conversation."""
    yield Fact(
        "Judged",
        f"{detection.judged}: {detection.turns:,} of {len(trajectory.turns):,} messages",
    )
    yield Fact("Operating point", _operating_point(detector))
    yield Fact("Vectors", _vectors(detection))
    if detection.source:
        yield Fact("Log", detection.source)
    fields = list(detection.metadata.items())
    yield from (Fact(name, str(value)) for name, value in fields[:MOST_FIELDS])
    if len(fields) > MOST_FIELDS:
        yield Fact("Further fields", f"{len(fields) - MOST_FIELDS:,}, in the log only")


def _operating_point(detector: Detector) -> str:
    if not detector.changed:
        return f"{detector.name}: {detector.rule}"
    usual = {f.name: f.default for f in fields(detector)}  # type: ignore[arg-type]
    what = ", ".join(
        f"{name} = {v} instead of {usual[name]}" for name, v in detector.changed.items()
    )
    return f"{detector.name}, changed, so this is not the {detector.standard} rule: {what}"


def _vectors(detection: Detection) -> str:
    precision = detection.encoder["precision"]
    if precision is None:
        return "none: the detector compares no vectors"
    exact = "" if precision == "f32" else "; what lay near a threshold was recomputed in f32"
    return f"{detection.encoder['model']} in {precision}{exact}"
