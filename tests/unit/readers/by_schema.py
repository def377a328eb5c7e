"""Logs of tools that can't run here, written by their schemas."""

import csv
import io
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from typing import Any

from tests.unit.readers.talks import Talk


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def one(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def openai_messages(talk: Talk, arguments: Callable[[Any], Any] = json.dumps) -> list[Any]:
    messages: list[Any] = []
    for n, step in enumerate(talk):
        if step.who != "call":
            messages.append({"role": step.who, "content": step.text})
            continue
        function = {"name": step.tool, "arguments": arguments(step.arguments)}
        call = {"id": f"c{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": step.text})
    return messages


def response_items(talk: Talk) -> list[Any]:
    items: list[Any] = []
    for n, step in enumerate(talk):
        if step.who == "call":
            given = {"name": step.tool, "arguments": json.dumps(step.arguments)}
            items.append({"type": "reasoning", "id": f"r{n}", "summary": []})
            items.append({"type": "function_call", "id": f"f{n}", "call_id": f"c{n}"} | given)
            out = {"type": "function_call_output", "call_id": f"c{n}", "output": step.text}
            items.append(out)
        else:
            kind = "input_text" if step.who == "user" else "output_text"
            part = {"type": kind, "text": step.text}
            items.append({"type": "message", "role": step.who, "content": [part]})
    return items


def gemini_contents(talk: Talk) -> list[Any]:
    contents: list[Any] = []
    for step in talk:
        if step.who == "call":
            call = {"functionCall": {"name": step.tool, "args": step.arguments}}
            back = {"functionResponse": {"name": step.tool, "response": {"output": step.text}}}
            thought = {"text": "Let me think.", "thought": True}
            contents.append({"role": "model", "parts": [thought, call]})
            contents.append({"role": "user", "parts": [back]})
        else:
            role = "model" if step.who == "assistant" else "user"
            contents.append({"role": role, "parts": [{"text": step.text}]})
    return contents


def openhands(talk: Talk) -> list[Any]:
    events: list[Any] = []

    def add(source: str, **fields: Any) -> int:
        at = len(events)
        events.append({"id": at, "timestamp": "2025-01-01", "source": source} | fields)
        return at

    add("environment", action="recall", args={"query": "x"})
    for step in talk:
        if step.who == "call":
            name = "run" if step.tool == "bash" else step.tool
            cause = add("agent", action=name, args={**(step.arguments or {}), "thought": ""})
            extras = {"command": "x", "exit_code": 0}
            add("agent", observation=name, content=step.text, extras=extras, cause=cause)
        else:
            source = "user" if step.who == "user" else "agent"
            add(source, action="message", message=step.text, args={"content": step.text})
    add("environment", observation="agent_state_changed", content="", extras={})
    return events


def openhands_sdk(talk: Talk) -> bytes:
    events: list[Any] = []
    for n, step in enumerate(talk):
        if step.who == "call":
            call = {"id": f"c{n}", "name": step.tool, "arguments": json.dumps(step.arguments)}
            named = {"tool_name": step.tool, "tool_call_id": f"c{n}"}
            action = {"kind": "ActionEvent", "source": "agent", "thought": [], "tool_call": call}
            events.append(action | named)
            told = {"kind": "TerminalObservation", "content": [{"type": "text", "text": step.text}]}
            seen = {"kind": "ObservationEvent", "source": "environment", "observation": told}
            events.append(seen | named)
        else:
            source = "user" if step.who == "user" else "agent"
            part = {"type": "text", "text": step.text}
            message = {"role": step.who, "content": [part]}
            events.append({"kind": "MessageEvent", "source": source, "llm_message": message})
    return lines(*events)


def swe_agent(talk: Talk) -> bytes:
    """Only what an agent does: SWE-agent has one question, and every step an action."""
    steps = []
    for before, step in pairwise(talk):
        if step.who == "assistant" and before.who == "call":
            action = (before.arguments or {})["command"]
            steps.append(
                {"action": action, "observation": before.text, "thought": step.text}
                | {"response": f"{step.text}\n```\n{action}\n```", "state": {}, "query": []}
            )
        elif step.who == "assistant":
            steps.append({"action": "", "observation": "", "thought": step.text, "response": ""})
    history = [
        {"role": "system", "content": "You fix bugs.", "message_type": "system_prompt"},
        {"role": "user", "content": "A demonstration.", "is_demo": True},
        {"role": "user", "content": talk[0].text, "message_type": "observation"},
    ]
    info = {"exit_status": "submitted", "submission": "diff"}
    return one({"trajectory": steps, "history": history, "info": info, "environment": "main"})


def webarena(talk: Talk) -> bytes:
    """Only what an agent does: it has one task, and thinks before it acts."""
    steps: list[Any] = [{"url": "http://shop", "axtree": "RootWebArea"}]
    for before, step in pairwise(talk):
        if step.who != "assistant":
            continue
        action = {"action_type": 6, "element_id": "12", "answer": "", "text": []}
        action |= {"action_name": before.tool, "key_comb": json.dumps(before.arguments)}
        called = before.who == "call"
        steps.append({"action": action if called else {}, "metadata": {"cot": step.text}})
        steps += [{"url": "http://shop", "axtree": before.text}] if called else []
    return lines({"task_id": 0, "intent": talk[0].text, "trajectory": steps})


