"""Server start-up: bind the port and print the address before anything slow is imported."""

import contextlib
import errno
import ipaddress
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING

from chimeralab.core.errors import InputError, LogError

if TYPE_CHECKING:
    from chimeralab.detection.cost import Prices

# Tried first, to keep addresses stable; if it is taken, any free port is used.
PORT = 8472
BACKLOG = 128
SECONDS_TO_SEARCH = 0.5


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of `chimera view`."""

    paths: Sequence[str]
    host: str = "127.0.0.1"
    port: int | None = None
    allow_run: bool = False
    certificate: Path | None = None
    key: Path | None = None
    prices: "Prices | None" = None

    @property
    def is_open_to_others(self) -> bool:
        return not is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


def studies_at(path: Path) -> list[Path]:
    """Find the study at a path, or all studies in a folder, at any depth."""
    if (path / "plan.toml").is_file():
        return [path]
    found = []
    for where, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if "plan.toml" in files:
            found.append(Path(where))
            folders.clear()
    return found


def check_path(path: Path) -> None:
    """Reject a path with nothing to show, as far as a search of half a second can tell."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if not path.is_dir() or (path / "plan.toml").is_file():
        return
    from chimeralab.readers.logs import logs_at  # noqa: PLC0415 - slow to import

    end = time.monotonic() + SECONDS_TO_SEARCH

    def check_time(_: LogError) -> None:
        if time.monotonic() > end:
            raise TimeoutError

    try:
        next(logs_at(str(path), check_time), None)
    except TimeoutError:
        return
    except InputError as error:
        if not studies_at(path):
            raise InputError(f"{error}, and no study (a folder with plan.toml)") from None


def check_certificate(options: ServerOptions) -> None:
    """Reject an unusable certificate before an address is printed."""
    if options.certificate is None:
        if options.key:
            raise InputError("--tls-key needs --tls-cert")
        return
    import ssl  # noqa: PLC0415 - rarely needed

    try:
        # Without a password argument, OpenSSL would prompt for one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            options.certificate, options.key, password=""
        )
    except OSError as error:
        key = f"with the key in {options.key}" if options.key else "without --tls-key"
        # OpenSSL's own messages don't help users.
        why = "" if isinstance(error, ssl.SSLError) else f" ({error.strerror})"
        raise InputError(
            f"--tls-cert {options.certificate} can't be used {key}{why}; "
            "they must be matching PEM files, and the key must have no password"
        ) from None


def new_token() -> str:
    return token_urlsafe(32)


class Server:
    """A server whose port is open before anything slow is imported; early requests wait."""

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self.socket = bind_socket(options)
        self.port: int = self.socket.getsockname()[1]
        self.token = new_token()

    @property
    def url(self) -> str:
        """The address, including the token."""
        host, certificate = self.options.host, self.options.certificate
        if host in ("0.0.0.0", "::"):  # noqa: S104 - the user asked for it
            host = socket.gethostname() if certificate else _own_address(self.socket.family)
        name = f"[{host}]" if ":" in host else host
        scheme = "https" if certificate else "http"
        return f"{scheme}://{name}:{self.port}/?token={self.token}"

    def serve(self) -> None:
        """Serve requests until interrupted."""
        from chimeralab.web.app import run_server  # noqa: PLC0415 - slow to import

        run_server(self)

    def close(self) -> None:
        self.socket.close()


def bind_socket(options: ServerOptions) -> socket.socket:
    """Bind the given port; by default the usual one, or any free one if that is in use."""
    ports = [PORT, 0] if options.port is None else [options.port]
    for port in ports:
        try:
            family, _, _, _, address = socket.getaddrinfo(
                options.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            bound = socket.socket(family)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(BACKLOG)
        except socket.gaierror:
            raise InputError(f"--host {options.host!r}: address not found") from None
        except (OSError, OverflowError) as error:
            if port != ports[-1]:
                continue
            if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                reason = "it is in use; choose another port, or leave out --port"
            else:
                reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{options.host} port {port} can't be used: {reason}") from None
        return bound
    raise AssertionError


def _own_address(family: int) -> str:
    """Guess the address by which others reach this machine."""
    probe = socket.socket(family, socket.SOCK_DGRAM)
    with contextlib.closing(probe), contextlib.suppress(OSError):
        # A UDP connect sends nothing; it only selects the route.
        probe.connect(("192.0.2.1", 9) if family == socket.AF_INET else ("2001:db8::1", 9))
        return str(probe.getsockname()[0])
    return "127.0.0.1" if family == socket.AF_INET else "::1"
