"""Pages of a study while another process writes its store."""

import re
import shutil
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from chimeralab import pipeline
from chimeralab.models.phantom import line
from chimeralab.models.seam import Reply, Request
from chimeralab.runner import Answer, News, Talk, TurnRecord, TurnStored
from chimeralab.study import RunOptions, Store, Study
from chimeralab.web.app import Site, application
from chimeralab.web.live import Patch
from chimeralab.web.progress import failure_lines, totals
from chimeralab.web.safety import AllowedHosts, SecurityMiddleware, owner_auth
from chimeralab.web.watch import StudyWatch
from tests.plans import LOOPERS, trial
from tests.studies import MakeStudy
from tests.unit.web.conftest import OWN, PORT, TOKEN

# A few short conversations are enough.
SMALL = (
    ("repeats = 2", "repeats = 1"),
    ('  { id = "p3", bucket = "<u>odd</u>", text = "Count." },\n', ""),
    ('  { id = "p4", bucket = "<u>odd</u>", text = "=1+1" },\n', ""),
)


AMNESIA = trial(design='each = ["amnesia"]')


class Follower:
    """An open page that waits until its patches satisfy a condition."""

    def __init__(self, watch: StudyWatch) -> None:
        self._told = threading.Event()
        self._publish = watch.feed.publish
        watch.feed.publish = self._take  # type: ignore[method-assign]

    def _take(self, patches: Iterable[Patch]) -> None:
        self._publish(patches)
        self._told.set()

    def until(self, true: Callable[[], bool]) -> None:
        while not true():
            self._told.wait()
            self._told.clear()


@pytest.fixture
def watched(make_study: MakeStudy) -> tuple[Study, StudyWatch]:
    study = make_study(LOOPERS, *SMALL, steps=("lock",))
    watch = StudyWatch(1, study.path)
    assert watch.open()
    return study, watch


def test_bar_counts_turns_as_the_terminal_does(watched: tuple[Study, StudyWatch]) -> None:
    study, watch = watched
    planned = len(study.talks) * study.plan.conversation.turns
    assert watch.progress()["value"] == 0
    assert watch.progress()["most"] == planned
    cell = next(iter(watch.cells.values()))
    watch.cells[cell.id] = replace(cell, turns=3)
    assert (watch.progress()["value"], watch.progress()["most"]) == (3, planned)
    # The turns that a conversation did not need are not waited for.
    watch.cells[cell.id] = replace(cell, turns=3, outcome="overflow")
    rest = study.plan.conversation.turns - 3
    assert (watch.progress()["value"], watch.progress()["most"]) == (3, planned - rest)


def phantoms(more: str) -> list[tuple[str, str]]:
    """Edit the plan to use built-in models, which run without consent."""
    return [
        ('use = "looper:Looper"\nsoonest = 2', f'use = "phantom"\n{more}'),
        ('use = "looper:Looper"\nsoonest = 8', 'use = "phantom"'),
    ]


def client_of(*paths: Path, allow_run: bool = False) -> TestClient:
    """Make a client. Background threads start only when it is entered as a context."""
    site = Site([str(path) for path in paths], allow_run=allow_run)
    safety = SecurityMiddleware(
        application(site), AllowedHosts("127.0.0.1", PORT), [owner_auth(TOKEN)]
    )
    client = TestClient(safety, base_url=OWN, headers={"origin": OWN})
    client.cookies.set(f"chimera-{PORT}", TOKEN)
    return client


def watches_of(client: TestClient) -> list[StudyWatch]:
    site: Site = client.app.app.state.site  # type: ignore[attr-defined]
    return site.studies


def test_grid_is_shown_before_the_first_run(watched: tuple[Study, StudyWatch]) -> None:
    study, watch = watched
    assert {cell.id for cell in watch.cells.values()} == {talk.id for talk in study.talks}
    assert {cell.state for cell in watch.cells.values()} == {"planned"}
    assert list(watch.grid()) == ["p1", "p2"]
    assert watch.run_state()[1] == "not started"