def codex(talk: Talk) -> bytes:
    def line(kind: str, payload: Any) -> Any:
        return {"timestamp": "2025-09-01T00:00:00Z", "type": kind, "payload": payload}

    aside = {"type": "input_text", "text": "<environment_context>\n</environment_context>"}
    rows = [
        line("session_meta", {"id": "s-1", "cwd": "/home", "originator": "codex_cli_rs"}),
        line("response_item", {"type": "message", "role": "user", "content": [aside]}),
        line("turn_context", {"cwd": "/home", "model": "gpt-5-codex"}),
    ]
    for item in response_items(talk):
        rows.append(line("response_item", item))
        if item.get("role") == "assistant":
            rows.append(line("event_msg", {"type": "agent_message", "message": "repeated"}))
    return lines(*rows)


def gemini_cli(talk: Talk) -> bytes:
    messages: list[Any] = []
    for n, step in enumerate(talk):
        base = {"id": f"m{n}", "timestamp": "2025-10-18T14:57:28.974Z"}
        if step.who == "call":
            back = {"functionResponse": {"id": "x", "name": step.tool}}
            back["functionResponse"]["response"] = {"output": step.text}  # type: ignore[assignment]
            call = {"id": f"c{n}", "name": step.tool, "args": step.arguments, "result": [back]}
            call |= {"status": "success"}
            messages.append(base | {"type": "gemini", "content": "", "toolCalls": [call]})
        else:
            kind = "gemini" if step.who == "assistant" else "user"
            messages.append(base | {"type": kind, "content": step.text})
    messages.insert(1, {"id": "i", "timestamp": "x", "type": "info", "content": "Update available"})
    times = {"startTime": "2025-10-18T14:57:28.974Z", "lastUpdated": "2025-10-18T14:58:07.161Z"}
    return one({"sessionId": "f86f", "projectHash": "79b6"} | times | {"messages": messages})


def chatgpt(talk: Talk) -> bytes:
    nodes: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None}}
    last = "root"

    def add(role: str, content: Any, recipient: str = "all") -> None:
        nonlocal last
        name = f"n{len(nodes)}"
        message = {"id": name, "author": {"role": role, "name": None}, "content": content}
        message |= {"recipient": recipient, "metadata": {"model_slug": "gpt-4o"}}
        nodes[name] = {"id": name, "message": message, "parent": last, "children": []}
        last = name

    for step in talk:
        if step.who == "call":
            code = json.dumps(step.arguments)
            add("assistant", {"content_type": "code", "text": code}, step.tool)
            add("tool", {"content_type": "execution_output", "text": step.text})
        else:
            add(step.who, {"content_type": "text", "parts": [step.text]})
    current = last
    add("user", {"content_type": "text", "parts": ["A question that was taken back."]})
    told = {"title": "Files", "create_time": 1.5, "mapping": nodes, "current_node": current}
    return one([told | {"conversation_id": "conv-1"}])


def calls_of_a_model(talk: Talk) -> list[tuple[list[Any], Any]]:
    """Inputs and outputs call by call, each with the whole history."""
    messages = openai_messages(talk)
    places = [n for n, message in enumerate(messages) if message["role"] == "assistant"]
    return [(messages[:n], messages[n]) for n in places]


def otel_prompts(talk: Talk) -> bytes:
    """As the SDK prints spans, with the messages spelled out as attributes."""
    spans = []
    for n, (asked, given) in enumerate(calls_of_a_model(talk)):
        told: dict[str, Any] = {}
        for kind, messages in (("prompt", asked), ("completion", [given])):
            for m, message in enumerate(messages):
                at = f"gen_ai.{kind}.{m}."
                told |= {f"{at}{key}": message.get(key) for key in ("role", "content")}
                if "tool_call_id" in message:
                    told[f"{at}tool_call_id"] = message["tool_call_id"]
                for c, call in enumerate(message.get("tool_calls", ())):
                    told[f"{at}tool_calls.{c}.id"] = call["id"]
                    for key, value in call["function"].items():
                        told[f"{at}tool_calls.{c}.{key}"] = value
        context = {"trace_id": "0x5b8e", "span_id": f"0x{n:04}", "trace_state": "[]"}
        start = f"2025-01-01T00:00:{n:02}.000000Z"
        spans.append({"name": "openai.chat", "context": context, "start_time": start})
        spans[-1] |= {"attributes": {k: v for k, v in told.items() if v is not None}, "events": []}
    return b"\n".join(json.dumps(span, indent=4).encode() for span in spans)


