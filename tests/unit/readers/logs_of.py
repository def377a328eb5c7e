"""One talk as every format writes it, by the schema of each, so that all can be read alike."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq


class Step(NamedTuple):
    """What somebody says, or a call with its result."""

    who: str
    text: str = ""
    tool: str = ""
    arguments: dict[str, Any] | None = None


def say(who: str, text: str) -> Step:
    return Step(who, text)


def use(tool: str, result: str, **arguments: Any) -> Step:
    return Step("call", result, tool, arguments)


Talk = Sequence[Step]

HEALTHY: Talk = [
    say("user", "Which of our files is the largest?"),
    use("bash", "12K a.txt\n90K b.bin", command="du -a"),
    say("assistant", "The largest file is b.bin with 90 kilobytes."),
    say("user", "And what is in the other one?"),
    use("bash", "Meeting notes of March.", command="cat a.txt"),
    say("assistant", "It holds the notes of a meeting in March."),
    say("user", "Thanks. Can I delete b.bin?"),
    say("assistant", "Nothing refers to it, so deleting it is safe."),
]
LOOPING: Talk = [
    step
    for _ in range(6)
    for step in (
        say("user", "Please fix the failing test."),
        use("bash", "1 failed", command="pytest -q"),
        say("assistant", "The test still fails, so let me run it again."),
    )
]


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


def responses_object(talk: Talk) -> bytes:
    items = response_items(talk)
    asked, given = items[:-1], items[-1:]
    return one(
        {"id": "resp_1", "object": "response", "model": "m", "input": asked, "output": given}
        | {"status": "completed"}
    )


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


def langchain(talk: Talk, dumped: bool) -> list[Any]:
    messages: list[Any] = []

    def add(name: str, **fields: Any) -> None:
        kind = name.removesuffix("Message").lower()
        if dumped:
            path = ["langchain", "schema", "messages", name]
            kwargs = fields | {"type": kind}
            messages.append({"lc": 1, "type": "constructor", "id": path, "kwargs": kwargs})
        else:
            extra = {"additional_kwargs": {}, "response_metadata": {}, "type": kind, "name": None}
            messages.append({"type": kind, "data": fields | extra})

    for n, step in enumerate(talk):
        if step.who == "call":
            call = {"name": step.tool, "args": step.arguments, "id": f"c{n}", "type": "tool_call"}
            add("AIMessage", content="", tool_calls=[call], invalid_tool_calls=[])
            add("ToolMessage", content=step.text, tool_call_id=f"c{n}", status="success")
        else:
            add("HumanMessage" if step.who == "user" else "AIMessage", content=step.text)
    return messages


def autogen(talk: Talk) -> bytes:
    messages: list[Any] = []
    base = {"models_usage": None, "metadata": {}}
    for n, step in enumerate(talk):
        if step.who == "call":
            call = {"id": f"c{n}", "name": step.tool, "arguments": json.dumps(step.arguments)}
            back = {"content": step.text, "name": step.tool, "call_id": f"c{n}", "is_error": False}
            said = [("ToolCallRequestEvent", [call]), ("ToolCallExecutionEvent", [back])]
            said += [("ToolCallSummaryMessage", step.text)]
            messages += [
                base | {"source": "coder", "content": content, "type": kind}
                for kind, content in said
            ]
        else:
            source = "user" if step.who == "user" else "coder"
            messages.append(base | {"source": source, "content": step.text, "type": "TextMessage"})
    return one({"messages": messages, "stop_reason": "Maximum number of messages reached."})


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


def atif(talk: Talk) -> bytes:
    steps: list[Any] = []
    for n, step in enumerate(talk):
        if step.who == "call":
            call = {"tool_call_id": f"c{n}", "function_name": step.tool}
            steps.append(
                {
                    "source": "agent",
                    "message": "",
                    "tool_calls": [call | {"arguments": step.arguments}],
                }
                | {"observation": {"results": [{"source_call_id": f"c{n}", "content": step.text}]}}
            )
        else:
            source = "agent" if step.who == "assistant" else "user"
            steps.append({"source": source, "message": step.text})
    steps = [{"step_id": n} | step for n, step in enumerate(steps, 1)]
    agent = {"name": "terminus", "version": "2", "model_name": "m"}
    return one({"schema_version": "ATIF-v1.4", "session_id": "s", "agent": agent, "steps": steps})


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


def codex_exec(talk: Talk) -> bytes:
    rows: list[Any] = [{"type": "thread.started", "thread_id": "t-1"}, {"type": "turn.started"}]
    for n, step in enumerate(talk):
        item: dict[str, Any] = {"id": f"item_{n}"}
        if step.who == "call":
            item |= {"type": "command_execution", "command": (step.arguments or {})["command"]}
            item |= {"aggregated_output": step.text, "exit_code": 0, "status": "completed"}
        else:
            kind = "agent_message" if step.who == "assistant" else "user_message"
            item |= {"type": kind, "text": step.text}
        rows.append({"type": "item.completed", "item": item})
    return lines(*rows, {"type": "turn.completed", "usage": {}})


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


def tau2(talk: Talk) -> bytes:
    messages: list[Any] = []
    for n, step in enumerate(talk):
        if step.who == "call":
            call = {"id": f"c{n}", "name": step.tool, "arguments": step.arguments}
            call |= {"requestor": "assistant"}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            back = {"id": f"c{n}", "role": "tool", "content": step.text, "error": False}
            messages.append(back | {"requestor": "assistant"})
        else:
            messages.append({"role": step.who, "content": step.text, "tool_calls": None})
    simulation = {"id": "sim-1", "task_id": "3", "trial": 0, "messages": messages}
    simulation |= {"termination_reason": "user_stop", "reward_info": {"reward": 1.0}}
    info = {"agent_info": {"implementation": "llm_agent", "llm": "m"}}
    return one({"timestamp": "x", "info": info, "tasks": [], "simulations": [simulation]})


def promptfoo(talk: Talk) -> bytes:
    """A test whose prompt is a whole chat, which the provider answers with the last message."""
    *before, last = openai_messages(talk)
    result = {"id": "r-1", "promptIdx": 0, "testIdx": 0, "vars": {}, "success": True}
    result |= {"prompt": {"raw": json.dumps(before), "label": "chat"}, "provider": {"id": "m"}}
    result["response"] = {"output": last["content"], "tokenUsage": {}}
    results = {"version": 3, "timestamp": "x", "prompts": [], "results": [result], "stats": {}}
    return one({"evalId": "eval-1", "results": results, "config": {}})


def calls_of_a_model(talk: Talk) -> list[tuple[list[Any], Any]]:
    """What a model was shown and what it gave, call by call: each time all that went before."""
    messages = openai_messages(talk)
    places = [n for n, message in enumerate(messages) if message["role"] == "assistant"]
    return [(messages[:n], messages[n]) for n in places]


def otel_message(message: Any) -> Any:
    parts: list[Any] = []
    if message["role"] == "tool":
        back = {"id": message["tool_call_id"], "response": message["content"]}
        parts.append({"type": "tool_call_response"} | back)
    elif message["content"]:
        parts.append({"type": "text", "content": message["content"]})
    for call in message.get("tool_calls", ()):
        arguments = json.loads(call["function"]["arguments"])
        named = {"id": call["id"], "name": call["function"]["name"], "arguments": arguments}
        parts.append({"type": "tool_call"} | named)
    return {"role": message["role"], "parts": parts}


def otlp(talk: Talk) -> bytes:
    spans = []
    for n, (asked, given) in enumerate(calls_of_a_model(talk)):
        told = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.input.messages": json.dumps([otel_message(each) for each in asked]),
            "gen_ai.output.messages": json.dumps([otel_message(given)]),
        }
        attributes = [{"key": k, "value": {"stringValue": v}} for k, v in told.items()]
        span = {"traceId": "5b8e", "spanId": f"{n:04}", "name": "chat m"}
        times = {"startTimeUnixNano": f"15447127000000{n:05}"}
        spans.append(span | times | {"attributes": attributes})
    spans.append({"traceId": "5b8e", "spanId": "x", "name": "POST", "attributes": []})
    spans.reverse()
    return one({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]})


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


def langsmith(talk: Talk) -> bytes:
    runs: list[Any] = [
        {"id": "root", "trace_id": "t", "parent_run_id": None, "run_type": "chain", "inputs": {}}
        | {"outputs": {"output": "done"}, "start_time": "2025-01-01T00:00:00"}
    ]
    dumped = langchain(talk, dumped=True)
    for n, message in enumerate(dumped):
        if message["id"][-1] == "AIMessage":
            runs.append(
                {"id": f"r{n}", "trace_id": "t", "parent_run_id": "root", "run_type": "llm"}
                | {"name": "ChatOpenAI", "inputs": {"messages": [dumped[:n]]}}
                | {"outputs": {"generations": [[{"text": "", "message": message}]]}}
                | {"start_time": f"2025-01-01T00:00:{n:02}", "extra": {"metadata": {}}}
            )
    return lines(*runs)


def langfuse(talk: Talk) -> bytes:
    observations = [
        {"id": f"o{n}", "traceId": "t", "type": "GENERATION", "name": "chat", "model": "m"}
        | {"input": asked, "output": given, "startTime": f"2025-01-01T00:00:{n:02}.000Z"}
        for n, (asked, given) in enumerate(calls_of_a_model(talk))
    ]
    span = {"id": "s", "traceId": "t", "type": "SPAN", "input": {"q": 1}, "output": "x"}
    trace = {"id": "t", "timestamp": "2025-01-01T00:00:00.000Z", "name": "agent", "input": "q"}
    return one([trace | {"output": "x", "projectId": "p", "observations": [span, *observations]}])


def langfuse_observations(talk: Talk) -> bytes:
    (trace,) = json.loads(langfuse(talk))
    return lines(*trace["observations"])


def openai_traces(talk: Talk) -> bytes:
    rows: list[Any] = [{"object": "trace", "id": "trace_1", "workflow_name": "Agent workflow"}]
    for n, (asked, given) in enumerate(calls_of_a_model(talk)):
        data = {"type": "generation", "input": asked, "output": [given], "model": "m"}
        span = {"object": "trace.span", "id": f"span_{n}", "trace_id": "trace_1"}
        start = f"2025-01-01T00:00:{n:02}.000000+00:00"
        rows.append(span | {"parent_id": None, "started_at": start, "span_data": data})
    return lines(*rows)


def rows(talk: Talk) -> list[Any]:
    """Rows of turns, which have no calls: a tool's result is a row of its own."""
    named = [("tool" if step.who == "call" else step.who, step.text) for step in talk]
    about = {"conversation_id": "t1", "model": "m"}
    return [
        about | {"turn": n, "speaker": who, "text": text} for n, (who, text) in enumerate(named)
    ]


