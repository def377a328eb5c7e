"""Bad input said as Inspect says it: one sentence, without a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.text import Text

from chimeralab.core.errors import ChimeraError, InputError

if TYPE_CHECKING:
    Prerequisite = Exception
else:
    try:
        from inspect_ai._util.error import PrerequisiteError as Prerequisite
    except ImportError:  # it is not public; without it there is a traceback around the sentence
        Prerequisite = Exception


class TaskRefused(InputError, Prerequisite):
    """A task that can't be made as it was asked for."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.message = Text(words)  # rich would take [models.a] for a style


@contextmanager
def in_one_sentence() -> Iterator[None]:
    try:
        yield
    except ChimeraError as error:
        raise TaskRefused(str(error)) from None
