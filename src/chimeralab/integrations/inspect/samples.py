"""Run planned conversations as Inspect samples, with Inspect's models."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from inspect_ai.log import transcript
from inspect_ai.model import Model, get_model, model_roles
from inspect_ai.util import LimitExceededError
from rich.text import Text

from chimeralab.core.errors import ChimeraError, InputError
from chimeralab.core.extras import require_extra

if TYPE_CHECKING:
    from chimeralab.models import seam
    from chimeralab.runner import MemoryJournal, Talk, TurnJudge
    from chimeralab.study import Study

    Prerequisite = Exception
else:
    try:
        from inspect_ai._util.error import PrerequisiteError as Prerequisite
    except ImportError:  # not public; without it the error has a traceback
        Prerequisite = Exception


class TaskRefused(InputError, Prerequisite):
    """A task can't be created."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = Text(message)  # rich would take [models.a] for a style


@contextmanager
def as_prerequisite() -> Iterator[None]:
    """Report bad input as Inspect's own errors, without a traceback."""
    try:
        yield
    except ChimeraError as error:
        raise TaskRefused(str(error)) from None


def open_study(path: str, allow_code: bool) -> "Study":
    """Open a study whose conversations become samples."""
    require_extra("lab")
    from chimeralab.study import Study  # noqa: PLC0415 - Inspect starts without it

    return Study(path, allow_code)


def assign_models(names: Collection[str]) -> dict[str, Model]:
    """Map the models of a plan to Inspect's: by role, or the evaluated model for a single one.

    One model in place of several would be a different condition, so then each needs a role.
    """
    missing = [name for name in names if name not in model_roles()]
    if len(names) > 1 and missing:
        raise InputError(
            f"{', '.join(names)} are different models, so each needs a role; add "
            + " ".join(f"--model-role {name}=PROVIDER/MODEL" for name in missing)
        )
    return {name: get_model(role=name) for name in names}


async def converse_in_sample(
    talk: "Talk",
    models: Mapping[str, "seam.Model"],
    *,
    watch: "Callable[[], TurnJudge] | None" = None,
    on_turn: "Callable[[MemoryJournal], None]" = lambda journal: None,
    retry_wait: float = 1.0,
) -> "MemoryJournal":
    """Run one conversation. `on_turn` is called after each turn, as a limit may end the sample."""
    from chimeralab import runner  # noqa: PLC0415 - Inspect starts without it

    journal = runner.MemoryJournal()

    def publish(news: runner.News) -> None:
        if isinstance(news, runner.TurnStored):
            on_turn(journal)
        elif isinstance(news, runner.Intervention):
            transcript().info(news.event.as_dict(), source="chimeralab")

    run = runner.RunContext(
        models, journal, runner.Brake(), watch=watch, retry_wait=retry_wait, publish=publish
    )
    try:
        ended = await runner.converse(talk, run)
    except InputError as error:
        if isinstance(error.__cause__, LimitExceededError):
            raise error.__cause__ from None
        raise
    if ended.outcome in ("paused", "failed"):
        raise InputError(f"{talk.id} could not go on: {ended.reason}")
    transcript().info(ended._asdict(), source="chimeralab")
    return journal
