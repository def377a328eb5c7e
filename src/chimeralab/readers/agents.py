"""Logs of agent frameworks: LangChain, AutoGen, SWE-agent, and ATIF of Harbor."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from chimeralab.core.records import Call, Trajectory, role_of
from chimeralab.readers.chat import (
    CALL_PARTS,
    ChatMessage,
    Content,
    brought,
    call_of,
    content_of,
    message_of,
    result_text,
    spoken,
    turns_of,
)
from chimeralab.readers.fields import (
    Unreadable,
    identity,
    listing,
    listing_if_any,
    mapping,
    scalars,
    text,
    text_or_none,
)
from chimeralab.readers.seam import Place, Reader

LANGCHAIN_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "developer": "developer",
    "tool": "tool",
    "function": "function",
    "chat": "chat",
}


class LangChain(Reader):
    """Messages as LangChain dumps them: `dumpd`, `messages_to_dict`, or the fields of each."""

    name = "langchain"
    recognised = "messages with lc and kwargs, with type and data, or with type human or ai"
    turns = "a message with its text parts; tool_calls, with the message of their tool_call_id"
    left_out = "images, thoughts, usage, pickled messages"

    def matches(self, value: Any) -> bool:
        return is_langchain(next(iter(_langchain_list(value)), None))

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        messages = [
            langchain_message(each, f"messages[{n}]")
            for n, each in enumerate(_langchain_list(value))
        ]
        fields = value if isinstance(value, dict) else {}
        name = identity(fields, "id", "thread_id") if "lc" not in fields else None
        metadata = {} if "lc" in fields else scalars(fields, but={"id"})
        yield Trajectory(name or place.default_id(), turns_of(messages), metadata, str(place))


def _langchain_list(value: Any) -> list[Any]:
    """The messages, wherever a state or a dumped prompt holds them."""
    for key in ("kwargs", "values", "messages"):
        if isinstance(value, dict) and isinstance(value.get(key), dict | list):
            value = value[key]
    return value if isinstance(value, list) else []


def _langchain_fields(message: Any) -> tuple[str, Mapping[str, Any]] | None:
    """The kind of a message and its fields, whichever way it was dumped."""
    if not isinstance(message, dict):
        return None
    kind, data = message.get("type"), message
    if "lc" in message and isinstance(message.get("kwargs"), dict):
        names = message.get("id")
        kind = names[-1] if isinstance(names, list) and names else None
        data = message["kwargs"]
    elif isinstance(message.get("data"), dict):
        data = message["data"]
    elif "role" in message or "source" in message or "content" not in message:
        return None
    if not isinstance(kind, str):
        return None
    folded = kind.lower().removesuffix("chunk").removesuffix("message")
    return (folded, data) if folded in LANGCHAIN_ROLES else None


def is_langchain(message: Any) -> bool:
    return _langchain_fields(message) is not None


def langchain_message(message: Any, place: str) -> ChatMessage:
    found = _langchain_fields(message)
    if found is None:
        raise Unreadable(f"{place} is not a LangChain message")
    kind, data = found
    role = text(data, "role", place) if kind == "chat" else LANGCHAIN_ROLES[kind]
    extra = data.get("additional_kwargs")
    calls = [
        call
        for key in ("tool_calls", "invalid_tool_calls")
        if isinstance(data.get(key), list)
        for call in data[key]
    ]
    content = data.get("content")
    if calls and isinstance(content, list):
        # Anthropic's parts repeat the calls.
        content = [
            p for p in content if not (isinstance(p, dict) and str(p.get("type")) in CALL_PARTS)
        ]
    elif not calls and isinstance(extra, dict):
        calls = extra.get("tool_calls") or []
    fields = {"role": role, "content": content, "tool_calls": calls, "name": data.get("name")}
    if data.get("tool_call_id"):
        fields["tool_call_id"] = data["tool_call_id"]
    if data.get("status") == "error":
        fields["error"] = True
    return message_of(fields, place)


AUTOGEN_SILENT = (
    "ThoughtEvent",
    "MemoryQueryEvent",
    "UserInputRequestedEvent",
    "ModelClientStreamingChunkEvent",
    "SelectSpeakerEvent",
    "SelectorEvent",
    "CodeGenerationEvent",
    "CodeExecutionEvent",
)
# It repeats the result of the tool in the agent's name.
AUTOGEN_ASIDE = "ToolCallSummaryMessage"


class AutoGen(Reader):
    """Messages of AutoGen's AgentChat: with a source, a type and content."""

    name = "autogen"
    recognised = "messages with source, type and content, in a list or under messages"
    turns = "a message of a source; calls of a ToolCallRequestEvent, with their results"
    left_out = "thoughts, streamed chunks, summaries of tool calls, saved states of teams"
    whole = False

    def __init__(self) -> None:
        self._lines: list[ChatMessage] = []

    def matches(self, value: Any) -> bool:
        listed = value.get("messages") if isinstance(value, dict) else value
        first = listed[0] if isinstance(listed, list) and listed else value
        return (
            isinstance(first, dict)
            and all(key in first for key in ("source", "content"))
            and isinstance(first.get("type"), str)
            and first["type"].endswith(("Message", "Event"))
        )

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        if isinstance(value, dict) and "messages" not in value:
            self._lines += _autogen_messages(value, "the line")
            return
        fields = {"messages": value} if isinstance(value, list) else mapping(value, "the line")
        messages = [
            message
            for n, each in enumerate(listing(fields, "messages"))
            for message in _autogen_messages(each, f"messages[{n}]")
        ]
        name = identity(fields, "id") or place.default_id()
        yield Trajectory(name, turns_of(messages), scalars(fields, but={"id"}), str(place))

    def finish(self, place: Place) -> Iterator[Trajectory]:
        if self._lines:
            yield Trajectory(place.stem, turns_of(self._lines), {}, str(place))


