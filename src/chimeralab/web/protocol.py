"""The server beneath the app: what is no request is answered under our policy, streams end."""

import socket
from collections.abc import Callable

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from chimeralab.web.safety import HEADERS


class SafeProtocol(H11Protocol):
    """Answers garbage with a plain 400 that carries the policy; no such thing reaches the app."""

    def send_400_response(self, msg: str) -> None:
        ours = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        plain = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        for event in (
            h11.Response(status_code=400, headers=[*plain, *ours], reason=b"Bad Request"),
            h11.Data(data=msg.encode("ascii", "replace")),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class StreamingServer(uvicorn.Server):
    """Ends the streams to open pages before it stops, or it would wait for them in vain."""

    def __init__(self, config: uvicorn.Config, hang_up: Callable[[], None]) -> None:
        super().__init__(config)
        self._hang_up = hang_up

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._hang_up()
        await super().shutdown(sockets)
