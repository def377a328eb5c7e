"""A proxy that breaks what passes through it, by a script: one fault per request, in order."""

import gzip
import json
import socket
import struct
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Semaphore, Thread
from typing import Any, Self

PASS = "pass"


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # the usual 5 drop some of the connections that come at one moment


class FaultProxy:
    """Stands in front of a server. `script` holds the names of the faults to come.

    When the script is used up, requests pass unharmed. `seen` lists what happened to each request,
    and `arrivals` counts them for whoever waits. A `held` one is answered once `release` is set;
    `on_endless` is called when an answer has begun that never ends.
    """

    def __init__(self, upstream: str, script: Iterable[str] = ()) -> None:
        self.upstream = upstream.removesuffix("/v1")
        self.script = deque(script)
        self.seen: list[str] = []
        self.arrivals = Semaphore(0)
        self.release = Event()
        self.closing = Event()
        self.on_endless: Callable[[], None] = lambda: None
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self  # type: ignore[attr-defined]
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def next_fault(self) -> str:
        fault = self.script.popleft() if self.script else PASS
        self.seen.append(fault)
        self.arrivals.release()
        return fault

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.release.set()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Otherwise each body waits 40 ms for the client to acknowledge the head.
    disable_nagle_algorithm = True

    @property
    def proxy(self) -> FaultProxy:
        return self.server.proxy  # type: ignore[attr-defined]

    def do_GET(self) -> None:
        self._forward(None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.proxy.next_fault()
        if fault == PASS:
            self._forward(body)
        else:
            FAULTS[fault](self)

    def answer(self, status: int, body: Any, kind: str = "application/json", **more: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(data)), **more}
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def drop(self) -> None:
        """Reset the connection, as a crashing server does."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass

    def _forward(self, body: bytes | None) -> None:
        headers = {
            name: self.headers[name]
            for name in ("Content-Type", "Authorization")
            if name in self.headers
        }
        request = urllib.request.Request(self.proxy.upstream + self.path, body, headers)
        try:
            with urllib.request.urlopen(request) as response:
                self.answer(response.status, response.read())
        except urllib.error.HTTPError as error:
            self.answer(error.code, error.read())


def _completion(**choice: Any) -> dict[str, Any]:
    return {"model": "fault-proxy", "choices": [{"index": 0, "finish_reason": "stop", **choice}]}


def _stall(handler: _Handler) -> None:
    handler.proxy.on_endless()
    handler.proxy.closing.wait()
    handler.drop()


def _held(handler: _Handler) -> None:
    handler.proxy.release.wait()
    FAULTS["fine"](handler)


def _half_answer(handler: _Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.wfile.flush()
    handler.drop()


def _echo_key(handler: _Handler) -> None:
    said = f"{handler.headers['Authorization']} is not a valid key"
    handler.answer(401, {"error": {"message": said, "code": "invalid_api_key"}})


def _reply_with_key(handler: _Handler) -> None:
    said = f"I was called with {handler.headers['Authorization']}"
    handler.answer(200, _completion(message={"role": "assistant", "content": said}))


def _key_in_two(handler: _Handler) -> None:
    key = handler.headers["Authorization"].removeprefix("Bearer ")
    halves = key[: len(key) // 2], key[len(key) // 2 :]
    handler.answer(200, _said(f"It begins with {halves[0]} and goes on with {halves[1]}."))


def _error_with_key_in_two(handler: _Handler) -> None:
    key = handler.headers["Authorization"].removeprefix("Bearer ")
    said = f"bad key {key[:17]} … {key[17:]}"
    handler.answer(401, {"error": {"message": said, "code": "invalid_api_key"}})


def _begin(handler: _Handler, kind: str = "application/json", **more: str) -> None:
    """Status and headers of a body whose end is the end of the connection."""
    handler.send_response(200)
    for name, value in {"Content-Type": kind, "Connection": "close", **more}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


def _for_ever(handler: _Handler, piece: bytes) -> None:
    """Send the same bytes as fast as possible until the client disconnects."""
    handler.close_connection = True
    try:
        while not handler.proxy.closing.is_set():
            handler.wfile.write(piece)
            handler.wfile.flush()
    except OSError:
        return


def _slowly_for_ever(handler: _Handler, piece: bytes) -> None:
    """Send the same bytes now and then, so that no limit of size is ever reached."""
    handler.close_connection = True
    try:
        handler.wfile.write(piece)
        handler.wfile.flush()
        handler.proxy.on_endless()
        while not handler.proxy.closing.wait(0.01):
            handler.wfile.write(piece)
            handler.wfile.flush()
    except OSError:
        return


def _drip(handler: _Handler) -> None:
    _begin(handler)
    _slowly_for_ever(handler, b" ")


def _drip_headers(handler: _Handler) -> None:
    handler.send_response(200)
    handler.flush_headers()
    _slowly_for_ever(handler, b"x")


def _endless_continue(handler: _Handler) -> None:
    _slowly_for_ever(handler, b"HTTP/1.1 100 Continue\r\n\r\n")


def _endless_events(handler: _Handler) -> None:
    _begin(handler, "text/event-stream")
    _slowly_for_ever(handler, b'data: {"choices": []}\n\n')


def _flood(handler: _Handler) -> None:
    _begin(handler)
    _for_ever(handler, b"[" * (1 << 20))


def _error_flood(handler: _Handler) -> None:
    handler.send_response(500)
    handler.send_header("Connection", "close")
    handler.end_headers()
    _for_ever(handler, b"[" * (1 << 20))


@cache
def _bomb(layers: int) -> bytes:
    data = gzip.compress(b" " * (1 << 26), 9)
    data = data * 16  # members follow one another: a gigabyte in a megabyte
    for _ in range(layers - 1):
        data = gzip.compress(data, 9)
    return data


def _redirect(status: int) -> Callable[[_Handler], None]:
    return lambda h: h.answer(status, b"", Location=h.proxy.url.replace("127.0.0.1", "localhost"))


def _said(text: str, **usage: Any) -> dict[str, Any]:
    return {**_completion(message={"role": "assistant", "content": text}), "usage": usage}


def _usage(prompt: Any, completion: Any = 2) -> Callable[[_Handler], None]:
    body = _said("Paid for.", prompt_tokens=prompt, completion_tokens=completion)
    return lambda h: h.answer(200, body)


def _billed(message: dict[str, Any], **choice: Any) -> Callable[[_Handler], None]:
    usage = {"prompt_tokens": 999_999, "completion_tokens": 1}
    return lambda h: h.answer(200, {**_completion(message=message, **choice), "usage": usage})


FAULTS: dict[str, Callable[[_Handler], None]] = {
    "busy": lambda h: h.answer(429, {"error": {"message": "slow down"}}, Retry_After="0.05"),
    "broken": lambda h: h.answer(500, {"error": {"message": "out of order"}}),
    "drop": _Handler.drop,
    "half_answer": _half_answer,
    "stall": _stall,
    "held": _held,
    "garbage": lambda h: h.answer(200, b'{"choices": [{"mess'),
    "not_utf8": lambda h: h.answer(200, b'{"choices": "\xff\xfe"}'),
    "list": lambda h: h.answer(200, []),
    "no_choices": lambda h: h.answer(200, {"model": "fault-proxy", "choices": []}),
    "page": lambda h: h.answer(200, b"<html>Please log in</html>", "text/html"),
    "null": lambda h: h.answer(200, _completion(message={"role": "assistant", "content": None})),
    "filtered": lambda h: h.answer(
        200, _completion(message={"content": None}, finish_reason="content_filter")
    ),
    "refusal": lambda h: h.answer(
        200, _completion(message={"content": None, "refusal": "I can't help with that."})
    ),
    "too_long": lambda h: h.answer(
        400, {"error": {"message": "too long", "code": "context_length_exceeded"}}
    ),
    "policy": lambda h: h.answer(
        400, {"error": {"message": "blocked", "code": "content_policy_violation"}}
    ),
    "unknown_model": lambda h: h.answer(404, {"error": {"message": "no such model"}}),
    "echo_key": _echo_key,
    "reply_with_key": _reply_with_key,
    "key_in_two": _key_in_two,
    "error_with_key_in_two": _error_with_key_in_two,
    "drip": _drip,
    "drip_headers": _drip_headers,
    "endless_continue": _endless_continue,
    "endless_events": _endless_events,
    "flood": _flood,
    "error_flood": _error_flood,
    "gzip_bomb": lambda h: h.answer(200, _bomb(1), Content_Encoding="gzip"),
    "gzip_in_gzip": lambda h: h.answer(200, _bomb(2), Content_Encoding="gzip, gzip"),
    "not_gzip": lambda h: h.answer(200, b"{}", Content_Encoding="gzip"),
    "odd_packing": lambda h: h.answer(200, b"{}", Content_Encoding="br"),
    "odd_charset": lambda h: h.answer(200, b"[]", "application/json; charset=zlib_codec"),
    "moved": _redirect(302),
    "moved_for_good": _redirect(308),
    # A million tokens each, billed for nothing that can be used.
    "billed_null": _billed({"content": None}),
    "billed_tool_call": _billed({"content": None, "tool_calls": [{"id": "c1"}]}),
    "billed_words": _billed({"content": "It goes round and round."}),
    "billed_cut": _billed({"content": "It was a"}, finish_reason="length"),
    "huge_usage": _usage(10**25),
    "negative_usage": _usage(-5_000_000, -5_000_000),
    "usage_in_words": _usage("many", None),
    "usage_is_a_list": lambda h: h.answer(200, {**_said("Paid for."), "usage": [1]}),
    "fine": lambda h: h.answer(200, _said("Fine.", prompt_tokens=3, completion_tokens=2)),
}