def _autogen_messages(message: Any, place: str) -> Iterator[ChatMessage]:
    fields = mapping(message, place)
    source, named = text(fields, "source", place), text(fields, "type", place)
    content = fields.get("content")
    listed = content if isinstance(content, list) else []
    entries = [entry for entry in listed if isinstance(entry, dict)]
    if named in AUTOGEN_SILENT:
        return
    if entries and all("call_id" in entry for entry in entries):
        for entry in entries:
            failed = entry.get("is_error")
            call = entry["call_id"] if isinstance(entry["call_id"], str) else None
            yield brought(entry.get("content"), call, failed if isinstance(failed, bool) else None)
        return
    role = "user" if role_of(source) == "user" else "assistant"
    role = "system" if named == "SystemMessage" else role
    if entries and all("arguments" in entry for entry in entries):
        calls = tuple(map(call_of, entries))
        yield spoken(Content("", tools=True, calls=calls), role, source)
        return
    texts = [part for part in listed if isinstance(part, str)]
    said = content if isinstance(content, str) else "\n".join(texts) or result_text(content)
    turn, whole = spoken(Content(said, tools=named == AUTOGEN_ASIDE), role, source)
    if named == AUTOGEN_ASIDE:
        turn, whole = spoken(Content(said), "tool")
    yield ChatMessage(turn, whole)


