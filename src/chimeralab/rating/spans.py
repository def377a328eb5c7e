"""Stretches of adjacent turns: equal ones, ones that fill a template, two texts taking turns.

Turns are counted from 1; a stretch has both ends included.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from chimeralab.rating.template import says_nothing_new, share_template
from chimeralab.rating.wording import Wording, short_key


class Span(NamedTuple):
    """The first and the last turn of a stretch."""

    start: int
    end: int

    @property
    def turns(self) -> tuple[int, ...]:
        return tuple(range(self.start, self.end + 1))

    def __len__(self) -> int:
        return self.end - self.start + 1


def verbatim_spans(texts: Sequence[Wording]) -> list[Span]:
    """Every stretch of equal turns, single turns included.

    >>> from chimeralab.rating.wording import wording
    >>> verbatim_spans([wording(text) for text in ("So.", "so", "Yes")])
    [Span(start=1, end=2), Span(start=3, end=3)]
    """
    return list(_runs(len(texts), lambda n: texts[n].key == texts[n - 1].key))


def short_form_spans(texts: Sequence[Wording], most_words: int) -> list[Span]:
    """Every stretch of one short utterance; in a farewell it must be the exact one."""

    keys = [
        text.key if text.farewell or len(text.words) > most_words else short_key(text.key)
        for text in texts
    ]
    spans = _runs(len(texts), lambda n: keys[n] == keys[n - 1])
    return [span for span in spans if len(texts[span.start - 1].words) <= most_words]


def template_spans(texts: Sequence[Wording]) -> list[Span]:
    """Every stretch of one template in which no turn adds anything, farewells left out."""
    spans = _runs(len(texts), lambda n: _fills_again(texts, n))
    return [span for span in spans if len({texts[turn - 1].key for turn in span.turns}) > 1]


def reaching_back(texts: Sequence[Wording], span: Span) -> Span:
    """The stretch together with the turns before it that say nothing but what is said in it."""
    said = {texts[turn - 1].key for turn in span.turns}
    start = span.start
    while start > 1 and texts[start - 2].key in said:
        start -= 1
    return Span(start, span.end)


def alternations(texts: Sequence[Wording]) -> list[Span]:
    """Every stretch in which two different texts take turns and both come back.

    >>> from chimeralab.rating.wording import wording
    >>> alternations([wording(text) for text in ("hi", "hello", "hi", "hello", "well")])
    [Span(start=1, end=4)]
    """
    found: list[Span] = []
    for start in range(1, len(texts) + 1):
        if found and start <= found[-1].end:
            continue
        span = _of_two_texts(texts, start)
        if _returns(texts, span) >= 2 and not _alike(texts, span):
            found.append(span)
    return found


def _runs(count: int, goes_on: Callable[[int], bool]) -> Iterator[Span]:
    """Cut turns 1..count wherever turn n + 1 does not go on from turn n."""
    start = 1
    for n in range(1, count + 1):
        if n == count or not goes_on(n):
            yield Span(start, n)
            start = n + 1


def _fills_again(texts: Sequence[Wording], n: int) -> bool:
    before, turn = texts[n - 1], texts[n]
    if before.farewell or turn.farewell:
        return False
    return share_template(before, turn) and says_nothing_new(turn, _two_texts_before(texts, n))


def _two_texts_before(texts: Sequence[Wording], n: int) -> list[Wording]:
    """The last two different texts before a turn, the nearest first.

    Different ones, since two texts may take turns in no fixed order.
    """
    different: dict[str, Wording] = {}
    for text in reversed(texts[:n]):
        different.setdefault(text.key, text)
        if len(different) == 2:
            break
    return list(different.values())


def _of_two_texts(texts: Sequence[Wording], start: int) -> Span:
    said: set[str] = set()
    end = start
    for turn in range(start, len(texts) + 1):
        said.add(texts[turn - 1].key)
        if len(said) > 2:
            break
        end = turn
    return Span(start, end)


def _returns(texts: Sequence[Wording], span: Span) -> int:
    """How often a text comes back after the other one."""
    keys = [texts[turn - 1].key for turn in span.turns]
    switches = sum(one != other for one, other in pairwise(keys))
    return switches - 1


def _alike(texts: Sequence[Wording], span: Span) -> bool:
    one = texts[span.start - 1]
    return all(share_template(one, texts[turn - 1]) for turn in span.turns)
