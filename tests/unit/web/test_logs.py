"""The table of conversations: rendered, sorted, filtered and searched on the server."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from chimeralab.web.library import Library, Query, bars
from chimeralab.web.site import Site


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """120 conversations of which every third loops, judged by words alone."""
    path = tmp_path_factory.mktemp("logs") / "talks.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for n in range(120):
            said = [f"Item {n}-{k}: a thing about {'lanterns' if n == 7 else 'trains'} {k * n}"
                    for k in range(6)]  # fmt: skip
            turns = ["Once more, from the top, please."] * 6 if n % 3 == 0 else said
            talk = {"id": f"talk-{n:03}", "model": f"m{n % 2}", "seed": n, "turns": turns}
            file.write(json.dumps(talk) + "\n")
        file.write('{"broken": \n')
        file.write(json.dumps({"id": "half \ud83d", "turns": ["\ud83d and \x00 more"]}) + "\n")
    library = Library([str(path)])
    library.read_all()
    yield library
    library.close()


def test_a_page_at_a_time(library: Library) -> None:
    first, last = library.find(Query()), library.find(Query(page=3))
    assert (first.total, first.pages, len(first.rows), len(last.rows)) == (121, 3, 50, 21)
    assert library.find(Query(page=999)).rows == last.rows
    assert [row.n for row in first.rows] == list(range(1, 51))


def test_every_order_is_an_order(library: Library) -> None:
    shares = [row.share for row in library.find(Query(sort="share", descending=True)).rows]
    known = [share for share in shares if share is not None]
    assert known == sorted(known, reverse=True)
    ids = [row.id for row in library.find(Query(sort="conversation")).rows]
    assert ids == sorted(ids)


def test_filters_add_up(library: Library) -> None:
    looping = library.find(Query(kind="loop"))
    assert looping.total == 40
    even = library.find(Query(kind="loop", fields={"model": "m0"}))
    assert even.total == 20
    assert library.find(Query(fields={"seed": "7"})).rows[0].id == "talk-007"
    assert library.find(Query(kind="loop", fields={"seed": "7"})).total == 0


@pytest.mark.parametrize(
    ("search", "total"),
    [("lantern", 1), ("thing about trains", 79), ("nowhere", 0), ('"', 0), ("a OR b NEAR(", 0)],
)
def test_search_finds_words_and_takes_every_sign_as_one(
    library: Library, search: str, total: int
) -> None:
    assert library.find(Query(search=search)).total == total


@pytest.mark.parametrize("hostile", ["'; DROP TABLE conversations; --", "x' OR '1'='1", "*", "%"])
def test_nothing_that_is_asked_is_taken_for_sql(library: Library, hostile: str) -> None:
    library.find(Query(hostile, hostile, {hostile: hostile}, hostile, page=1))
    assert library.find(Query()).total == 121


def test_what_cannot_be_read_is_noted_and_the_rest_goes_on(library: Library) -> None:
    assert len(library.notes) == 1
    assert "talks.jsonl" in library.notes[0]


def test_a_conversation_comes_back_as_it_was_read(library: Library) -> None:
    kept = library.keep(8)
    assert kept is not None
    assert kept.trajectory.id == "talk-007"
    assert "lanterns" in kept.trajectory.turns[0].text
    assert kept.detection is not None
    assert kept.detection.looping is False
    assert library.keep(9_999) is None


def test_the_database_goes_with_the_server(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"id": "a", "turns": ["Hi."]}\n')
    library = Library([str(tmp_path)])
    library.start()
    assert library.wait(60)
    folder = library._file.parent
    assert folder.stat().st_mode & 0o077 == 0
    library.close()
    assert not folder.exists()


def test_examples_work_out_of_the_box(owner: TestClient, site: Site) -> None:
    assert site.library is not None
    page = owner.get("/").text
    assert "10 conversations, all judged" in page
    assert len(re.findall(r'<tr data-live="\d+"', page)) == 10
    assert 'class="stuck"' in page
    for n in range(1, 11):
        assert owner.get(f"/logs/{n}").status_code == 200
    assert owner.get("/logs/11").status_code == 404


def test_pictures_of_a_conversation_are_svg(owner: TestClient) -> None:
    for name in ("timeline", "timeline-narrow", "heat-map"):
        answer = owner.get(f"/logs/7/{name}.svg")
        assert answer.headers["content-type"] == "image/svg+xml"
        assert answer.text.startswith("<svg")
    assert owner.get("/logs/7/nothing.svg").status_code == 404


@pytest.mark.parametrize(
    "odd", ["page=-1", "page=x", "page=99999999999999", "sort=id;drop", "where==", "kind=%00"]
)
def test_an_odd_address_is_answered(owner: TestClient, odd: str) -> None:
    assert owner.get(f"/logs?{odd}").status_code == 200


def test_bars_are_drawn_from_letters() -> None:
    assert bars("", looping=True) == ""
    assert bars("zA", looping=False) == "M0 24V0h4V24z"
