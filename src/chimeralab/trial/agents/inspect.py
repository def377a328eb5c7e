"""Solvers and agents of inspect-ai as subjects."""

import importlib
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from chimeralab.core.errors import InputError
from chimeralab.core.parts import load_class
from chimeralab.core.records import Record
from chimeralab.core.text import redact
from chimeralab.models.seam import Reply, Request
from chimeralab.trial.agents.python import CodePath, Seconds, code_path
from chimeralab.trial.agents.seam import USUAL_TIMEOUT, called, text_of


@dataclass(frozen=True, slots=True)
class InspectAgentSettings(Record):
    """`use = "inspect"`: an agent or a solver, or the decorated function that makes one.

    `model` is what it generates with, by inspect-ai's name for it. The conversation is handed over
    whole with every question, so its memory is what the lab shows it.
    """

    can: ClassVar[tuple[str, ...]] = ("history",)

    path: CodePath
    model: str | None = None
    timeout: Seconds = USUAL_TIMEOUT

    def code(self, folder: Path) -> dict[str, Path | None]:
        return {self.path: code_path(self.path, folder)}

    def within(self, folder: Path) -> "InspectSubject":
        try:
            importlib.import_module("inspect_ai")
        except ImportError as error:
            raise InputError(
                'use = "inspect" needs inspect-ai; install it with: '
                'pip install "chimera-lab[inspect]"'
            ) from error
        found = load_class(self.path, f"path = {self.path!r}", folder)
        try:
            made = found if "state" in inspect.signature(found).parameters else found()
            takes = list(inspect.signature(made).parameters)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"path = {self.path!r} is not an agent or solver of inspect-ai ({error})"
            ) from error
        if takes[:1] != ["state"]:
            raise InputError(
                f"path = {self.path!r} is not an agent or solver of inspect-ai; those take a state"
            )
        return InspectSubject(made, "generate" in takes, self)


class InspectSubject:
    """Runs the agent or solver once for each question, on the conversation so far."""

    can: ClassVar[tuple[str, ...]] = ("history",)

    def __init__(self, part: Any, is_solver: bool, settings: InspectAgentSettings) -> None:
        self._part = part
        self._is_solver = is_solver
        self._settings = settings

    def open(self) -> "InspectSubject":
        return self

    async def reply(self, request: Request) -> Reply:
        run = self._solved if self._is_solver else self._acted
        state = await called(run, request, timeout=self._settings.timeout)
        output = state.output
        usage = output.usage
        return Reply(
            redact(text_of(output.completion, "completion")),
            prompt_tokens=usage.input_tokens if usage else None,
            completion_tokens=usage.output_tokens if usage else None,
            reported_model=output.model or None,
        )

    async def _acted(self, request: Request) -> Any:
        from inspect_ai.agent import AgentState  # noqa: PLC0415 - an extra, and slow to import

        return await self._part(AgentState(messages=_messages(request)))

    async def _solved(self, request: Request) -> Any:
        from inspect_ai.model import ModelName, get_model  # noqa: PLC0415 - as above
        from inspect_ai.solver import TaskState  # noqa: PLC0415

        model = get_model(self._settings.model)

        async def generate(state: Any, **_: Any) -> Any:
            state.output = await model.generate(state.messages, tools=state.tools)
            state.messages.append(state.output.message)
            return state

        messages = _messages(request)
        state = TaskState(
            model=ModelName(model),
            sample_id=request.conversation,
            epoch=1,
            input=request.messages[-1].content,
            messages=messages,
        )
        return await self._part(state, generate)


def _messages(request: Request) -> list[Any]:
    from inspect_ai import model  # noqa: PLC0415 - as above

    kinds = {
        "system": model.ChatMessageSystem,
        "user": model.ChatMessageUser,
        "assistant": model.ChatMessageAssistant,
    }
    return [kinds[each.role](content=each.content) for each in request.messages]