def nested_spans(talk: Talk) -> bytes:
    """A tree of spans as smolagents leaves it: roles for calls and results, attributes by number.

    Spans have at most 128 attributes, so those of long talks lack their first messages.
    """
    messages: list[tuple[str, str]] = [("system", "You solve tasks with code.")]
    spans: list[Any] = []
    for n, step in enumerate(talk):
        if step.who == "call":
            inner = {"name": step.tool, "arguments": step.arguments}
            call = [{"id": f"call_{n}", "type": "function", "function": inner}]
            messages.append(("tool-call", f"Calling tools:\n{call}"))
            messages.append(("tool-response", f"Call id: call_{n}\nObservation:\n{step.text}"))
            continue
        if step.who == "assistant":
            told = {"input.value": "{}"} | {
                f"llm.input_messages.{m}.message.{key}": value
                for m, message in enumerate(messages)
                for key, value in zip(("role", "content"), message, strict=True)
            }
            told |= {"llm.output_messages.0.message.role": "assistant", "llm.model_name": "m"}
            told |= {"llm.output_messages.0.message.content": step.text}
            told["openinference.span.kind"] = "LLM"
            kept = dict(list(told.items())[-30:])
            inside = {"timestamp": f"2025-03-25T12:00:{n:02}.0Z", "span_attributes": kept}
            spans.append({"trace_id": "0f7f", "span_name": "call"} | inside | {"child_spans": []})
        messages.append((step.who, step.text))
    root: dict[str, Any] = {"span_name": "CodeAgent.run", "trace_id": "0f7f"}
    root |= {"timestamp": "2025-03-25T11:59:00.0Z"}
    root |= {"span_attributes": {"openinference.span.kind": "AGENT"}, "child_spans": spans[::-1]}
    return one({"trace_id": "0f7f", "spans": [root]})


def langfuse(talk: Talk) -> bytes:
    observations = [
        {"id": f"o{n}", "traceId": "t", "type": "GENERATION", "name": "chat", "model": "m"}
        | {"input": asked, "output": given, "startTime": f"2025-01-01T00:00:{n:02}.000Z"}
        for n, (asked, given) in enumerate(calls_of_a_model(talk))
    ]
    span = {"id": "s", "traceId": "t", "type": "SPAN", "input": {"q": 1}, "output": "x"}
    trace = {"id": "t", "timestamp": "2025-01-01T00:00:00.000Z", "name": "agent", "input": "q"}
    return one([trace | {"output": "x", "projectId": "p", "observations": [span, *observations]}])


def transcript(talk: Talk) -> bytes:
    names = {"user": "User", "assistant": "Assistant", "call": "Tool"}
    return "".join(f"{names[step.who]}: {step.text}\n\n" for step in talk).encode()


def messages_column(talk: Talk) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerows([["id", "messages"], ["t1", json.dumps(openai_messages(talk))]])
    return file.getvalue().encode()


def sharegpt(talk: Talk) -> bytes:
    entries: list[Any] = []
    for step in talk:
        if step.who == "call":
            call = {"name": step.tool, "arguments": step.arguments}
            entries.append({"from": "function_call", "value": json.dumps(call)})
            entries.append({"from": "observation", "value": step.text})
        else:
            who = "human" if step.who == "user" else "gpt"
            entries.append({"from": who, "value": step.text})
    return lines({"id": "t1", "conversations": entries, "tools": "[]"})


def claude_code(talk: Talk) -> bytes:
    told: list[Any] = [{"type": "summary", "summary": "Files", "leafUuid": "u9"}]

    def add(kind: str, content: Any) -> None:
        number = len(told)
        parent = f"u{number - 1}" if number > 1 else None
        message = {"role": kind, "content": content}
        message |= {"id": f"msg_{number}", "model": "m"} if kind == "assistant" else {}
        line = {"type": kind, "uuid": f"u{number}", "parentUuid": parent, "sessionId": "s-1"}
        told.append(line | {"timestamp": f"2026-01-01T00:00:{number:02}Z", "message": message})

    for n, step in enumerate(talk):
        if step.who == "call":
            call = {"type": "tool_use", "id": f"t{n}", "name": step.tool, "input": step.arguments}
            back = {"type": "tool_result", "tool_use_id": f"t{n}", "content": step.text}
            add("assistant", [call])
            add("user", [back])
        else:
            add(step.who, [{"type": "text", "text": step.text}])
    return lines(*told)


def pi_session(talk: Talk) -> bytes:
    told: list[Any] = [{"type": "session", "version": 3, "id": "s-1", "cwd": "/home"}]

    def add(message: Any) -> None:
        link = {"id": f"i{len(told)}", "parentId": f"i{len(told) - 1}" if len(told) > 1 else None}
        told.append({"type": "message", **link, "timestamp": f"2026-07-14T01:{len(told):02}:00Z"})
        told[-1]["message"] = message

    for n, step in enumerate(talk):
        text = [{"type": "text", "text": step.text}]
        if step.who == "call":
            call = {"type": "toolCall", "id": f"c{n}", "name": step.tool}
            thought = {"type": "thinking", "thinking": "Let me see."}
            add({"role": "assistant", "content": [thought, call | {"arguments": step.arguments}]})
            add({"role": "toolResult", "toolCallId": f"c{n}", "content": text, "isError": False})
        else:
            add({"role": step.who, "content": text})
    left = {"type": "message", "id": "x", "parentId": "i1", "timestamp": "2026-07-14T00:00:00Z"}
    told.append(left | {"message": {"role": "user", "content": "A question that was taken back."}})
    return lines(*told)


