"""Sessions of coding assistants in an editor: Cline and Roo, Copilot, opencode, Continue."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
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
    parse_call,
    parse_message,
    reasoning_text,
    result_text,
    with_usage,
)
from chimeralab.readers.seam import (
    NO_OBJECTS,
    Place,
    Reader,
    Unreadable,
    as_object,
    as_object_with,
    first_present,
    first_text,
    get_id,
    get_list,
    get_path,
    items,
    other_scalars,
    str_or_none,
    try_json,
    with_places,
)

CLINE_USER = ("task", "user_feedback", "user_feedback_diff")
CLINE_SAYS = ("text", "completion_result", "plan_mode_respond", "followup", "act_mode_respond")
CLINE_CALLS = ("tool", "command", "use_mcp_server", "browser_action", "browser_action_launch")
CLINE_RESULTS = ("command_output", "mcp_server_response", "browser_action_result")


class Cline(Reader):
    """The messages that Cline and Roo show: `ui_messages.json`."""

    name = "cline"
    keys = NO_OBJECTS
    recognised = "a list of objects with ts, type say or ask, and say or ask"
    turns = "what the user or the assistant says; a tool or command is a call, with its output"
    left_out = "requests to the model, checkpoints, progress"

    def matches(self, value: Any) -> bool:
        first = value[0] if isinstance(value, list) and value else None
        return isinstance(first, dict) and "ts" in first and _cline_kind(first) is not None

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        messages: list[ChatMessage] = []
        usage: dict[str, Any] = {}
        output: list[str] = []
        for entry, where in with_places(get_list({"the log": value}, "the log"), "entry"):
            fields = as_object(entry, where)
            kind, text = _cline_kind(fields), str_or_none(fields.get("text")) or ""
            if kind == "api_req_started":
                told = try_json(text)
                usage = {"usage": told, "cost": get_path(told, "cost")}
            if kind in CLINE_RESULTS:
                output.append(text)
                continue
            if output:  # comes in pieces
                messages.append(make_result("\n".join(output)))
                output = []
            # The first message is the task, whatever its kind.
            found = _cline_message("task" if not messages else str(kind), text)
            if found is None:
                continue
            if found.turn.role == "assistant" and usage:
                found, usage = annotate(found, usage), {}
            messages.append(annotate(found, {"ts": fields.get("ts")}))
        messages += [make_result("\n".join(output))] if output else []
        yield make_trajectory(place, place.stem, messages, {})


def _cline_kind(fields: Mapping[str, Any]) -> str | None:
    kind = fields.get("type")
    return first_text(fields, str(kind)) if kind in ("say", "ask") else None


def _cline_message(kind: str, text: str) -> ChatMessage | None:
    told = try_json(text)
    fields = told if isinstance(told, dict) else {}
    if kind in CLINE_USER:
        return make_message(text, "user") if text.strip() else None
    if kind == "reasoning":
        return make_thought(text)
    if kind in CLINE_SAYS:
        said = first_text(fields, "response", "question")
        said = text if said is None else said
        return make_message(said, "assistant") if said.strip() else None
    if kind not in CLINE_CALLS:
        return None
    name = first_text(fields, "tool", "toolName", "action") or kind
    given = {k: v for k, v in fields.items() if k not in ("tool", "toolName", "content", "type")}
    call = Call(name, given or text)
    if kind == "tool":  # the editor shows the call with its result
        call = replace(call, result=first_text(fields, "content"))
        turn, content = make_message(Content("", tools=True), "assistant")
        return ChatMessage(replace(turn, calls=(call,)), content)
    return make_message(Content("", tools=True, calls=((None, call),)), "assistant")


class CopilotChat(Reader):
    """Chats of GitHub Copilot that VS Code exports: requests, each with the parts of a response."""

    name = "copilot"
    keys = frozenset({"requests"})
    recognised = "an object with requests that have a message and a response"
    turns = "a request of the user; text between tools; a tool that was invoked is a call"
    left_out = "edits of files, references, progress"

    def matches(self, value: Any) -> bool:
        first = next(iter(items(get_path(value, "requests"))), None)
        return isinstance(first, dict) and "message" in first and "response" in first

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the line")
        messages: list[ChatMessage] = []
        for request, where in with_places(get_list(fields, "requests"), "requests"):
            asked = as_object(request, where)
            at = {"timestamp": asked.get("timestamp")}
            text = first_text(as_object(asked.get("message"), f"{where}.message"), "text") or ""
            messages.append(annotate(make_message(text, "user"), at))
            messages += _copilot_answer(asked, at)
        metadata = other_scalars(fields, exclude={"id"})
        yield make_trajectory(place, get_id(fields, "sessionId"), messages, metadata)


def _copilot_answer(request: Mapping[str, Any], at: Mapping[str, Any]) -> Iterator[ChatMessage]:
    model = str_or_none(request.get("modelId"))
    about = get_path(request, "result", "metadata")
    results = get_path(about, "toolCallResults")
    made: dict[str, list[tuple[str, Call]]] = defaultdict(list)
    for each in items(get_path(about, "toolCallRounds")):
        for one in items(get_path(each, "toolCalls")):
            named, call = parse_call(as_object(one, "a call"))
            made[_tool_name(call.name)].append((named or "", call))
    texts: list[str] = []
    for each in [*items(request.get("response")), {"kind": "end"}]:
        part = as_object(each, "a part of a response")
        kind = part.get("kind")
        if kind in (None, "inlineReference", "markdownContent"):
            named = get_path(part, "inlineReference", "path") or get_path(part, "content", "value")
            texts.append(first_text(part, "value", "name") or str_or_none(named) or "")
            continue
        if kind in ("toolInvocationSerialized", "thinking", "end"):
            if text := "".join(texts).strip():
                yield annotate(make_message(text, "assistant", None, model), at)
            texts = []
        if kind == "thinking":
            yield make_thought(reasoning_text(part.get("value")))
        elif kind == "toolInvocationSerialized":
            call = _copilot_call(part, made, results)
            turn, content = make_message(Content("", tools=True), "assistant", None, model)
            yield annotate(ChatMessage(replace(turn, calls=(call,)), content), at)


def _tool_name(name: str) -> str:
    """Fold the two names of a tool, `copilot_readFile` and `read_file`, to one."""
    return name.removeprefix("copilot_").replace("_", "").lower()


def _copilot_call(
    part: Mapping[str, Any], made: dict[str, list[tuple[str, Call]]], results: Any
) -> Call:
    """Pair what the editor shows of a call with what the model was told, by id or in order."""
    shown, name = str_or_none(part.get("toolCallId")) or "", str(part.get("toolId") or "")
    waiting = made[_tool_name(name)]
    same = [n for n, (named, _) in enumerate(waiting) if named.partition("__")[0] == shown]
    if waiting:
        named, call = waiting.pop(same[0] if same else 0)
        given = get_path(results, named, "content")
        texts = [str_or_none(get_path(each, "value")) for each in items(given)]
        return replace(call, result="\n".join(filter(None, texts)) if given is not None else None)
    asked, done = (_message_text(part.get(k)) for k in ("invocationMessage", "pastTenseMessage"))
    generic = asked is not None and asked.startswith('Using "')  # which names the tool alone
    return Call(name, None if generic else asked, done)


def _message_text(value: Any) -> str | None:
    return str_or_none(value) or str_or_none(get_path(value, "value"))


SET, PUSH, DELETE = 1, 2, 3  # the kinds of changes in the journal of VS Code; 0 is the first state


class CopilotJournal(CopilotChat):
    """Chats of Copilot as newer versions of VS Code keep them: a state, and changes to it."""

    name = "copilot-journal"
    keys = frozenset({"kind"})
    recognised = "lines with a numeric kind: a state with requests under v, then changes at k"
    turns = "as in copilot, once all changes are made"
    whole = False

    def __init__(self) -> None:
        self._state: dict[str, Any] = {}

    def matches(self, value: Any) -> bool:
        kind = value.get("kind") if isinstance(value, dict) else None
        if type(kind) is not int or not 0 <= kind <= DELETE:
            return False
        return isinstance(value.get("k") if kind else get_path(value, "v", "requests"), list)

    def says_something(self, value: Any) -> bool:
        return "requests" in (value.get("k") or value.get("v") or ())

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the line")
        if fields.get("kind") == 0:
            self._state = dict(as_object(fields.get("v"), "v"))
        else:
            _change(self._state, get_list(fields, "k"), fields)
        return iter(())

    def finish(self, place: Place) -> Iterator[Trajectory]:
        if self._state.get("requests"):
            yield from super().read(self._state, replace(place, line=None, part="conversation 1"))


def _change(holder: Any, path: list[Any], change: Mapping[str, Any]) -> None:
    """Set, delete or add to what is at a path of fields and positions."""
    kind, value = change.get("kind"), change.get("v")
    try:
        for key in path[:-1]:
            holder = holder[key]
        last = path[-1]
        if kind == PUSH:
            listed = holder.setdefault(last, []) if isinstance(holder, dict) else holder[last]
            del listed[change["i"] if isinstance(change.get("i"), int) else len(listed) :]
            listed.extend(items(value))
        elif kind == DELETE:
            del holder[last]
        elif isinstance(holder, list) and last == len(holder):
            holder.append(value)
        else:
            holder[last] = value
    except (LookupError, TypeError, AttributeError):
        raise Unreadable("changes what the lines above do not have") from None


class OpenCode(Reader):
    """Sessions that opencode exports: messages with info and parts."""

    name = "opencode"
    keys = frozenset({"messages.info", "info"})
    recognised = "messages with info, which has a role, and parts; in a list or under messages"
    turns = "the text parts of a message; a tool part is a call, with its output or error"
    left_out = "steps, snapshots, patches"

    def matches(self, value: Any) -> bool:
        listed = items(value.get("messages") if isinstance(value, dict) else value)
        first = next(iter(listed), None)
        known = isinstance(get_path(first, "info", "role"), str)
        return known and isinstance(get_path(first, "parts"), list)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object_with("messages", value)
        messages: list[ChatMessage] = []
        for message, where in with_places(get_list(fields, "messages"), "messages"):
            messages += _opencode_messages(as_object(message, where), where)
        session = fields["info"] if isinstance(fields.get("info"), dict) else {}
        name = get_id(session, "id")
        found = make_trajectory(place, name, messages, other_scalars(session, exclude={"id"}))
        yield replace(found, parent=first_text(session, "parentID"))


def _opencode_messages(message: Mapping[str, Any], place: str) -> Iterator[ChatMessage]:
    info = as_object(message.get("info"), f"{place}.info")
    role = normalize_role(str(info.get("role")))
    model = first_text(info, "modelID") or str_or_none(get_path(info, "model", "modelID"))
    tokens = info.get("tokens") if isinstance(info.get("tokens"), dict) else {}
    cached = get_path(tokens, "cache")
    read = {"cacheRead": get_path(cached, "read"), "cacheWrite": get_path(cached, "write")}
    about = {
        "usage": {**tokens, **read} if tokens else None,
        "cost": info.get("cost"),
        "timestamp": get_path(info, "time", "created"),
        "agent": first_text(info, "agent", "mode") if role == "assistant" else None,
    }
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Call] = []
    for part in items(message.get("parts")):
        kind, text = get_path(part, "type"), str_or_none(get_path(part, "text")) or ""
        if kind == "text" and not part.get("synthetic"):
            texts.append(text)
        elif kind == "reasoning":
            thoughts.append(text)
        elif kind == "tool":
            state = part["state"] if isinstance(part.get("state"), dict) else {}
            given = first_present(state, "output", "error")
            failed = True if state.get("status") == "error" else None
            result = None if given is None else result_text(given)
            calls.append(Call(str(part.get("tool")), state.get("input"), result, failed))
    content = Content("\n".join(texts), bool(calls), reasoning="\n".join(thoughts))
    found = make_message(content, role, None, model)
    turn = replace(found.turn, calls=tuple(calls))
    yield annotate(found._replace(turn=turn), about)


class Continue(Reader):
    """Sessions of Continue: a history of items with a message, and the states of its tool calls."""

    name = "continue"
    keys = frozenset({"history"})
    recognised = "an object with a history of items that have a message with a role"
    turns = "the message of an item; the states of its tool calls, with their outputs"
    left_out = "context items, logs of prompts"

    def matches(self, value: Any) -> bool:
        first = next(iter(items(get_path(value, "history"))), None)
        return isinstance(get_path(first, "message", "role"), str)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the line")
        messages: list[ChatMessage] = []
        for item, where in with_places(get_list(fields, "history"), "history"):
            held = as_object(item, where)
            message = as_object(held.get("message"), f"{where}.message")
            if message.get("role") == "thinking":
                messages.append(make_thought(reasoning_text(message)))
                continue
            states = [each for each in items(held.get("toolCallStates")) if isinstance(each, dict)]
            states += [held["toolCallState"]] if isinstance(held.get("toolCallState"), dict) else []
            made = [each.get("toolCall") for each in states] or items(message.get("toolCalls"))
            calls = {"tool_calls": made, "tool_call_id": message.get("toolCallId")}
            about = {"reasoning": held.get("reasoning"), "timestamp": held.get("timestamp")}
            messages.append(parse_message({**message, **calls, **about}, f"{where}.message"))
            for state in states:
                if state.get("output"):
                    failed = True if state.get("status") == "errored" else None
                    contents = [get_path(each, "content") for each in items(state["output"])]
                    text = "\n".join(map(result_text, contents)) or result_text(state["output"])
                    messages.append(make_result(text, get_id(state, "toolCallId"), failed))
        found = make_trajectory(
            place, get_id(fields, "sessionId"), messages, other_scalars(fields, {"sessionId"})
        )
        yield with_usage(found, fields.get("usage"))
