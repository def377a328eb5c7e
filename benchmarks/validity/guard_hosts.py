"""A log as each host of a live guard would have passed it on, and what the guard says to it."""

import importlib
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from chimeralab import Trajectory
from chimeralab.core.records import RESULT_ROLES, Call, role_of_turn
from chimeralab.detection.guard import read_message
from chimeralab.integrations.claude_code import ClaudeCodeHook
from chimeralab.integrations.command_hooks import CommandHook
from chimeralab.integrations.mcp_proxy import ToolGuard
from chimeralab.integrations.watch import GuardAction, Watch
from chimeralab.readers.chat import ChatMessage

Ask = tuple[int, GuardAction | None]
"""Up to which message of the log a guard was asked, and what it said."""


class Said(NamedTuple):
    """A message of a log: its position, who said it, its text, and its calls by id."""

    position: int
    role: str
    text: str
    calls: tuple[tuple[str, Call], ...]


def read_log(talk: Trajectory) -> Iterator[Said]:
    """The messages of a log; results stay with their calls.

    A host always has the arguments of a call, so those that a log lacks are new in each call.
    """
    for position, turn in enumerate(talk.turns, start=1):
        role = role_of_turn(turn)
        if role in RESULT_ROLES:
            continue
        calls = tuple(
            (f"call_{position}_{n}", call if call.arguments is not None else
             replace(call, arguments={"unknown": f"{position}.{n}"}))
            for n, call in enumerate(turn.calls)
        )  # fmt: skip
        if role not in ("user", "system", "developer"):
            role = "assistant"
        yield Said(position, "system" if role == "developer" else role, turn.text, calls)


def arguments_of(call: Call) -> dict[str, Any]:
    given = call.arguments
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return {"command" if SHELL.search(call.name) else "input": given}
    return given if isinstance(given, dict) else {"input": given}


SHELL = re.compile(r"bash|shell|execut|command|terminal|python|run", re.IGNORECASE)


Message = dict[str, Any]
Make = Callable[[Said], list[Any]]
"""The objects of a host that one message becomes, with the results of its calls."""
Convert = Callable[[list[Any]], Any]


def openai_messages(said: Said) -> list[Message]:
    if not said.calls:
        return [{"role": said.role, "content": said.text}]
    calls = [
        {"id": name, "type": "function", "function": {"name": call.name,
         "arguments": json.dumps(arguments_of(call), default=str)}}
        for name, call in said.calls
    ]  # fmt: skip
    results = [
        {"role": "tool", "tool_call_id": name, "content": call.result}
        | ({} if call.error is None else {"error": call.error})
        for name, call in said.calls
        if call.result is not None
    ]
    return [{"role": said.role, "content": said.text or None, "tool_calls": calls}, *results]


def ask_before_each_answer(talk: Trajectory, make: Make, convert: Convert) -> Iterator[Ask]:
    """Ask as a guard before each call of the model, with all that was said before.

    Only what is new is converted: a whole conversation at each step would give the same messages.
    """
    watch, new, last = Watch(), list[ChatMessage](), 0

    def ask() -> GuardAction | None:
        return watch._judge(("", ""), new, watch._start, lambda talk: talk.decide())

    for said in read_log(talk):
        if said.role == "assistant" and last:
            yield last, ask()
            new = []
        new += [read_message(message) for message in convert(make(said))]
        last = said.position
    yield last, ask()


def by_watch(talk: Trajectory) -> Iterator[Ask]:
    return ask_before_each_answer(talk, openai_messages, list)


def by_litellm(talk: Trajectory) -> Iterator[Ask]:
    host = importlib.import_module("chimeralab.integrations.litellm")
    return ask_before_each_answer(
        talk, openai_messages, lambda said: (each for each in said if not host._is_ours(each))
    )


def by_langchain(talk: Trajectory) -> Iterator[Ask]:
    host = importlib.import_module("chimeralab.integrations.langchain")
    messages = importlib.import_module("langchain_core.messages")

    def make(said: Said) -> list[Any]:
        if said.role != "assistant":
            kind = messages.HumanMessage if said.role == "user" else messages.SystemMessage
            return [kind(said.text)]
        calls = [{"name": c.name, "args": arguments_of(c), "id": name} for name, c in said.calls]
        results = [
            messages.ToolMessage(
                call.result, tool_call_id=name, status="error" if call.error else "success"
            )
            for name, call in said.calls
            if call.result is not None
        ]
        return [messages.AIMessage(said.text, tool_calls=calls), *results]

    return ask_before_each_answer(talk, make, lambda said: map(host._to_message, said))


