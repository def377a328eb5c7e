"""Text that repeats itself while it streams: one span over and over, or the same lines again.

Memory is constant, and a piece of 100 characters costs a few microseconds: most of that is two
searches in the end of the text. A chant is found within 600 characters or four periods, whichever
is longer; what rulers, tables and data are made of has more time.
"""

import math
import re
from collections import OrderedDict
from itertools import accumulate, pairwise, takewhile
from string import ascii_letters
from typing import NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.records import Loop
from chimeralab.detection.advice import quote

# Deltas are joined until there are `HELD` characters, and judged up to `PIECE` at a time. The end
# by which a chant is recognised is short enough for that: `NEEDLE`, a period and a piece.
HELD, PIECE, NEEDLE = 150, 200, 250
MAX_PERIOD = 400
LEAST, PERIODS = 600, 4  # a chant has as many characters, and as many periods
SLOW = 2400  # characters, for rulers, indents, zeros, base64 and one letter
WORDY_NEEDLE = 100  # of the text without its digits, which is shorter
TAIL, WORDY_TAIL = 4096, 1000  # characters, and bytes, of the text that are kept
INDEXED_LETTERS = 8  # in a period in which only an index rises; fewer are an enumeration
# Lines that recur: a line counts from its eleventh time on, a character of others outweighs ten of
# them, and the text is a chant when there are `RECURRING` characters of them.
MAX_LINES, MAX_LINE = 512, 2000
FAMILIAR, NEWNESS, RECURRING = 10, 10, 3000
MIN_LINE = 8
EXCERPT = 200  # characters of a quotation

TERMINAL = "\x1b"  # begins a control sequence: what a terminal showed, which no model writes
DIGITS = b"0123456789"
NUMBER = re.compile(r"[0-9]+")
CLOCK = re.compile(r"[0-9][:-][0-9]{2}")  # and dates
CODE = re.compile(r"[()\[\]{}<>=_;\"'|`\\]|[A-Za-z][0-9]|[0-9][A-Za-z]")
# What rulers, tables and markup are drawn with, besides whitespace and digits.
DRAWN = re.compile(r"[\s0-9\-=*_.,;:#~+|/\\<>(){}\[\]\"'`^&%$@\u2010-\u2027\u2500-\u25ff]*")
NUMERAL = re.compile(
    r"^[A-Za-z0-9_.]+|0[xX][0-9a-fA-F]*[uUlL]*|[0-9][0-9.]*(?:[eE][+-]?[0-9]*)?[jfLu]?\b"
)
ENCODED = re.compile(r"(?=.*[0-9+/])[A-Za-z0-9+/=_-]{40,}")  # base64
ASCII = set(ascii_letters)
LETTERS = re.compile(r"[^\W\d_]")

STREAMED = {
    "span": "You have written {what} {times} times in a row",
    "index": "You have written {what} {times} times in a row, with nothing but an index changed",
    "lines": "You have written the line {what} {times} times, and little else in between",
}


_Index = tuple[list[tuple[int, int, int]], list[str], list[int]]


class Chant(NamedTuple):
    """What a stream repeats, and where to cut it.

    The stream has ``text`` ``times`` times from ``start`` on: one after the other, or, of ``kind``
    ``index``, with numbers that rise in between, or, of ``kind`` ``lines``, as a line. ``start``
    and ``cut_at`` are characters of the stream, from 0.
    """

    kind: str
    text: str
    times: int
    start: int
    cut_at: int


class StreamCut(NamedTuple):
    """A message that repeats itself while it streams, and where to cut it.

    ``cut_at`` counts the characters of the text, or of the reasoning, from 0. The text has
    ``repeated`` ``times`` times so far, in ``what`` is its beginning, and ``advice`` is for the
    model. ``loop`` is that of the message.
    """

    cut_at: int
    repeated: str
    times: int
    what: str
    advice: str
    loop: Loop


