"""Everything that can go wrong, as one tree. A message names the thing, place and way out."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chimeralab.core.records import Loop


class ChimeraError(Exception):
    """The root: catch this to catch all of ours."""


class InputError(ChimeraError):
    """What the user handed in can't be used as it is (exit code 2)."""


class LogError(InputError):
    """A log can't be read: names the file, the line where there is one, and the reason.

    Where a log was taken for a `format`, that may be the mistake, and the message says so.
    """

    def __init__(
        self,
        source: str,
        reason: str,
        line: int | None = None,
        format: str | None = None,  # noqa: A002
    ) -> None:
        place = source if line is None else f"{source}, line {line}"
        taken = f" (read as {format}; --format overrides)" if format else ""
        super().__init__(f"{place}: {reason}{taken}")
        self.source = source
        self.line = line
        self.reason = reason


class LoopDetected(ChimeraError):
    """An agent was told that it repeats itself and went on; `loop` says what repeats."""

    def __init__(self, message: str, loop: "Loop") -> None:
        super().__init__(message)
        self.loop = loop


class WeightsError(ChimeraError):
    """Model files are missing, damaged or out of reach."""
