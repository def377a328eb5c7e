"""A scripted model server on loopback, for the clients of OpenAI and Gemini."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.unit.readers.talks import Step, Talk


def replies(talk: Talk) -> list[Step]:
    return [step for step in talk if step.who != "user"]


def chat_reply(step: Step, number: int) -> dict[str, Any]:
    if step.who == "assistant":
        return {"role": "assistant", "content": step.text, "refusal": None}
    function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}


def chat_completion(talk: Talk, asked: dict[str, Any]) -> dict[str, Any]:
    """The next reply of the talk: as many as the request repeats have been given."""
    number = sum(message["role"] == "assistant" for message in asked["messages"])
    message = chat_reply(replies(talk)[number], number)
    reason = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1760000000 + number,
        "model": "scripted-1",
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14},
    }


def response_item(step: Step, number: int) -> dict[str, Any]:
    if step.who == "assistant":
        part = {"type": "output_text", "text": step.text, "annotations": [], "logprobs": []}
        said = {"type": "message", "role": "assistant", "status": "completed", "content": [part]}
        return {"id": f"msg_{number}"} | said
    call = {"call_id": f"call_{number}", "name": step.tool, "status": "completed"}
    arguments = json.dumps(step.arguments)
    return {"type": "function_call", "id": f"fc_{number}", "arguments": arguments} | call


def response(talk: Talk, asked: dict[str, Any]) -> dict[str, Any]:
    given = asked["input"] if isinstance(asked["input"], list) else []
    kinds = [(item.get("type", "message"), item.get("role")) for item in given]
    number = sum(kind == "function_call" or role == "assistant" for kind, role in kinds)
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1760000000 + number,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": asked.get("instructions"),
        "model": "scripted-1",
        "output": [response_item(replies(talk)[number], number)],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 14,
        },
    }


def gemini_reply(talk: Talk, asked: dict[str, Any]) -> dict[str, Any]:
    number = sum(content["role"] == "model" for content in asked["contents"])
    step = replies(talk)[number]
    part: dict[str, Any] = {"text": step.text}
    if step.who == "call":
        part = {"functionCall": {"name": step.tool, "args": step.arguments}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 5, "totalTokenCount": 14}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted-1"}


def answer_to(path: str, talk: Talk, asked: dict[str, Any]) -> tuple[str, str]:
    """The kind and the text of an answer: JSON, or events where those are asked for."""
    if "enerateContent" in path:
        return "text/event-stream", f"data: {json.dumps(gemini_reply(talk, asked))}\r\n\r\n"
    if not path.endswith("/responses"):
        return "application/json", json.dumps(chat_completion(talk, asked))
    whole = response(talk, asked)
    if not asked.get("stream"):
        return "application/json", json.dumps(whole)
    events = [
        {"type": "response.created", "response": whole | {"status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": whole["output"][0]},
        {"type": "response.completed", "response": whole},
    ]
    told = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return "text/event-stream", "".join(told)


@contextmanager
def scripted(talk: Talk) -> Iterator[str]:
    """The address of a server on the loopback that speaks the talk's replies, for OpenAI's clients
    and for Gemini's."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            kind, text = answer_to(self.path, talk, asked)
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
