"""Starting the server: the address is told first, and everything else comes after."""

import contextlib
import errno
import ipaddress
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_urlsafe

from chimeralab.core.errors import InputError

# Tried first, so that an address can be found again; another one is taken where it is in use.
PORT = 8472
BACKLOG = 128
SECONDS_TO_CLOSE = 2


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a server is to be reached, and what it may do."""

    paths: Sequence[str]
    host: str = "127.0.0.1"
    port: int | None = None
    allow_run: bool = False
    certificate: Path | None = None
    key: Path | None = None

    @property
    def scheme(self) -> str:
        return "https" if self.certificate else "http"

    @property
    def is_open_to_others(self) -> bool:
        return not is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether only this machine can get there.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if is_address(host):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


def is_address(name: str) -> bool:
    """Whether a host is given in numbers."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class OpenDoor:
    """A bound socket with the address that leads to it."""

    socket: socket.socket
    port: int
    token: str
    url: str


@contextlib.contextmanager
def opened(asked: ServerOptions) -> Iterator[OpenDoor]:
    """Take the port, before anything is imported that takes long: whoever connects has to wait."""
    found = _bound(asked)
    with contextlib.closing(found):
        port = found.getsockname()[1]
        token = token_urlsafe(32)
        shown = asked.host
        if shown in ("0.0.0.0", "::"):  # noqa: S104 - the user asked for it
            shown = socket.gethostname() if asked.certificate else _own_address(found.family)
        name = f"[{shown}]" if ":" in shown else shown
        yield OpenDoor(found, port, token, f"{asked.scheme}://{name}:{port}/?token={token}")


def check_certificate(asked: ServerOptions) -> None:
    """Refuse a certificate that can't be used, before an address is told that nobody could open."""
    if asked.certificate is None:
        if asked.key:
            raise InputError("--tls-key is of no use without --tls-cert")
        return
    import ssl  # noqa: PLC0415 - few need it

    try:
        # An empty password keeps it from asking for one in the middle of a start.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            asked.certificate, asked.key, password=""
        )
    except OSError as error:
        key = f"with the key in {asked.key}" if asked.key else "without --tls-key"
        # What OpenSSL says is for those who write it.
        why = "" if isinstance(error, ssl.SSLError) else f" ({error.strerror})"
        raise InputError(
            f"--tls-cert {asked.certificate} can't be used {key}{why}; "
            "both have to be PEM files that belong together, the key without a password"
        ) from None


def _bound(asked: ServerOptions) -> socket.socket:
    wanted = [PORT, 0] if asked.port is None else [asked.port]
    for port in wanted:
        try:
            family, _, _, _, address = socket.getaddrinfo(
                asked.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            made = socket.socket(family)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(BACKLOG)
        except socket.gaierror:
            raise InputError(f"--host {asked.host!r}: there is no such address") from None
        except (OSError, OverflowError) as error:
            if port != wanted[-1]:
                continue
            if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                reason = "another program uses it; choose another, or leave --port out"
            else:
                reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{asked.host} port {port} can't be used: {reason}") from None
        return made
    raise AssertionError


def _own_address(family: int) -> str:
    """The address by which others reach this machine, as far as it knows."""
    probe = socket.socket(family, socket.SOCK_DGRAM)
    with contextlib.closing(probe), contextlib.suppress(OSError):
        # Nothing is sent: it only asks which way packets would leave.
        probe.connect(("192.0.2.1", 9) if family == socket.AF_INET else ("2001:db8::1", 9))
        return str(probe.getsockname()[0])
    return "127.0.0.1" if family == socket.AF_INET else "::1"


def serve(asked: ServerOptions, door: OpenDoor) -> None:
    """Answer on the socket until the user stops it."""
    # Importing these takes longer than anything before, and the address must be told first.
    import uvicorn  # noqa: PLC0415

    from chimeralab.web.app import build  # noqa: PLC0415
    from chimeralab.web.protocol import SafeProtocol, StreamingServer  # noqa: PLC0415

    app, site = build(asked, door)
    config = uvicorn.Config(
        app,
        http=SafeProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SECONDS_TO_CLOSE,
        ssl_certfile=str(asked.certificate) if asked.certificate else None,
        ssl_keyfile=str(asked.key) if asked.key else None,
    )
    StreamingServer(config, site.hang_up).run(sockets=[door.socket])
