"""Formats of agents: LangChain, AutoGen, SWE-agent, OpenHands, and ATIF of Harbor."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, starmap
from typing import Any

from chimeralab.core.records import SILENT_ROLES, Call, Trajectory, normalize_role
from chimeralab.readers.chat import (
    ASIDE,
    CALL_PARTS,
    ChatMessage,
    Content,
    annotate,
    has_asides,
    make_message,
    make_result,
    make_thought,
    make_trajectory,
    parse_call,
    parse_content,
    parse_message,
    parse_messages,
    reasoning_text,
    result_text,
    with_usage,
)
from chimeralab.readers.seam import (
    COMMON,
    FITS,
    Place,
    Reader,
    Unreadable,
    as_object,
    as_object_with,
    bool_or_none,
    first_present,
    first_text,
    get_id,
    get_list,
    get_path,
    get_text,
    items,
    optional_list,
    optional_text,
    other_scalars,
    str_or_none,
    with_places,
)

LANGCHAIN_ROLES = {
    "human": "user", "ai": "assistant", "system": "system", "developer": "developer",
    "tool": "tool", "function": "function", "chat": "chat",
}  # fmt: skip


class LangChain(Reader):
    """Messages as LangChain serialises them: `dumpd`, `messages_to_dict`, or `model_dump`."""

    name = "langchain"
    keys = frozenset({"kwargs", "values", "messages.lc", "messages.type"})
    recognised = "messages with lc and kwargs, with type and data, or with type human or ai"
    turns = "a message with its text parts; tool_calls, with the message of their tool_call_id"
    left_out = "images, pickled messages"

    def matches(self, value: Any) -> bool:
        return is_langchain(next(iter(_langchain_list(value)), None))

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        messages = starmap(langchain_message, with_places(_langchain_list(value), "messages"))
        fields = value if isinstance(value, dict) else {}
        name = get_id(fields, "id", "thread_id") if "lc" not in fields else None
        metadata = {} if "lc" in fields else other_scalars(fields, exclude={"id"})
        yield make_trajectory(place, name, messages, metadata)


def _langchain_list(value: Any) -> list[Any]:
    """Find the messages in a state or a serialised prompt."""
    for key in ("kwargs", "values", "messages"):
        if isinstance(value, dict) and isinstance(value.get(key), dict | list):
            value = value[key]
    return items(value)


def _langchain_fields(message: Any) -> tuple[str, Mapping[str, Any]] | None:
    """Return the kind of a message and its fields, however it was serialised."""
    if not isinstance(message, dict):
        return None
    kind, data = message.get("type"), message
    if "lc" in message and isinstance(message.get("kwargs"), dict):
        kind = next(reversed(items(message.get("id"))), None)
        data = message["kwargs"]
    elif isinstance(message.get("data"), dict):
        data = message["data"]
    elif "content" not in message or (
        "additional_kwargs" not in message and ("role" in message or "source" in message)
    ):
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
    role = get_text(data, "role", place) if kind == "chat" else LANGCHAIN_ROLES[kind]
    calls = items(data.get("tool_calls")) + items(data.get("invalid_tool_calls"))
    content = data.get("content")
    if calls and isinstance(content, list):
        # Anthropic's parts repeat the calls.
        content = [
            p for p in content if not (isinstance(p, dict) and str(p.get("type")) in CALL_PARTS)
        ]
    elif not calls:
        calls = get_path(data, "additional_kwargs", "tool_calls") or []
    fields = {"role": role, "content": content, "tool_calls": calls, "name": data.get("name")}
    fields["reasoning_content"] = get_path(data, "additional_kwargs", "reasoning_content")
    fields["usage"] = data.get("usage_metadata")
    if data.get("tool_call_id"):
        fields["tool_call_id"] = data["tool_call_id"]
    if data.get("status") == "error":
        fields["error"] = True
    return parse_message(fields, place)


AUTOGEN_SILENT = (
    "MemoryQueryEvent", "UserInputRequestedEvent", "ModelClientStreamingChunkEvent",
    "SelectSpeakerEvent", "SelectorEvent", "CodeGenerationEvent", "CodeExecutionEvent",
)  # fmt: skip


class AutoGen(Reader):
    """Messages of AutoGen's AgentChat, with a source, a type and content."""

    name = "autogen"
    keys = frozenset({"messages.source", "source"})
    recognised = "messages with source, type and content, in a list or under messages"
    turns = "a message of a source; calls of a ToolCallRequestEvent, with their results"
    left_out = "streamed chunks, summaries of tool calls, saved team states"
    whole = False

    def __init__(self) -> None:
        self._lines: list[ChatMessage] = []

    def matches(self, value: Any) -> bool:
        listed = items(value.get("messages") if isinstance(value, dict) else value)
        first = listed[0] if listed else value
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
        fields = as_object_with("messages", value)
        messages = parse_messages(_autogen_messages, get_list(fields, "messages"), "messages")
        metadata = other_scalars(fields, exclude={"id"})
        yield make_trajectory(place, get_id(fields, "id"), messages, metadata)

    def finish(self, place: Place) -> Iterator[Trajectory]:
        if self._lines:
            yield make_trajectory(place, place.stem, self._lines, {})


