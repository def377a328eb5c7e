"""A declared revision is verified where the server tells it; where it does not, that is said."""

import csv
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chimeralab import weights
from chimeralab.runner import RevisionChanged, TurnStored
from chimeralab.study import RunOptions, Study, run_study
from chimeralab.study.verify import verify_study
from tests.e2e.servers.named_server import NamedServer
from tests.e2e.servers.smollm_server import MODEL_NAME
from tests.studies import label

DIGEST = hashlib.sha256(b"the weights").hexdigest()
OTHER = hashlib.sha256(b"other weights").hexdigest()
COMMIT = hashlib.sha1(b"a commit", usedforsecurity=False).hexdigest()
QUIETLY = RunOptions(watch=False)
PLAN = """
[study]
name = "served"
[models.served]
use = "openai"
model = "gemma3"
base_url = "{url}"
max_retries = 0
{revision}
[conditions.solo]
speakers = ["served", "served"]
[conversation]
turns = 4
repeats = 2
[prompts]
items = [{{ id = "p1", text = "Begin." }}]
[gate]
raters = ["rules", "human:ann"]
"""


@pytest.fixture
def server() -> Iterator[NamedServer]:
    with NamedServer(fails_at=0) as running:
        yield running


Declare = Callable[[str | None], Study]


@pytest.fixture
def declare(tmp_path: Path, server: NamedServer) -> Declare:
    """Makes a study whose model declares a revision, or none."""

    def make(revision: str | None) -> Study:
        folder = tmp_path / "study"
        folder.mkdir()
        line = f'revision = "{revision}"' if revision else ""
        (folder / "plan.toml").write_text(PLAN.format(url=server.url, revision=line))
        return Study(folder)

    return make


def ollama(digest: str) -> dict[str, object]:
    """What Ollama answers, as far as its documentation shows it."""
    entry = {"name": "gemma3:latest", "model": "gemma3:latest", "size": 1, "digest": digest}
    model = {"id": "gemma3:latest", "object": "model", "created": 1, "owned_by": "library"}
    return {
        "/api/tags": {"models": [{"name": "other:latest", "digest": OTHER}, entry]},
        "/v1/models": {"object": "list", "data": [model]},
    }


def vllm(commit: str) -> dict[str, object]:
    root = f"/models/hub/models--g/snapshots/{commit}"
    return {"/v1/models": {"data": [{"id": "gemma3", "owned_by": "vllm", "root": root}]}}


def tell(server: NamedServer, told: object) -> None:
    server.pages = told if isinstance(told, dict) else {}
    server.more = {} if isinstance(told, dict) else {"system_fingerprint": told}


def swap(
    server: NamedServer, told: object, published: list[object] | None = None
) -> Callable[[object], None]:
    """A subscriber that lets the server tell something else once a turn is stored."""

    def take(news: object) -> None:
        if published is not None:
            published.append(news)
        if isinstance(news, TurnStored):
            tell(server, told)

    return take


