"""What loops cost: tokens, seconds and money, as the log tells them or as its length suggests.

Each message has a cost, and everything else is a sum of them, so that totals equal their parts and
loops that overlap are counted once. A conversation whose log gives usage is measured: what a model
wrote without usage is estimated and says so, and what it read is part of the usage of its answer.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import NONE, plural, short_count, short_time
from chimeralab.core.records import (
    RESULT_ROLES,
    Cost,
    Detection,
    Loop,
    Tokens,
    Trajectory,
    Turn,
    count_tokens,
    role_of_turn,
)

MILLION = 1_000_000
READ_ROLES = RESULT_ROLES | {"user", "system", "developer"}  # what a model reads, not writes
BY_MESSAGE = ("tool", "day")  # fields that differ between the messages of a conversation


class Prices(NamedTuple):
    """The price of a million tokens that a model reads, and of a million that it writes."""

    input: float
    output: float

    def __call__(self, tokens: Tokens) -> float | None:
        """The price of some tokens, if it is known how many were read and how many written."""
        if tokens.input is None or tokens.output is None:
            return None
        return (self.input * tokens.input + self.output * tokens.output) / MILLION


def parse_prices(text: str) -> Prices:
    """Parse prices per million tokens.

    >>> parse_prices("in=3, out=15")
    Prices(input=3.0, output=15.0)
    """
    try:
        given = dict(part.replace(" ", "").split("=") for part in text.split(","))
        prices = Prices(float(given.pop("in")), float(given.pop("out")))
        if given or not all(0 <= price < MILLION for price in prices):
            raise ValueError
    except (ValueError, KeyError):
        raise InputError(
            f"--price {text!r} is not a price: give what a million tokens cost that are read and"
            " written, such as in=3,out=15"
        ) from None
    return prices


def cost_messages(talk: Trajectory, prices: Prices | None = None) -> list[Cost]:
    """The cost of each message of a conversation, in order."""
    tokens = _count_all(talk)
    money = _price_all(talk, tokens, prices)
    return [
        Cost(found.total or 0, found.estimated, seconds, paid)
        for found, seconds, paid in zip(tokens, _time_all(talk.turns), money, strict=True)
    ]


def sum_costs(costs: Iterable[Cost]) -> Cost:
    """The sum of some costs; what none of them knows stays unknown.

    >>> sum_costs([Cost(4, False, 1.5), Cost(2, True)])
    Cost(tokens=6, estimated=True, seconds=1.5, money=None)
    """
    found = list(costs)
    seconds = [each.seconds for each in found if each.seconds is not None]
    money = [each.money for each in found if each.money is not None]
    return Cost(
        sum(each.tokens for each in found),
        any(each.estimated for each in found),
        sum(seconds) if seconds else None,
        sum(money) if money else None,
    )


def attach_costs(
    talk: Trajectory, loops: Sequence[Loop], prices: Prices | None = None
) -> dict[str, Any]:
    """The fields of a verdict about cost: of each loop, of the conversation, and of its loops."""
    costs = cost_messages(talk, prices)
    last = len(costs)
    verdicts = [loop for loop in loops if loop.level == "verdict"]
    inside = {n for loop in verdicts for n in range(loop.began, (loop.ended or last) + 1)}
    noticed = {n for loop in verdicts for n in range(loop.noticed + 1, (loop.ended or last) + 1)}

    def total(positions: Collection[int]) -> Cost:
        return sum_costs(costs[n - 1] for n in sorted(positions))

    whole = total(range(1, last + 1))
    if talk.tokens is not None and whole.tokens == _size(talk.tokens):
        whole = replace(whole, estimated=talk.tokens.estimated)  # only its shares are estimated
    return {
        "loops": tuple(
            replace(loop, cost=total(range(loop.began, (loop.ended or last) + 1))) for loop in loops
        ),
        "messages": last,
        "looping_messages": len(inside),
        "cost": whole,
        "loop_cost": total(inside),
        "after_notice": total(noticed),
    }


def split_costs(
    talk: Trajectory, detection: Detection, field: str, prices: Prices | None = None
) -> Iterator[tuple[str, Detection]]:
    """Split a verdict by tool or by day: each part has the costs of its own messages.

    A message belongs to the tools that it calls, a result to the call before it.
    """
    costs, labels = cost_messages(talk, prices), list(label_messages(talk.turns, field))
    verdicts = [loop for loop in detection.loops if loop.level == "verdict"]
    spans = [(loop.began, loop.noticed, loop.ended or len(costs)) for loop in verdicts]
    for label in dict.fromkeys(labels):
        own = [n for n, each in enumerate(labels, start=1) if each == label]
        inside = [n for n in own if any(began <= n <= last for began, _, last in spans)]
        late = [n for n in inside if any(noticed < n <= last for _, noticed, last in spans)]
        whole, looping, after = (
            sum_costs(costs[n - 1] for n in part) for part in (own, inside, late)
        )
        yield (
            label,
            replace(
                detection,
                looping=None if detection.looping is None else bool(inside),
                messages=len(own),
                looping_messages=len(inside),
                cost=whole,
                loop_cost=looping,
                after_notice=after,
            ),
        )


def label_messages(turns: Sequence[Turn], field: str) -> Iterator[str]:
    """The tools that each message calls or answers, or its day in UTC.

    >>> from chimeralab.core.records import Call
    >>> calls = Turn("", at="2026-01-31T23:00:00Z", calls=(Call("ls"), Call("cat")))
    >>> list(label_messages([Turn("Hi."), calls, Turn("a.txt", role="tool")], "tool"))
    ['(no tool)', 'cat + ls', 'cat + ls']
    >>> list(label_messages([Turn("Hi."), calls], "day"))
    ['(no day)', '2026-01-31']
    """
    label = nothing = f"(no {field})"
    for turn in turns:
        if field == "day":
            moment = _moment(turn.at)
            label = moment.astimezone(UTC).date().isoformat() if moment else label
        elif turn.calls:
            label = " + ".join(sorted({call.name for call in turn.calls}))
        elif role_of_turn(turn) not in RESULT_ROLES:
            label = nothing
        yield label


def _count_all(talk: Trajectory) -> list[Tokens]:
    """The tokens of each message."""
    turns = talk.turns
    known = [each.tokens is not None and _size(each.tokens) is not None for each in turns]
    if not any(known) and talk.tokens is not None and (whole := _size(talk.tokens)):
        sizes = [count_tokens(replace(turn, tokens=None)).total or 0 for turn in turns]
        parts = _divide(whole, sizes)
        return [Tokens(total=part, estimated=True) for part in parts]
    found = list[Tokens]()
    for turn, is_known in zip(turns, known, strict=True):
        reads = role_of_turn(turn) in READ_ROLES and not turn.calls
        if is_known and turn.tokens is not None:
            tokens = replace(turn.tokens, total=_size(turn.tokens))
        elif reads and any(known):  # part of what the next answer read
            tokens = Tokens(0, 0, 0)
        else:
            size = count_tokens(replace(turn, tokens=None)).total or 0
            tokens = Tokens(*((size, 0) if reads else (0, size)), size, estimated=True)
        found.append(tokens)
    return found


def _size(tokens: Tokens) -> int | None:
    """All tokens read and written; None if nothing is known."""
    parts = [each for each in (tokens.input, tokens.output) if each is not None]
    return tokens.total if tokens.total is not None else sum(parts) if parts else None


def _price_all(
    talk: Trajectory, tokens: Sequence[Tokens], prices: Prices | None
) -> list[float | None]:
    """What each message cost: by the log, or else by the prices, and never by both."""
    if any(turn.cost is not None for turn in talk.turns):
        return [turn.cost for turn in talk.turns]
    whole = talk.cost
    if whole is None and prices and any(each.input is None for each in tokens):
        whole = prices(talk.tokens) if talk.tokens else None
    if whole is not None:
        sizes = [each.total or 0 for each in tokens]
        among = sum(sizes)
        return [whole * size / among if among else whole / len(sizes) for size in sizes]
    return [prices(each) if prices else None for each in tokens]


def _time_all(turns: Sequence[Turn]) -> Iterator[float | None]:
    """The seconds since the message before; a person's time to answer is not counted."""
    before: datetime | None = None
    for turn in turns:
        moment = _moment(turn.at)
        passed = None
        if moment and before:
            is_person = role_of_turn(turn) == "user" and not turn.model and turn.tokens is None
            passed = 0.0 if is_person else max(0.0, (moment - before).total_seconds())
        before = moment or before
        yield passed


