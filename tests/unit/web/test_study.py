"""A study on a page: what its store says, while another process writes it."""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from chimeralab import pipeline
from chimeralab.models.phantom import line
from chimeralab.models.seam import Reply, Request
from chimeralab.runner import Answer, Said, Talk
from chimeralab.study import RunOptions, Store, Study
from chimeralab.web.app import application
from chimeralab.web.events import newest_failures
from chimeralab.web.figures import totals
from chimeralab.web.safety import Names, Safety, owner_door
from chimeralab.web.site import Site
from chimeralab.web.watch import StudyWatch
from tests.looping_study import write_study
from tests.small_trial import PHANTOM, make_trial
from tests.unit.web.conftest import OWN, PORT, TOKEN

SECONDS = 60
# A few short conversations show as much as many long ones.
SMALL = (
    ("repeats = 2", "repeats = 1"),
    ('  { id = "p3", bucket = "<u>odd</u>", text = "Count." },\n', ""),
    ('  { id = "p4", bucket = "<u>odd</u>", text = "=1+1" },\n', ""),
)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[Study, StudyWatch]]:
    study = write_study(tmp_path / "study", *SMALL)
    study.freeze()
    watch = StudyWatch(1, study.path)
    watch.start()
    assert watch.ready.wait(SECONDS)
    yield study, watch
    watch.close()


def phantoms(more: str) -> list[tuple[str, str]]:
    """Changes of the plan that make its models ours, so that they run without consent."""
    return [
        ('use = "looper:Looper"\nsoonest = 2', f'use = "phantom"\n{more}'),
        ('use = "looper:Looper"\nsoonest = 8', 'use = "phantom"'),
    ]


def client_of(*paths: Path, allow_run: bool = False) -> TestClient:
    site = Site([str(path) for path in paths], allow_run=allow_run)
    safety = Safety(application(site), Names("127.0.0.1", PORT), [owner_door(TOKEN)])
    client = TestClient(safety, base_url=OWN, headers={"origin": OWN})
    client.cookies.set(f"chimera-{PORT}", TOKEN)
    return client


def test_the_grid_is_there_before_anything_is_run(watched: tuple[Study, StudyWatch]) -> None:
    study, watch = watched
    assert {cell.id for cell in watch.cells.values()} == {talk.id for talk in study.talks}
    assert {cell.state for cell in watch.cells.values()} == {"planned"}
    assert list(watch.grid()) == ["p1", "p2"]
    assert watch.run_state().words == "not begun"


def test_the_grid_fills_while_the_study_is_run(watched: tuple[Study, StudyWatch]) -> None:
    study, watch = watched
    done = pipeline.run(study, RunOptions(watch=False))
    assert done.complete
    until(lambda: all(cell.outcome == "completed" for cell in watch.cells.values()))
    assert {cell.turns for cell in watch.cells.values()} == {14}
    until(lambda: any(cell.mark == "collapsed" for cell in watch.cells.values()))
    until(lambda: {each.name: each.value for each in watch.figures()}["state"] == "complete")


def test_a_server_that_is_started_again_shows_the_same(watched: tuple[Study, StudyWatch]) -> None:
    study, watch = watched
    pipeline.run(study, RunOptions(watch=False))
    until(lambda: all(cell.outcome for cell in watch.cells.values()))
    until(lambda: not watch.is_behind)
    again = StudyWatch(1, study.path)
    again.start()
    until(lambda: again.ready.is_set() and not again.is_behind)
    assert again.cells == watch.cells
    again.close()