def droid(talk: Talk) -> bytes:
    """Lines without parents, with the parts of Anthropic's messages."""
    told: list[Any] = [{"type": "session_start", "id": "s-1", "title": "Files", "cwd": "/home"}]
    for n, step in enumerate(talk):
        messages = [{"role": step.who, "content": [{"type": "text", "text": step.text}]}]
        if step.who == "call":
            use = {"type": "tool_use", "id": f"c{n}", "name": step.tool, "input": step.arguments}
            result = {"type": "tool_result", "tool_use_id": f"c{n}", "content": step.text}
            messages = [{"role": "assistant", "content": [use]}]
            messages.append({"role": "user", "content": [result]})
        for message in messages:
            told.append({"type": "message", "id": f"i{len(told)}", "message": message})
            told[-1]["timestamp"] = f"2026-01-28T16:{len(told):02}:00Z"
    return lines(*told, {"type": "todo_state", "id": "t", "timestamp": "2026", "todos": []})


def stream_json(talk: Talk) -> bytes:
    """As `gemini --output-format stream-json` prints it, with answers in deltas."""
    at = {"timestamp": "2026-01-30T06:18:17.750Z"}
    told: list[Any] = [{"type": "init", "session_id": "s-1", "model": "gemini-3-pro"} | at]
    for n, step in enumerate(talk):
        if step.who == "call":
            call = {"type": "tool_use", "tool_name": step.tool, "tool_id": f"t{n}"}
            told.append(call | {"parameters": step.arguments} | at)
            told.append({"type": "tool_result", "tool_id": f"t{n}", "status": "success"} | at)
            told[-1]["output"] = step.text
        elif step.who == "user":
            told.append({"type": "message", "role": "user", "content": step.text} | at)
        else:
            for part in (step.text[:7], step.text[7:14], step.text[14:]):
                message = {"type": "message", "role": "assistant", "content": part}
                told.append(message | {"delta": True} | at)
    stats = {"total_tokens": 47, "input_tokens": 42, "output_tokens": 5}
    return lines(*told, {"type": "result", "status": "success", "stats": stats} | at)


def managed_agent(talk: Talk) -> bytes:
    """Events with a kind, as they were in `raw`; changes of state say nothing."""
    told: list[Any] = []

    def add(role: str, kind: str, raw: Any = None, **fields: Any) -> None:
        event = {"role": role, "kind": kind, "time": "2026-08-11T06:18:23Z"} | fields
        told.append(
            event | {"raw": {"id": f"e{len(told)}", "type": f"{role}.{kind}"} | (raw or {})}
        )

    add("system", "status_running", {"agent_name": "auditor"})
    for n, step in enumerate(talk):
        if step.who == "user":
            add("user", "define_outcome", {"description": step.text})
        elif step.who == "assistant":
            add("system", "model_request_start")
            add("agent", "message", content=step.text)
        else:
            add("agent", "thinking")
            call = {"id": f"t{n}", "name": step.tool, "input": step.arguments}
            add("agent", "tool_use", call, tool=step.tool, content=json.dumps(step.arguments))
            add(
                "agent",
                "tool_result",
                {"tool_use_id": f"t{n}", "is_error": False},
                content=step.text,
            )
        usage = {"input_tokens": 2, "cache_read_input_tokens": 40, "output_tokens": 5}
        add("system", "model_request_end", {"model_usage": usage})
    add("user", "interrupt")
    return lines(*told)


def plain(talk: Talk) -> bytes:
    turns: list[Any] = []
    for step in talk:
        if step.who == "call":
            call = {"name": step.tool, "arguments": step.arguments, "result": step.text}
            turns.append({"speaker": "assistant", "calls": [call]})
        else:
            turns.append({"speaker": step.who, "text": step.text})
    return lines({"id": "t1", "turns": turns})


def aider(talk: Talk) -> bytes:
    """As `.aider.chat.history.md`: what aider writes itself ends in two spaces."""
    told = ["", "# aider chat started at 2025-08-06 12:06:30", "", "> Aider v0.85.2  ", ""]
    for step in talk:
        if step.who == "user":
            told += ["", *(f"#### {line}  " for line in step.text.splitlines())]
        elif step.who == "assistant":
            told += [
                "",
                step.text,
                "",
                "> Tokens: 1.6k sent, 1.7k received. Cost: $0.01 message.  ",
            ]
        else:
            told += [f"> {line}  " for line in step.text.splitlines()]
    return "\n".join([*told, "", "# aider chat started at 2025-08-07 09:00:00", ""]).encode()


