"""Every route of the app: access without a token, access of raters, and what it writes."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from chimeralab.study import Study
from chimeralab.study.store import RETESTS
from chimeralab.web.app import Site, application
from chimeralab.web.safety import (
    HEADERS,
    MAX_BODY,
    POLICY,
    AllowedHosts,
    SecurityMiddleware,
    owner_auth,
)
from chimeralab.web.study import REPORT_POLICY
from tests.plans import PEOPLE_RATED, TELLING
from tests.studies import DRAWN, MakeStudy, StudyCache
from tests.unit.web.conftest import EXAMPLES, OWN, PORT, TOKEN
from tests.unit.web.test_rating import WRITE, post, rate_all, rater

FILLED = {
    "study": "1",
    "n": "1",
    "name": "ratings",
    "talk": "looping/p1/1",
    "place": "index.html",
}
# Tables that rating may write; none has turns or verdicts.
RATING = {"packets", "invitations", "drafts", "raters", "ratings", "adjudications", "samples"}
# Every write extends the chain; `study` has named notes.
BOOKKEEPING = {"chain", "study", "sqlite_sequence"}


class Everything:
    """The whole app on logs and a study."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.site = Site([str(self.study.path), str(EXAMPLES / "conversations.jsonl")])
        self.app: Starlette = application(self.site)
        authenticators = [owner_auth(TOKEN), *self.site.authenticators]
        self.safety = SecurityMiddleware(self.app, AllowedHosts("127.0.0.1", PORT), authenticators)

    def addresses(self) -> list[tuple[str, str]]:
        """Every method and path, with existing names for path parameters."""
        found = []
        for route in self.app.routes:
            assert isinstance(route, Route)
            path = re.sub(r"\{(\w+)(:\w+)?\}", lambda m: FILLED[m[1]], route.path)
            found += [(method, path) for method in sorted(route.methods or ())]
        return found

    def client(self, **how: Any) -> TestClient:
        return TestClient(self.safety, base_url=OWN, raise_server_exceptions=False, **how)

    def owner(self) -> TestClient:
        client = self.client()
        client.cookies.set(f"chimera-{PORT}", TOKEN)
        return client


@pytest.fixture(scope="module")
def everything(
    studies: StudyCache, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Everything]:
    folder = tmp_path_factory.mktemp("everything") / "study"
    made = Everything(studies.copy(folder, PEOPLE_RATED, steps=DRAWN))
    made.site.start()
    made.site.scanner.wait()
    yield made
    made.site.close()


def test_routes_are_found(everything: Everything) -> None:
    found = {path for _, path in everything.addresses()}
    assert {"/", "/logs/events", "/study/1/events", "/rate/1", "/static/ratings"} <= found
    assert len(found) > 20


def test_no_route_answers_without_a_token(everything: Everything) -> None:
    stranger = everything.client(follow_redirects=False)
    for method, path in everything.addresses():
        answer = stranger.request(method, path, headers=WRITE)
        assert (path, answer.status_code) == (path, 403)
        assert "set-cookie" not in answer.headers
        assert answer.headers["content-security-policy"] == POLICY


def test_rater_link_opens_rating_routes_only(everything: Everything) -> None:
    ann = rater(everything.safety, everything.owner(), "ann")
    for method, path in everything.addresses():
        if not path.startswith(("/rate", "/static/")):
            answer = ann.request(method, path, headers=WRITE)
            assert (path, answer.status_code) == (path, 403)
    for path in ("/rate/../study/1", "/rate/%2e%2e/study/1", "//study/1", "/RATE/../", "/ratex/1"):
        assert ann.get(path).status_code in {403, 404}
        assert "rated by people" not in ann.get(path).text


def test_every_response_has_the_security_headers(everything: Everything) -> None:
    owner = everything.owner()
    asked = [each for each in everything.addresses() if not each[1].endswith("/events")]
    for method, path in [*asked, ("GET", "/no/such/page"), ("PUT", "/logs"), ("PATCH", "/rate/1")]:
        answer = owner.request(method, path, headers=WRITE)
        policy = REPORT_POLICY if answer.status_code == 200 and "/report/" in path else POLICY
        expected = {**HEADERS, "content-security-policy": policy}
        assert {name: answer.headers[name] for name in HEADERS} == expected, path
        assert "server" not in answer.headers
    huge = owner.post("/study/1/raters", content=b"x" * (MAX_BODY + 1), headers=WRITE)
    assert (huge.status_code, huge.headers["content-security-policy"]) == (413, POLICY)


