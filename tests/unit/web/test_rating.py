"""The pages of raters and of the owner who invites them."""

import csv
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from chimeralab.rating.samples import load_samples
from chimeralab.study import Study
from chimeralab.web.app import Site, application
from chimeralab.web.safety import AllowedHosts, SecurityMiddleware, owner_auth
from tests.plans import PEOPLE_RATED, TELLING
from tests.studies import DRAWN, MakeStudy
from tests.unit.web.conftest import OWN, PORT, TOKEN

WRITE = {"origin": OWN, "content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
def safety(make_study: MakeStudy) -> Iterator[SecurityMiddleware]:
    site = Site([str(make_study(PEOPLE_RATED, steps=DRAWN).path)])
    site.start()
    yield SecurityMiddleware(
        application(site),
        AllowedHosts("127.0.0.1", PORT),
        [owner_auth(TOKEN), *site.authenticators],
    )
    site.close()


@pytest.fixture
def owner(safety: SecurityMiddleware) -> TestClient:
    client = TestClient(safety, base_url=OWN)
    client.get(f"/?token={TOKEN}")
    return client


def rater(
    safety: SecurityMiddleware, owner: TestClient, name: str, task: str = "rate"
) -> TestClient:
    """Invite a rater and open their link."""
    shown = owner.post("/study/1/raters", content=f"name={name}&task={task}", headers=WRITE).text
    link = shown.partition('<code id="link" class="typed">')[2].partition("</code>")[0]
    assert link.startswith(f"{OWN}/rate?token=")
    client = TestClient(safety, base_url=OWN)
    client.get(link.removeprefix(OWN))
    return client


def post(client: TestClient, path: str, content: str = "") -> str:
    answer = client.post(path, content=content, headers=WRITE)
    assert answer.status_code < 300, answer.text
    return answer.text


def rate_all(client: TestClient, label: str = "1") -> None:
    for n in range(1, 8):
        post(client, f"/rate/{n}", f"label={label}&turn=2&turn=3&reason=The+same")


def test_a_rater_is_trained_rates_and_hands_in(safety, owner):
    ann = rater(safety, owner, "ann")
    assert "You start with" in ann.get("/rate").text
    shown = post(ann, "/rate/training/1", "label=1")
    assert "the rubric" in shown.lower()
    rate_all(ann)
    overview = ann.get("/rate/overview").text
    assert "Hand in</button>" in overview
    assert "stored and can no longer be changed" in post(ann, "/rate/hand-in")
    assert "stored and can no longer be changed" in ann.get("/rate/3").text


def test_a_change_is_saved_without_moving_on(safety, owner):
    ann = rater(safety, owner, "ann")
    kept = ann.post("/rate/2", content="turn=1&reason=Half+a+thou", headers=WRITE)
    assert kept.status_code == 204
    page = ann.get("/rate/2").text
    assert 'value="Half a thou"' in page
    assert 'value="1" data-walk aria-label="Cite turn T0" checked' in page
    assert "aria-pressed" not in page
    post(ann, "/rate/2", "label=0")
    assert 'value="0" data-key="0" aria-pressed="true"' in ann.get("/rate/2").text


def test_a_one_needs_the_turns_that_it_points_at(safety, owner):
    ann = rater(safety, owner, "ann")
    assert "A 1 needs the turns" in post(ann, "/rate/2", "label=1&reason=So")
    page = ann.get("/rate/2").text
    assert 'value="So"' in page
    assert "aria-pressed" not in page


def test_an_invitation_that_only_this_machine_can_open_says_so(safety, owner):
    page = owner.post("/study/1/raters", content="name=ann", headers=WRITE).text
    assert "Other machines can't open it" in page


def test_a_raters_link_only_gives_access_to_rating(safety, owner):
    ann = rater(safety, owner, "ann")
    closed = ("raters", "reliability", "report", "report/index.html", "export/ratings.csv")
    for path in ("/", "/logs", "/study/1", *(f"/study/1/{each}" for each in closed)):
        assert ann.get(path).status_code == 403
    refused = ann.post("/study/1/raters", content="name=eve", headers=WRITE)
    assert refused.status_code == 403


def test_the_owner_has_no_sheets(owner):
    assert owner.get("/rate").status_code == 403


def test_labels_are_accepted_only_from_our_own_pages(safety, owner):
    ann = rater(safety, owner, "ann")
    answer = ann.post("/rate/1", content="label=1", headers={"origin": "https://evil.example"})
    assert answer.status_code == 403
    assert "0 of 7" in ann.get("/rate/1").text


def test_nothing_sent_to_a_rater_reveals_the_origin_of_a_conversation(safety, owner):
    ann = rater(safety, owner, "ann")
    paths = ["/rate", "/rate/training/1", "/rate/overview", *(f"/rate/{n}" for n in range(1, 8))]
    received = [ann.get(path) for path in paths]
    everything = "".join(f"{answer.headers}{answer.text}" for answer in received).lower()
    assert [word for word in TELLING if word in everything.replace("looping back", "")] == []


def test_raters_see_different_orders(safety, owner):
    ann, bob = rater(safety, owner, "ann"), rater(safety, owner, "bob")
    texts = [
        [client.get(f"/rate/{n}").text.partition("<ol")[2] for n in range(1, 8)]
        for client in (ann, bob)
    ]
    assert texts[0] != texts[1]


def test_a_replaced_link_is_rejected(safety, owner):
    ann = rater(safety, owner, "ann")
    rater(safety, owner, "ann")
    assert ann.get("/rate").status_code == 403


def test_a_gate_decided_by_two_is_shown_and_adjudicated_by_a_third(safety, owner):
    ann, bob = rater(safety, owner, "ann"), rater(safety, owner, "bob")
    rate_all(ann, "1")
    rate_all(bob, "0")
    assert "human:ann" not in owner.get("/study/1/reliability").text.partition("Disagreements")[2]
    post(ann, "/rate/hand-in")
    post(bob, "/rate/hand-in")
    shown = owner.get("/study/1/reliability").text
    assert "Gate: " in shown
    assert "0 of 6" in shown  # each rater against the rest
    assert "adjudicated: not yet" in shown
    cid = rater(safety, owner, "cid", "adjudicate")
    page = cid.get("/rate/1").text
    assert "The raters' labels" in page
    assert "human:" not in page
    for n in range(1, 7):
        post(cid, f"/rate/{n}", "label=0&reason=New+content")
    post(cid, "/rate/hand-in")
    assert "adjudicated: 0" in owner.get("/study/1/reliability").text


def table(client: TestClient, name: str) -> list[dict[str, str]]:
    answer = client.get(f"/study/1/export/{name}.csv")
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}.csv"'
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(answer.text.splitlines()))


