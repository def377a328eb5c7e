"""A Python function as a subject: it gets the whole conversation and gives the next answer."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.parts import find_code, load_class
from chimeralab.core.records import Record
from chimeralab.models.seam import Message, Reply, Request
from chimeralab.trial.agents.seam import USUAL_TIMEOUT, called, text_of

# A module, and a name in it.
CodePath = Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
Seconds = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, slots=True)
class CallableSettings(Record):
    """`use = "callable"`: a function `f(messages) -> str`, plain or async.

    `path` is "module:name", looked for beside the plan first. A message has a role and a content.
    """

    can: ClassVar[tuple[str, ...]] = ("history",)

    path: CodePath
    timeout: Seconds = USUAL_TIMEOUT

    def code(self, folder: Path) -> dict[str, Path | None]:
        return {self.path: code_path(self.path, folder)}

    def within(self, folder: Path) -> "FunctionSubject":
        function = load_class(self.path, f"path = {self.path!r}", folder)
        if not callable(function):
            raise InputError(f"path = {self.path!r} is not a function; it takes f(messages) -> str")
        return FunctionSubject(function, self.timeout)


class FunctionSubject:
    """Calls the function with every question."""

    can: ClassVar[tuple[str, ...]] = ("history",)

    def __init__(self, function: Callable[..., Any], timeout: float) -> None:
        self._function = function
        self._timeout = timeout

    def open(self) -> "FunctionSubject":
        return self

    async def reply(self, request: Request) -> Reply:
        messages = [plainly(message) for message in request.messages]
        answer = await called(self._function, messages, timeout=self._timeout)
        return Reply(text_of(answer, getattr(self._function, "__name__", "the function")))


def code_path(path: str, folder: Path) -> Path | None:
    """The file behind "module:name", without running it; None where it is out of sight."""
    return find_code(path.partition(":")[0], folder).path


def plainly(message: Message) -> dict[str, str]:
    """A message as everybody writes it."""
    return {"role": message.role, "content": message.content}
