"""Scripted agents in Inspect: a mock model that says what it is told to, and tools that answer.

A mock model without `usage` would fetch a tokenizer to count with, so every answer has one.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval  # noqa: A004
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import Model, ModelOutput, ModelUsage, get_model
from inspect_ai.tool import Tool, tool

MODEL = "mockllm/model"


def counted(output: ModelOutput) -> ModelOutput:
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def says(text: str) -> ModelOutput:
    return counted(ModelOutput.from_content(MODEL, text))


def calls(command: str, tool: str = "bash") -> ModelOutput:
    output = ModelOutput.for_tool_call(MODEL, tool, {"command": command}, content="")
    return counted(output)


def submits() -> ModelOutput:
    return counted(ModelOutput.for_tool_call(MODEL, "submit", {"answer": "done"}, content=""))


def scripted(*outputs: ModelOutput) -> Model:
    """A model that gives these answers in turn."""
    return get_model(MODEL, custom_outputs=list(outputs), memoize=False)


def speaking(answer: Callable[[list[Any]], str]) -> Model:
    """A model that answers by what it is shown."""
    return get_model(MODEL, custom_outputs=lambda shown, *_: says(answer(shown)), memoize=False)


@tool
def bash(results: Iterator[str]) -> Tool:
    async def execute(command: str) -> str:
        """Run a command.

        Args:
            command: What to run.
        """
        return next(results)

    return execute


def always(result: str) -> Iterator[str]:
    while True:
        yield result


def agent(results: Iterator[str] | None = None, **more: Any) -> Task:
    """A task with one agent that has one tool."""
    solver = react(tools=[bash(results or always("1 failed"))])
    sample = Sample(input="Make the test pass.", id="fix")
    return Task(dataset=[sample], solver=solver, **{"name": "agent", **more})


def run(task: Task, model: Model, folder: Path, **more: Any) -> EvalLog:
    [log] = eval(task, model=model, log_dir=str(folder), display="none", **more)
    return log
