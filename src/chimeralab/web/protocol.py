"""The HTTP layer of the server: also what is no request at all is answered under our policy."""

import h11
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
