"""Logs of evaluations and training sets: tau2, promptfoo, and pairs of preferences."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from chimeralab.core.records import Trajectory, role_of
from chimeralab.readers.chat import (
    ChatMessage,
    Content,
    brought,
    call_of,
    message_of,
    result_text,
    spoken,
    turns_of,
)
from chimeralab.readers.fields import (
    Unreadable,
    identity,
    kind,
    listing,
    mapping,
    scalars,
)
from chimeralab.readers.seam import Place, Reader

HUMAN = re.compile(r"(?:^|\n\n)(Human|Assistant): ?")


class Tau2(Reader):
    """Simulations of tau2: an agent, a simulated user, and the tools of both."""

    name = "tau2"
    recognised = "an object with simulations, or one simulation with task_id and its ending"
    turns = "a message of a simulation; tool_calls, with the tool message of the same id"
    left_out = "tasks, rewards, costs"

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        if isinstance(value.get("simulations"), list):
            return True
        ends = "termination_reason" in value or "reward_info" in value
        return "task_id" in value and ends

    def inner(self, value: Any) -> list[Any]:
        if not isinstance(value, dict) or not isinstance(value.get("simulations"), list):
            return []
        info = value.get("info")
        agent = info.get("agent_info") if isinstance(info, dict) else None
        model = agent.get("llm") if isinstance(agent, dict) else None
        about = {"model": model} if isinstance(model, str) else {}
        return [
            about | {"task_id": None, "termination_reason": None} | each
            if isinstance(each, dict)
            else each
            for each in value["simulations"]
        ]

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the simulation")
        messages = [
            message
            for n, each in enumerate(listing(fields, "messages"))
            for message in _tau_messages(mapping(each, f"messages[{n}]"), f"messages[{n}]")
        ]
        metadata = scalars(fields, but={"id"})
        metadata |= {} if fields.get("termination_reason") else {"unfinished": True}
        name = identity(fields, "id") or place.default_id()
        yield Trajectory(name, turns_of(messages), metadata, str(place))


def _tau_messages(fields: Mapping[str, Any], place: str) -> Iterator[ChatMessage]:
    inner = fields.get("tool_messages")
    for each in inner if isinstance(inner, list) else [fields]:
        given = mapping(each, place)
        if given.get("role") == "tool":
            failed = given.get("error")
            error = failed if isinstance(failed, bool) else None
            yield brought(given.get("content"), identity(given, "id"), error)
        else:
            yield message_of(given, place)


@dataclass(frozen=True, slots=True)
class PromptfooResult:
    """One result of an evaluation by promptfoo, and which evaluation it was."""

    fields: Any
    evaluation: str | None


class Promptfoo(Reader):
    """What promptfoo writes: for each test a prompt and the answer of a provider."""

    name = "promptfoo"
    recognised = "an object with results.results, or lines with a prompt that has raw"
    turns = "the messages of the prompt, then the answer; tests of one conversationId are joined"
    left_out = "assertions, scores, settings; an error is no answer"

    def __init__(self) -> None:
        self._waiting: dict[str, Trajectory] = {}

    def matches(self, value: Any) -> bool:
        if isinstance(value, PromptfooResult):
            return True
        if not isinstance(value, dict):
            return False
        return isinstance(_promptfoo_results(value), list) or _is_promptfoo_line(value)

    def inner(self, value: Any) -> list[Any]:
        results = _promptfoo_results(value)
        if not isinstance(results, list):
            return []
        named = value.get("evalId")
        return [
            PromptfooResult(each, named if isinstance(named, str) else None) for each in results
        ]

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        result = value if isinstance(value, PromptfooResult) else PromptfooResult(value, None)
        fields = mapping(result.fields, "the result")
        if isinstance(_promptfoo_results(fields), list):
            raise Unreadable("holds no results")
        messages = list(_promptfoo_messages(fields))
        provider = fields.get("provider")
        provider = provider.get("id") if isinstance(provider, dict) else provider
        metadata = scalars(fields, but={"id", "prompt", "response"}) | {
            "model": provider if isinstance(provider, str) else None,
            "evaluation": result.evaluation,
        }
        name = identity(fields, "id") or place.default_id()
        trajectory = Trajectory(name, turns_of(messages), metadata, str(place))
        joined = _conversation_of(fields)
        if joined is None:
            yield trajectory
            return
        key = f"{joined}/{metadata['model']}/{fields.get('promptIdx')}"
        before = self._waiting.get(key)
        if before is not None:
            # A prompt may repeat the conversation so far; then it holds all of it.
            shown = trajectory.turns[: len(before.turns)]
            repeated = shown == before.turns and len(shown) < len(trajectory.turns)
            turns = trajectory.turns if repeated else before.turns + trajectory.turns
            trajectory = replace(before, turns=turns)
        self._waiting[key] = trajectory

    def finish(self, place: Place) -> Iterator[Trajectory]:
        yield from self._waiting.values()


def _promptfoo_results(value: Any) -> Any:
    outer = value.get("results") if isinstance(value, dict) else None
    return outer.get("results") if isinstance(outer, dict) else None


def _is_promptfoo_line(value: Mapping[str, Any]) -> bool:
    prompt = value.get("prompt")
    told = any(key in value for key in ("testCase", "vars", "testIdx", "promptIdx"))
    return isinstance(prompt, dict) and "raw" in prompt and told


def _conversation_of(fields: Mapping[str, Any]) -> str | None:
    test = fields.get("testCase")
    for holder in (
        fields.get("metadata"),
        test.get("metadata") if isinstance(test, dict) else None,
    ):
        named = holder.get("conversationId") if isinstance(holder, dict) else None
        if isinstance(named, str | int) and not isinstance(named, bool):
            return str(named)
    return None


def _promptfoo_messages(fields: Mapping[str, Any]) -> Iterator[ChatMessage]:
    metadata = fields.get("metadata")
    told = metadata.get("messages") if isinstance(metadata, dict) else None
    if isinstance(told, list) and told:
        yield from (message_of(each, f"metadata.messages[{n}]") for n, each in enumerate(told))
        return
    prompt = fields.get("prompt")
    raw = prompt.get("raw") if isinstance(prompt, dict) else prompt
    if not isinstance(raw, str):
        raise Unreadable(f"prompt.raw is {kind(raw)}, not text")
    asked = json_inside(raw)
    if isinstance(asked, list) and asked and isinstance(asked[0], dict) and "role" in asked[0]:
        yield from (message_of(each, f"prompt.raw[{n}]") for n, each in enumerate(asked))
    else:
        yield spoken(Content(raw), "user")
    response = fields.get("response")
    output = response.get("output") if isinstance(response, dict) else None
    if output is None:
        return
    calls = output if isinstance(output, list) else []
    if calls and all(isinstance(each, dict) and "function" in each for each in calls):
        yield spoken(Content("", True, tuple(map(call_of, calls))), "assistant")
    else:
        yield spoken(Content(result_text(output)), "assistant")


def json_inside(said: str) -> Any:
    """The JSON that a text holds; None where it holds none."""
    if not said.lstrip().startswith(("[", "{")):
        return None
    try:
        return json.loads(said)
    except (ValueError, RecursionError):
        return None


class Preferences(Reader):
    """Pairs of preferences: a prompt, the answer that was chosen and the one that was rejected."""

    name = "preferences"
    recognised = "an object with chosen and rejected"
    turns = "the messages of the prompt and of each answer; each answer is a conversation"
    left_out = "scores"

    SIDES = ("chosen", "rejected")

    def matches(self, value: Any) -> bool:
        return isinstance(value, dict) and all(
            isinstance(value.get(side), str | list | dict) for side in self.SIDES
        )

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the line")
        name = identity(fields, "id", "prompt_id") or place.default_id()
        metadata = scalars(fields, but={"id", "prompt", *self.SIDES})
        asked = list(_preferred(fields.get("prompt"), "prompt", "user"))
        for side in self.SIDES:
            told = list(_preferred(fields.get(side), side, "assistant"))
            # Many sets repeat the prompt in front of both answers.
            same = [each.turn for each in told[: len(asked)]] == [each.turn for each in asked]
            turns = turns_of(told if same else asked + told)
            yield Trajectory(f"{name}#{side}", turns, metadata | {"side": side}, str(place))


def _preferred(value: Any, place: str, role: str) -> Iterator[ChatMessage]:
    if value is None:
        return
    if isinstance(value, list):
        yield from (message_of(each, f"{place}[{n}]") for n, each in enumerate(value))
    elif isinstance(value, dict):
        yield message_of(value, place)
    elif not isinstance(value, str):
        raise Unreadable(f"{place} is {kind(value)}, not text or a list")
    elif len(pieces := HUMAN.split(value)) > 2:
        sides = zip(pieces[1::2], pieces[2::2], strict=True)
        yield from (spoken(Content(said.strip()), role_of(side)) for side, said in sides)
    else:
        yield spoken(Content(value), role)
