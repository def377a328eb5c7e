"""Agents with a memory of their own for tests, and servers that they stand behind."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

_ASKED = re.compile(r"Question: (.+)\nOptions: (.+)\n")


class Reader:
    """Answers a question from the texts that it can see, as a careful reader would.

    It knows the four relations of the ledgers. Of what it can't find it names the first option.
    """

    def __init__(self) -> None:
        self.memory: list[list[str]] = []
        self.hidden: set[int] = set()
        self.is_fork = False

    def observe(self, message: str) -> str:
        seen = [
            text for n, pair in enumerate(self.memory, 1) if n not in self.hidden for text in pair
        ]
        answer = reading(message, [*seen, message])
        self.memory.append([message, answer])
        return answer

    def fork(self, session: str) -> "Reader":
        copy = type(self)()
        copy.memory, copy.hidden = [list(pair) for pair in self.memory], set(self.hidden)
        copy.is_fork = True
        return copy

    def forget(self, episodes: Sequence[int]) -> None:
        self.hidden = set(episodes)


def reading(message: str, seen: Sequence[str]) -> str:
    """The answer to the last question of a message, by what was seen."""
    if "Reply with one number" in message:
        return "0.9"
    asked = _ASKED.findall(message)
    if not asked:
        return "Hello."
    question, options = asked[-1][0], asked[-1][1].split(", ")
    lines = [line for text in seen for line in text.split("\n") if line.endswith(".")]
    person = next((word for word in re.findall(r"[A-Z]\w+", question)[1:]), "")
    relation = {"live": "lives in", "own": "owns", "join": "joined in", "report": "reports to"}
    verb = next((said for word, said in relation.items() if f" {word}" in question), "?")
    told = [line for line in lines if line.startswith(person) and verb in line]
    named = [option for option in options if told and told[-1].rstrip(".").endswith(option)]
    return named[0] if named else options[0]


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