def by_openai_agents(talk: Trajectory) -> Iterator[Ask]:
    host = importlib.import_module("chimeralab.integrations.openai_agents")

    def make(said: Said) -> list[Any]:
        text = [{"role": said.role, "content": said.text}] if said.text or not said.calls else []
        calls = [
            {"type": "function_call", "id": f"fc_{name}", "call_id": name, "name": call.name,
             "arguments": json.dumps(arguments_of(call), default=str)}
            for name, call in said.calls
        ]  # fmt: skip
        results = [
            {"type": "function_call_output", "call_id": name, "output": call.result}
            for name, call in said.calls
            if call.result is not None
        ]
        return [*text, *calls, *results]

    return ask_before_each_answer(talk, make, host._messages)


def by_pydantic_ai(talk: Trajectory) -> Iterator[Ask]:
    host = importlib.import_module("chimeralab.integrations.pydantic_ai")
    ai = importlib.import_module("pydantic_ai.messages")

    def make(said: Said) -> list[Any]:
        if said.role != "assistant":
            kind = ai.UserPromptPart if said.role == "user" else ai.SystemPromptPart
            return [ai.ModelRequest(parts=[kind(said.text)])]
        calls = [ai.ToolCallPart(c.name, arguments_of(c), name) for name, c in said.calls]
        texts = [ai.TextPart(said.text)] if said.text else []
        results = [
            ai.ToolReturnPart(call.name, call.result, name)
            for name, call in said.calls
            if call.result is not None
        ]
        answer = [ai.ModelResponse(parts=[*texts, *calls])]
        return [*answer, ai.ModelRequest(parts=results)] if results else answer

    return ask_before_each_answer(talk, make, host._messages)


def by_adk(talk: Trajectory) -> Iterator[Ask]:
    host = importlib.import_module("chimeralab.integrations.adk")
    types = importlib.import_module("google.genai.types")

    def make(said: Said) -> list[Any]:
        if said.role == "system":
            return []
        texts = [types.Part(text=said.text)] if said.text else []
        calls = [
            types.Part(function_call=types.FunctionCall(id=name, name=c.name, args=arguments_of(c)))
            for name, c in said.calls
        ]
        answers = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=name, name=call.name, response={"result": call.result}
                )
            )
            for name, call in said.calls
            if call.result is not None
        ]
        role = "user" if said.role == "user" else "model"
        contents = [types.Content(role=role, parts=[*texts, *calls])]
        return [*contents, types.Content(role="user", parts=answers)] if answers else contents

    return ask_before_each_answer(
        talk, make, lambda said: [each for c in said for each in host._to_messages(c)]
    )


def by_smolagents(talk: Trajectory) -> Iterator[Ask]:
    host = importlib.import_module("chimeralab.integrations.smolagents")
    memory = importlib.import_module("smolagents.memory")
    timing = importlib.import_module("smolagents.monitoring").Timing(0.0, 0.0)

    def make(said: Said) -> list[Any]:
        if said.role == "system":
            return [memory.SystemPromptStep(said.text)]
        if said.role == "user":
            return [memory.TaskStep(said.text)]
        calls = [memory.ToolCall(c.name, arguments_of(c), name) for name, c in said.calls]
        results = [call.result for _, call in said.calls if call.result is not None]
        return [
            memory.ActionStep(
                said.position,
                timing,
                tool_calls=calls,
                observations="\n".join(results),
                model_output=said.text,
            )
        ]

    return ask_before_each_answer(
        talk, make, lambda said: [each for step in said for each in host._to_messages(step)]
    )


def by_autogen(talk: Trajectory) -> Iterator[Ask]:
    host = importlib.import_module("chimeralab.integrations.autogen")
    core = importlib.import_module("autogen_core")
    models = importlib.import_module("autogen_core.models")

    def make(said: Said) -> list[Any]:
        if said.role == "system":
            return [models.SystemMessage(content=said.text)]
        if said.role == "user":
            return [models.UserMessage(content=said.text, source="user")]
        if not said.calls:
            return [models.AssistantMessage(content=said.text, source="agent")]
        calls = [
            core.FunctionCall(name, json.dumps(arguments_of(c), default=str), c.name)
            for name, c in said.calls
        ]
        results = [
            models.FunctionExecutionResult(
                call_id=name, content=call.result, is_error=call.error, name=call.name
            )
            for name, call in said.calls
            if call.result is not None
        ]
        asked = [models.AssistantMessage(content=calls, source="agent")]
        done = [models.FunctionExecutionResultMessage(content=results)] if results else []
        return [*asked, *done]

    return ask_before_each_answer(
        talk, make, lambda said: [each for m in said for each in host._to_messages(m)]
    )


