"""What tests share: running `chimera` as a user would, and laws that know no deadline."""

import gc
import hashlib
import json
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from chimeralab.cli.main import limit_blas_threads, main

# The light install has no studies, and tests of what it does have run there, too.
if find_spec("jinja2"):
    from tests.studies import make_study, studies  # noqa: F401

# The tests run the command in their own process, so that process is set up as the command's is.
limit_blas_threads()

# In the background or under nohup, signals are ignored, and so they would be by what tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# On a loaded machine any example may be slow, and that says nothing about the law. `make test` and
# continuous integration draw the same examples each time, with the profile "ci" of Hypothesis.
PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("chimera", **PATIENT)
settings.register_profile("ci", **PATIENT, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if "CI" in os.environ else "chimera")


def pytest_collection_finish() -> None:
    """Freeze what was imported, so that garbage collection does not scan it again and again."""
    gc.collect()
    gc.freeze()


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def json(self) -> dict[str, Any]:
        """Standard output as one JSON object."""
        result: dict[str, Any] = json.loads(self.out)
        return result


@pytest.fixture(scope="session", autouse=True)
def _own_vectors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Vectors of the studies of tests are not kept among those of the user."""
    kept = tmp_path_factory.mktemp("vectors") / "vectors.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("chimeralab.embedding.encoder.vector_cache", lambda: kept)
        yield


@pytest.fixture(scope="session", autouse=True)
def _draw_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The renderer draws each chart once for all tests: most reports are of the same studies."""
    if find_spec("vl_convert") is None:
        yield
        return
    import vl_convert  # noqa: PLC0415 - the light install has none

    folder = _of_all_workers(tmp_path_factory, "charts")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("vegalite_to_svg", "svg_to_png"):
            patch.setattr(vl_convert, name, _kept(getattr(vl_convert, name), folder))
        yield


def _of_all_workers(factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder that the processes of pytest-xdist share."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    return folder


def _kept(render: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    """The function, with what it returned kept in a folder by its arguments."""

    def once(*arguments: Any, **options: Any) -> Any:
        key = hashlib.sha256(pickle.dumps((render.__name__, arguments, options))).hexdigest()
        kept = folder / key
        if not kept.is_file():
            written = folder / f"{key}.{os.getpid()}"
            written.write_bytes(pickle.dumps(render(*arguments, **options)))
            written.replace(kept)
        return pickle.loads(kept.read_bytes())

    return once


@pytest.fixture
def stranger(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Ran]:
    """Runs the command in this process and gives its exit code and output."""

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["chimera", *map(str, arguments)])
        capfd.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capfd.readouterr()
        assert "Traceback" not in captured.err
        return Ran(code, captured.out, captured.err)

    return run


# The commands that run code of a study, once they are allowed to.
RUNNING_CODE = ("check", "lock", "run", "detect", "rate", "calibrate")


@pytest.fixture
def chimera(stranger: Callable[..., Ran]) -> Callable[..., Ran]:
    """Runs the command as the author of a study does, who allows its code to run."""

    def run(command: object, *arguments: object) -> Ran:
        in_study = any(Path(str(each), "plan.toml").is_file() for each in arguments)
        allowed = ("--allow-code",) if command in RUNNING_CODE and in_study else ()
        return stranger(command, *arguments, *allowed)

    return run
