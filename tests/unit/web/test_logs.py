"""The table of conversations: rendered, sorted, filtered and searched on the server."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from chimeralab.core.schema import SCHEMA
from chimeralab.web.app import Site, application
from chimeralab.web.log_index import LogScanner, Query, pages_of
from chimeralab.web.safety import AllowedHosts, SecurityMiddleware, owner_auth
from tests.unit.web.conftest import OWN, PORT, TOKEN


@pytest.fixture(scope="module")
def scanner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogScanner]:
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
    scanner = LogScanner([str(path)])
    scanner.read_all()
    yield scanner
    scanner.close()


IN_ORDER = Query(sort="log", descending=False)


def test_table_is_paginated(scanner: LogScanner) -> None:
    (first, total), (last, _) = (
        scanner.index.find(IN_ORDER),
        scanner.index.find(replace(IN_ORDER, page=3)),
    )
    assert (total, pages_of(total), len(first), len(last)) == (121, 3, 50, 21)
    assert scanner.index.find(replace(IN_ORDER, page=999))[0] == last
    assert [row.key for row in first] == list(range(1, 51))


def test_table_is_sorted_by_each_column(scanner: LogScanner) -> None:
    by_share, _ = scanner.index.find(Query(sort="share", descending=True))
    shares = [row.share for row in by_share]
    known = [share for share in shares if share is not None]
    assert known == sorted(known, reverse=True)
    ids = [row.id for row in scanner.index.find(Query(sort="conversation", descending=False))[0]]
    assert ids == sorted(ids)
    worst, _ = scanner.index.find(Query())
    assert worst[0].tokens == max(row.tokens or 0 for row in worst) > 0


def test_headline_and_figures_add_up_the_conversations(scanner: LogScanner) -> None:
    sums = scanner.index.summary(Query(kind="verbatim"))
    assert (sums["conversations"], sums["looping"], sums["to_the_end"]) == (121, 40, 40)
    assert sums["inside"] == 40 * 6
    assert sums["median"] == 1
    assert sums["tokens"][False] == (0, 0)  # nothing is measured in these logs
    lost, spent = sums["tokens"][True]
    assert 0 < lost < spent
    assert scanner.index.rank("model", Query()) == [("m0", 20, 60), ("m1", 20, 60)]


def test_measured_and_estimated_tokens_are_never_added_up(tmp_path: Path) -> None:
    loop = ["Once more, from the top, please."] * 6
    measured = [{"text": text, "tokens": {"input": 90, "output": 10}} for text in loop]
    zero = [{"text": text, "tokens": {"input": 0, "output": 0}} for text in loop]
    said = {
        "fine": [" ".join(f"thing-{n}" for n in range(99))],
        "a": loop,
        "b": measured,
        "c": zero,
    }
    lines = [
        json.dumps({"schema": SCHEMA, "id": name, "turns": turns}) for name, turns in said.items()
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    site = Site([str(tmp_path)])
    scanner = site.scanner
    assert scanner is not None
    scanner.read_all()
    sums = scanner.index.summary(Query())
    assert sums["tokens"][False] == (600, 600)
    assert sums["tokens"][True][0] == 2 * 6 * 8  # characters / 4, rounded up; zeros do not count
    # What loops comes first, also if it cost nothing.
    assert [row.id for row in scanner.index.find(Query())[0]] == ["b", "a", "c", "fine"]
    client = TestClient(application(site), base_url=OWN)
    shown = client.get("/logs").text
    assert "100 % of all measured and ~" in shown
    assert "600 + ~96" in shown
    assert "no price" in shown
    site.close()


def test_conversations_of_a_run_stand_together(tmp_path: Path) -> None:
    loop = ["Once more, from the top, please."] * 6
    talks = [("main", None, ["Hello."]), ("other", None, loop * 2), ("helper", "main", loop * 3)]
    lines = [
        json.dumps({"schema": SCHEMA, "id": name, "about": {"parent": up}, "turns": said})
        for name, up, said in talks
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    scanner = LogScanner([str(tmp_path)])
    scanner.read_all()
    assert [row.id for row in scanner.index.find(Query())[0]] == ["helper", "main", "other"]
    assert [name for _, name, _ in scanner.index.list_run(1)] == ["main", "helper"]
    scanner.close()


def test_filters_are_combined(scanner: LogScanner) -> None:
    assert scanner.index.find(Query(kind="loop"))[1] == 40
    assert scanner.index.find(Query(kind="loop", fields={"model": "m0"}))[1] == 20
    [seventh], _ = scanner.index.find(Query(fields={"seed": "7"}))
    assert seventh.id == "talk-007"
    assert scanner.index.find(Query(kind="loop", fields={"seed": "7"}))[1] == 0


@pytest.mark.parametrize(
    ("search", "total"),
    [("lantern", 1), ("thing about trains", 79), ("nowhere", 0), ('"', 0), ("a OR b NEAR(", 0)],
)
def test_search_treats_special_characters_literally(
    scanner: LogScanner, search: str, total: int
) -> None:
    assert scanner.index.find(Query(search=search))[1] == total


@pytest.mark.parametrize("hostile", ["'; DROP TABLE conversations; --", "x' OR '1'='1", "*", "%"])
def test_queries_are_not_injectable(scanner: LogScanner, hostile: str) -> None:
    scanner.index.find(Query(hostile, hostile, {hostile: hostile}, hostile, page=1))
    assert scanner.index.find(Query())[1] == 121


def test_unreadable_entries_are_noted_and_skipped(scanner: LogScanner) -> None:
    assert len(scanner.notes) == 1
    assert "talks.jsonl" in scanner.notes[0]


def test_conversation_round_trips_through_the_index(scanner: LogScanner) -> None:
    kept = scanner.index.get(8)
    assert kept is not None
    trajectory, detection = kept
    assert trajectory.id == "talk-007"
    assert "lanterns" in trajectory.turns[0].text
    assert detection is not None
    assert detection.looping is False
    assert scanner.index.get(9_999) is None


def test_index_is_deleted_when_the_server_stops(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"id": "a", "turns": ["Hi."]}\n')
    scanner = LogScanner([str(tmp_path)])
    scanner.start()
    scanner.wait()
    folder = scanner.index.path.parent
    assert folder.stat().st_mode & 0o077 == 0
    scanner.close()
    assert not folder.exists()


def test_examples_work_out_of_the_box(owner: TestClient, site: Site) -> None:
    assert site.scanner is not None
    page = owner.get("/").text
    assert "10 conversations, all judged" in page
    assert len(re.findall(r'<tr data-live="\d+"', page)) == 10
    assert 'class="stuck"' in page
    for n in range(1, 11):
        assert owner.get(f"/logs/{n}").status_code == 200
    assert owner.get("/logs/11").status_code == 404


def test_charts_of_a_conversation_are_svg(owner: TestClient) -> None:
    for name in ("timeline-narrow", "heat-map"):
        answer = owner.get(f"/logs/7/{name}.svg")
        assert answer.headers["content-type"] == "image/svg+xml"
        assert answer.text.startswith("<svg")
    assert owner.get("/logs/7/nothing.svg").status_code == 404


@pytest.mark.parametrize(
    "odd", ["page=-1", "page=x", "page=99999999999999", "sort=id;drop", "where==", "kind=%00"]
)
def test_invalid_query_parameters_are_ignored(owner: TestClient, odd: str) -> None:
    assert owner.get(f"/logs?{odd}").status_code == 200


def test_table_can_be_exported_as_filtered(owner: TestClient) -> None:
    answer = owner.get("/logs.csv?kind=loop")
    assert answer.headers["content-type"].startswith("text/csv")
    header, *lines = answer.text.splitlines()
    assert header.startswith("id,source,messages,kind,since")
    assert len(lines) == 7
    assert owner.get("/logs/1.json").json()["loops"][0]["began"] == 5


def rows(page: str) -> list[str]:
    return re.findall(r'<a href="/logs/[^"]*"><bdi>(.*?)</bdi>', page)


def test_any_field_of_a_log_can_be_filtered_by(owner: TestClient) -> None:
    assert len(rows(owner.get("/logs?where=condition%3Dnudged").text)) == 5
    both = owner.get("/logs?where=condition%3Dnudged&field.model=aurora-small").text
    assert len(rows(both)) < 5
    assert len(rows(owner.get("/logs?field.model=aurora-small").text)) == 5
    assert rows(owner.get("/logs?where=condition+%3D+nowhere").text) == []


def test_conversation_links_to_its_neighbours_in_the_table(owner: TestClient) -> None:
    table = owner.get("/logs?kind=loop&sort=share&order=down").text
    assert len(rows(table)) > 2
    first, second, third = rows(table)[:3]
    href = unescape(re.findall(r'<a href="(/logs/[^"]*)"', table)[1])
    page = owner.get(href).text
    assert f"<bdi>{second}</bdi></span>" in page
    trail = {
        key: unescape(where)
        for where, key in re.findall(r'<a href="([^"]*)" data-key="(\w)"', page)
    }
    assert trail["u"] == "/logs?kind=loop&sort=share&order=down"
    assert f"<bdi>{first}</bdi></span>" in owner.get(trail["p"]).text
    assert f"<bdi>{third}</bdi></span>" in owner.get(trail["n"]).text


def test_conversation_outside_the_table_links_to_neighbours_in_its_log(
    scanner: LogScanner,
) -> None:
    # talk-001, the second one, does not loop.
    assert scanner.index.place(2, Query(kind="loop"))[:2] == (1, 3)
    assert scanner.index.place(121, Query(kind="loop"))[:2] == (120, None)
    assert scanner.index.place(100, IN_ORDER)[2:] == (100, 121)


def test_table_opened_too_early_is_reloaded(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"id": "a", "turns": ["Hi."]}\n')
    site = Site([str(tmp_path)])
    safety = SecurityMiddleware(
        application(site), AllowedHosts("127.0.0.1", PORT), [owner_auth(TOKEN)]
    )
    client = TestClient(safety, base_url=OWN)
    client.cookies.set(f"chimera-{PORT}", TOKEN)
    early = client.get("/logs").text
    assert "No conversation has been read yet" in early
    assert 'data-live="unread"' in early
    assert site.scanner is not None
    site.scanner.read_all()
    site.scanner.state = "judging"
    assert {"place": "unread", "reload": True} in list(site.scanner.snapshot())
    late = client.get("/logs").text
    assert rows(late) == ["a"]
    assert 'data-live="unread"' not in late
    site.scanner.close()
