"""What was found, in sentences: which message repeats which, for people, tests and CI."""

from collections.abc import Iterator, Sequence

from chimeralab.core.records import Detection, Evidence, Loop

# A collapse of a hundred turns is told by its first ones.
MOST_TOLD = 3


def findings(detection: Detection, most: int = MOST_TOLD) -> Iterator[str]:
    """A sentence for each loop with a verdict, and for the first turns that collapsed.

    >>> from chimeralab.detection.judging import detect
    >>> list(findings(detect(["Let me try that again."] * 5, detector=None)))
    ['message 4 repeats messages 2 and 3: “Let me try that again.” (verbatim since message 1)']
    """
    verdicts = [loop for loop in detection.loops if loop.level == "verdict"]
    yield from map(loop_in_words, verdicts[:most])
    yield from map(evidence_in_words, detection.evidence[:most])
    untold = max(0, len(verdicts) - most) + max(0, len(detection.evidence) - most)
    if untold:
        yield f"and {untold:,} more"


def loop_in_words(loop: Loop) -> str:
    until = f", ended with message {loop.ended}" if loop.ended is not None else ""
    since = f"({loop.kind} since message {loop.began}{until})"
    if not loop.repeats:
        return f"message {loop.noticed} says one thing over and over: “{loop.excerpt}” {since}"
    earlier = f"message{'s' if len(loop.repeats) > 1 else ''} {_listed(loop.repeats)}"
    return f"message {loop.noticed} repeats {earlier}: “{loop.excerpt}” {since}"


def evidence_in_words(evidence: Evidence) -> str:
    """Why a turn counts as collapsed.

    >>> evidence_in_words(Evidence(5, 4, 0.97, "Sounds good!"))
    'turn 5 repeats turn 4: “Sounds good!”'
    """
    return f"turn {evidence.turn} repeats turn {evidence.repeats}: “{evidence.excerpt}”"


def _listed(places: Sequence[int]) -> str:
    *first, last = map(str, places)
    return f"{', '.join(first)} and {last}" if first else last
