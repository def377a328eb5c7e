"""The report in the app: only files of its folder are served, and scripts are forbidden."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from starlette.testclient import TestClient
from starlette.types import Message

from chimeralab.web.study import REPORT as FOLDER
from chimeralab.web.study import REPORT_PAGE as PAGE
from chimeralab.web.study import REPORT_POLICY as POLICY
from tests.plans import PEOPLE_RATED
from tests.studies import DRAWN, MakeStudy
from tests.unit.web.conftest import OWN, PORT, TOKEN
from tests.unit.web.test_study import client_of


@pytest.fixture
def reported(make_study: MakeStudy) -> Path:
    """A study with its report, and a secret next to it."""
    study = make_study(PEOPLE_RATED, steps=(*DRAWN, "report"))
    assert (study.path / FOLDER / PAGE).is_file()
    (study.path / "secret.csv").write_text("the secret", encoding="utf-8")
    return study.path


@pytest.fixture
def owner(reported: Path) -> Iterator[TestClient]:
    with client_of(reported) as client:
        yield client


def test_report_is_linked_and_served_unchanged(owner: TestClient, reported: Path) -> None:
    assert "by the detector alone" in owner.get("/study/1").text  # nobody has rated
    assert 'href="/study/1/report"' in owner.get("/study/1").text
    assert f'href="/study/1/report/{PAGE}"' in owner.get("/study/1/report").text
    answer = owner.get(f"/study/1/report/{PAGE}")
    assert answer.content == (reported / FOLDER / PAGE).read_bytes()
    assert answer.headers["content-type"].startswith("text/html")


def test_report_files_are_listed_and_served(owner: TestClient, reported: Path) -> None:
    folder = reported / FOLDER
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {"numbers.json", "numbers.tex"} < written
    listed = owner.get("/study/1/report").text
    for place in written:
        assert f'href="/study/1/report/{place}"' in listed
        assert owner.get(f"/study/1/report/{place}").content == (folder / place).read_bytes()


def test_report_policy_allows_styles_but_no_scripts(owner: TestClient) -> None:
    headers = owner.get(f"/study/1/report/{PAGE}").headers
    assert headers.get_list("content-security-policy") == [POLICY]
    assert "script" not in POLICY
    assert POLICY.startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    # Other pages keep their own policy.
    assert "unsafe-inline" not in owner.get("/study/1/report").headers["content-security-policy"]


def asked_raw(client: TestClient, address: str) -> int:
    """Request an address as it is; HTTP clients would normalise its dots."""
    heard: list[Message] = []

    async def send(message: Message) -> None:
        heard.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    cookie = f"chimera-{PORT}={TOKEN}".encode()
    scope = {
        "type": "http",
        "method": "GET",
        "path": unquote(address),
        "raw_path": address.encode(),
        "query_string": b"",
        "headers": [(b"host", OWN.removeprefix("http://").encode()), (b"cookie", cookie)],
    }

    async def ask() -> None:
        await client.app(scope, receive, send)

    asyncio.run(ask())
    return int(heard[0]["status"])


def test_client_sends_addresses_unnormalised(owner: TestClient) -> None:
    assert asked_raw(owner, f"/study/1/report/{PAGE}") == 200


@pytest.mark.parametrize(
    "place",
    [
        "../secret.csv",
        "%2e%2e/secret.csv",
        "..%2fsecret.csv",
        "%2e%2e%2fsecret.csv",
        "figures/../../secret.csv",
        "figures/%2e%2e/%2e%2e/secret.csv",
        "..%5csecret.csv",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "index.html%00.csv",
        "index.html/",
        "./index.html",
        "",
        ".",
        "figures",
        "~/secret.csv",
    ],
)
def test_no_address_escapes_the_report_folder(owner: TestClient, place: str) -> None:
    assert asked_raw(owner, f"/study/1/report/{place}") == 404


def test_symbolic_links_are_not_followed(reported: Path) -> None:
    study = reported
    (study / FOLDER / "leak.csv").symlink_to(study / "secret.csv")
    (study / FOLDER / "out").symlink_to(study, target_is_directory=True)
    with client_of(study) as client:
        for place in ("leak.csv", "out/secret.csv"):
            assert client.get(f"/study/1/report/{place}").status_code == 404
    moved = study / "elsewhere"
    (study / FOLDER).rename(moved)
    (study / FOLDER).symlink_to(moved, target_is_directory=True)
    with client_of(study) as client:
        assert client.get(f"/study/1/report/{PAGE}").status_code == 404


def test_other_files_in_the_report_folder_are_not_served(reported: Path) -> None:
    study = reported
    (study / FOLDER / "planted.js").write_text("alert(1)", encoding="utf-8")
    with client_of(study) as client:
        assert client.get("/study/1/report/planted.js").status_code == 404
        assert "planted" not in client.get("/study/1/report").text


def test_page_explains_how_to_write_a_missing_report(make_study: MakeStudy) -> None:
    study = make_study(PEOPLE_RATED, steps=DRAWN).path
    with client_of(study) as client:
        assert f"chimera report {study}" in client.get("/study/1/report").text
        assert client.get(f"/study/1/report/{PAGE}").status_code == 404


def test_report_needs_a_token(owner: TestClient) -> None:
    owner.cookies.clear()
    assert owner.get(f"/study/1/report/{PAGE}").status_code == 403
    owner.cookies.set(f"chimera-{PORT}", TOKEN + "x")
    assert owner.get("/study/1/report/numbers.json").status_code == 403