class TextStream:
    """Judges one text while it streams.

    >>> stream = TextStream()
    >>> for delta in ["The court", *[" court <br>"] * 60]:
    ...     chant = stream.feed(delta)
    >>> chant.kind, chant.text, chant.times, chant.cut_at
    ('span', 'court <br> ', 54, 21)
    """

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._held = 0
        self._tail, self._wordy = "", b""
        self._end = 0  # characters judged so far
        self._run: tuple[int, int, int] | None = None  # period, start, where it is a chant
        self._indexed = 0  # the period of the chant whose index rises, without digits
        self._due = math.inf  # where to judge at once
        self._lines = _Lines()
        self.found: Chant | None = None

    def feed(self, delta: str) -> Chant | None:
        """Take in the next piece of text; return the chant, as it was found, while it goes on."""
        if delta:
            self._waiting.append(delta)
            self._held += len(delta)
        if self._held < HELD and self._end + self._held < self._due:
            return self.found
        return self._judge()

    def close(self) -> Chant | None:
        """Judge what is left of small deltas."""
        return self._judge() if self._held else self.found

    def _judge(self) -> Chant | None:
        text = self._waiting[0] if len(self._waiting) == 1 else "".join(self._waiting)
        self._waiting, self._held = [], 0
        first = None
        for at in range(0, len(text), PIECE):
            found = self._step(text[at : at + PIECE])
            goes_on = found and self.found and found.kind == self.found.kind
            self.found = self.found if goes_on else found
            first = first or self.found
        return first

    def _step(self, piece: str) -> Chant | None:
        size = len(piece)
        tail = self._tail = (self._tail + piece)[-TAIL:]
        self._end += size
        wordy = piece.encode("utf-8", "surrogatepass").translate(None, DIGITS)
        self._wordy = (self._wordy + wordy)[-WORDY_TAIL:]
        run = self._run
        if run is None or tail[-size:] != tail[-size - run[0] : -run[0]]:
            run = self._run = self._find_run(tail)
            self._due = run[2] if run else math.inf
        if run is not None and self._end >= run[2]:
            self._due = math.inf
            return self.found or self._describe(tail, run)
        self._lines.add(piece, self._end)
        index = self._find_index(tail) if run is None else None
        return index or self._lines.found

    def _find_run(self, tail: str) -> tuple[int, int, int] | None:
        """Find the shortest period of the end of the text."""
        size = len(tail)
        low = max(0, size - NEEDLE - MAX_PERIOD)
        at = tail.rfind(tail[-NEEDLE:], low, size - 1) if size > NEEDLE else -1
        if at < 0:
            return None
        period = size - NEEDLE - at
        known, beyond = NEEDLE, size - period + 1  # characters that equal those a period before
        while beyond - known > 1:
            middle = (known + beyond) // 2
            if tail[-middle:] == tail[-middle - period : -period]:
                known = middle
            else:
                beyond = middle
        start = self._end - known - period
        span = tail[-period:]
        if TERMINAL in span:
            return None
        least = SLOW if _is_drawn(span) or ENCODED.fullmatch(span) else LEAST
        return period, start, start + max(least, PERIODS * period)

    def _describe(self, tail: str, run: tuple[int, int, int]) -> Chant:
        period, start, _ = run
        length = self._end - start
        text = tail[-length:]
        shift = _find_beginning(text[:period], tail[-length - 1 : -length])
        first = start + shift
        return Chant(
            "span", text[shift : shift + period], (length - shift) // period, first, first + period
        )

    def _find_index(self, tail: str) -> Chant | None:
        """Find a period in which nothing changes but an index, which rises by one."""
        wordy, size = self._wordy, len(self._wordy)
        at = wordy.rfind(wordy[-WORDY_NEEDLE:], 0, size - 1) if size > WORDY_NEEDLE else -1
        if at < 0:
            return None
        span = wordy[at - size + WORDY_NEEDLE :].decode("utf-8", "ignore")
        if _is_code(span) or sum(map(str.isalpha, span)) < INDEXED_LETTERS:
            return None
        wordy_period = len(span)
        if self.found and self._indexed == wordy_period:
            return self.found
        # Most are rejected by their last numbers; the whole tail would take some 200 µs.
        if _read_index(tail[-(3 * wordy_period + 300) :], wordy_period, 2) is None:
            return None
        found = self._follow_index(tail[-(10 * wordy_period + 1500) :], wordy_period)
        self._indexed = wordy_period if found else 0
        return found

    def _follow_index(self, tail: str, wordy_period: int) -> Chant | None:
        read = _read_index(tail, wordy_period, 3)
        if read is None:
            return None
        numbers, gaps, steps = read
        slots, last = len(steps), len(numbers) - 1
        least = max(LEAST, PERIODS * (numbers[last][0] - numbers[last - slots][0]))
        first = last + 1 - slots  # the earliest number from which on all is periodic
        while first and _continues(numbers, gaps, first - 1, steps):
            first -= 1
        begins = numbers[first - 1][1] if first else 0
        lead = _count_common(tail[begins : numbers[first][0]], gaps[first + slots - 1])
        missing = least - (len(tail) - numbers[first][0] + lead)
        if missing > 0:
            self._due = self._end + missing
            return None
        gap = gaps[last - slots - 1]  # from the line, the object or the word is best quoted
        back = len(gap) - (gap.rfind("\n") + 1 or max(gap.rfind("{"), gap.rfind(" ", 0, -1) + 1))
        times = (last - first) // slots
        aligned = last - times * slots
        if aligned == first and lead < back:
            times, aligned = times - 1, aligned + slots
        span = tail[numbers[last - slots][0] - back : numbers[last][0] - back]
        start, cut = numbers[aligned][0] - back, numbers[aligned + slots][0] - back
        place = self._end - len(tail)
        return Chant("index", span, times, place + start, place + cut)