def autogen_console(talk: Talk) -> bytes:
    told = ["RUN.SH STARTING", "Collecting tiktoken"]
    names = {"user": "TextMessage (user)", "assistant": "TextMessage (assistant)"}
    for n, step in enumerate(talk):
        if step.who in names:
            told += [f"---------- {names[step.who]} ----------", step.text]
            continue
        given = json.dumps(step.arguments)
        told += ["---------- ToolCallRequestEvent (assistant) ----------"]
        told += [f"[FunctionCall(id='c{n}', arguments='{given}', name='{step.tool}')]"]
        told += ["---------- ToolCallExecutionEvent (assistant) ----------"]
        told += [f"[FunctionExecutionResult(content='{step.text}', name='x', call_id='c{n}')]"]
    return "\n".join([*told, "SCENARIO.PY COMPLETE !#!#"]).encode()


def openmanus(talk: Talk) -> bytes:
    told = ["INFO     [root] Anonymized telemetry enabled."]

    def add(where: str, text: str) -> None:
        told.append(f"2025-04-01 02:58:02.606 | INFO     | app.{where}:81 - {text}")

    for step in talk:
        if step.who == "user":
            add("flow:run", f"Read prompt from task.txt: {step.text}")
        elif step.who == "assistant":
            add("llm:count", "Token usage: Input=42, Completion=5, Cumulative Input=42")
            add("agent.toolcall:think", f"✨ Manus's thoughts: {step.text}")
        else:
            add("agent.toolcall:think", "✨ Manus's thoughts: ")
            add("agent.toolcall:think", f"🔧 Tool arguments: {json.dumps(step.arguments)}")
            add("agent.toolcall:execute", f"🔧 Activating tool: '{step.tool}'...")
            done = f"🎯 Tool '{step.tool}' completed its mission! Result: {step.text}"
            add("agent.toolcall:act", done)
    return "\n".join(told).encode()


def hyperagent(talk: Talk) -> bytes:
    """Without the task: a planner and an intern, which observes what its code printed."""
    at, intern = "HyperAgent_x-1 - INFO - ", "Inner-Navigator-Assistant's Response: "
    told = [f"{at}Initialized HyperAgent instance x-1", f"{at}Initialized tools"]
    for step in talk:
        if step.who == "call":
            code = f"run({json.dumps(step.arguments)})"
            told.append(f"{at}{intern}\n\nAction:\n```python\n{code}\n```\n")
            told.append(f"{at}{intern}Observation: {step.text}")
        elif step.who == "assistant":
            told.append(f"{at}Planner's Response: {step.text}")
    return "\n".join(told).encode()


def chatdev(talk: Talk) -> bytes:
    """Agents in pairs; the prompt of a chat is not judged."""
    told = ["**[Preprocessing]**\n\n**ChatDev Starts** (20250329232841)\n"]
    brief = "[ChatDev is a company.\nYou are Programmer.\nHelp me.]"
    for step in talk:
        if step.who == "user":
            told.append(f"Chief Executive Officer: **[Start Chat]**\n\n{brief}\n\n{step.text}\n")
        elif step.who == "assistant":
            told.append(
                "**[OpenAI_Usage_Info Receive]**\nprompt_tokens: 42\ncompletion_tokens: 5\n"
            )
            turn = "Programmer: **Programmer<->Code Reviewer on : Coding, turn 0**"
            told.append(f"{turn}\n\n{brief}\n\n{step.text}\n")
            told.append(f"**[Seminar Conclusion]**:\n\n {step.text}")
    return "\n".join(f"[2025-29-03 23:28:44 INFO] {entry}" for entry in told).encode()


def metagpt(talk: Talk) -> bytes:
    told = ["=== MetaGPT Agent Communication Log - Started at 2025-03-31 13:24:54 ===", ""]
    for step in talk:
        if step.who == "user":
            told += ["[2025-03-31 13:24:54] FROM: Human TO: {'<all>'}"]
            told += ["ACTION: metagpt.actions.UserRequirement", "CONTENT:", step.text]
        elif step.who == "assistant":
            told += ["[2025-03-31 13:25:28] NEW MESSAGES:", "", f"SimpleCoder: {step.text}"]
        told += ["-" * 80, ""]
    return "\n".join([*told, "=== Communication Log Ended at 2025-03-31 13:26:15 ==="]).encode()


def specstory(talk: Talk) -> bytes:
    told = ["<!-- Generated by SpecStory -->", "", "# Fixing the tests (2026-01-07 10:00Z)", ""]
    for step in talk:
        if step.who == "call":
            told += ["_**Agent (m-1 2026-01-07 10:00:05Z)**_", ""]
            told += [f'<tool-use data-tool-type="shell" data-tool-name="{step.tool}"><details>']
            told += [f"<summary>Tool use: **{step.tool}**</summary>", "", "```json"]
            told += [json.dumps(step.arguments), "```", "", "```text", step.text, "```"]
            told += ["</details></tool-use>", "", "---", ""]
        else:
            who = "User" if step.who == "user" else "Agent"
            told += [f"_**{who} (2026-01-07 10:00:00Z)**_", "", step.text, "", "---", ""]
    return "\n".join(told).encode()