@pytest.mark.parametrize(
    "case",
    [
        (DIGEST, ollama(DIGEST), 0, f"verified: it says Ollama digest {DIGEST}"),
        (DIGEST[:12], ollama(DIGEST), 0, f"served is revision {DIGEST[:12]}, verified: "),
        (f"sha256:{DIGEST}", ollama(DIGEST), 0, "verified: it says Ollama digest"),
        (DIGEST, ollama(OTHER), 1, f"revision {DIGEST}, but it says Ollama digest {OTHER}"),
        (COMMIT, vllm(COMMIT), 0, f"verified: it says /v1/models root {COMMIT}"),
        (COMMIT, vllm(OTHER[:40]), 1, f"{COMMIT}, but it says /v1/models root {OTHER[:9]}"),
        ("fp_1", "fp_1", 0, "verified: it says system_fingerprint fp_1"),
        ("fp_1", "fp_2", 1, "revision fp_1, but it says system_fingerprint fp_2"),
        (COMMIT, "fp_2", 0, "which is not verified: it says system_fingerprint fp_2"),
        (COMMIT, ollama(DIGEST), 0, "which is not verified: it says Ollama digest"),
        (COMMIT, {}, 0, f"{COMMIT}, which is not verified: it does not tell its revision"),
        (None, {}, 0, "served declares no revision; it does not tell its revision"),
        (None, "fp_2", 0, "served declares no revision; it says system_fingerprint fp_2"),
        (COMMIT, {"/v1/models": [1], "/api/tags": {"models": {"name": "gemma3"}}}, 0,
         "it does not tell its revision"),
        (COMMIT, {"/v1/models": {"data": [None, {"id": "gemma3", "sha": 7}]}, "/props": 3}, 0,
         "it does not tell its revision"),
    ],
)  # fmt: skip
def test_check_says_whether_the_revision_is_verified(
    chimera: Callable[..., Any],
    server: NamedServer,
    declare: Declare,
    case: tuple[str | None, object, int, str],
) -> None:
    declared, told, code, sentence = case
    tell(server, told)
    study = declare(declared)
    shown = chimera("check", study.path)
    assert (shown.code, sentence in " ".join(shown.out.split())) == (code, True), shown.out
    found = chimera("check", study.path, "--json").json["revisions"]["served"]
    assert sentence in found["sentence"]
    assert (found["state"] == "contradicted") == (code == 1)


def test_offline_check_says_that_the_model_was_not_asked(
    chimera: Callable[..., Any], declare: Declare
) -> None:
    shown = chimera("check", declare(COMMIT).path, "--offline").out
    assert f"{COMMIT}, which is not verified: it was not asked" in " ".join(shown.split())


@pytest.mark.parametrize(
    "case",
    [
        (DIGEST, ollama(DIGEST), f"served is revision {DIGEST}, verified: it says Ollama digest"),
        (COMMIT, {}, f"served declares revision {COMMIT}, which is not verified: it does not tell"),
        (None, {}, "served declares no revision; it does not tell its revision"),
    ],
)
def test_page_audit_and_export_say_it_too(
    chimera: Callable[..., Any],
    server: NamedServer,
    declare: Declare,
    tmp_path: Path,
    case: tuple[str | None, dict[str, object], str],
) -> None:
    declared, told, sentence = case
    tell(server, told)
    study = declare(declared)
    run_study(study, QUIETLY)
    server.pages = {}  # what was told at the time counts
    chimera("detect", study.path)
    chimera("rate", study.path)
    label(study, "human:ann", lambda name: name.endswith("1"))
    audited = chimera("audit", study.path)
    assert chimera("report", study.path).code == 0
    assert sentence in (study.path / "report" / "index.html").read_text(encoding="utf-8")
    chimera("export", study.path, "--format", "csv", "--out", tmp_path / "out")
    with (tmp_path / "out" / "turns.csv").open() as file:
        turn = next(csv.DictReader(file))
    assert turn["declared_revision"] == (declared or "")
    assert turn["revision_verified"] == ("" if declared is None else str(bool(told)).lower())
    with (tmp_path / "out" / "revisions.csv").open() as file:
        rows = [(row["model"], row["source"], row["told_revision"]) for row in csv.DictReader(file)]
    assert rows == [("served", "Ollama digest", DIGEST) if told else ("served", "", "")]
    assert verify_study(study).deviations[1:] == ()  # the first is that nothing was locked
    assert verify_study(study).findings == ()
    assert sentence in " ".join(audited.err.split())


def test_first_run_refuses_a_revision_that_is_not_the_declared_one(
    chimera: Callable[..., Any], server: NamedServer, declare: Declare
) -> None:
    tell(server, ollama(OTHER))
    study = declare(DIGEST)
    refused = chimera("run", study.path)
    assert refused.code == 2
    assert f"[models.served] can't be used: served declares revision {DIGEST}" in refused.err
    assert "Traceback" not in refused.err
    with study.archive() as archive:
        assert archive.value("SELECT count(*) FROM attempts") == 0
    tell(server, ollama(DIGEST))
    assert chimera("run", study.path).code == 0