def _moment(at: str | None) -> datetime | None:
    """A time of a log; without a zone it is taken for UTC."""
    try:
        moment = datetime.fromisoformat(at or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _divide(whole: int, sizes: Sequence[int]) -> list[int]:
    """Divide a number by sizes into whole parts that add up to it.

    >>> _divide(10, [1, 1, 1]), _divide(3, [0, 0])
    ([3, 3, 4], [1, 2])
    """
    sizes = sizes if any(sizes) else [1] * len(sizes)
    ends = [whole * size // sum(sizes) for size in accumulate(sizes, initial=0)]
    return [end - start for start, end in pairwise(ends)]


class LoopTotals:
    """Running totals over verdicts: how many loop, since when, and what the loops cost."""

    def __init__(self) -> None:
        self.conversations = self.looping = 0
        self.messages = self.looping_messages = 0
        self.onsets = array("q")  # where each first loop began
        # By whether they are estimated: tokens inside a loop, after its notice, and in all.
        self.tokens = {False: [0, 0, 0], True: [0, 0, 0]}
        self.seconds: list[float | None] = [None, None]  # inside a loop, and in all
        self.money: list[float | None] = [None, None]

    def add(self, found: Detection) -> None:
        self.conversations += 1
        self.messages += found.messages or 0
        self.looping_messages += found.looping_messages or 0
        if found.looping:
            self.looping += 1
            self.onsets.append(min(n.began for n in found.loops if n.level == "verdict"))
        if found.cost is None or found.loop_cost is None or found.after_notice is None:
            return
        costs = found.loop_cost, found.after_notice, found.cost
        # Where only the total is known, what a loop takes of it is an estimate.
        sums = self.tokens[found.cost.estimated or found.loop_cost.estimated]
        for place, cost in enumerate(costs):
            sums[place] += cost.tokens
        for own, name in ((self.seconds, "seconds"), (self.money, "money")):
            for place, value in enumerate((getattr(costs[0], name), getattr(costs[2], name))):
                if value is not None:
                    own[place] = (own[place] or 0) + value

    def headline(self) -> str:
        """How many conversations loop, what share of the tokens that took, and since when.

        >>> LoopTotals().headline()
        'No conversation was judged for loops.'
        """
        if not self.conversations:
            return "No conversation was judged for loops."
        total = plural(self.conversations, "conversation")
        verb = "loops" if 1 in (self.looping, self.conversations) else "loop"
        parts = [f"{self.looping:,} of {total} {verb}"]
        if self.looping and (spent := describe_shares(self.tokens)):
            parts.append(spent)
        if self.looping:
            half = sorted(self.onsets)[(self.looping - 1) // 2]
            began = "it began" if self.looping == 1 else "half began"
            parts.append(f"{began} {'at' if self.looping == 1 else 'by'} message {half}")
        return "; ".join(parts) + "."

    def costs(self) -> str:
        """What the loops cost, and what came after the first notices; nothing if none loops."""
        if not self.looping:
            return ""
        known = {kind: sums for kind, sums in self.tokens.items() if sums[2]}
        parts = [f"{join_tokens(self.tokens, 0)} tokens"] if known else []
        parts += [short_time(self.seconds[0])] if self.seconds[0] is not None else []
        parts += [f"{self.money[0]:,.2f} in money"] if self.money[0] else []
        if not parts:
            return ""
        later = join_tokens(self.tokens, 1)
        saved = f"; {later} tokens came after the first notice" if known else ""
        return f"Inside loops: {', '.join(parts)}{saved}."

    def cells(self) -> list[str]:
        """The tokens inside loops, and their share, for a table."""
        known = {kind: sums for kind, sums in self.tokens.items() if sums[2]}
        shares = [f"{'~' * kind}{100 * sums[0] / sums[2]:.0f} %" for kind, sums in known.items()]
        return [join_tokens(self.tokens, 0) or NONE, ", ".join(shares) or NONE]


TokenSums = Mapping[bool, Sequence[float]]
"""By whether they are estimated, sums of tokens; the last is that of all. They are never added."""


def join_tokens(sums: TokenSums, place: int) -> str:
    """The measured tokens at a place, and the estimated ones.

    >>> join_tokens({False: [8_000, 0, 90_000], True: [700, 0, 5_000]}, 0)
    '8.0k + ~700'
    """
    known = {estimated: each for estimated, each in sums.items() if each[-1]}
    return " + ".join("~" * kind + short_count(each[place]) for kind, each in known.items())


def describe_shares(sums: TokenSums) -> str:
    """The share of tokens inside a loop, which come first.

    >>> describe_shares({False: [8_000, 90_000], True: [2, 5_000]})
    '9 % of all measured and ~0.04 % of all estimated tokens were spent inside a loop'
    """
    known = {estimated: each for estimated, each in sums.items() if each[-1]}
    shown = []
    for estimated, each in known.items():
        share = 100 * each[0] / each[-1]
        digits = 0 if share >= 1 or not share else 1 if share >= 0.1 else 2
        among = f" {'estimated' if estimated else 'measured'}" if len(known) > 1 else ""
        shown.append(f"{'~' * estimated}{share:.{digits}f} % of all{among}")
    return f"{' and '.join(shown)} tokens were spent inside a loop" if shown else ""
