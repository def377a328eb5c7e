"""The tries that a client library makes on its own, written down like our own attempts."""

from typing import Protocol

from chimeralab.models.seam import Model
from chimeralab.runner.journal import Journal


class Try(Protocol):
    """What a model tells of one question on the wire; `outcome` is "ok" or how it failed."""

    @property
    def conversation(self) -> str: ...
    @property
    def turn(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def outcome(self) -> str: ...
    @property
    def seconds(self) -> float: ...


class RetryLog:
    """Keeps every failed try but the last of a request, which is the attempt itself."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._last: dict[tuple[str, int], Try] = {}

    def listen(self, model: Model) -> None:
        """Be told of the tries of a model that tells of them."""
        if hasattr(model, "on_attempt"):
            model.on_attempt = self.told

    def told(self, made: Try) -> None:
        place = made.conversation, made.turn
        earlier = self._last.pop(place, None)
        if earlier is not None and made.number > earlier.number and made.conversation:
            self._journal.add_try(*place, earlier.outcome, earlier.seconds)
        if made.outcome != "ok":
            self._last[place] = made
