"""Security middleware: checks every request and sets the policy headers of every response.

Model output is untrusted, and the same browser visits other sites. So the server answers only under
its own host names (against DNS rebinding), only with a token, accepts writes only from its own
pages (against CSRF), and lets the browser run only its own scripts (against XSS).
"""

import contextlib
import hmac
import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chimeralab.web.serving import is_loopback

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        # No script, not even ours, can turn text into markup.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    # With "no-referrer", browsers would hide the origin of our own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
SAFE_METHODS = frozenset({"GET", "HEAD"})
# A rating is a reason and a few turn numbers.
MAX_BODY = 100_000
TOO_LARGE = f"the request body is larger than {MAX_BODY:,} bytes"
# Beyond this a number in an address is not an id that the store could hold.
MAX_DIGITS = 15


class Visitor(NamedTuple):
    """The holder of a token: the owner of the server, or an invited rater.

    `paths` are the prefixes they may request; `study` and `token` are set for raters.
    """

    kind: str
    paths: tuple[str, ...]
    study: int | None = None
    token: str | None = None

    def may_see(self, path: str) -> bool:
        return any(path == start or path.startswith(start) for start in self.paths)


OWNER = Visitor("owner", ("/",))
Authenticator = Callable[[str], Visitor | None]
"""Map a token to its holder, or to None."""


def owner_auth(token: str) -> Authenticator:
    """Authenticate the owner by the token of the start-up link."""
    known = token.encode()
    return lambda offered: OWNER if hmac.compare_digest(offered.encode(), known) else None


class AllowedHosts:
    """The host names under which a server answers.

    DNS rebinding needs a name, so beyond loopback any IP address is fine; of names, only the
    machine's own and that of --host.
    """

    def __init__(self, host: str, port: int, *, secure: bool = False) -> None:
        self.port, self.secure = port, secure
        self.is_loopback = is_loopback(host)
        names = ["localhost"]
        if not self.is_loopback:
            names = [host, socket.gethostname(), socket.getfqdn()]
        self.own = {name.lower() for name in names}

    def allows(self, host: str) -> bool:
        """Whether a Host header is one of this server's names.

        >>> hosts = AllowedHosts("127.0.0.1", 8472)
        >>> hosts.allows("localhost:8472"), hosts.allows("evil.example:8472")
        (True, False)
        >>> hosts.allows("127.0.0.1:9999"), hosts.allows("10.0.0.7:8472")
        (False, False)
        """
        found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?", host.lower())
        if found is None:
            return False
        name, port = found[1].strip("[]"), int(found[2] or (443 if self.secure else 80))
        if port != self.port:
            return False
        with contextlib.suppress(ValueError):
            address = ipaddress.ip_address(name)
            return address.is_loopback or not self.is_loopback
        return name in self.own


class SecurityMiddleware:
    """Check each request, and add the policy headers to each response."""

    def __init__(
        self, app: ASGIApp, hosts: AllowedHosts, authenticators: Sequence[Authenticator]
    ) -> None:
        self.app = app
        self.hosts = hosts
        self.authenticators = list(authenticators)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # reject WebSockets
            await send({"type": "websocket.close", "code": 1008})
            return
        offered = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1]

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if offered and scope.get("visitor"):
                    headers.append("set-cookie", self._cookie(offered))
            await send(message)

        rejection = self._reject(scope, offered)
        if rejection:
            await rejection(scope, receive, send_safely)
        else:
            await self.app(scope, _limit_body(receive), send_safely)

    @property
    def cookie_name(self) -> str:
        """All ports of a host share cookies, so the name contains the port."""
        return f"chimera-{self.hosts.port}"

    def _cookie(self, token: str) -> str:
        secure = "; Secure" if self.hosts.secure else ""
        return f"{self.cookie_name}={token}; Path=/; HttpOnly; SameSite=Strict{secure}"

    def _reject(self, scope: Scope, offered: str) -> Response | None:
        """Return an error response for a bad request, else put the visitor into the scope."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not self.hosts.allows(host):
            return _error(421, "wrong host name for this server")
        token = offered or cookie_parser(headers.get("cookie", "")).get(self.cookie_name, "")
        visitor = self._authenticate(token)
        if visitor is None:
            return _error(403, "open the link that `chimera view` printed, or your invitation link")
        scope["visitor"] = visitor
        if re.search(f"/[0-9]{{{MAX_DIGITS + 1},}}(?:/|$)", scope["path"]):
            return _error(404, "this page does not exist")
        if not visitor.may_see(scope["path"]):
            return _error(403, "your link gives access to rating only")
        return None if scope["method"] in SAFE_METHODS else self._reject_write(headers, host)

    def _reject_write(self, headers: Headers, host: str) -> Response | None:
        """Return an error for a write from another site: no page can forge the Origin header."""
        scheme = "https" if self.hosts.secure else "http"
        if headers.get("origin", "").lower() != f"{scheme}://{host.lower()}":
            return _error(403, "writes are accepted from this server's own pages only")
        length = headers.get("content-length", "0")
        if not re.fullmatch("[0-9]{1,9}", length) or int(length) > MAX_BODY:
            return _error(413, TOO_LARGE)
        return None

    def _authenticate(self, token: str) -> Visitor | None:
        if not token or len(token) > 200 or not token.isascii():
            return None
        return next(
            (found for authenticate in self.authenticators if (found := authenticate(token))), None
        )


def _error(status: int, reason: str) -> Response:
    return PlainTextResponse(f"{reason}\n", status)


def _limit_body(receive: Receive) -> Receive:
    """Reject a body that is longer than its declared length."""
    received = 0

    async def receive_limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MAX_BODY:
            raise HTTPException(413, TOO_LARGE)
        return message

    return receive_limited