def _autogen_messages(message: Any, place: str) -> Iterator[ChatMessage]:
    fields = as_object(message, place)
    source, named = get_text(fields, "source", place), get_text(fields, "type", place)
    content = fields.get("content")
    entries = [entry for entry in items(content) if isinstance(entry, dict)]
    if named in AUTOGEN_SILENT:
        return
    if entries and all("call_id" in entry for entry in entries):
        for entry in entries:
            call, failed = str_or_none(entry["call_id"]), bool_or_none(entry.get("is_error"))
            yield make_result(entry.get("content"), call, failed)
        return
    if named == "ThoughtEvent":
        yield make_thought(reasoning_text(content))
        return
    about = {**fields, "agent": source}
    role = "user" if normalize_role(source) == "user" else "assistant"
    role = "system" if named == "SystemMessage" else role
    if entries and all("arguments" in entry for entry in entries):
        calls = tuple(map(parse_call, entries))
        yield annotate(make_message(Content("", tools=True, calls=calls), role, source), about)
        return
    texts = [part for part in items(content) if isinstance(part, str)]
    text = content if isinstance(content, str) else "\n".join(texts) or result_text(content)
    # A summary repeats the tool's result under the agent's name.
    is_summary = named == "ToolCallSummaryMessage"
    message = make_message(text, "tool") if is_summary else make_message(text, role, source)
    yield annotate(message, about)


class SWEAgent(Reader):
    """SWE-agent's trajectories: steps of a thought, an action and an observation."""

    name = "swe-agent"
    keys = frozenset({"trajectory", "attempts", "history"})
    recognised = "an object with trajectory, and history, info or environment; or a history alone"
    turns = "the thought of a step; its action is a call, its observation the result"
    left_out = "demonstrations, environment state, model inputs"

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        has_context = any(key in value for key in ("history", "info", "environment"))
        is_run = has_context and isinstance(value.get("trajectory"), list)
        return is_run or bool(self.inner(value)) or self._is_demonstration(value)

    def _is_demonstration(self, value: Mapping[str, Any]) -> bool:
        first = next(iter(items(value.get("history"))), None)
        return "trajectory" not in value and isinstance(first, dict) and "message_type" in first

    def inner(self, value: Any) -> list[Any]:
        """List the attempts of a retrying agent that has not chosen one yet."""
        if not isinstance(value, dict) or "trajectory" in value:
            return []
        return [each for each in items(value.get("attempts")) if self.matches(each)]

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the line")
        if self._is_demonstration(fields):
            listed = with_places(get_list(fields, "history"), "history")
            yield make_trajectory(place, place.stem, starmap(parse_message, listed), {})
            return
        messages = list(_parse_history(fields.get("history")))
        for step, where in with_places(get_list(fields, "trajectory"), "trajectory"):
            given = as_object(step, where)
            text = optional_text(given, "thought", where) or ""
            action = optional_text(given, "action", where) or ""
            text = text or ("" if action else optional_text(given, "response", where) or "")
            observed = given.get("observation")
            result = None if observed is None else result_text(observed)
            name = action.split(maxsplit=1)[0] if action.strip() else ""
            calls = (Call(name, action, result),) if name else ()
            thought = reasoning_text(given.get("thinking_blocks"))
            said = Content(text, bool(calls), reasoning=thought)
            turn, content = make_message(said, "assistant")
            messages.append(ChatMessage(replace(turn, calls=calls), content))
        info = fields.get("info")
        status = get_id(info, "exit_status") if isinstance(info, dict) else None
        metadata = other_scalars(fields, exclude={"id"}) | {"exit_status": status}
        name = get_id(fields, "instance_id") or place.stem
        usage = get_path(info, "model_stats")
        found = make_trajectory(place, name, messages, metadata, unfinished=not status)
        yield with_usage(found, usage)