def test_exports_omit_sealed_labels_and_include_adjudicated_ones(safety, owner):
    ann, bob = rater(safety, owner, "ann"), rater(safety, owner, "bob")
    rate_all(ann, "1")
    post(ann, "/rate/hand-in")
    assert table(owner, "ratings") == []
    refused = owner.get("/study/1/export/validation.csv")
    assert refused.status_code == 400
    assert "no label of" in refused.text
    for n in range(1, 8):
        post(bob, f"/rate/{n}", f"label={n % 2}&turn=2&reason=As+I+see+it")
    post(bob, "/rate/hand-in")
    said: dict[str, set[str]] = {}
    for row in table(owner, "ratings"):
        assert row["adjudicated"] == ""
        said.setdefault(row["item"], set()).add(row["label"])
    agreed = {item for item, labels in said.items() if len(labels) == 1}
    assert 0 < len(agreed) < len(said) == 6
    targets = {row["id"]: row["target"] for row in table(owner, "validation")}
    assert targets == dict.fromkeys(agreed, "true")
    cid = rater(safety, owner, "cid", "adjudicate")
    for n in range(1, len(said) - len(agreed) + 1):
        post(cid, f"/rate/{n}", "label=0&reason=New+content")
    post(cid, "/rate/hand-in")
    rows = table(owner, "ratings")
    assert len(rows) == 12
    assert {row["adjudicated"] for row in rows if row["item"] in agreed} == {""}
    assert {row["adjudicated"] for row in rows if row["item"] not in agreed} == {"0"}
    targets = {row["id"]: row["target"] for row in table(owner, "validation")}
    assert targets == {item: "true" if item in agreed else "false" for item in said}


def test_unknown_export_is_not_found(owner):
    for name in ("turns", "invitations", "..%2fplan", "study.db"):
        assert owner.get(f"/study/1/export/{name}.csv").status_code == 404


def test_a_gate_decided_in_the_browser_matches_chimera_audit(safety, owner, tmp_path):
    ann, bob = rater(safety, owner, "ann"), rater(safety, owner, "bob")
    for client, label in ((ann, 0), (bob, 1)):
        # Everybody sees another order: label by text, so that the two never agree.
        pages = [client.get(f"/rate/{n}").text for n in range(1, 8)]
        texts = [page.partition("<ol")[2].partition("</ol>")[0] for page in pages]
        ranked = sorted(set(texts))
        for n, text in enumerate(texts, 1):
            post(client, f"/rate/{n}", f"label={(ranked.index(text) + label) % 2}&turn=1&reason=So")
        post(client, "/rate/hand-in")
    record = tmp_path / "study" / "audit" / "gate-record.json"
    decided = json.loads(record.read_text(encoding="utf-8"))
    [used] = load_samples(Study(tmp_path / "study"))
    assert used.used
    command = [sys.executable, "-m", "chimeralab", "audit", str(tmp_path / "study")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == int(not decided["audit"]["gate"]["passed"]), done.stderr
    assert json.loads(record.read_text(encoding="utf-8")) == decided
    assert load_samples(Study(tmp_path / "study")) == [used]
    shown = owner.get("/study/1/reliability").text
    assert "Gate NOT met" in done.stdout
    for said in (done.stdout, shown):
        assert f"{decided['audit']['gate']['value']:.2f}" in said.replace("−", "-")


def test_bad_requests_of_a_rater_get_a_plain_error(safety, owner):
    ann = rater(safety, owner, "ann")
    for path, content in (
        ("/rate/99", "label=1"),
        ("/rate/1", "label=7"),
        ("/rate/1", "label=1&turn=99"),
    ):
        answer = ann.post(f"/rate/{path}", content=content, headers=WRITE)
        assert 400 <= answer.status_code < 500
        assert "Traceback" not in answer.text
    assert "0 of 7" in ann.get("/rate/1").text