def test_grid_fills_during_a_run(watched: tuple[Study, StudyWatch]) -> None:
    study, watch = watched

    def look(news: News) -> None:
        watch.poll()
        if isinstance(news, TurnStored):
            assert watch.cells[news.talk].turns >= news.turn

    assert pipeline.run(study, RunOptions(watch=False), look).complete
    watch.poll()
    assert {cell.outcome for cell in watch.cells.values()} == {"completed"}
    assert {cell.turns for cell in watch.cells.values()} == {14}
    watch.judge()
    assert "collapsed" in {cell.mark for cell in watch.cells.values()}
    assert watch.figures()["state"] == "complete"


def test_started_server_updates_the_grid(make_study: MakeStudy) -> None:
    study = make_study(LOOPERS, *SMALL, steps=("lock",))
    with client_of(study.path) as client:
        [watch] = watches_of(client)
        follower = Follower(watch)
        watch.ready.wait()
        pipeline.run(study, RunOptions(watch=False))
        follower.until(lambda: all(cell.outcome for cell in watch.cells.values()))
        follower.until(lambda: any(cell.mark == "collapsed" for cell in watch.cells.values()))
        follower.until(lambda: watch.figures()["state"] == "complete")


def test_open_conversation_gets_turns_stored_before_the_first_poll(
    watched: tuple[Study, StudyWatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    study, watch = watched
    told: list[Patch] = []
    feed = watch.talk_feed("loops/p1/1")
    monkeypatch.setattr(type(feed), "is_watched", True)
    monkeypatch.setattr(feed, "publish", told.extend)
    pipeline.run(study, RunOptions(watch=False))
    watch.poll()
    assert [len(each["lines"]) for each in told if each["place"] == "turns"] == [14]


def test_restarted_server_shows_the_same(watched: tuple[Study, StudyWatch]) -> None:
    study, watch = watched
    pipeline.run(study, RunOptions(watch=False))
    watch.poll()
    watch.judge()
    again = StudyWatch(1, study.path)
    again.open()
    again.judge()
    assert any(cell.mark for cell in again.cells.values())
    assert again.cells == watch.cells


def test_failed_attempts_are_shown_with_their_reasons(make_study: MakeStudy) -> None:
    study = make_study(LOOPERS, *SMALL, *phantoms("fail_turns = [3]\nfail_times = 99"))
    watch = StudyWatch(1, study.path)
    watch.open()
    assert watch.figures()["attempts"] == "none"
    pipeline.run(study, RunOptions(watch=False))
    watch.judge()
    assert watch.figures()["attempts"].endswith(" server")
    with study.archive() as archive:
        newest = failure_lines(archive, "ORDER BY id DESC")[0]
    assert newest["text"].startswith("server")
    assert "turn 3" in newest["head"]


def test_page_of_a_trial_with_every_step_done_names_no_next_one(make_study: MakeStudy) -> None:
    study = make_study(AMNESIA, steps=("lock", "run", "report"))
    with client_of(study.path) as client:
        [watch] = watches_of(client)
        watch.ready.wait()
        page = client.get("/study/1")
        assert page.status_code == 200
        assert "Next, " not in page.text
        assert "Report ✓" in page.text


def test_page_counts_what_loops_in_each_condition(make_study: MakeStudy) -> None:
    study = make_study(LOOPERS, *SMALL, steps=("lock", "run", "detect"))
    with client_of(study.path) as client:
        [watch] = watches_of(client)
        watch.ready.wait()
        watch.judge()
        text = " ".join(re.sub("<[^>]+>", "", client.get("/study/1").text).split())
        marked = [cell.condition for cell in watch.cells.values() if cell.is_marked]
        assert f"{len(marked)} of {len(watch.cells)} conversations are marked as looping: " in text
        name = marked[0]
        cells = sum(cell.condition == name for cell in watch.cells.values())
        assert f"{name} {marked.count(name)} of {cells}" in text
        assert re.search(r"since \d+: \d+ % of \d+ turns", text.replace("\N{NO-BREAK SPACE}", " "))


def test_trial_page_shows_metrics_with_intervals_and_events(make_study: MakeStudy) -> None:
    study = make_study(AMNESIA, steps=("run",))
    client = client_of(study.path)
    [watch] = watches_of(client)
    watch.open()
    watch.measure()
    assert watch.metrics.keys() == study.plan.conditions.keys()
    page = client.get("/study/1").text
    assert "Metrics by arm" in page
    assert " to " in page.split('data-live="metric-amnesia-mci">')[1].split("<")[0]
    assert 'id="event-1"' in page or "amnesia</p>" in page


def test_finished_session_shows_questions_and_stressors(make_study: MakeStudy) -> None:
    study = make_study(AMNESIA)
    client = client_of(study.path)
    [watch] = watches_of(client)
    watch.open()
    talks = [talk.id for talk in study.talks if talk.condition == "amnesia"]
    assert ">Turns</h2>" in client.get(f"/study/1/talk/{talks[0]}").text
    pipeline.run(study)
    watch.poll()
    assert all(cell.outcome for cell in watch.cells.values())
    pages = [client.get(f"/study/1/talk/{talk}").text for talk in talks]
    assert all("Questions and answers" in page for page in pages)
    assert all("<strong>Answer (" in page for page in pages)
    assert any('class="disturbed"' in page for page in pages)


def test_trial_events_and_metrics_are_streamed(
    make_study: MakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = make_study(AMNESIA)
    watch = StudyWatch(1, study.path)
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(watch.feed, "publish", told.extend)
    watch.open()
    pipeline.run(study, publish=lambda news: watch.poll())
    watch.measure()
    assert any(" to " in str(each.get("text")) for each in told if "-mci" in str(each["place"]))
    lines = [line for each in told if each["place"] == "events" for line in each["lines"]]
    assert any(line["head"].endswith(": amnesia") for line in lines)


def test_hostile_text_of_a_study_stays_text(watched: tuple[Study, StudyWatch]) -> None:
    study, _ = watched
    pipeline.run(study, RunOptions(watch=False))
    client = client_of(study.path)
    watches_of(client)[0].open()
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
    said = TurnRecord(turn, "m", "m", line(0, "x", turn), "stop")
    attempt = store.open_attempt("m", Request((), conversation=talk.id, turn=turn))
    reply = Reply(said.text, prompt_tokens=10, completion_tokens=30)
    store.add_turn(attempt, talk, said, Answer("answered", None, reply, cost, 0.1))


def test_tokens_cost_and_time_left_come_from_the_store(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PRICED, encoding="utf-8")
    study = Study(tmp_path)
    [talk] = study.talks
    with closing(Store(study.store_path)) as store:
        store.enter_talks(study.talks)
        store.begin_run(None, {})
        say(store, talk, 1, 0.125)
        say(store, talk, 2, 0.25)
        with study.archive() as archive:
            run = archive.last_run()
            assert run is not None
            found = totals(archive, datetime.fromisoformat(run.started) + timedelta(seconds=8))
        assert (found.tokens, found.recent_tokens, found.run_turns) == (60, 60, 2)
        assert (found.spent, found.unpriced) == (0.375, 0)
        assert (found.recent_seconds, found.run_seconds) == (8.0, 8.0)
        watch = StudyWatch(1, study.path)
        watch.open()
        watch.totals = replace(found, recent_seconds=3.0)
        shown = watch.figures()
        # 60 tokens in 3 s; 18 turns are missing, and two took 8 s.
        assert (shown["speed"], shown["cost"], shown["left"]) == (
            "20",
            "0.375 of at most 1.5",
            "1:12",
        )
        say(store, talk, 3, None)
        with study.archive() as archive:
            watch.totals = totals(archive)
        # With an unpriced answer, a sum would be too low.
        shown = watch.figures()
        assert shown["cost"] == "unknown: some answers have no price; limit 1.5"
        store.end_run("paused by a test")
    shown = watch.figures()
    assert (shown["speed"], shown["left"]) == ("–", "–")


@pytest.mark.parametrize("what", ["run", "pause"])
def test_runs_need_allow_run(make_study: MakeStudy, what: str) -> None:
    study = make_study(LOOPERS, *SMALL, *phantoms(""))
    client = client_of(study.path)
    watches_of(client)[0].open()
    refused = client.post(f"/study/1/{what}")
    assert refused.status_code == 403
    assert "--allow-run" in refused.text
    assert "<button>Run</button>" not in client.get("/study/1").text
    assert not study.store_path.exists()


@pytest.mark.kill
def test_run_can_be_started_and_paused_on_the_page(make_study: MakeStudy) -> None:
    # Too many turns to wait for the last one.
    study = make_study(
        LOOPERS, *SMALL, *phantoms("latency = 0.1"), ("turns = 14", "turns = 10_000")
    )
    with client_of(study.path, allow_run=True) as client:
        [watch] = watches_of(client)
        follower = Follower(watch)
        assert client.post("/study/1/run").status_code == 200
        assert client.post("/study/1/run").status_code in (400, 409)
        follower.until(lambda: any(cell.turns for cell in watch.cells.values()))
        assert watch.run_state()[0]
        client.post("/study/1/pause")
        watch.child.wait()
        assert watch.child.failure is None
        assert watch.run_state()[1] == "paused: stopped by SIGINT"
        assert client.post("/study/1/pause").status_code == 400


def test_plan_with_code_is_explained_on_the_page(make_study: MakeStudy) -> None:
    study = make_study(LOOPERS, steps=("lock",))
    client = client_of(study.path, allow_run=True)
    [watch] = watches_of(client)
    watch.open()
    client.post("/study/1/run")
    watch.child.wait()
    assert "--allow-code" in client.get("/study/1").text
    watch.close()


def test_failed_start_is_shown_on_the_open_page(make_study: MakeStudy) -> None:
    study = make_study(LOOPERS, steps=("lock",))
    client = client_of(study.path, allow_run=True)
    [watch] = watches_of(client)
    watch.open()
    client.post("/study/1/run")
    watch.child.wait()
    patches = {each["place"]: each for each in watch.snapshot()}
    watch.close()
    assert "--allow-code" in patches["failure"]["text"]
    assert patches["failure"]["hidden"] is False
    assert (patches["may-run"]["hidden"], patches["may-pause"]["hidden"]) == (False, True)


def test_home_page_shows_the_state_of_each_study(make_study: MakeStudy, tmp_path: Path) -> None:
    study = make_study(LOOPERS, *SMALL, *phantoms(""), name="fine")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "plan.toml").write_text("[study")
    (tmp_path / "damaged").mkdir()
    shutil.copy(study.path / "plan.toml", tmp_path / "damaged")
    (tmp_path / "damaged" / "study.db").write_text("no database")
    client = client_of(tmp_path)
    opened = {watch.name: watch.open() for watch in watches_of(client)}
    assert opened == {"broken": False, "damaged": False, "fine": True}
    page = client.get("/").text
    assert client.get("/study/2", headers={"accept": "text/html"}).status_code == 409
    assert "not valid TOML" in page
    assert "the file is damaged" in page
    assert re.search(r"not started; 0 of \d+ conversations", page)


def test_study_appears_once_its_plan_is_fixed(make_study: MakeStudy) -> None:
    study = make_study(LOOPERS)
    with client_of(study.path) as client:
        assert client.get("/study/1").status_code == 409
        follower = Follower(watches_of(client)[0])
        study.freeze()
        follower.until(lambda: client.get("/study/1").status_code == 200)


def test_unreadable_plan_is_named(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "plan.toml").write_text("[study]\nnam = 1\n")
    with client_of(tmp_path / "study") as client:
        answer = client.get("/study/1", headers={"accept": "text/html"})
    assert answer.status_code == 409
    assert "plan.toml" in answer.text