def by_opentelemetry(talk: Trajectory) -> Iterator[Ask]:
    host = importlib.import_module("chimeralab.integrations.opentelemetry")

    def make(said: Said) -> list[Any]:
        parts: list[Message] = [{"type": "text", "content": said.text}] if said.text else []
        parts += [
            {"type": "tool_call", "id": name, "name": c.name, "arguments": arguments_of(c)}
            for name, c in said.calls
        ]
        results = [
            {"type": "tool_call_response", "id": name, "response": call.result}
            for name, call in said.calls
            if call.result is not None
        ]
        asked = [{"role": said.role, "parts": parts}]
        return [*asked, {"role": "tool", "parts": results}] if results else asked

    def convert(said: list[Any]) -> Any:
        attributes = {"gen_ai.input.messages": json.dumps(said)}
        return host._messages(SimpleNamespace(attributes=attributes, events=()))

    return ask_before_each_answer(talk, make, convert)


def transcript_line(kind: str, n: int, **fields: Any) -> str:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=10 * n)
    return json.dumps({"type": kind, "timestamp": at.isoformat(), **fields}, default=str) + "\n"


def ask_hook(talk: Trajectory, make_hook: Callable[[], ClaudeCodeHook]) -> Iterator[Ask]:
    """Ask the hook after each call, with a transcript as Claude Code writes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        with path.open("a", encoding="utf-8") as file:
            for said in read_log(talk):
                yield from _pass_to_hook(said, file, str(path), make_hook)


def _pass_to_hook(
    said: Said, file: Any, path: str, make_hook: Callable[[], ClaudeCodeHook]
) -> Iterator[Ask]:
    n = said.position
    if said.role == "system":
        return
    text = [{"type": "text", "text": said.text}] if said.text else []
    uses = [
        {"type": "tool_use", "id": name, "name": c.name, "input": arguments_of(c)}
        for name, c in said.calls
    ]
    content: Any = said.text if said.role == "user" else [*text, *uses]
    message = {"id": f"msg_{n}", "role": said.role, "content": content}
    file.write(transcript_line(said.role, n, message=message))
    for name, call in said.calls:
        if call.result is None:
            continue
        event = {
            "hook_event_name": "PostToolUse", "transcript_path": path, "tool_use_id": name,
            "tool_name": call.name, "tool_input": arguments_of(call), "tool_response": call.result,
        }  # fmt: skip
        file.flush()
        hook = make_hook()
        asked = Recorder(hook._watch, "follow_safely")
        answer = hook.answer(event)
        part = {"type": "tool_result", "tool_use_id": name, "content": call.result}
        file.write(transcript_line("user", n, message={"role": "user", "content": [part]}))
        if told := answer.get("hookSpecificOutput", {}).get("additionalContext"):
            given = {"type": "hook_additional_context", "content": [told]}
            file.write(transcript_line("attachment", n, attachment=given))
        yield n, asked.last if answer else None


class Recorder:
    """Keeps what the guard of a host said last, by the methods that ask it."""

    def __init__(self, watch: Watch, *methods: str) -> None:
        self.last: GuardAction | None = None
        for name in methods:
            setattr(watch, name, self._record(getattr(type(watch), name), watch))

    def _record(self, ask: Callable[..., GuardAction | None], watch: Watch) -> Any:
        def record(*given: Any, **named: Any) -> GuardAction | None:
            found = ask(watch, *given, **named)
            self.last = found or self.last
            return found

        return record


def by_claude_code(talk: Trajectory) -> Iterator[Ask]:
    """A new process at each event."""
    return ask_hook(talk, ClaudeCodeHook)


def by_claude_agent_sdk(talk: Trajectory) -> Iterator[Ask]:
    """One hook for the whole session."""
    hook = ClaudeCodeHook()
    return ask_hook(talk, lambda: hook)


def ask_command(host: str, talk: Trajectory) -> Iterator[Ask]:
    """Ask the hook of a program before and after each call.

    All calls have one hook, which is quicker and reads the same file as a new process would.
    """
    make = {"codex": codex_event, "gemini-cli": gemini_event, "opencode": opencode_event}[host]
    with tempfile.TemporaryDirectory() as folder:
        hook = CommandHook(host, folder)
        asked = Recorder(hook._watch, "follow", "check_call")

        def ask(kind: str, **fields: Any) -> GuardAction | None:
            asked.last = None
            hook.answer(make(kind, **fields))
            return asked.last

        for said in read_log(talk):
            if said.role == "user":
                ask("prompt", text=said.text)
            for name, call in said.calls:
                if call.result is None:
                    continue
                fields = {"tool": call.name, "given": arguments_of(call), "name": name}
                refused = ask("call", **fields)
                yield said.position, refused and refused._replace(action="stop")
                yield said.position, ask("result", text=call.result, **fields)


def codex_event(kind: str, *, text: str = "", **call: Any) -> Message:
    names = {"prompt": "UserPromptSubmit", "call": "PreToolUse", "result": "PostToolUse"}
    event: Message = {"hook_event_name": names[kind], "session_id": "s"}
    if kind == "prompt":
        return {**event, "prompt": text}
    event |= {"tool_name": call["tool"], "tool_input": call["given"], "tool_use_id": call["name"]}
    return {**event, "tool_response": text} if kind == "result" else event


def gemini_event(kind: str, *, text: str = "", **call: Any) -> Message:
    names = {"prompt": "BeforeAgent", "call": "BeforeTool", "result": "AfterTool"}
    event = {**codex_event(kind, text=text, **call), "hook_event_name": names[kind]}
    return {**event, "tool_response": {"llmContent": text}} if kind == "result" else event


def opencode_event(kind: str, *, text: str = "", **call: Any) -> Message:
    event = {"event": kind, "sessionID": "s", "text": text}
    return {**event, "tool": call["tool"], "args": call["given"]} if call else event


def by_mcp(talk: Trajectory) -> Iterator[Ask]:
    """All tools of a log as those of one server, which does not hear the user."""
    guard = ToolGuard(clock=count(step=10).__next__)
    for said in read_log(talk):
        asked = Recorder(guard.watch, "update", "check_call")
        done = [(name, call) for name, call in said.calls if call.result is not None]
        for name, call in done:  # the calls of one message are made at once
            params = {"name": call.name, "arguments": arguments_of(call)}
            if guard.ask({"id": name, "method": "tools/call", "params": params}):
                yield said.position, asked.last and asked.last._replace(action="stop")
        for name, call in done:
            asked.last = None
            result = {"content": [{"type": "text", "text": call.result}], "isError": call.error}
            guard.pass_on({"id": name, "result": result})
            yield said.position, asked.last


def by_ag2(talk: Trajectory) -> Iterator[Ask]:
    host = importlib.import_module("chimeralab.integrations.ag2")
    ag2 = importlib.import_module("ag2.events")

    def make(said: Said) -> list[Any]:
        if said.role == "system":
            return []
        if said.role == "user":
            return [ag2.ModelRequest([ag2.TextInput(said.text)])]
        calls = [
            ag2.ToolCallEvent(
                call.name, id=name, arguments=json.dumps(arguments_of(call), default=str)
            )
            for name, call in said.calls
        ]
        results = [
            ag2.ToolResultEvent.from_call(asked, call.result)
            for asked, (_, call) in zip(calls, said.calls, strict=True)
            if call.result is not None
        ]
        message = ag2.ModelMessage(said.text) if said.text else None
        return [ag2.ModelResponse(message, tool_calls=ag2.ToolCallsEvent(calls)), *results]

    return ask_before_each_answer(talk, make, host._to_messages)


HOSTS: dict[str, Callable[[Trajectory], Iterator[Ask]]] = {
    "watch": by_watch,
    "langchain": by_langchain,
    "claude-code": by_claude_code,
    "claude-agent-sdk": by_claude_agent_sdk,
    "codex": partial(ask_command, "codex"),
    "gemini-cli": partial(ask_command, "gemini-cli"),
    "opencode": partial(ask_command, "opencode"),
    "mcp": by_mcp,
    "openai-agents": by_openai_agents,
    "litellm": by_litellm,
    "pydantic-ai": by_pydantic_ai,
    "adk": by_adk,
    "smolagents": by_smolagents,
    "autogen": by_autogen,
    "ag2": by_ag2,
    "opentelemetry": by_opentelemetry,
}