class _Lines:
    """Lines that come again and again, in whatever order."""

    def __init__(self) -> None:
        self.found: Chant | None = None
        self._rest = ""  # of the line that is not complete yet, and where that begins
        self._begins = 0
        self._seen = OrderedDict[int, tuple[int, int]]()  # by line: how often, and where first
        self._score = self._since = 0

    def add(self, piece: str, end: int) -> None:
        """Take in a piece, and where it ends."""
        if "\n" not in piece:
            self._rest = (self._rest + piece)[:MAX_LINE]
            return
        first, *lines, rest = piece.split("\n")
        if len(first) + len(self._rest) >= MIN_LINE:
            self._judge(self._rest + first, self._begins)
        begins = end - len(piece) + len(first) + 1
        for line in lines:
            if len(line) >= MIN_LINE:
                self._judge(line, begins)
            begins += len(line) + 1
        self._rest, self._begins = rest, begins

    def _judge(self, line: str, begins: int) -> None:
        line = line.strip()
        size = len(line)
        if not MIN_LINE <= size < MAX_LINE:
            return
        key, seen = hash(line), self._seen
        times, first = seen.pop(key, (0, begins))
        times += 1
        seen[key] = times, first
        if len(seen) > MAX_LINES:
            seen.popitem(last=False)
        if times <= FAMILIAR:
            self._score = max(0, self._score - NEWNESS * size)
        elif not (TERMINAL in line or _is_drawn(line)):
            self._since = self._since if self._score else begins
            self._score = min(self._score + size, 2 * RECURRING)
        if self._score < RECURRING:
            self.found = None
        elif self.found is None:
            self.found = Chant("lines", line, times, first, self._since)