def _parse_history(history: Any) -> Iterator[ChatMessage]:
    """Parse the messages before the first step, without demonstrations."""
    for message, place in with_places(items(history), "history"):
        fields = as_object(message, place)
        if fields.get("is_demo") or fields.get("message_type") == "demonstration":
            continue
        if fields.get("role") not in ("system", "user"):
            return
        yield parse_message(fields, place)


ROUTE = "Next speaker "
TERMINALS = frozenset({"computer_terminal", "computerterminal"})


TEXTS = frozenset({"content", "text"})


class AgentHistory(Reader):
    """Messages of a team of agents, as AG2 runs, the Who&When set and AgentRx have them."""

    name = "agent-history"
    keys = frozenset({"trajectory", "history", "steps"})
    recognised = "an object with a trajectory or history of messages with a role or name"
    turns = "a message of an agent, who is named; a thought is reasoning, a terminal a tool"
    left_out = "labels of failures"

    def matches(self, value: Any) -> bool:
        first = next(iter(self._messages(value)), None)
        if not isinstance(first, dict) or "message_type" in first or TEXTS.isdisjoint(first):
            return False
        if isinstance(value, list):
            return has_asides(value)
        return first_text(first, "name", "role") is not None

    def sureness(self, value: Any) -> float:
        if not self.matches(value):
            return 0.0
        return FITS if isinstance(value, list) else COMMON

    def _messages(self, value: Any) -> list[Any]:
        if isinstance(value, list):
            return value
        steps = [items(get_path(step, "substeps")) for step in items(get_path(value, "steps"))]
        listed = items(get_path(value, "trajectory")) or items(get_path(value, "history"))
        return listed or list(chain.from_iterable(steps))

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object_with("history", value)
        messages = starmap(_team_message, with_places(self._messages(fields), "trajectory"))
        metadata = other_scalars(fields, exclude={"id", "trajectory", "history"})
        name = get_id(fields, "instance_id", "question_ID", "trajectory_id", "id") or place.stem
        yield make_trajectory(place, name, messages, metadata)


def _team_message(message: Any, place: str) -> ChatMessage:
    given = as_object(message, place)
    if "content" not in given:
        given = {**given, "content": first_present(given, "text", "system_prompt")}
    agent = first_text(given, "name", "role") or "agent"
    if agent.lower() in TERMINALS:
        return parse_message({**given, "role": "tool", "name": None}, place)
    aside = ASIDE.fullmatch(agent)
    role = normalize_role(first_text(given, "role") or agent)
    # From the view of one agent, the others are users.
    named = agent if role in ("user", "assistant") else str(given.get("role"))
    named = aside[1] if aside else named
    read = parse_message({**given, "role": role, "name": named}, place)
    turn, text = read.turn, read.turn.text
    if role in SILENT_ROLES:
        return read
    turn = replace(turn, role=None if "name" in given or aside else role)
    if aside and aside[2] == "thought":
        thought = None if text.startswith(ROUTE) else text
        turn = replace(turn, text="", spoken=False, reasoning=thought)
    return annotate(read._replace(turn=turn), {"agent": named})


class WebArena(Reader):
    """Trajectories of web agents: states of a browser, and the action after each."""

    name = "webarena"
    keys = frozenset({"trajectory"})
    recognised = "an object with a trajectory of states and actions, and an intent or a task"
    turns = "the intent; the thought of an action, which is a call, the state after it the result"
    left_out = "screenshots"

    def matches(self, value: Any) -> bool:
        steps = items(get_path(value, "trajectory"))
        acts = any(isinstance(get_path(step, "action"), dict) for step in steps[:2])
        return acts and first_text(value, *self.TASKS) is not None

    TASKS = ("intent", "task", "goal")

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the line")
        messages = [make_message(first_text(fields, *self.TASKS) or "", "user")]
        steps = [as_object(*each) for each in with_places(get_list(fields, "trajectory"), "step")]
        for step, after in zip(steps, [*steps[1:], {}], strict=False):
            if not isinstance(given := step.get("action"), dict):
                continue
            kept = {k: v for k, v in given.items() if v not in ("", [], None)}
            name = str(kept.pop("action_name", kept.get("action_type", "")))
            seen = first_text(after, "axtree", "observation", "url")
            thought = first_text(as_object(step.get("metadata") or {}, "metadata"), "cot") or ""
            calls = (Call(name, kept, seen),) if name else ()
            turn, content = make_message(Content(thought, tools=bool(calls)), "assistant")
            messages.append(ChatMessage(replace(turn, calls=calls), content))
        metadata = other_scalars(fields, exclude={"id"})
        yield make_trajectory(place, None, messages, metadata)


