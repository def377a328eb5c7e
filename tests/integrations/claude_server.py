"""A scripted model server on loopback for Claude Code."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.integrations.scripted import Script

DONE = "All done."


@contextmanager
def scripted_claude(script: Script, folder: Path) -> Iterator[str]:
    """Its address. A page of the script is a file in the folder; the model reads it with Bash."""

    def block(prompt: Any) -> tuple[dict[str, Any], dict[str, Any], str]:
        page = script.next(json.dumps(prompt, ensure_ascii=False))
        if page is None:
            said = {"type": "text_delta", "text": DONE}
            return {"type": "text", "text": ""}, said, "end_turn"
        (folder / f"page{page}.txt").write_text(script.look(page))
        given = json.dumps({"command": f"cat page{page}.txt"})
        use = {"type": "tool_use", "id": f"toolu_{len(script.calls)}", "name": "Bash", "input": {}}
        return use, {"type": "input_json_delta", "partial_json": given}, "tool_use"

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            works = any(tool.get("name") == "Bash" for tool in asked.get("tools", ()))
            begins, goes_on, ends = block(asked["messages"]) if works else ASIDE
            usage = {"input_tokens": 1, "output_tokens": 1}
            message = {
                "id": f"msg_{len(script.calls)}_{ends}", "type": "message", "role": "assistant",
                "model": asked.get("model"), "content": [], "stop_reason": None, "usage": usage,
            }  # fmt: skip
            events: list[tuple[str, dict[str, Any]]] = [
                ("message_start", {"message": message}),
                ("content_block_start", {"index": 0, "content_block": begins}),
                ("content_block_delta", {"index": 0, "delta": goes_on}),
                ("content_block_stop", {"index": 0}),
                ("message_delta", {"delta": {"stop_reason": ends}, "usage": usage}),
                ("message_stop", {}),
            ]
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for name, fields in events:
                data = json.dumps({"type": name, **fields})
                self.wfile.write(f"event: {name}\ndata: {data}\n\n".encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


ASIDE = ({"type": "text", "text": ""}, {"type": "text_delta", "text": "A title"}, "end_turn")
