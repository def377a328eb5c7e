"""An OpenAI-compatible server whose model can be changed while it runs."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self

from chimeralab.models.phantom import line


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # the usual 5 drop some of the connections that come at one moment


class NamedServer:
    """Answers as `name`: a model called `loops` repeats itself, any other says something new.

    Every question of `fails_at` messages is failed the first time that it is asked. `pages` are the
    answers to GET, by path, and `more` is added to every completion.
    """

    def __init__(self, name: str = "first", fails_at: int = 3) -> None:
        self.name = name
        self.pages: dict[str, object] = {}
        self.more: dict[str, object] = {}
        self.fails_at = fails_at
        self.failed: set[str] = set()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.named = self  # type: ignore[attr-defined]
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        named: NamedServer = self.server.named  # type: ignore[attr-defined]
        found = self.path in named.pages
        self._answer(200 if found else 404, named.pages.get(self.path, {"error": "not found"}))

    def do_POST(self) -> None:
        named: NamedServer = self.server.named  # type: ignore[attr-defined]
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        question = json.dumps(asked, sort_keys=True)
        if len(asked["messages"]) == named.fails_at and question not in named.failed:
            named.failed.add(question)
            self._answer(500, {"error": {"message": "down for now"}})
            return
        said = "We could begin with the map, and go on from there."
        if asked["model"] != "loops":
            said = line(asked.get("seed", 0), named.name, len(asked["messages"]))
        message = {"role": "assistant", "content": said}
        self._answer(
            200,
            {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": f"{asked['model']}-{named.name}",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10},
                **named.more,
            },
        )

    def _answer(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Do not log."""