class ATIF(Reader):
    """The Agent Trajectory Interchange Format, as Harbor writes it."""

    name = "atif"
    keys = frozenset({"steps"})
    recognised = "an object with steps, and a schema_version that starts with ATIF or an agent"
    turns = "the message of a step; its tool_calls, with the results of its observation"
    left_out = "copied steps, trajectories of subagents"

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
            return False
        named = str(value.get("schema_version")).upper().startswith("ATIF")
        return named or (isinstance(value.get("agent"), dict) and "session_id" in value)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the line")
        messages: list[ChatMessage] = []
        for step, where in with_places(get_list(fields, "steps"), "steps"):
            if not as_object(step, where).get("is_copied_context"):
                messages += self._messages(step, where)
        agent = fields["agent"] if isinstance(fields.get("agent"), dict) else {}
        metadata = other_scalars(fields, exclude={"id"}) | {
            "agent": get_id(agent, "name"),
            "model": get_id(agent, "model_name"),
        }
        name = get_id(fields, "trajectory_id", "session_id")
        totals = fields.get("final_metrics")
        totals = totals if isinstance(totals, dict) else {}
        usage = {key.removeprefix("total_"): total for key, total in totals.items()}
        yield with_usage(make_trajectory(place, name, messages, metadata), usage)

    def _messages(self, step: Mapping[str, Any], place: str) -> Iterator[ChatMessage]:
        role = normalize_role(get_text(step, "source", place))
        text = parse_content({"content": step.get("message")}, place).text
        calls = []
        for call in optional_list(step, "tool_calls", place):
            fields = as_object(call, f"{place}.tool_calls")
            name = str(fields.get("function_name") or "")
            calls.append((get_id(fields, "tool_call_id"), Call(name, fields.get("arguments"))))
        model = optional_text(step, "model_name", place)
        thought = reasoning_text(step.get("reasoning_content"))
        content = Content(text, bool(calls), tuple(calls), reasoning=thought)
        yield annotate(make_message(content, role, None, model), step)
        for result in items(get_path(step, "observation", "results")):
            fields = as_object(result, f"{place}.observation.results")
            yield make_result(fields.get("content"), get_id(fields, "source_call_id"))


THINK = "think"
NOTES = ("change_agent_state", "recall", "null", THINK, "condensation", "pause")
SAYS = ("message", "finish")
UNFINISHED = ("loading", "init", "running", "paused", "idle")
SOURCES = ("agent", "user", "environment", "hook")


EVENT_LISTS = ("history", "trajectory")


class OpenHands(Reader):
    """Events of OpenHands: actions and observations, or those of its SDK."""

    name = "openhands"
    keys = frozenset({"history", "trajectory", "source"})
    recognised = "events with source, and action, observation or kind; a file each or together"
    turns = "a message or finish action; any other action is a call, its observation the result"
    left_out = "recalls, state changes, condensations"
    whole = False
    pieces = re.compile(r"(?:event-)?(\d+)(?:-[\w-]+)?\.json")

    def __init__(self) -> None:
        self._events: list[Any] = []

    def matches(self, value: Any) -> bool:
        held = first_present(value, *EVENT_LISTS) if isinstance(value, dict) else value
        event = next(iter(_unpair(items(held)[:1])), value)
        if not isinstance(event, dict) or "source" not in event:
            return False
        if isinstance(event.get("kind"), str) and event["source"] in SOURCES:
            return True
        return first_text(event, "action", "observation") is not None

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        if isinstance(value, dict) and EVENT_LISTS[0] not in value and EVENT_LISTS[1] not in value:
            list(_event_messages(value, "the event"))  # report errors at their own line
            self._events.append(value)
            return
        fields = as_object_with("history", value)
        metadata = other_scalars(
            {k: v for k, v in fields.items() if k != "metadata"}, exclude={"id"}
        )
        name = get_id(fields, "instance_id", "id") or place.default_id()
        key = next((key for key in EVENT_LISTS if key in fields), EVENT_LISTS[0])
        yield _event_talk(name, _unpair(get_list(fields, key)), metadata, place)

    def finish(self, place: Place) -> Iterator[Trajectory]:
        if self._events:
            yield _event_talk(place.stem, self._events, {}, place)