class SWEAgent(Reader):
    """Trajectories of SWE-agent: steps of a thought, an action and an observation."""

    name = "swe-agent"
    recognised = "an object with trajectory, and history, info or environment"
    turns = "the thought of a step; its action is a call, its observation the result"
    left_out = "demonstrations, the state of the environment, what was sent to the model"

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        told = any(key in value for key in ("history", "info", "environment"))
        return (told and isinstance(value.get("trajectory"), list)) or bool(self.inner(value))

    def inner(self, value: Any) -> list[Any]:
        """The attempts of an agent that tries again, where none of them was chosen yet."""
        if not isinstance(value, dict) or "trajectory" in value:
            return []
        tried = value.get("attempts")
        return [each for each in tried if self.matches(each)] if isinstance(tried, list) else []

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the line")
        messages = list(_before_the_steps(fields.get("history")))
        for n, step in enumerate(listing(fields, "trajectory")):
            where = f"trajectory[{n}]"
            given = mapping(step, where)
            said = text_or_none(given, "thought", where) or ""
            action = text_or_none(given, "action", where) or ""
            said = said or ("" if action else text_or_none(given, "response", where) or "")
            observed = given.get("observation")
            result = None if observed is None else result_text(observed)
            name = action.split(maxsplit=1)[0] if action.strip() else ""
            calls = (Call(name, action, result),) if name else ()
            turn, content = spoken(Content(said, bool(calls)), "assistant")
            messages.append(ChatMessage(replace(turn, calls=calls), content))
        info = fields.get("info")
        status = identity(info, "exit_status") if isinstance(info, dict) else None
        metadata = scalars(fields, but={"id"}) | {"exit_status": status}
        metadata |= {} if status else {"unfinished": True}
        name = identity(fields, "instance_id") or place.stem
        yield Trajectory(name, turns_of(messages), metadata, str(place))


def _before_the_steps(history: Any) -> Iterator[ChatMessage]:
    """What the agent was told at first, without the demonstrations."""
    for n, message in enumerate(history if isinstance(history, list) else ()):
        fields = mapping(message, f"history[{n}]")
        if fields.get("is_demo") or fields.get("message_type") == "demonstration":
            continue
        if fields.get("role") not in ("system", "user"):
            return
        yield message_of(fields, f"history[{n}]")


class ATIF(Reader):
    """Trajectories in the Agent Trajectory Interchange Format, as Harbor writes them."""

    name = "atif"
    recognised = "an object with steps, and a schema_version that starts with ATIF or an agent"
    turns = "the message of a step; its tool_calls, with the results of its observation"
    left_out = "reasoning, metrics, steps copied from before, trajectories of subagents"

    SIDES: ClassVar = {"agent": "assistant", "user": "user", "system": "system"}

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
            return False
        named = str(value.get("schema_version")).upper().startswith("ATIF")
        return named or (isinstance(value.get("agent"), dict) and "session_id" in value)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the line")
        messages: list[ChatMessage] = []
        for n, step in enumerate(listing(fields, "steps")):
            given = mapping(step, f"steps[{n}]")
            if not given.get("is_copied_context"):
                messages += self._messages(given, f"steps[{n}]")
        agent = fields.get("agent") if isinstance(fields.get("agent"), dict) else {}
        assert isinstance(agent, dict)
        metadata = scalars(fields, but={"id"}) | {
            "agent": identity(agent, "name"),
            "model": identity(agent, "model_name"),
        }
        name = identity(fields, "trajectory_id", "session_id") or place.default_id()
        yield Trajectory(name, turns_of(messages), metadata, str(place))

    def _messages(self, step: Mapping[str, Any], place: str) -> Iterator[ChatMessage]:
        source = text(step, "source", place)
        role = self.SIDES.get(source, role_of(source))
        said = content_of({"content": step.get("message")}, place).text
        calls = []
        for call in listing_if_any(step, "tool_calls", place):
            fields = mapping(call, f"{place}.tool_calls")
            name = str(fields.get("function_name") or "")
            calls.append((identity(fields, "tool_call_id"), Call(name, fields.get("arguments"))))
        model = text_or_none(step, "model_name", place)
        yield spoken(Content(said, bool(calls), tuple(calls)), role, None, model)
        observation = step.get("observation")
        results = observation.get("results") if isinstance(observation, dict) else None
        for result in results if isinstance(results, list) else ():
            fields = mapping(result, f"{place}.observation.results")
            yield brought(fields.get("content"), identity(fields, "source_call_id"))
