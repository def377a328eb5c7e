"""An OpenAI-compatible server that rejects response formats and records requests."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self


class ChoosyServer:
    """Says "Rome" to everything that has no response format."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.choosy = self  # type: ignore[attr-defined]
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
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.choosy.asked.append(asked)  # type: ignore[attr-defined]
        if "response_format" in asked:
            self._answer(400, {"error": {"message": "response_format is not supported"}})
            return
        choice = {"index": 0, "message": {"role": "assistant", "content": "Rome"}}
        self._answer(200, {"model": "m", "choices": [{**choice, "finish_reason": "stop"}]})

    def _answer(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass
