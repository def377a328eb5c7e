"""Logs of tools that can't run here, written by their schemas."""

import csv
import io
import json
from collections.abc import Callable
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


def plain(talk: Talk) -> bytes:
    turns: list[Any] = []
    for step in talk:
        if step.who == "call":
            call = {"name": step.tool, "arguments": step.arguments, "result": step.text}
            turns.append({"speaker": "assistant", "calls": [call]})
        else:
            turns.append({"speaker": step.who, "text": step.text})
    return lines({"id": "t1", "turns": turns})


def preference_texts(talk: Talk) -> bytes:
    """Both answers as one text each, in the way of the first public sets."""
    names = {"user": "Human", "assistant": "Assistant"}
    said = [f"\n\n{names[step.who]}: {step.text}" for step in talk if step.who in names]
    return lines({"chosen": "".join(said), "rejected": f"{said[0]}\n\nAssistant: No."})


WRITTEN: dict[str, tuple[str, Callable[[Talk], bytes]]] = {
    "plain": ("plain", plain),
    "sharegpt": ("sharegpt", sharegpt),
    "claude-code": ("claude-code", claude_code),
    "gemini contents": ("gemini", lambda talk: one({"contents": gemini_contents(talk)})),
    "openhands output": (
        "openhands",
        lambda talk: lines({"instance_id": "x", "history": openhands(talk), "metadata": {}}),
    ),
    "openhands sdk": ("openhands", openhands_sdk),
    "swe-agent": ("swe-agent", swe_agent),
    "codex older": ("codex", codex),
    "gemini-cli older": ("gemini-cli", gemini_cli),
    "chatgpt": ("chatgpt", chatgpt),
    "otel older": ("opentelemetry", otel_prompts),
    "langfuse traces": ("langfuse", langfuse),
    "csv messages": ("openai", messages_column),
    "preference texts": ("preferences", preference_texts),
    "transcript": ("transcript", transcript),
}
"""What a log is, the format it should be read as, and how a talk is written in it."""