def copilot_markdown(talk: Talk) -> bytes:
    told = ["# 🤖 Copilot CLI Session", "", "> **Session ID:** `3d9c`", ""]
    for step in talk:
        told += ["<sub>⏱️ 1m 10s</sub>", ""]
        if step.who == "call":
            told += [f"### ✅ `{step.tool}`", "", "<details>", "<summary>Arguments</summary>", ""]
            told += ["```json", json.dumps(step.arguments), "```", "", "</details>", ""]
            told += ["```", step.text, "```", ""]
        else:
            sign = "👤 User" if step.who == "user" else "💬 Copilot"
            told += [f"### {sign}", "", step.text, ""]
        told += ["---", ""]
    return "\n".join(told).encode()


def opencode_markdown(talk: Talk) -> bytes:
    told = ["# Review", "", "**Session ID:** ses_3407", "", "---", ""]
    for step in talk:
        if step.who == "call":
            told += ["## Assistant (Build · m-1 · 4.6s)", "", "_Thinking:_", "", "Let me see.", ""]
            told += [f"**Tool: {step.tool}**", "", "**Input:**", "```json"]
            told += [json.dumps(step.arguments), "```", "", "**Output:**", "```", step.text, "```"]
        elif step.who == "assistant":
            told += ["## Assistant (Build · m-1 · 4.6s)", "", step.text]
        else:
            told += ["## User", "", step.text]
        told += ["", "---", ""]
    return "\n".join(told).encode()


def claude_terminal(talk: Talk) -> bytes:
    told = ["╭──────────╮", "│ ✻ Welcome to Claude Code! │", "╰──────────╯", ""]
    for step in talk:
        if step.who == "call":
            told += [f"⏺ Bash({json.dumps(step.arguments)})", f"  ⎿  {step.text}", ""]
        else:
            told += [f"> {step.text}" if step.who == "user" else f"⏺ {step.text}", ""]
    return "\n".join(told).encode()


def gemini_terminal(talk: Talk) -> bytes:
    told = ["gemini", "", "Tips for getting started:", ""]
    for step in talk:
        if step.who == "call":
            told += [" ╭──────────╮", f" │ ✔  {step.tool} {json.dumps(step.arguments)}  │", " │  │"]
            told += [f" │    {step.text}  │", " ╰──────────╯"]
        elif step.who == "user":
            told += ["╭──────────╮", f"│  > {step.text}  │", "╰──────────╯", ""]
        else:
            told += [f"✦ {step.text}"]
    return "\n".join(told).encode()


def cline(talk: Talk) -> bytes:
    """As `ui_messages.json`; the first message is the task."""
    told: list[Any] = []

    def add(kind: str, text: Any, way: str = "say") -> None:
        text = text if isinstance(text, str) else json.dumps(text)
        told.append({"ts": 1760534080239 + len(told), "type": way, way: kind, "text": text})

    for step in talk:
        if step.who == "user":
            add("user_feedback" if told else "text", step.text)
        elif step.who == "assistant":
            add("api_req_started", {"request": "x", "tokensIn": 42, "tokensOut": 5, "cost": 0.5})
            add("reasoning", "Let me see.")
            add("text", step.text)
            add("checkpoint_created", "")
        elif step.tool == "bash":
            add("command", (step.arguments or {}).get("command", ""))
            add("command_output", step.text, "ask")
        else:
            add("tool", {"tool": step.tool, "content": step.text, **(step.arguments or {})})
    return one(told)


def copilot(talk: Talk) -> bytes:
    requests: list[Any] = []
    for n, step in enumerate(talk):
        if step.who == "user":
            message = {"text": step.text, "parts": []}
            requests.append({"requestId": f"r{n}", "message": message, "timestamp": 1770685505478})
            rounds = {"toolCallRounds": [], "toolCallResults": {}}
            requests[-1] |= {"response": [], "modelId": "m-1", "result": {"metadata": rounds}}
        elif step.who == "assistant":
            cut = len(step.text) // 2
            requests[-1]["response"].append({"kind": "thinking", "value": "Let me see."})
            requests[-1]["response"] += [{"value": step.text[:cut]}, {"value": step.text[cut:]}]
        else:
            shown = {"kind": "toolInvocationSerialized", "toolId": f"copilot_{step.tool}"}
            requests[-1]["response"].append(shown | {"toolCallId": f"call_{n}", "isComplete": True})
            named = f"call_{n}__vscode-1"
            call = {"id": named, "name": step.tool, "arguments": json.dumps(step.arguments)}
            about = requests[-1]["result"]["metadata"]
            about["toolCallRounds"].append({"response": "", "toolCalls": [call]})
            about["toolCallResults"][named] = {"content": [{"value": step.text}]}
    return one({"responderUsername": "GitHub Copilot", "requests": requests})


def copilot_journal(talk: Talk) -> bytes:
    """A first state, and lines that add requests and the parts of their responses."""
    state = json.loads(copilot(talk))
    told: list[Any] = [{"kind": 0, "v": {**state, "requests": []}}]
    for n, request in enumerate(state["requests"]):
        told.append(
            {"kind": 2, "k": ["requests"], "v": [{**request, "response": [{"value": "…"}]}]}
        )
        told.append({"kind": 2, "k": ["requests", n, "response"], "i": 0, "v": request["response"]})
        told.append({"kind": 1, "k": ["requests", n, "modelState"], "v": {"value": 1}})
        told.append({"kind": 3, "k": ["requests", n, "modelState"]})
    return lines(*told)