@pytest.mark.parametrize("number", [2**63, 2**63 - 1, 10**40, "9" * 5_000, "0" * 5_000])
def test_an_id_beyond_the_stores_range_is_not_found(everything: Everything, number: object) -> None:
    owner = everything.owner()
    for method, path in everything.addresses():
        huge = re.sub(r"/[0-9]+(?=/|$)", f"/{number}", path)
        if huge != path:
            answer = owner.request(method, huge, headers=WRITE)
            assert (path, answer.status_code) == (path, 404)
            assert answer.headers["content-security-policy"] == POLICY


def contents(study: Study) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(study.store_path)) as db:
        names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {name: db.execute(f"SELECT * FROM {name}").fetchall() for (name,) in names}


def files(study: Study) -> dict[str, bytes]:
    return {
        path.relative_to(study.path).as_posix(): path.read_bytes()
        for path in study.path.rglob("*")
        if path.is_file() and not path.name.startswith("study.db")
    }


def test_pages_write_ratings_and_samples_and_nothing_else(make_study: MakeStudy) -> None:
    everything = Everything(make_study(PEOPLE_RATED, steps=DRAWN))
    everything.site.start()
    try:
        owner, study = everything.owner(), everything.study
        before, lying = contents(study), files(study)
        for method, path in everything.addresses():
            if not path.endswith("/events"):
                owner.request(method, path, headers=WRITE, content=b"name=eve&label=1")
        ann, bob = (rater(everything.safety, owner, name) for name in ("ann", "bob"))
        rate_all(ann, "1")
        rate_all(bob, "0")
        post(ann, "/rate/hand-in")
        post(bob, "/rate/hand-in")
        after = contents(study)
        changed = {name for name, rows in after.items() if rows != before.get(name)}
        assert changed - BOOKKEEPING <= RATING
        assert {"ratings", "drafts"} <= changed
        notes = [row for row in after["study"] if row not in before["study"]]
        assert [row[0] for row in notes if not str(row[0]).startswith(RETESTS)] == []
        new = {name for name, content in files(study).items() if lying.get(name) != content}
        steps = {"study.count", "steps/audit.lock"}  # handing in decides the gate
        assert {name for name in new if not name.startswith("audit/")} <= steps
    finally:
        everything.site.close()


def skeleton(page: str) -> str:
    """Strip the turns and numbers from the page of a sheet."""
    frame = re.sub(r'<ol class="numbered cite[^>]*>.*?</ol>', "", page, flags=re.DOTALL)
    frame = re.sub(r"<nav class=\"pages\".*?</nav>", "", frame, flags=re.DOTALL)
    return re.sub(r"\d+", "#", frame)


def test_the_pages_of_sheets_differ_in_their_turns_alone(everything: Everything) -> None:
    cid = rater(everything.safety, everything.owner(), "cid")
    pages = [cid.get(f"/rate/{n}") for n in range(1, 8)]
    assert {page.status_code for page in pages} == {200}
    # Anything that reveals the condition, by id, title, order or size, would show here.
    assert len({skeleton(page.text) for page in pages}) == 1
    names = [{name for name, _ in page.headers.multi_items()} for page in pages]
    assert all(each == names[0] for each in names)
    turns = [re.findall(r'<span dir="auto">(.*?)</span>', page.text) for page in pages]
    assert len({tuple(each) for each in turns}) == 6  # one is shown twice
    received = "".join(f"{page.headers}{page.text}" for page in pages).lower()
    assert [word for word in TELLING if word in received] == []


def test_a_rater_gets_no_hash_of_a_file_or_a_time_of_the_study(everything: Everything) -> None:
    dee = rater(everything.safety, everything.owner(), "dee")
    for path in ("/rate", "/rate/1", "/rate/overview"):
        assert not {"etag", "last-modified", "age", "date"} & set(dee.get(path).headers)
