"""Event streams of agents: a line for each message, call, result or change of state."""

from collections.abc import Iterator, Mapping
from typing import Any

from chimeralab.core.records import Call, Trajectory, normalize_role
from chimeralab.readers.chat import (
    ChatMessage,
    Content,
    annotate,
    make_message,
    make_result,
    make_thought,
    make_trajectory,
    parse_content,
    reasoning_text,
    with_usage,
)
from chimeralab.readers.seam import (
    Place,
    Reader,
    as_object,
    first_present,
    first_text,
    get_id,
    get_path,
    items,
    try_json,
)

USES, RESULTS = ("tool_use", "tool_call"), ("tool_result", "tool_response")
THOUGHTS = ("thinking", "reasoning", "thought")
NO_SPEECH = ("init", "result", "error", "usage")
EVENT_FIELDS = {
    "init": {"session_id", "model"},
    "result": {"stats"},
    "tool_use": {"tool_name", "tool_id"},
    "tool_result": {"tool_id"},
}


def event_kind(value: Any) -> str | None:
    """Return the kind of an event; `agent.tool_use` and `mcp_tool_use` are kinds of tool use."""
    kind = get_path(value, "kind") or get_path(value, "type")
    if not isinstance(kind, str):
        return None
    kind = kind.rpartition(".")[2]
    return next((known for known in (*USES, *RESULTS) if kind.endswith(known)), kind)


class EventStream(Reader):
    """Lines with a kind or type: those of Gemini CLI's stream-json and of managed agents.

    A message may come in deltas, which are joined. After a restart, prompts are logged again; the
    copies are left out.
    """

    name = "events"
    keys = frozenset({"kind", "type"})
    recognised = "lines of a kind or type such as message, tool_use and tool_result, each an event"
    turns = "a message, its deltas joined; a tool_use is a call, with the tool_result of its id"
    left_out = "changes of state, copies of prompts after a restart"
    whole = False

    def __init__(self) -> None:
        self._messages: list[ChatMessage] = []
        self._prompts: set[str] = set()
        self._restarted = False
        self._about: dict[str, Any] = {}
        self._usage: Any = None
        self._in_delta = False

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        if isinstance(value.get("kind"), str):  # managed agents: the event as it was is in `raw`
            return isinstance(value.get("role"), str) and ("raw" in value or "time" in value)
        kind = str(value.get("type"))
        if kind == "message":
            return isinstance(value.get("content"), str) and isinstance(value.get("role"), str)
        known = kind in EVENT_FIELDS and "uuid" not in value
        return known and EVENT_FIELDS[kind] <= value.keys()

    def says_something(self, value: Any) -> bool:
        return event_kind(value) not in NO_SPEECH

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the event")
        kind = event_kind(fields) or ""
        raw = fields["raw"] if isinstance(fields.get("raw"), dict) else {}
        self._note(kind, fields, raw)
        message = event_message(kind, fields, raw)
        in_delta = fields.get("delta") is True and self._in_delta
        self._in_delta = fields.get("delta") is True
        if message is None:
            return iter(())
        turn = message.turn
        if in_delta and self._messages[-1].turn.role == turn.role:
            before = self._messages.pop()
            whole = before.content._replace(text=before.content.text + message.content.text)
            message = make_message(whole, before.turn.role or "", before.turn.speaker)
            message = annotate(message, {"timestamp": before.turn.at})
        elif turn.role == "user":
            if self._restarted and turn.text in self._prompts:
                return iter(())
            self._prompts.add(turn.text)
        else:
            self._restarted = False
        self._messages.append(message)
        return iter(())

    def _note(self, kind: str, fields: Mapping[str, Any], raw: Mapping[str, Any]) -> None:
        """Keep what an event says about the session, or about the model call that ended."""
        agent, model = first_text(raw, "agent_name"), first_text(fields, "model")
        self._about |= {"agent": agent} if agent else {}
        self._about |= {"model": model} if model else {}
        self._restarted = self._restarted or kind in ("init", "result")
        if kind == "init":
            self._about.setdefault("session", get_id(fields, "session_id"))
        elif kind == "result":
            self._usage = fields.get("stats")
        elif usage := raw.get("model_usage"):
            for at in range(len(self._messages) - 1, -1, -1):
                if self._messages[at].turn.role == "assistant":
                    self._messages[at] = annotate(self._messages[at], {"usage": usage})
                    break

    def finish(self, place: Place) -> Iterator[Trajectory]:
        if self._messages:
            name = self._about.get("session") or place.stem
            found = make_trajectory(place, name, self._messages, self._about)
            yield with_usage(found, self._usage)