def copilot_cli(talk: Talk) -> bytes:
    told: list[Any] = [{"type": "session.start", "data": {"sessionId": "s-1"}}]
    for n, step in enumerate(talk):
        if step.who == "call":
            request = {"toolCallId": f"t{n}", "name": step.tool, "arguments": step.arguments}
            told.append(("assistant.message", {"content": "", "toolRequests": [request]}))
            asked = {"toolCallId": f"t{n}", "toolName": step.tool, "arguments": step.arguments}
            told.append(("tool.execution_start", asked))
            result = {"content": step.text, "detailedContent": "diff"}
            told.append(("tool.execution_complete", {"toolCallId": f"t{n}", "result": result}))
        else:
            about = {"reasoningText": "Let me see.", "outputTokens": 5}
            about = about if step.who == "assistant" else {}
            told.append((f"{step.who}.message", {"content": step.text, **about}))
    events = [{"type": e[0], "data": e[1]} if isinstance(e, tuple) else e for e in told]
    time = "2026-07-15T19:31:19.240Z"
    return lines(*({**e, "id": f"e{n}", "timestamp": time} for n, e in enumerate(events)))


def opencode_store(talk: Talk) -> bytes:
    with closing(sqlite3.connect(":memory:")) as store:
        columns = "id TEXT, session_id TEXT, time_created INTEGER, data TEXT"
        store.execute(f"CREATE TABLE message ({columns})")
        store.execute(f"CREATE TABLE part (message_id TEXT, {columns})")
        store.execute("CREATE TABLE session (id TEXT, parent_id TEXT, title TEXT)")
        store.execute("INSERT INTO session VALUES ('ses_1', 'ses_0', 'Files')")
        for n, message in enumerate(json.loads(opencode(talk))["messages"]):
            row = (f"m{-n}", "ses_1", n, json.dumps(message["info"]))  # ids in another order
            store.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
            for k, part in enumerate(message["parts"]):
                of_part = (f"m{-n}", f"p{k}", "ses_1", n, json.dumps(part))
                store.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?)", of_part)
        return store.serialize()


def opencode(talk: Talk) -> bytes:
    messages: list[Any] = []
    for n, step in enumerate(talk):
        role = "user" if step.who == "user" else "assistant"
        info: dict[str, Any] = {"id": f"m{n}", "role": role, "agent": "build"}
        info["time"] = {"created": 1784254006803}
        parts: list[Any] = [{"type": "text", "text": step.text}]
        if role == "assistant":
            info |= {"modelID": "m-1", "cost": 0.5}
            info["tokens"] = {"input": 2, "output": 5, "cache": {"read": 40, "write": 0}}
            parts = [{"type": "step-start"}, {"type": "reasoning", "text": "Let me see."}, *parts]
        if step.who == "call":
            state = {"status": "completed", "input": step.arguments, "output": step.text}
            parts[-1] = {"type": "tool", "tool": step.tool, "callID": f"c{n}", "state": state}
        messages.append({"info": info, "parts": parts})
    return one({"info": {"id": "ses_1", "title": "Files"}, "messages": messages})


def crush(talk: Talk) -> bytes:
    with closing(sqlite3.connect(":memory:")) as store:
        store.execute("CREATE TABLE sessions (id, parent_session_id, title, created_at)")
        store.execute("INSERT INTO sessions VALUES ('s-1', 's-0', 'Files', 1)")
        columns = "id, session_id, role, parts, model, created_at"
        store.execute(f"CREATE TABLE messages ({columns})")

        def keep(role: str, kind: str, **data: Any) -> None:
            finish = {"reason": "tool_use" if kind == "tool_call" else "end_turn"}
            parts = [{"type": kind, "data": data}] if kind else []
            parts += [] if role == "user" else [{"type": "finish", "data": finish}]
            row = ("m", "s-1", role, json.dumps(parts), "m-1", 1754104814)
            store.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)", row)

        for n, step in enumerate(talk):
            if step.who == "call":
                asked = json.dumps(step.arguments)
                keep("assistant", "tool_call", id=f"c{n}", name=step.tool, input=asked)
                given = {"content": step.text, "is_error": False}
                keep("tool", "tool_result", tool_call_id=f"c{n}", name="", **given)
            else:
                keep(step.who, "text", text=step.text)
        cancelled = json.dumps([{"type": "finish", "data": {"reason": "canceled"}}])
        row = ("m", "s-1", "assistant", cancelled, "m-1", 1754104900)
        store.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)", row)
        return store.serialize()


