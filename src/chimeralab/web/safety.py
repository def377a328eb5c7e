"""Who may ask the server for what: every request passes here, and every answer leaves here.

The server shows texts that models wrote to people whose browser also visits other pages. So it
answers only to its own names (a page elsewhere could have its domain point here), only to those who
hold a token, takes writes only from its own pages, and tells the browser to run nothing but the
scripts that it serves itself.
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
        # No script, ours included, can turn a text into markup.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    # With "no-referrer" a browser would not say which page sends a form, and ours would be refused.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
READING = frozenset({"GET", "HEAD"})
# Nobody sends more than a reason and some turns.
MAX_BODY = 100_000
TOO_LARGE = f"a request has at most {MAX_BODY:,} bytes"
# Beyond this a number in an address is not an id that the store could hold.
MAX_DIGITS = 15


class Visitor(NamedTuple):
    """Whoever holds a token: the owner of the server, or a person who was invited to rate.

    `paths` are what they may ask for, by how it begins; `study` and `token` are of a rater.
    """

    kind: str
    paths: tuple[str, ...]
    study: int | None = None
    token: str | None = None

    def may_see(self, path: str) -> bool:
        return any(path == start or path.startswith(start) for start in self.paths)


OWNER = Visitor("owner", ("/",))
Authenticator = Callable[[str], Visitor | None]
"""Says whose token this is, if anyone's."""


def owner_auth(token: str) -> Authenticator:
    """Lets in whoever has the token of the start-up link."""
    known = token.encode()
    return lambda offered: OWNER if hmac.compare_digest(offered.encode(), known) else None


class AllowedHosts:
    """The names under which a server answers.

    An address in numbers can't be made to point elsewhere, so beyond loopback every one is good; of
    names, only the machine's own and the one that was asked for.
    """

    def __init__(self, host: str, port: int, *, secure: bool = False) -> None:
        self.port, self.secure = port, secure
        self.is_loopback = is_loopback(host)
        names = ["localhost"]
        if not self.is_loopback:
            names = [host, socket.gethostname(), socket.getfqdn()]
        self.own = {name.lower() for name in names}

    def allows(self, host: str) -> bool:
        """Whether a Host header names this server.

        >>> names = AllowedHosts("127.0.0.1", 8472)
        >>> names.allows("localhost:8472"), names.allows("evil.example:8472")
        (True, False)
        >>> names.allows("127.0.0.1:9999"), names.allows("10.0.0.7:8472")
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
    """Wraps the whole app: checks each request, and puts the policy on each response."""

    def __init__(
        self, app: ASGIApp, names: AllowedHosts, authenticators: Sequence[Authenticator]
    ) -> None:
        self.app = app
        self.names = names
        self.authenticators = list(authenticators)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # a WebSocket is refused before it is opened
            await send({"type": "websocket.close", "code": 1008})
            return
        offered = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1]

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if offered and scope.get("visitor"):
                    headers.append("set-cookie", self._cookie(offered))
            await send(message)

        refused = self._refusal(scope, offered)
        if refused:
            await refused(scope, receive, safely)
        else:
            await self.app(scope, _bounded(receive), safely)

    @property
    def cookie_name(self) -> str:
        """Cookies are shared by all ports of a host, so the name says which server's it is."""
        return f"chimera-{self.names.port}"

    def _cookie(self, token: str) -> str:
        secure = "; Secure" if self.names.secure else ""
        return f"{self.cookie_name}={token}; Path=/; HttpOnly; SameSite=Strict{secure}"

    def _refusal(self, scope: Scope, offered: str) -> Response | None:
        """Why a request is not answered; who is asking is put into the scope."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not self.names.allows(host):
            return _refuse(421, "this server does not go by that name")
        token = offered or cookie_parser(headers.get("cookie", "")).get(self.cookie_name, "")
        visitor = self._who(token)
        if visitor is None:
            return _refuse(403, "open the link that `chimera view` printed, or your invitation")
        scope["visitor"] = visitor
        if re.search(f"/[0-9]{{{MAX_DIGITS + 1},}}(?:/|$)", scope["path"]):
            return _refuse(404, "this page does not exist")
        if not visitor.may_see(scope["path"]):
            return _refuse(403, "your link is for rating alone")
        return None if scope["method"] in READING else self._refused_write(headers, host)

    def _refused_write(self, headers: Headers, host: str) -> Response | None:
        """Browsers say which page sends a write, and no page can make them say otherwise."""
        scheme = "https" if self.names.secure else "http"
        if headers.get("origin", "").lower() != f"{scheme}://{host.lower()}":
            return _refuse(403, "only pages of this server may change anything")
        length = headers.get("content-length", "0")
        if not re.fullmatch("[0-9]{1,9}", length) or int(length) > MAX_BODY:
            return _refuse(413, TOO_LARGE)
        return None

    def _who(self, token: str) -> Visitor | None:
        if not token or len(token) > 200 or not token.isascii():
            return None
        return next(
            (found for authenticate in self.authenticators if (found := authenticate(token))), None
        )


def _refuse(status: int, reason: str) -> Response:
    return PlainTextResponse(f"{reason}\n", status)


def _bounded(receive: Receive) -> Receive:
    """Stops a body that is longer than it said, or that said nothing."""
    got = 0

    async def bounded() -> Message:
        nonlocal got
        message = await receive()
        got += len(message.get("body", b""))
        if got > MAX_BODY:
            raise HTTPException(413, TOO_LARGE)
        return message

    return bounded