def test_a_failed_attempt_is_told_with_its_reason(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", *SMALL, *phantoms("fail_turns = [3]\nfail_times = 99"))
    watch = StudyWatch(1, study.path)
    watch.start()
    assert watch.ready.wait(SECONDS)
    pipeline.run(study, RunOptions(watch=False))
    until(lambda: {each.name: each.value for each in watch.figures()}["attempts"] != "none")
    with study.archive() as archive:
        newest = newest_failures(archive)[0]
    assert newest["text"].startswith("server")
    assert "turn 3" in newest["head"]
    watch.close()


def test_the_metrics_of_a_trial_come_with_intervals_and_events(tmp_path: Path) -> None:
    study = make_trial(tmp_path / "trial", PHANTOM, 'each = ["amnesia"]')
    pipeline.run(study)
    with client_of(study.path) as client:
        site: Site = client.app.app.state.site  # type: ignore[attr-defined]
        until(lambda: len(site.studies[0].metrics) == len(study.plan.conditions))
        page = client.get("/study/1").text
    assert "Metrics by arm" in page
    assert " to " in page.split('data-live="metric-amnesia-mci">')[1].split("<")[0]
    assert 'id="event-1"' in page or "amnesia</p>" in page


def test_a_finished_session_shows_what_was_asked_and_what_was_done(tmp_path: Path) -> None:
    study = make_trial(tmp_path / "trial", PHANTOM, 'each = ["amnesia"]')
    with client_of(study.path) as client:
        talks = [talk.id for talk in study.talks if talk.condition == "amnesia"]
        assert "What was said" in client.get(f"/study/1/talk/{talks[0]}").text
        pipeline.run(study)
        site: Site = client.app.app.state.site  # type: ignore[attr-defined]
        until(lambda: all(cell.outcome for cell in site.studies[0].cells.values()))
        pages = [client.get(f"/study/1/talk/{talk}").text for talk in talks]
    assert all("What was asked and answered" in page for page in pages)
    assert all("<strong>Answer (" in page for page in pages)
    assert any('class="disturbed"' in page for page in pages)


def test_events_and_metrics_of_a_trial_are_told_while_it_runs(tmp_path: Path) -> None:
    study = make_trial(tmp_path / "trial", PHANTOM, 'each = ["amnesia"]')
    watch = StudyWatch(1, study.path)
    told: list[dict[str, object]] = []
    watch.feed.publish = told.extend  # type: ignore[method-assign]
    watch.start()
    assert watch.ready.wait(SECONDS)
    pipeline.run(study)
    until(lambda: any(each["place"] == "events" for each in told))
    until(lambda: any(" to " in str(each.get("text")) for each in told if "-mci" in each["place"]))
    lines = [line for each in told if each["place"] == "events" for line in each["lines"]]  # type: ignore[attr-defined]
    assert any(line["head"].endswith(": amnesia") for line in lines)
    watch.close()


def test_hostile_words_of_a_study_stay_words(watched: tuple[Study, StudyWatch]) -> None:
    study, _ = watched
    pipeline.run(study, RunOptions(watch=False))
    with client_of(study.path) as client:
        talk = study.talks[0].id
        page, shown = client.get("/study/1").text, client.get(f"/study/1/talk/{talk}").text
    assert "<script>alert" not in page
    assert "<script>document" not in shown
    assert "&lt;script&gt;document" in shown


PRICED = """
[study]
name = "priced"
[models.m]
use = "phantom"
price = { input = 1.0, output = 2.0 }
[conditions.c]
speakers = ["m", "m"]
[conversation]
turns = 20
[prompts]
items = [{ id = "p", bucket = "b", text = "Talk." }]
[run]
max_cost = 1.5
"""


def say(store: Store, talk: Talk, turn: int, cost: float | None) -> None:
    said = Said(turn, "m", "m", line(0, "x", turn), "stop")
    attempt = store.open_attempt("m", Request((), conversation=talk.id, turn=turn))
    reply = Reply(said.text, prompt_tokens=10, completion_tokens=30)
    store.add_turn(attempt, talk, said, Answer("answered", None, reply, cost, 0.1))


def test_tokens_cost_and_time_left_are_those_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PRICED, encoding="utf-8")
    study = Study(tmp_path)
    [talk] = study.talks
    with closing(Store(study.store_path)) as store:
        store.enter_talks(study.talks)
        store.begin_run(None, {})
        say(store, talk, 1, 0.125)
        say(store, talk, 2, 0.25)
        with study.archive() as archive:
            found = totals(archive)
        assert (found.tokens, found.recent_tokens, found.run_turns) == (60, 60, 2)
        assert (found.spent, found.unpriced) == (0.375, 0)
        assert 0.1 <= found.recent_seconds <= found.run_seconds + 0.01
        watch = StudyWatch(1, study.path)
        watch.start()
        assert watch.ready.wait(SECONDS)
        watch.close()  # its threads would count again
        watch.totals = replace(found, recent_seconds=3.0, run_seconds=8.0)
        shown = {each.name: each.value for each in watch.figures()}
        # 60 tokens in 3 s; 18 turns are missing, and two took 8 s.
        assert (shown["speed"], shown["cost"], shown["left"]) == (
            "20",
            "0.375 of at most 1.5",
            "1:12",
        )
        say(store, talk, 3, None)
        with study.archive() as archive:
            watch.totals = totals(archive)
        # Where one answer has no price, a sum would be too low.
        shown = {each.name: each.value for each in watch.figures()}
        assert shown["cost"] == "unknown: some answers have no price; limit 1.5"
        store.end_run("paused by a test")
    shown = {each.name: each.value for each in watch.figures()}
    assert (shown["speed"], shown["left"]) == ("–", "–")


