"""Trajectories of coding agents: SWE-agent, OpenHands, and ATIF of Harbor."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from chimeralab.core.records import Call, Trajectory, role_of
from chimeralab.readers.chat import (
    ChatMessage,
    Content,
    brought,
    call_of,
    content_of,
    message_of,
    messages_of,
    result_text,
    spoken,
    turns_of,
)
from chimeralab.readers.seam import (
    Place,
    Reader,
    first_given,
    first_text,
    identity,
    items,
    listing,
    listing_if_any,
    mapping,
    nested,
    numbered,
    scalars,
    str_or_none,
    text,
    text_or_none,
)


class SWEAgent(Reader):
    """Trajectories of SWE-agent: steps of a thought, an action and an observation."""

    name = "swe-agent"
    keys = frozenset({"trajectory", "attempts"})
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
        return [each for each in items(value.get("attempts")) if self.matches(each)]

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the line")
        messages = list(_before_the_steps(fields.get("history")))
        for step, where in numbered(listing(fields, "trajectory"), "trajectory"):
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
    for message, place in numbered(items(history), "history"):
        fields = mapping(message, place)
        if fields.get("is_demo") or fields.get("message_type") == "demonstration":
            continue
        if fields.get("role") not in ("system", "user"):
            return
        yield message_of(fields, place)


class ATIF(Reader):
    """Trajectories in the Agent Trajectory Interchange Format, as Harbor writes them."""

    name = "atif"
    keys = frozenset({"steps"})
    recognised = "an object with steps, and a schema_version that starts with ATIF or an agent"
    turns = "the message of a step; its tool_calls, with the results of its observation"
    left_out = "reasoning, metrics, steps copied from before, trajectories of subagents"

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
            return False
        named = str(value.get("schema_version")).upper().startswith("ATIF")
        return named or (isinstance(value.get("agent"), dict) and "session_id" in value)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the line")
        messages: list[ChatMessage] = []
        for step, where in numbered(listing(fields, "steps"), "steps"):
            if not mapping(step, where).get("is_copied_context"):
                messages += self._messages(step, where)
        agent = fields["agent"] if isinstance(fields.get("agent"), dict) else {}
        metadata = scalars(fields, but={"id"}) | {
            "agent": identity(agent, "name"),
            "model": identity(agent, "model_name"),
        }
        name = identity(fields, "trajectory_id", "session_id") or place.default_id()
        yield Trajectory(name, turns_of(messages), metadata, str(place))

    def _messages(self, step: Mapping[str, Any], place: str) -> Iterator[ChatMessage]:
        role = role_of(text(step, "source", place))
        said = content_of({"content": step.get("message")}, place).text
        calls = []
        for call in listing_if_any(step, "tool_calls", place):
            fields = mapping(call, f"{place}.tool_calls")
            name = str(fields.get("function_name") or "")
            calls.append((identity(fields, "tool_call_id"), Call(name, fields.get("arguments"))))
        model = text_or_none(step, "model_name", place)
        yield spoken(Content(said, bool(calls), tuple(calls)), role, None, model)
        for result in items(nested(step, "observation", "results")):
            fields = mapping(result, f"{place}.observation.results")
            yield brought(fields.get("content"), identity(fields, "source_call_id"))


NOTES = ("change_agent_state", "recall", "null", "think", "condensation", "pause")
SAYS = ("message", "finish")
GOES_ON = ("loading", "init", "running", "paused", "idle")
SOURCES = ("agent", "user", "environment", "hook")


class OpenHands(Reader):
    """Events of OpenHands: actions and observations, or those of its later SDK."""

    name = "openhands"
    keys = frozenset({"history", "source"})
    recognised = "events with source, and action, observation or kind; a file each or together"
    turns = "a message or finish action; any other action is a call, its observation the result"
    left_out = "thoughts of actions that think, recalls, changes of state, condensations"
    whole = False
    pieces = re.compile(r"(?:event-)?(\d+)(?:-[\w-]+)?\.json")

    def __init__(self) -> None:
        self._events: list[Any] = []

    def matches(self, value: Any) -> bool:
        listed = items(value.get("history") if isinstance(value, dict) else value)
        event = listed[0] if listed else value
        if not isinstance(event, dict) or "source" not in event:
            return False
        if isinstance(event.get("kind"), str) and event["source"] in SOURCES:
            return True
        return first_text(event, "action", "observation") is not None

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        if isinstance(value, dict) and "history" not in value:
            list(_event_messages(value, "the event"))  # what is wrong is said where it stands
            self._events.append(value)
            return
        fields = {"history": value} if isinstance(value, list) else mapping(value, "the line")
        metadata = scalars({k: v for k, v in fields.items() if k != "metadata"}, but={"id"})
        name = identity(fields, "instance_id", "id") or place.default_id()
        yield _event_talk(name, listing(fields, "history"), metadata, place)

    def finish(self, place: Place) -> Iterator[Trajectory]:
        if self._events:
            yield _event_talk(place.stem, self._events, {}, place)


def _event_talk(name: str, events: list[Any], metadata: dict[str, Any], place: Place) -> Trajectory:
    turns = turns_of(messages_of(_event_messages, events, "events"))
    last = None
    for event in events:
        state = nested(event, "extras", "agent_state")
        if nested(event, "kind") == "ConversationStateUpdateEvent":
            told = event.get("key") in ("execution_status", "agent_status")
            state = event.get("value") if told else None
        last = state if isinstance(state, str) else last
    metadata |= {"unfinished": True} if last in GOES_ON else {}
    return Trajectory(name, turns, metadata, str(place))


def _event_messages(event: Any, place: str) -> Iterator[ChatMessage]:
    fields = mapping(event, place)
    if isinstance(fields.get("kind"), str):
        yield from _sdk_messages(fields, place)
    elif isinstance(fields.get("observation"), str):
        told = fields.get("extras")
        inner = nested(told, "metadata")
        code = nested(inner if isinstance(inner, dict) else told, "exit_code")
        failed = fields["observation"] == "error" or code not in (None, 0, -1)
        if fields["observation"] not in NOTES and fields.get("cause") is not None:
            yield brought(fields.get("content"), str(fields["cause"]), failed or None)
    else:
        yield from _action_messages(fields, place)


def _action_messages(fields: Mapping[str, Any], place: str) -> Iterator[ChatMessage]:
    action = text(fields, "action", place)
    args = mapping(fields.get("args") or {}, f"{place}.args")
    if action in NOTES:
        return
    role = "user" if fields.get("source") == "user" else "assistant"
    if action == "system" or action in SAYS:
        said = first_text(args, "content", "final_thought", "thought", "message")
        said = said or text_or_none(fields, "message", place) or ""
        yield spoken(said, "system" if action == "system" else role)
        return
    given = {key: value for key, value in args.items() if key != "thought"}
    call = (str(fields.get("id")), Call(action, given))
    said = str_or_none(args.get("thought")) or ""
    yield spoken(Content(said, tools=True, calls=(call,)), role)


def _sdk_messages(fields: Mapping[str, Any], place: str) -> Iterator[ChatMessage]:
    kind = fields["kind"]
    if kind == "SystemPromptEvent":
        yield spoken(content_of({"content": [fields.get("system_prompt") or ""]}, place), "system")
    elif kind == "MessageEvent":
        yield message_of(fields.get("llm_message"), f"{place}.llm_message")
    elif kind == "ActionEvent":
        said = content_of({"content": fields.get("thought") or ""}, place).text
        called = fields.get("tool_call")
        inner, call = call_of(called if isinstance(called, dict) else {})
        name = call.name or str(fields.get("tool_name") or "")
        arguments = call.arguments if call.arguments is not None else fields.get("action")
        named = str_or_none(fields.get("tool_call_id"))
        ending = nested(fields, "action", "message")
        if name == "finish" and isinstance(ending, str):
            yield spoken(ending, "assistant")
            return
        at = inner if named is None else named
        yield spoken(Content(said, True, ((at, Call(name, arguments)),)), "assistant")
    elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        if fields.get("tool_name") == "finish":
            return  # it repeats what the agent said
        given = first_given(fields, "observation", "error", "rejection_reason")
        failed = kind == "AgentErrorEvent"
        if isinstance(given, dict):
            failed = failed or bool(given.get("is_error"))
            given = next((given[k] for k in ("content", "output") if given.get(k)), given)
        yield brought(given, str_or_none(fields.get("tool_call_id")), failed or None)