def _unpair(events: list[Any]) -> list[Any]:
    """List the events of the first versions, which kept pairs of an action and an observation."""
    pairs = ([each] if isinstance(each, dict) else items(each) or [each] for each in events)
    listed = chain.from_iterable(pairs)
    return [event for event in listed if get_path(event, "observation") != "null"]


def _event_talk(name: str, events: list[Any], metadata: dict[str, Any], place: Place) -> Trajectory:
    messages = list(parse_messages(_event_messages, events, "events"))
    last, usage = None, {}
    for event in events:
        if isinstance(spent := get_path(event, "llm_metrics"), dict):  # totals so far
            usage = {"cost": spent.get("accumulated_cost")}
            given = spent.get("accumulated_token_usage")
            usage |= given if isinstance(given, dict) else {}
        state = get_path(event, "extras", "agent_state")
        if get_path(event, "kind") == "ConversationStateUpdateEvent":
            is_status = event.get("key") in ("execution_status", "agent_status")
            state = event.get("value") if is_status else None
        last = state if isinstance(state, str) else last
    unfinished = last in UNFINISHED
    found = make_trajectory(place, name, messages, metadata, unfinished=unfinished)
    return with_usage(found, usage)


def _event_messages(event: Any, place: str) -> Iterator[ChatMessage]:
    fields = as_object(event, place)
    about = {"timestamp": fields.get("timestamp")}
    yield from (annotate(message, about) for message in _bare_messages(fields, place))


def _bare_messages(fields: Mapping[str, Any], place: str) -> Iterator[ChatMessage]:
    if isinstance(fields.get("kind"), str):
        yield from _sdk_messages(fields, place)
    elif isinstance(fields.get("observation"), str):
        extras = fields.get("extras")
        inner = get_path(extras, "metadata")
        code = get_path(inner if isinstance(inner, dict) else extras, "exit_code")
        failed = fields["observation"] == "error" or code not in (None, 0, -1)
        if fields["observation"] not in NOTES and fields.get("cause") is not None:
            yield make_result(fields.get("content"), str(fields["cause"]), failed or None)
    else:
        yield from _action_messages(fields, place)


def _action_messages(fields: Mapping[str, Any], place: str) -> Iterator[ChatMessage]:
    action = get_text(fields, "action", place)
    args = as_object(fields.get("args") or {}, f"{place}.args")
    if action == THINK:
        yield make_thought(str_or_none(args.get("thought")) or "")
    if action in NOTES:
        return
    role = "user" if fields.get("source") == "user" else "assistant"
    if action == "system" or action in SAYS:
        text = first_text(args, "content", "final_thought", "thought", "message")
        text = text or optional_text(fields, "message", place) or ""
        yield make_message(text, "system" if action == "system" else role)
        return
    given = {key: value for key, value in args.items() if key != "thought"}
    call = (str(fields.get("id")), Call(action, given))
    text = str_or_none(args.get("thought")) or ""
    yield make_message(Content(text, tools=True, calls=(call,)), role)


def _sdk_messages(fields: Mapping[str, Any], place: str) -> Iterator[ChatMessage]:
    kind = fields["kind"]
    if kind == "SystemPromptEvent":
        yield make_message(
            parse_content({"content": [fields.get("system_prompt") or ""]}, place), "system"
        )
    elif kind == "MessageEvent":
        yield parse_message(fields.get("llm_message"), f"{place}.llm_message")
    elif kind == "ActionEvent":
        text = parse_content({"content": fields.get("thought") or ""}, place).text
        thought = reasoning_text(first_present(fields, "reasoning_content", "thinking_blocks"))
        called = fields.get("tool_call")
        inner, call = parse_call(called if isinstance(called, dict) else {})
        name = call.name or str(fields.get("tool_name") or "")
        arguments = call.arguments if call.arguments is not None else fields.get("action")
        named = str_or_none(fields.get("tool_call_id"))
        ending = get_path(fields, "action", "message")
        if name == "finish" and isinstance(ending, str):
            yield make_message(ending, "assistant")
            return
        at = inner if named is None else named
        content = Content(text, True, ((at, Call(name, arguments)),), reasoning=thought)
        yield make_message(content, "assistant")
    elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        if fields.get("tool_name") == "finish":
            return  # it repeats the agent's message
        given = first_present(fields, "observation", "error", "rejection_reason")
        failed = kind == "AgentErrorEvent"
        if isinstance(given, dict):
            failed = failed or bool(given.get("is_error"))
            given = next((given[k] for k in ("content", "output") if given.get(k)), given)
        yield make_result(given, str_or_none(fields.get("tool_call_id")), failed or None)
