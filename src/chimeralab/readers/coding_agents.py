"""Trajectories of coding agents: SWE-agent, OpenHands, and ATIF of Harbor."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from chimeralab.core.records import Call, Trajectory, role_of
from chimeralab.readers.chat import (
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
from chimeralab.readers.seam import (
    Place,
    Reader,
    identity,
    listing,
    listing_if_any,
    mapping,
    scalars,
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
    keys = frozenset({"steps"})
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
        listed = value.get("history") if isinstance(value, dict) else value
        return _is_event(listed[0] if isinstance(listed, list) and listed else value)

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
    messages = [
        each for n, event in enumerate(events) for each in _event_messages(event, f"events[{n}]")
    ]
    states = [state for event in events if (state := _state(event)) is not None]
    metadata |= {"unfinished": True} if states and states[-1] in GOES_ON else {}
    return Trajectory(name, turns_of(messages), metadata, str(place))


def _state(event: Any) -> str | None:
    """The state that an event says the agent is now in."""
    if not isinstance(event, dict):
        return None
    extras = event.get("extras")
    state = extras.get("agent_state") if isinstance(extras, dict) else None
    if event.get("kind") == "ConversationStateUpdateEvent":
        state = (
            event.get("value") if event.get("key") in ("execution_status", "agent_status") else None
        )
    return state if isinstance(state, str) else None


def _is_event(value: Any) -> bool:
    if not isinstance(value, dict) or "source" not in value:
        return False
    if isinstance(value.get("kind"), str) and value["source"] in SOURCES:
        return True
    return any(isinstance(value.get(key), str) for key in ("action", "observation"))


def _event_messages(event: Any, place: str) -> Iterator[ChatMessage]:
    fields = mapping(event, place)
    if isinstance(fields.get("kind"), str):
        yield from _sdk_messages(fields, place)
    elif isinstance(fields.get("observation"), str):
        extras = fields.get("extras")
        told = extras if isinstance(extras, dict) else {}
        inner = told.get("metadata")
        told = inner if isinstance(inner, dict) else told
        failed = fields["observation"] == "error" or told.get("exit_code") not in (None, 0, -1)
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
        keys = ("content", "final_thought", "thought", "message")
        said = next((args[key] for key in keys if isinstance(args.get(key), str)), "")
        said = said or text_or_none(fields, "message", place) or ""
        yield spoken(Content(said), "system" if action == "system" else role)
        return
    thought = args.get("thought")
    given = {key: value for key, value in args.items() if key != "thought"}
    call = (str(fields.get("id")), Call(action, given))
    said = thought if isinstance(thought, str) else ""
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
        identity_, call = call_of(called if isinstance(called, dict) else {})
        name = call.name or str(fields.get("tool_name") or "")
        arguments = call.arguments if call.arguments is not None else fields.get("action")
        named = fields.get("tool_call_id")
        at = named if isinstance(named, str) else identity_
        action = fields.get("action")
        if name == "finish" and isinstance(action, dict) and isinstance(action.get("message"), str):
            yield spoken(Content(action["message"]), "assistant")
            return
        yield spoken(Content(said, True, ((at, Call(name, arguments)),)), "assistant")
    elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        if fields.get("tool_name") == "finish":
            return  # it repeats what the agent said
        keys = ("observation", "error", "rejection_reason")
        given = next((fields[key] for key in keys if fields.get(key) is not None), None)
        failed = kind == "AgentErrorEvent"
        if isinstance(given, dict):
            failed = failed or bool(given.get("is_error"))
            given = next((given[k] for k in ("content", "output") if given.get(k)), given)
        named = fields.get("tool_call_id")
        yield brought(given, named if isinstance(named, str) else None, failed or None)
