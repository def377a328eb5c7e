"""Budgets of a conversation: what it has spent in all and inside loops, and whether that is enough.

Tokens are those that messages report; where they report none, a quarter of their characters, which
is said. Minutes are between messages as the guard gets them.
"""

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

from chimeralab.core.errors import InputError
from chimeralab.readers.chat import ChatMessage

UNITS = ("tokens", "money", "steps", "minutes")
WARNED = 0.8  # of a budget
KEPT = 1000  # messages of which it is known what had been spent by then
CHARACTERS = 4  # of a token, where usage is unknown
MILLION = 1_000_000


class BudgetSettings(TypedDict, total=False):
    """The budgets of a conversation; ``price`` is per million tokens, ``in`` and ``out``."""

    tokens: float
    money: float
    steps: float
    minutes: float
    in_loops: "BudgetSettings"
    price: Mapping[str, float]


class Budget:
    """The limits that a conversation has.

    >>> Budget({"tokens": 5000, "in_loops": {"minutes": 2}}).limits
    {(False, 'tokens'): 5000, (True, 'minutes'): 2}
    """

    def __init__(self, settings: BudgetSettings | None) -> None:
        self.limits: dict[tuple[bool, str], float] = {}  # by whether only loops count, and unit
        self.price: Mapping[str, float] = {}
        if settings is None:
            return
        if not isinstance(settings, Mapping) or not settings:
            raise InputError(f"budget is {settings!r}; expected for example {{'tokens': 100_000}}")
        settings = dict(settings)  # type: ignore[assignment]
        price, inside = settings.pop("price", {}), settings.pop("in_loops", {})
        if price != {}:
            if not isinstance(price, Mapping) or set(price) != {"in", "out"}:
                raise InputError(f"budget['price'] is {price!r}; expected {{'in': …, 'out': …}}")
            self.price = {key: _check(f"price'][{key!r}", each, 0) for key, each in price.items()}
        if not isinstance(inside, Mapping):
            raise InputError(f"budget['in_loops'] is {inside!r}; expected {{'tokens': …}}")
        for of_loops, limits in ((False, settings), (True, inside)):
            for unit, limit in limits.items():
                if unit not in UNITS:
                    known = ", ".join(UNITS)
                    raise InputError(f"budget has {unit!r}; expected {known}, in_loops or price")
                self.limits[of_loops, unit] = _check(unit, limit, math.ulp(0))
                if unit == "money" and not self.price:
                    raise InputError("budget has money but no price; add price={'in': …, 'out': …}")


def _check(name: str, value: Any, least: float) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < least:
        raise InputError(f"budget['{name}'] is {value!r}; expected a positive number")
    return value


class Expense(NamedTuple):
    """What a stretch of a conversation has cost, and how many of its tokens are estimated."""

    tokens: float = 0
    money: float = 0
    steps: float = 0
    minutes: float = 0
    estimated: float = 0

    def plus(self, other: "Expense") -> "Expense":
        return Expense(*(a + b for a, b in zip(self, other, strict=True)))

    def minus(self, other: "Expense") -> "Expense":
        return Expense(*(a - b for a, b in zip(self, other, strict=True)))

    def show(self, unit: str) -> str:
        """Say how much of a unit it is.

        >>> Expense(1200, estimated=200).show("tokens")
        'about 1,200 tokens'
        """
        value = getattr(self, unit)
        about = "about " if self.estimated and unit in ("tokens", "money") else ""
        if unit == "money":
            return f"{about}{value:,.2f} in money"
        return (
            f"{about}{value:,.1f} minutes" if unit == "minutes" else f"{about}{value:,.0f} {unit}"
        )


class Spending:
    """What one conversation has spent so far."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.total, self.in_loops = Expense(), Expense()
        self._since: float | None = None
        # What had been spent by the last messages, by position.
        self._known: deque[tuple[int, Expense]] = deque([(0, Expense())], KEPT)
        self._unread = 0  # tokens that the model has not answered yet
        self._counted = 0  # the message up to which loops are counted
        self._warned: set[tuple[bool, str]] = set()

    def add(self, message: ChatMessage, position: int, now: float) -> None:
        """Take in a message."""
        self._since = now if self._since is None else self._since
        turn, content = message
        is_step = turn.role == "assistant"
        said = [turn.text, turn.reasoning or "", *(str(call.arguments) for call in turn.calls)]
        results = [*(r.text or "" for r in content.results), *(c.result or "" for c in turn.calls)]
        guess = math.ceil(max(sum(map(len, said)), sum(map(len, results))) / CHARACTERS)
        usage = turn.tokens if is_step else None
        # What a model reads is a part of its usage, or else is counted with its answer.
        tokens = (0, 0) if not is_step else (self._unread, guess)
        if usage:
            written = usage.output or 0
            read = usage.input
            tokens = (max(0, (usage.total or 0) - written) if read is None else read), written
        self._unread = 0 if is_step else self._unread + guess
        price = self._budget.price
        priced = sum(n * price.get(k, 0) for n, k in zip(tokens, ("in", "out"), strict=True))
        money = priced / MILLION if turn.cost is None else turn.cost
        minutes = (now - self._since) / 60 - self.total.minutes
        estimated = 0 if usage else sum(tokens)
        step = Expense(sum(tokens), money, float(is_step), minutes, estimated)
        self.total = self.total.plus(step)
        self._known.append((position, self.total))

    def count_loop(self, began: int, position: int) -> None:
        """Record that a loop is going on that began at a message."""
        self.in_loops = self.in_loops.plus(self.since(max(began, self._counted + 1)))
        self._counted = position

    def since(self, began: int) -> Expense:
        """What was spent from a message on."""
        before = next((at for n, at in reversed(self._known) if n < began), self._known[0][1])
        return self.total.minus(before)

    def forgive(self) -> None:
        """Record that somebody has stepped in: what is overspent is warned of first."""
        self._warned.clear()

    def judge(self) -> tuple[str, bool] | None:
        """Say which budget is nearly spent, once, or spent: what to say, and whether to stop."""
        for (of_loops, unit), limit in self._budget.limits.items():
            spent = self.in_loops if of_loops else self.total
            share = getattr(spent, unit) / limit
            if share < WARNED or (share < 1 and (of_loops, unit) in self._warned):
                continue
            stops = (of_loops, unit) in self._warned
            self._warned.add((of_loops, unit))
            where = " inside loops" if of_loops else ""
            said = f"This conversation has spent {spent.show(unit)}{where}"
            return f"{said}, {math.floor(100 * share)} % of its budget of {limit:,}", stops
        return None
