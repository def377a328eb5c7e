"""Servers on loopback for tests: each answers with what a function says, and keeps what it got."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from tests.agent_trial import Reader

# Set when a server stops, for answers that have to wait until then.
release = Event()


class Serving:
    """A server that holds readers by their sessions, and every request that it got."""

    def __init__(self) -> None:
        self.sessions: dict[str, Any] = {}
        self.requests: list[dict[str, Any]] = []

    def answer(self, asked: dict[str, Any]) -> tuple[int, Any]:
        self.requests.append(asked)
        name, do = asked["session"], asked["do"]
        if name not in self.sessions and (do != "observe" or asked.get("episode", 1) > 1):
            return 404, {}
        match do:
            case "observe":
                reader = self.sessions.setdefault(name, Reader())
                return 200, {"answer": reader.observe(asked["message"])}
            case "fork":
                self.sessions[asked["into"]] = self.sessions[name].fork("")
            case "forget":
                self.sessions[name].forget(asked["episodes"])
            case "end":
                del self.sessions[name]
        return 200, {}


@contextmanager
def serving(
    answer: Callable[[dict[str, Any]], tuple[int, Any]], received: list[str] | None = None
) -> Iterator[str]:
    """The address of a running server; `received` gets every request as it came, head and body."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Else each body waits 40 ms for the client to acknowledge the head.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            given = self.rfile.read(int(self.headers["Content-Length"]))
            if received is not None:
                received.append(f"{self.requestline}\n{self.headers}\n{given.decode()}")
            status, body = answer(json.loads(given))
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # the usual 5 drop some of the connections that come at one moment

        def handle_error(self, *_: Any) -> None:
            """A client that does not wait for its answer is part of the test."""

    server = Server(("127.0.0.1", 0), Handler)
    release.clear()
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/agent"
    finally:
        release.set()
        server.shutdown()
        server.server_close()