def event_message(
    kind: str, fields: Mapping[str, Any], raw: Mapping[str, Any]
) -> ChatMessage | None:
    if kind in NO_SPEECH:
        return None
    text = first_present(fields, "content", "output")
    about = {"time": first_present(fields, "timestamp", "time", "ts")}
    if kind in USES:
        arguments = first_present(raw, "input") or fields.get("parameters", text)
        name = first_text(raw, "name") or first_text(fields, "tool_name", "tool", "name") or ""
        arguments = (try_json(arguments) or arguments) if isinstance(arguments, str) else arguments
        call = (get_id(raw, "id") or get_id(fields, "tool_id"), Call(name, arguments))
        return annotate(make_message(Content("", True, (call,)), "assistant"), about)
    if kind in RESULTS:
        named = first_text(raw, "tool_use_id", "mcp_tool_use_id", "custom_tool_use_id")
        failed = raw.get("is_error") is True or fields.get("status") == "error"
        text = text if text is not None else get_path(fields, "error", "message")
        return annotate(make_result(text, named or get_id(fields, "tool_id"), failed), about)
    if kind in THOUGHTS:
        return make_thought(reasoning_text(text if text is not None else raw))
    role = normalize_role(str(fields.get("role")))
    if text is None and role == "user":
        text = first_text(raw, "description", "text", "prompt")
    content = parse_content({"content": text}, "content") if text is not None else None
    return annotate(make_message(content, role), about) if content and content.text else None


COPILOT_KINDS = ("session.", "user.", "assistant.", "tool.", "system.", "subagent.", "hook.")


class CopilotCLI(Reader):
    """Sessions of Copilot CLI, and transcripts of Copilot in VS Code: `events.jsonl`."""

    name = "copilot-cli"
    keys = frozenset({"data"})
    recognised = "lines with a type such as assistant.message or tool.execution_complete, and data"
    turns = "a message; its toolRequests, with the tool.execution_complete of the same id"
    left_out = "starts and ends of turns, hooks, changes of model, attachments"
    whole = False

    def __init__(self) -> None:
        self._messages: list[ChatMessage] = []
        self._about: dict[str, Any] = {}
        self._called: set[str] = set()
        self._agents: dict[str, str] = {}

    def matches(self, value: Any) -> bool:
        kind, data = get_path(value, "type"), get_path(value, "data")
        known = isinstance(kind, str) and (kind.startswith(COPILOT_KINDS) or kind == "abort")
        return known and isinstance(data, dict) and "timestamp" in value

    def says_something(self, value: Any) -> bool:
        return str(value["type"]).endswith(".message")

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the event")
        data = as_object(fields.get("data"), "data")
        kind = str(fields.get("type"))
        if kind == "session.start":
            self._about["session"] = get_id(data, "sessionId")
            self._about["model"] = first_text(data, "selectedModel")
        elif kind.startswith("subagent."):
            self._agents[str(data.get("toolCallId"))] = first_text(data, "agentName") or ""
        elif found := self._message(kind, data):
            used = {"output_tokens": data.get("outputTokens")}
            agent = self._agents.get(str(data.get("parentToolCallId")))
            about = {"timestamp": fields.get("timestamp"), "usage": used, "agent": agent}
            self._messages.append(annotate(found, about))
        return iter(())

    def _message(self, kind: str, data: Mapping[str, Any]) -> ChatMessage | None:
        model = first_text(data, "model")
        if kind in ("user.message", "system.message"):
            return make_message(first_text(data, "content") or "", kind.partition(".")[0])
        if kind == "assistant.message":
            requests = [each for each in items(data.get("toolRequests")) if isinstance(each, dict)]
            calls = tuple(_copilot_request(each, "name") for each in requests)
            self._called |= {name for name, _ in calls if name}
            thought = reasoning_text(data.get("reasoningText"))
            text = first_text(data, "content") or ""
            said = Content(text, bool(calls), calls, reasoning=thought)
            return make_message(said, "assistant", None, model)
        name, call = _copilot_request(data, "toolName")
        if kind == "tool.execution_start" and name not in self._called:
            self._called |= {name} if name else set()
            return make_message(Content("", True, ((name, call),)), "assistant", None, model)
        if kind == "tool.execution_complete":
            failed = True if data.get("success") is False else None
            told = first_present(data, "result", "error")
            told = first_present(told, "content", "message") if isinstance(told, dict) else told
            return make_result(told, name, failed)
        return None

    def finish(self, place: Place) -> Iterator[Trajectory]:
        if self._messages:
            name = self._about.get("session") or place.stem
            yield make_trajectory(place, name, self._messages, self._about)


def _copilot_request(data: Mapping[str, Any], named: str) -> tuple[str | None, Call]:
    given = data.get("arguments")
    given = (try_json(given) or given) if isinstance(given, str) else given
    return get_id(data, "toolCallId"), Call(first_text(data, named) or "", given)