@pytest.mark.parametrize("what", ["run", "pause"])
def test_nothing_is_run_unless_the_server_was_told_so(tmp_path: Path, what: str) -> None:
    study = write_study(tmp_path / "study", *SMALL, *phantoms(""))
    with client_of(study.path) as client:
        refused = client.post(f"/study/1/{what}")
        assert refused.status_code == 403
        assert "--allow-run" in refused.text
        assert "Run what is missing" not in client.get("/study/1").text
    assert not study.store_path.exists()


def test_a_run_is_started_and_paused_from_the_page(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", *SMALL, *phantoms("latency = 0.2"))
    with client_of(study.path, allow_run=True) as client:
        site: Site = client.app.app.state.site  # type: ignore[attr-defined]
        watch = site.studies[0]
        child = watch.child
        assert client.post("/study/1/run").status_code == 200
        assert client.post("/study/1/run").status_code in (400, 409)
        until(lambda: any(cell.turns for cell in watch.cells.values()))
        assert watch.run_state().running
        client.post("/study/1/pause")
        until(lambda: not child.is_running)
        assert child.failure is None
        until(lambda: watch.run_state().words == "paused: stopped by SIGINT")
        assert client.post("/study/1/pause").status_code == 400


def test_a_plan_that_needs_code_says_so_on_the_page(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study")
    study.freeze()
    with client_of(study.path, allow_run=True) as client:
        site: Site = client.app.app.state.site  # type: ignore[attr-defined]
        client.post("/study/1/run")
        until(lambda: not site.studies[0].child.is_running)
        assert "--allow-code" in client.get("/study/1").text


def test_a_run_that_could_not_be_started_says_so_on_the_open_page(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study")
    study.freeze()
    with client_of(study.path, allow_run=True) as client:
        site: Site = client.app.app.state.site  # type: ignore[attr-defined]
        watch = site.studies[0]
        client.post("/study/1/run")
        until(lambda: not watch.child.is_running)
        patches = {each["place"]: each for each in watch.standing()}
    assert "--allow-code" in patches["failure"]["text"]
    assert patches["failure"]["hidden"] is False
    assert (patches["may-run"]["hidden"], patches["may-pause"]["hidden"]) == (False, True)


def test_the_first_page_says_how_each_study_stands(tmp_path: Path) -> None:
    study = write_study(tmp_path / "fine", *SMALL, *phantoms(""))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "plan.toml").write_text("[study")
    (tmp_path / "damaged").mkdir()
    shutil.copy(study.path / "plan.toml", tmp_path / "damaged")
    (tmp_path / "damaged" / "study.db").write_text("no database")
    with client_of(tmp_path) as client:
        site: Site = client.app.app.state.site  # type: ignore[attr-defined]
        until(lambda: all(watch.ready.is_set() for watch in site.studies))
        page = client.get("/").text
        assert client.get("/study/2", headers={"accept": "text/html"}).status_code == 409
    assert "not valid TOML" in page
    assert "the file is damaged" in page
    assert re.search(r"not begun; 0 of \d+ conversations", page)


def test_a_study_that_could_not_be_opened_is_shown_once_it_can(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study")
    with client_of(study.path) as client:
        assert client.get("/study/1").status_code == 409
        study.freeze()
        until(lambda: client.get("/study/1").status_code == 200)


def test_a_plan_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "plan.toml").write_text("[study]\nnam = 1\n")
    with client_of(tmp_path / "study") as client:
        answer = client.get("/study/1", headers={"accept": "text/html"})
    assert answer.status_code == 409
    assert "plan.toml" in answer.text
