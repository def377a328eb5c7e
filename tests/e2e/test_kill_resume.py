"""A run that is killed again and again ends as one that was left in peace."""

import multiprocessing
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimeralab.runner import RunStarted
from chimeralab.study import RunOptions, Study, run_study
from chimeralab.study.verify import verify_study

KILLS = 25
QUIETLY = RunOptions(watch=False)

PLAN = """
[study]
name = "killed"
[models.echo]
use = "slow_script:Script"
[models.other]
use = "slow_script:Script"
word = "other"
[conditions.solo]
speakers = ["echo", "echo"]
[conditions.duo]
speakers = ["echo", "other"]
[conversation]
turns = 40
repeats = 4
[prompts]
items = [{ id = "p1", text = "Begin." }, { id = "p2", text = "Start." }]
[run]
concurrency = 5
"""

SCRIPT = """
import asyncio
from dataclasses import dataclass

from chimeralab.models.seam import Reply


@dataclass(frozen=True)
class Script:
    word: str = "echo"

    def open(self):
        return Talker(self.word)


class Talker:
    def __init__(self, word):
        self.word = word

    async def reply(self, request):
        await asyncio.sleep(0.01)
        heard = request.messages[-1].content[-40:]
        return Reply(f"{self.word} {request.seed} after {heard}"[:60])
"""


def make_study(folder: Path) -> Study:
    folder.mkdir()
    (folder / "plan.toml").write_text(PLAN)
    (folder / "slow_script.py").write_text(SCRIPT)
    study = Study(folder, allow_code=True)
    study.freeze()
    return Study(folder, allow_code=True)


@pytest.fixture(scope="module")
def processes() -> Iterator[multiprocessing.context.BaseContext]:
    """Processes that start quickly: imports are done once, and each run is forked from there."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["chimeralab.study"])
    return context


def run_and_kill(study: Study, seconds: float, processes) -> bool:
    """Kill a run so long after it has begun; says whether it was still alive then."""
    news = processes.SimpleQueue()
    process = processes.Process(target=run_study, args=(study, QUIETLY, news.put))
    process.start()
    assert isinstance(news.get(), RunStarted)
    process.join(seconds)
    alive = process.is_alive()
    process.kill()
    process.join()
    return alive


def endings(study: Study) -> list[tuple[str, str, int, str]]:
    with study.archive() as archive:
        return [
            tuple(row[k] for k in ("id", "outcome", "turns", "closing")) for row in archive.talks()
        ]


def test_a_run_killed_at_random_moments_has_every_turn_once(tmp_path, processes):
    rng = random.Random(25)
    killed, peaceful = make_study(tmp_path / "killed"), make_study(tmp_path / "peaceful")
    lives = [run_and_kill(killed, rng.uniform(0.0, 0.08), processes) for _ in range(KILLS)]
    assert all(lives), "the study was over before it was killed so often"
    assert run_study(Study(killed.path, allow_code=True), QUIETLY).complete
    run_study(peaceful, QUIETLY)

    assert endings(killed) == endings(peaceful)
    verified = verify_study(killed)
    assert (verified.findings, verified.deviations) == ((), ())
    assert verified.notes == (f"it was run in {KILLS + 1} runs (killed)",)
    with killed.archive() as archive:
        assert archive.value("PRAGMA integrity_check") == "ok"
        turns = {(row["trajectory"], row["turn"]) for row in archive.rows("SELECT * FROM turns")}
        attempts = {
            row["outcome"]: row["n"]
            for row in archive.rows("SELECT outcome, count(*) AS n FROM attempts GROUP BY outcome")
        }
    assert turns == {(talk.id, turn) for talk in killed.talks for turn in range(1, 41)}
    assert attempts.keys() == {"answered", "interrupted"}
    assert attempts["answered"] == len(turns) == 640
    assert KILLS < attempts["interrupted"] <= KILLS * 5


def test_a_runner_that_is_killed_leaves_the_study_free(tmp_path, processes):
    study = make_study(tmp_path / "study")
    assert run_and_kill(study, 0.05, processes)
    with study.occupied():
        pass