class MessageStreams:
    """The streams of one message: its text and its reasoning."""

    def __init__(self, position: int = 1) -> None:
        self._position = position
        self._streams = TextStream(), TextStream()

    def feed(self, delta: str, *, reasoning: bool = False) -> StreamCut | None:
        """Take in the next piece of a stream; return where to cut it, once."""
        if not isinstance(delta, str):
            raise InputError(f"a delta is {delta!r:.80}; expected a text")
        stream = self._streams[reasoning]
        before = stream.found
        found = stream.feed(delta)
        return None if found is None or found is before else self._describe(found)

    def close(self) -> StreamCut | None:
        """Judge what is left of small deltas."""
        for stream in self._streams:
            before = stream.found
            found = stream.close()
            if found is not None and found is not before:
                return self._describe(found)
        return None

    def _describe(self, chant: Chant) -> StreamCut:
        shown = " ".join(chant.text.split())
        shown = shown if len(shown) <= EXCERPT else f"{shown[: EXCERPT - 1]}…"
        what = STREAMED[chant.kind].format(what=quote(shown), times=chant.times)
        advice = f"{what}. Stop repeating it, and go on with something new."
        at, score = self._position, float(chant.times)
        loop = Loop("verdict", "within-turn", "all", at, at, None, 1, (), shown, score)
        return StreamCut(chant.cut_at, chant.text, chant.times, what, advice, loop)


def _is_drawn(span: str) -> bool:
    """Whether a span has no word: a ruler, an indent, zeros, or one letter of the alphabet."""
    if not span.isalpha() and NUMBER.search(span):
        span = NUMERAL.sub("", 2 * span)  # twice, because it begins anywhere
    if DRAWN.fullmatch(span):
        return True
    letters = set(LETTERS.findall(span))
    return len(letters) == 1 and letters <= ASCII


def _is_code(span: str) -> bool:
    """Whether an index in a span may well rise: in tables and code, but not in JSON."""
    is_object = "{" in span and '":' in 2 * span  # which may begin anywhere
    return not is_object and CODE.search(span) is not None


def _count_common(first: str, second: str) -> int:
    """Count the characters in which two texts end alike."""
    pairs = zip(reversed(first), reversed(second), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _read_index(text: str, wordy_period: int, periods: int) -> _Index | None:
    """Read the numbers of a text that has a period of n characters without digits.

    Returns where each number is and what, what is after each, and how much each of a period rises;
    None if no index rises.
    """
    numbers = [(at.start(), at.end(), int(at[0][:18])) for at in NUMBER.finditer(text)]
    stop = len(text)
    if numbers and numbers[-1][1] == stop:
        stop = numbers.pop()[0]  # may go on
    gaps = [text[a[1] : b[0]] for a, b in pairwise([*numbers, (stop, stop, 0)])]
    last = len(numbers) - 1
    lengths = list(accumulate(map(len, reversed(gaps[:-1]))))
    if wordy_period not in lengths:
        return None
    slots = lengths.index(wordy_period) + 1
    if slots * periods > last:
        return None
    steps = [numbers[n][2] - numbers[n - slots][2] for n in range(last + 1 - slots, last + 1)]
    if {0, 1} != {0, *steps} or _is_clock(text, numbers, steps):
        return None
    if _is_code(text[numbers[last - slots][0] : numbers[last][0]]):
        return None
    return numbers, gaps, steps


def _continues(
    numbers: list[tuple[int, int, int]], gaps: list[str], at: int, steps: list[int]
) -> bool:
    """Whether a number, and the text up to the next, are repeated a period later."""
    later = at + len(steps)
    if numbers[later][2] - numbers[at][2] != steps[(at - len(numbers)) % len(steps)]:
        return False
    if later + 1 == len(numbers):
        return gaps[at].startswith(gaps[later])
    return gaps[at] == gaps[later]


def _is_clock(tail: str, numbers: list[tuple[int, int, int]], steps: list[int]) -> bool:
    """Whether a number that rises is a part of a time, as in a log."""
    return any(
        step and CLOCK.search(tail, max(0, start - 2), end + 3)
        for (start, end, _), step in zip(numbers[-len(steps) :], steps, strict=True)
    )


def _find_beginning(span: str, before: str) -> int:
    """Find where a period is best quoted from: where it began, a line or a word."""
    if (not before or before.isspace()) and not span[0].isspace():
        return 0
    line = span.find("\n") + 1
    space = next((at for at, each in enumerate(span) if each.isspace()), -1) + 1
    return next((at for at in (line, space) if 0 < at < len(span)), 0)
