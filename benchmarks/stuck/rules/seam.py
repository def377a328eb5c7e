"""What the rule of another project is here: a detector that looks at events instead of turns.

An alarm is the first thing that a project does about a loop: warn, ask, nudge or stop. What it
would ask a model about is left out. A rule goes on after an alarm as if nobody had acted.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal, NamedTuple

from chimeralab.core.records import ROLES, Turn, role_of_turn
from chimeralab.detection.calls import has_failed, read_arguments
from chimeralab.detection.seam import Detector, Observation, Signal, Stream


class Event(NamedTuple):
    """A prompt, a message, a thought, or a call with its result, at a position of the log.

    `call` is equal for two calls with the same name and arguments. Arguments that a log lacks are
    new in each call.
    """

    kind: Literal["prompt", "text", "thought", "call"]
    position: int
    text: str = ""
    speaker: str | None = None
    name: str = ""
    arguments: Any = None
    call: str = ""
    result: str = ""
    failed: bool = False

    def argument(self, name: str) -> Any:
        return self.arguments.get(name) if isinstance(self.arguments, dict) else None


Verdicts = Callable[[Iterator[Event]], Iterator[int | None]]


class Rule(Detector):
    """A rule of another project: a dataclass whose fields are its settings.

    `title` is the project, `source` says where its rule is described, as of `release`.
    """

    title: ClassVar[str]
    source: ClassVar[str]
    release: ClassVar[str]

    def verdicts(self, events: Iterator[Event]) -> Iterator[int | None]:
        """Yield for each event where the repetition began that it alarms about, or None."""
        raise NotImplementedError

    def start(self) -> Stream:
        return RuleStream(self.verdicts)

    @property
    def name(self) -> str:
        return self.title


class RuleStream:
    """Judges a conversation turn by turn; a turn without an event leaves the verdict as it was."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._queue = deque[Event]()
        self._verdicts = verdicts(iter(self._queue.popleft, None))
        self._turn = 0
        self._began: int | None = None
        self._speaker: str | None = None

    def update(self, observation: Observation) -> Signal:
        self._turn += 1
        found = list[int | None]()
        for event in self._events(observation.turn):
            self._queue.append(event)
            found.append(next(self._verdicts))
        if found:
            self._began = next((began for began in found if began is not None), None)
        return Signal(self._turn, collapsed=self._began is not None, repeats=self._began)

    def _events(self, turn: Turn) -> Iterator[Event]:
        """The events of a turn; to a model that talks to another, the other's text is a prompt."""
        role, at = role_of_turn(turn), self._turn
        said = turn.spoken and turn.text.strip()
        if turn.reasoning:
            yield Event("thought", at, turn.reasoning, turn.speaker)
        if said and role == "user":
            yield Event("prompt", at, turn.text, turn.speaker)
        elif said and role != "system":
            if turn.speaker != self._speaker and role not in ROLES.values() and not turn.calls:
                yield Event("prompt", at)
            yield Event("text", at, turn.text, turn.speaker)
            self._speaker = turn.speaker
        for number, call in enumerate(turn.calls):
            given = read_arguments(call.arguments)
            known = f"unknown {at}.{number}" if given is None else given
            key = f"{call.name}:{json.dumps(known, sort_keys=True, default=str)}"
            result, failed = call.result or "", has_failed(call)
            yield Event("call", at, turn.text, turn.speaker, call.name, given, key, result, failed)