def continue_session(talk: Talk) -> bytes:
    history: list[Any] = []
    for n, step in enumerate(talk):
        if step.who == "call":
            function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
            call = {"id": f"c{n}", "type": "function", "function": function}
            state: dict[str, Any] = {"toolCallId": f"c{n}", "toolCall": call, "status": "done"}
            state["output"] = [{"name": "Output", "content": step.text}]
            message = {"role": "assistant", "content": "", "toolCalls": [call]}
            history.append({"message": message, "contextItems": [], "toolCallStates": [state]})
        else:
            part = {"type": "text", "text": step.text}
            content = [part] if step.who == "user" else step.text
            history.append({"message": {"role": step.who, "content": content}, "contextItems": []})
    about = {"sessionId": "s-1", "title": "Files", "workspaceDirectory": "/home"}
    return one(about | {"history": history})


def ag2(talk: Talk) -> bytes:
    """Two agents, each line of a message apart; there are no tools."""
    names = {"user": ("user", "User"), "assistant": ("assistant", "assistant")}
    told = [
        {"role": names[step.who][0], "name": names[step.who][1], "content": step.text.split("\n")}
        for step in talk
        if step.who in names
    ]
    return one({"instance_id": "e40e", "problem_statement": ["x"], "trajectory": told, "note": {}})


def magentic_messages(talk: Talk) -> list[Any]:
    """An orchestrator keeps a ledger, which looks the same at every step, and picks a speaker."""
    told = []
    for step in talk:
        if step.who == "user":
            told.append({"content": step.text, "role": "human"})
            ledger = {"is_in_loop": {"reason": "There is no repetition yet.", "answer": False}}
            for text in (f"Updated Ledger:\n{json.dumps(ledger)}", "Next speaker Assistant"):
                told.append({"content": text, "role": "Orchestrator (thought)"})
        elif step.who == "assistant":
            told.append({"content": step.text, "role": "Assistant"})
    return told


def who_and_when(talk: Talk) -> bytes:
    label = {"mistake_agent": "Assistant", "mistake_step": "3", "question_ID": "q-1", "level": 2}
    return one(
        {"history": magentic_messages(talk), "question": "Which?", "is_corrected": 0} | label
    )


def agentrx_steps(talk: Talk) -> bytes:
    steps = [
        {"index": n, "substeps": [{"sub_index": 1, "role": m["role"], "content": m["content"]}]}
        for n, m in enumerate(magentic_messages(talk), 1)
    ]
    return one({"trajectory_id": "t-1", "instruction": "Find it.", "steps": steps})


def preference_texts(talk: Talk) -> bytes:
    """Both answers as one text each, in the way of the first public sets."""
    names = {"user": "Human", "assistant": "Assistant"}
    said = [f"\n\n{names[step.who]}: {step.text}" for step in talk if step.who in names]
    return lines({"chosen": "".join(said), "rejected": f"{said[0]}\n\nAssistant: No."})


WRITTEN: dict[str, tuple[str, Callable[[Talk], bytes]]] = {
    "plain": ("plain", plain),
    "sharegpt": ("sharegpt", sharegpt),
    "claude-code": ("claude-code", claude_code),
    "pi": ("pi", pi_session),
    "droid": ("pi", droid),
    "gemini stream-json": ("events", stream_json),
    "managed agent": ("events", managed_agent),
    "gemini contents": ("gemini", lambda talk: one({"contents": gemini_contents(talk)})),
    "openhands output": (
        "openhands",
        lambda talk: lines({"instance_id": "x", "history": openhands(talk), "metadata": {}}),
    ),
    "openhands sdk": ("openhands", openhands_sdk),
    "swe-agent": ("swe-agent", swe_agent),
    "webarena": ("webarena", webarena),
    "codex older": ("codex", codex),
    "gemini-cli older": ("gemini-cli", gemini_cli),
    "chatgpt": ("chatgpt", chatgpt),
    "otel older": ("opentelemetry", otel_prompts),
    "nested spans": ("opentelemetry", nested_spans),
    "langfuse traces": ("langfuse", langfuse),
    "csv messages": ("openai", messages_column),
    "preference texts": ("preferences", preference_texts),
    "transcript": ("transcript", transcript),
    "cline": ("cline", cline),
    "copilot": ("copilot", copilot),
    "copilot journal": ("copilot-journal", copilot_journal),
    "copilot cli": ("copilot-cli", copilot_cli),
    "opencode": ("opencode", opencode),
    "opencode store": ("opencode", opencode_store),
    "crush": ("crush", crush),
    "continue": ("continue", continue_session),
    "ag2": ("agent-history", ag2),
    "who and when": ("agent-history", who_and_when),
    "agentrx": ("agent-history", lambda talk: one(magentic_messages(talk))),
    "agentrx steps": ("agent-history", agentrx_steps),
    "specstory": ("markdown", specstory),
    "copilot markdown": ("markdown", copilot_markdown),
    "opencode markdown": ("markdown", opencode_markdown),
    "claude terminal": ("terminal", claude_terminal),
    "gemini terminal": ("terminal", gemini_terminal),
    "aider": ("aider", aider),
    "autogen console": ("headed", autogen_console),
    "openmanus": ("openmanus", openmanus),
    "hyperagent": ("hyperagent", hyperagent),
    "chatdev": ("chatdev", chatdev),
    "metagpt": ("metagpt", metagpt),
}
"""What a log is, the format it should be read as, and how a talk is written in it."""
