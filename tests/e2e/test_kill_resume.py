"""A run that is killed repeatedly ends like an uninterrupted one."""

import random
from pathlib import Path

import pytest

from chimeralab.study import RunOptions, Study, run_study
from chimeralab.study.verify import verify_study
from tests.killed_run import quick_processes, run_and_kill
from tests.plans import PERTURBED
from tests.studies import write_study

pytestmark = pytest.mark.kill

KILLS = 25
AT_ONCE = 5
QUIETLY = RunOptions(watch=False)

PLAN = f"""
[study]
name = "killed"
[models.echo]
use = "script:Script"
[models.other]
use = "script:Script"
word = "other"
[conditions.solo]
speakers = ["echo", "echo"]
[conditions.duo]
speakers = ["echo", "other"]
[conversation]
turns = 40
repeats = 4
[prompts]
items = [{{ id = "p1", text = "Begin." }}, {{ id = "p2", text = "Start." }}]
[run]
concurrency = {AT_ONCE}
"""

SCRIPT = """
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
        heard = request.messages[-1].content[-40:]
        return Reply(f"{self.word} {request.seed} after {heard}"[:60])
"""


def make_study(folder: Path) -> Study:
    folder.mkdir()
    (folder / "plan.toml").write_text(PLAN)
    (folder / "script.py").write_text(SCRIPT)
    study = Study(folder, allow_code=True)
    study.freeze()
    return Study(folder, allow_code=True)


def endings(study: Study) -> list[tuple[str, str, int, str]]:
    with study.archive() as archive:
        return [
            tuple(row[k] for k in ("id", "outcome", "turns", "closing")) for row in archive.talks()
        ]


def test_run_killed_at_random_moments_has_every_turn_once(tmp_path: Path) -> None:
    rng, processes = random.Random(25), quick_processes()
    killed, peaceful = make_study(tmp_path / "killed"), make_study(tmp_path / "peaceful")
    waiting = [rng.randint(1, AT_ONCE) for _ in range(KILLS)]
    for each in waiting:
        run_and_kill(killed, processes, answers=rng.randint(0, 16), waiting=each)
    assert run_study(Study(killed.path, allow_code=True), QUIETLY).complete
    run_study(peaceful, QUIETLY)

    assert endings(killed) == endings(peaceful)
    verified = verify_study(killed)
    assert (verified.findings, verified.deviations) == ((), ())
    assert verified.notes == (f"it took {KILLS + 1} runs (killed)",)
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
    assert KILLS < sum(waiting) <= attempts["interrupted"] <= KILLS * AT_ONCE


def test_perturbations_of_a_killed_run_are_applied_exactly_once(tmp_path: Path) -> None:
    rng, processes = random.Random(35), quick_processes()
    change = ("after_onset = 1", "after_onset = 1\ntimes = 3\nevery = 2")
    killed, peaceful = (
        write_study(tmp_path / name, PERTURBED, change) for name in ("killed", "peaceful")
    )
    for study in (killed, peaceful):
        study.freeze()
    for _ in range(8):
        run_and_kill(killed, processes, answers=rng.randint(2, 8), waiting=1)
    for study in (killed, peaceful):
        assert run_study(Study(study.path), QUIETLY).complete

    def events(study: Study) -> list[tuple[str, int, str, str]]:
        names = ("trajectory", "turn", "kind", "detail")
        with study.archive() as archive:
            rows = archive.rows("SELECT * FROM events ORDER BY trajectory, turn")
            return [tuple(row[name] for name in names) for row in rows]

    assert events(killed) == events(peaceful)
    assert len(events(killed)) == 3 * len(killed.talks)
    assert endings(killed) == endings(peaceful)
    assert verify_study(killed).findings == ()


def test_killed_runner_does_not_lock_the_study(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study")
    run_and_kill(study, quick_processes(), answers=3, waiting=1)
    with study.run_lock():
        pass
