"""The exceptions of this package. A message names the thing, the place and what to do."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chimeralab.core.records import Loop


class ChimeraError(Exception):
    """The base class of every exception that this package raises."""


class InputError(ChimeraError):
    """The user's input can't be used as it is (exit code 2)."""


class LogError(InputError):
    """A log can't be read. The message has its place, the reason and the format."""

    def __init__(
        self,
        source: str,
        reason: str,
        line: int | None = None,
        format: str | None = None,  # noqa: A002
        group: str = "",
    ) -> None:
        place = source if line is None else f"{source}, line {line}"
        assumed = f" (read as {format}; --format overrides)" if format else ""
        super().__init__(f"{place}: {reason}{assumed}")
        self.source = source
        self.line = line
        self.reason = reason
        self.format = format
        self.group = group  # what files that are refused alike have in common, such as "damaged"


class LoopDetected(ChimeraError):
    """A guarded agent was nudged and kept looping; `loop` says what repeats."""

    def __init__(self, message: str, loop: "Loop") -> None:
        super().__init__(message)
        self.loop = loop


class WeightsError(ChimeraError):
    """Model files are missing, damaged or unreachable."""