def table(talk: Talk) -> bytes:
    file = io.StringIO()
    writer = csv.DictWriter(file, rows(talk)[0])
    writer.writeheader()
    writer.writerows(rows(talk))
    return file.getvalue().encode()


def parquet(values: list[Any]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(values), file)
    return file.getvalue()


def transcript(talk: Talk) -> bytes:
    names = {"user": "User", "assistant": "Assistant", "call": "Tool"}
    return "".join(f"{names[step.who]}: {step.text}\n\n" for step in talk).encode()


def messages_column(talk: Talk) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerows([["id", "messages"], ["t1", json.dumps(openai_messages(talk))]])
    return file.getvalue().encode()


WITHOUT_CALLS = {"rows", "csv", "parquet rows", "transcript"}
"""Logs that know no tools."""

LOGS_OF: dict[str, tuple[str, Callable[[Talk], bytes]]] = {
    "responses list": ("responses", lambda talk: one(response_items(talk))),
    "responses object": ("responses", responses_object),
    "gemini": ("gemini", lambda talk: one({"contents": gemini_contents(talk)})),
    "gemini list": ("gemini", lambda talk: one(gemini_contents(talk))),
    "langchain dumpd": ("langchain", lambda talk: one(langchain(talk, dumped=True))),
    "langchain dicts": ("langchain", lambda talk: lines({"messages": langchain(talk, False)})),
    "autogen": ("autogen", autogen),
    "openhands": ("openhands", lambda talk: one(openhands(talk))),
    "openhands output": (
        "openhands",
        lambda talk: lines({"instance_id": "x", "history": openhands(talk), "metadata": {}}),
    ),
    "openhands sdk": ("openhands", openhands_sdk),
    "swe-agent": ("swe-agent", swe_agent),
    "atif": ("atif", atif),
    "codex": ("codex", codex),
    "codex exec": ("codex", codex_exec),
    "gemini-cli": ("gemini-cli", gemini_cli),
    "chatgpt": ("chatgpt", chatgpt),
    "tau2": ("tau2", tau2),
    "promptfoo": ("promptfoo", promptfoo),
    "otlp": ("opentelemetry", otlp),
    "otel prompts": ("opentelemetry", otel_prompts),
    "langsmith": ("langsmith", langsmith),
    "langfuse": ("langfuse", langfuse),
    "langfuse observations": ("langfuse", langfuse_observations),
    "openai traces": ("openai-traces", openai_traces),
    "rows": ("rows", lambda talk: lines(*reversed(rows(talk)))),
    "csv": ("rows", table),
    "parquet rows": ("rows", lambda talk: parquet(rows(talk))),
    "parquet messages": (
        "openai",
        lambda talk: parquet([{"id": "t1", "messages": openai_messages(talk)}]),
    ),
    "csv messages": ("openai", messages_column),
    "transcript": ("transcript", transcript),
    "openai": ("openai", lambda talk: lines({"messages": openai_messages(talk)})),
}
"""What a log is, the format it should be read as, and how a talk is written in it."""