@pytest.mark.parametrize("declared", ["fp_1", None])
def test_fingerprint_that_changes_during_a_run_is_named_at_once_and_in_verify(
    server: NamedServer, declare: Declare, declared: str | None
) -> None:
    tell(server, "fp_1")
    study = declare(declared)
    published: list[object] = []
    run_study(study, QUIETLY, swap(server, "fp_2", published))
    (changed,) = (each for each in published if isinstance(each, RevisionChanged))
    assert published.index(changed) < len(published) - 1
    assert "system_fingerprint fp_1, then fp_2" in changed.sentence
    assert ("declares revision fp_1, but" in changed.sentence) == (declared is not None)
    (_, deviation) = verify_study(Study(study.path)).deviations
    assert (deviation.kind, deviation.place) == ("another revision", "served")
    assert deviation.sentence == changed.sentence


def test_weights_replaced_during_a_run_are_named_at_its_end_and_in_verify(
    chimera: Callable[..., Any], server: NamedServer, declare: Declare
) -> None:
    tell(server, ollama(DIGEST))
    study = declare(DIGEST)
    run_study(study, QUIETLY, swap(server, ollama(OTHER)))
    (_, deviation) = verify_study(Study(study.path)).deviations
    assert f"but it says Ollama digest {DIGEST}, then {OTHER}" in deviation.sentence
    assert deviation.sentence in json.dumps(chimera("verify", study.path, "--json").json)


def test_run_command_names_a_changed_revision(
    chimera: Callable[..., Any],
    server: NamedServer,
    declare: Declare,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    tell(server, "fp_1")
    study = declare("fp_1")
    take = swap(server, "fp_2")
    monkeypatch.setattr("chimeralab.cli.run.RunProgress.add", lambda self, news: take(news))
    ran = chimera("run", study.path, "--events", tmp_path / "events.jsonl")
    assert "served declares revision fp_1, but it says system_fingerprint fp_1, then fp_2" in (
        " ".join(ran.err.split())
    )
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    (event,) = (each for each in events if each["event"] == "revision_changed")
    assert event["told"] == {"system_fingerprint": "fp_2"}


@pytest.mark.parametrize(
    "case",
    [
        ("model.gguf", b"GGUF and more", True),
        ("model.gguf", b"secret", False),
        ("model-00001-of-00002.gguf", b"GGUF and more", False),
        ("model.gguf", None, False),
    ],
)
def test_only_a_whole_gguf_file_on_this_machine_is_hashed(
    chimera: Callable[..., Any],
    server: NamedServer,
    declare: Declare,
    tmp_path: Path,
    case: tuple[str, bytes | None, bool],
) -> None:
    name, content, is_hashed = case
    if content:
        (tmp_path / name).write_bytes(content)
    server.pages = {"/props": {"model_path": str(tmp_path / name)}}
    found = chimera("check", declare(None).path, "--json").json["revisions"]["served"]
    sha256 = hashlib.sha256(content or b"").hexdigest()
    assert found["told"] == (f"GGUF sha256 {sha256}" if is_hashed else "")


@pytest.mark.model
def test_file_of_a_llama_cpp_server_is_hashed(
    chimera: Callable[..., Any], tmp_path: Path, smollm_url: str, smollm_key: str
) -> None:
    (file,) = weights.MODELS["smollm2"].files
    model = f'key_env = "{smollm_key}"\nrevision = "{file.sha256}"'
    plan = PLAN.format(url=smollm_url, revision=model).replace("gemma3", MODEL_NAME)
    (tmp_path / "plan.toml").write_text(plan)
    found = chimera("check", tmp_path, "--json").json["revisions"]["served"]
    assert found["state"] == "verified"
    assert f"GGUF sha256 {file.sha256}" in found["told"]
    (tmp_path / "plan.toml").write_text(plan.replace(file.sha256, OTHER))
    assert chimera("check", tmp_path).code == 1
