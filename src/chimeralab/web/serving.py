"""Starting the server: the address is told first, and everything else comes after."""

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

from chimeralab.core.errors import InputError

# Tried first, so that an address can be found again; another one is taken where it is in use.
PORT = 8472
BACKLOG = 128
SECONDS_TO_SEARCH = 0.5


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
    def is_open_to_others(self) -> bool:
        return not is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether only this machine can get there.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


def studies_at(path: Path) -> list[Path]:
    """The study at a path, or the studies in a folder, at any depth."""
    if (path / "plan.toml").is_file():
        return [path]
    found = []
    for where, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if "plan.toml" in files:
            found.append(Path(where))
            folders.clear()
    return found


class _TakesTooLong(Exception):
    """There is so much to look at that the server may as well start."""


def check_path(path: Path) -> None:
    """Refuse a path without anything to show, as far as a short look can tell."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if not path.is_dir() or (path / "plan.toml").is_file():
        return
    from chimeralab.readers.logs import logs_at  # noqa: PLC0415 - a study needs no formats

    end = time.monotonic() + SECONDS_TO_SEARCH

    def passed_over(_: str) -> None:
        if time.monotonic() > end:
            raise _TakesTooLong

    try:
        next(logs_at(str(path), passed_over), None)
    except _TakesTooLong:
        return
    except InputError as error:
        if not studies_at(path):
            raise InputError(f"{error}, and no study (a folder with plan.toml)") from None


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


def new_token() -> str:
    return token_urlsafe(32)


class Server:
    """A port that is taken before anything slow is imported: whoever connects early waits."""

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self.socket = bind_socket(options)
        self.port: int = self.socket.getsockname()[1]
        self.token = new_token()

    @property
    def url(self) -> str:
        """The address with its token."""
        host, certificate = self.options.host, self.options.certificate
        if host in ("0.0.0.0", "::"):  # noqa: S104 - the user asked for it
            host = socket.gethostname() if certificate else _own_address(self.socket.family)
        name = f"[{host}]" if ":" in host else host
        scheme = "https" if certificate else "http"
        return f"{scheme}://{name}:{self.port}/?token={self.token}"

    def serve(self) -> None:
        """Answer until the user stops it."""
        from chimeralab.web.app import run_server  # noqa: PLC0415 - slow to import

        run_server(self)

    def close(self) -> None:
        self.socket.close()


def bind_socket(asked: ServerOptions) -> socket.socket:
    """Take the port that is wanted, or else the usual one or any."""
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
