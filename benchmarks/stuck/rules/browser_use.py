"""browser-use: its nudges when actions recur or the page does not change."""

import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.stuck.rules.seam import Event, Rule

EXEMPT = frozenset({"wait", "done", "go_back"})
ON_PAGES = frozenset({"click", "input", "navigate", "scroll", "search"})


def describe_action(event: Event) -> str:
    """An action without what hardly matters: the order of search words, or how a field is cleared.

    >>> one = Event("call", 1, name="search", arguments={"query": "site:a.org votes answers"})
    >>> describe_action(one)
    'search google a answers org site votes'
    """
    given = event.argument
    if event.name == "search":
        words = sorted(set(re.findall(r"\w+", str(given("query") or "").lower())))
        return " ".join(("search", str(given("engine") or "google"), *words))
    told = {
        "input": (given("index"), str(given("text") or "").strip().lower()),
        "click": (given("index"),),
        "navigate": (given("url"),),
        "scroll": (given("down") is not False, given("index")),
    }
    if event.name in told:
        return f"{event.name} {told[event.name]}"
    if not isinstance(event.arguments, dict):
        return event.call
    known = {name: value for name, value in event.arguments.items() if value is not None}
    return f"{event.name} {json.dumps(known, sort_keys=True, default=str)}"


@dataclass(frozen=True, slots=True)
class BrowserUse(Rule):
    """One action 5 times among the last 20, or 6 actions after which the page is the same.

    The page is what an action in a browser returns.
    """

    title = "browser-use"
    source = "browser-use/browser-use: tests/ci/test_action_loop_detection.py"
    release = "85ddbfedf609166b2d2c76c3d80506649fee82a9"

    window: int = 20
    repeats: int = 5
    stagnant: int = 5

    def verdicts(self, events: Iterator[Event]) -> Iterator[int | None]:
        recent = deque[tuple[str, int]](maxlen=self.window)
        pages = deque[tuple[str, int]](maxlen=self.stagnant + 1)
        for event in events:
            if event.kind == "call" and event.name not in EXEMPT:
                recent.append((describe_action(event), event.position))
                if event.name in ON_PAGES:
                    pages.append((event.result, event.position))
            yield self._most(recent) or self._stagnates(pages) if event.kind == "call" else None

    def _most(self, recent: deque[tuple[str, int]]) -> int | None:
        actions = [action for action, _ in recent]
        places = [at for action, at in recent if actions.count(action) >= self.repeats]
        return places[0] if places else None

    def _stagnates(self, pages: deque[tuple[str, int]]) -> int | None:
        full = len(pages) > self.stagnant
        return pages[0][1] if full and len({page for page, _ in pages}) == 1 else None
