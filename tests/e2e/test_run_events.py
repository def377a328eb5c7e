"""Hooks fire as things happen, and a stream of events can be read during the run."""

import json
import subprocess
import sys
from itertools import pairwise

import pytest

from chimeralab.pipeline import run
from chimeralab.runner import TurnStored
from chimeralab.study import RunOptions
from chimeralab.trial.hooks import POINTS, HookEvent
from chimeralab.trial.trials import TrialRow
from tests.plans import trial

BEFORE = {"novel_task_flagged", "pair_generated", "bias_injected"}
SCORED = "trial_scored"


def order(names: list[str]) -> None:
    """Within a turn: the question, the answer, the probes, then the row."""
    assert SCORED not in names[:-1]
    assert names[-1] == SCORED
    answer = names.index("memory_recall_validated")
    assert set(names[:answer]) <= BEFORE
    assert not BEFORE & set(names[answer:])
    if "confidence_captured" in names:
        assert names.index("confidence_captured") > answer


def test_each_hook_fires_when_it_happens(make_study):
    news = []
    study = make_study(trial(number=1))
    run(study, RunOptions(concurrency=1), news.append)
    turns: dict[tuple[str, int], list[str]] = {}
    for each in news:
        if isinstance(each, HookEvent):
            turns.setdefault((each.session, each.trial), []).append(each.point)
        elif isinstance(each, TrialRow):
            turns.setdefault((each.session, int(each.trial)), []).append(SCORED)
    for names in turns.values():
        order(names)
    assert {name for names in turns.values() for name in names} == {*POINTS, SCORED}
    # A question is reported before its answer is stored, a verdict afterwards.
    places = {
        (each.talk, each.turn): place
        for place, each in enumerate(news)
        if isinstance(each, TurnStored)
    }
    for place, each in enumerate(news):
        if isinstance(each, HookEvent) and each.point in BEFORE:
            assert place < places[each.session, each.trial]


def test_events_are_lines_of_json_that_add_up_to_the_run(make_study, tmp_path, chimera):
    study, file = make_study(trial(number=1)), tmp_path / "events.jsonl"
    ran = chimera("run", study.path, "--events", file, "--concurrency", 1)
    assert ran.code == 0
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert lines[0]["event"] == "run_started"
    assert {line["event"] for line in lines} >= {*POINTS, SCORED, "turn_stored", "talk_ended"}
    assert all(one["at"] <= two["at"] for one, two in pairwise(lines))
    with study.archive() as archive:
        assert archive.value("SELECT count(*) FROM trials") == sum(
            line["event"] == SCORED for line in lines
        )


WAITING = """
import asyncio
import sys
from dataclasses import dataclass

from chimeralab.trial.phantoms import PhantomSubject, PhantomSubjectSettings


@dataclass(frozen=True)
class Waiting:
    def open(self):
        return Subject()


class Subject:
    backstage = True

    def __init__(self):
        self.phantom = PhantomSubject(PhantomSubjectSettings())

    async def reply(self, request):
        if request.turn > 1:
            await asyncio.to_thread(sys.stdin.read)  # until the test closes it
        return await self.phantom.reply(request)
"""


def test_standard_output_can_be_read_while_the_run_goes_on(make_study):
    study = make_study(trial('use = "waiting:Waiting"', number=1) | {"waiting.py": WAITING})
    command = [sys.executable, "-m", "chimeralab", "run", str(study.path), "--events", "-"]
    command += ["--concurrency", "1", "--allow-code"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        first = json.loads(process.stdout.readline())
        seen = next(line for line in process.stdout if json.loads(line)["event"] in POINTS)
        running = process.poll() is None
        process.stdin.close()
        rest = [json.loads(line) for line in process.stdout]
    assert (process.returncode, first["event"], running) == (0, "run_started", True)
    assert json.loads(seen)["talk"]
    assert rest[-1]["event"] == "talk_ended"


def test_reader_that_leaves_does_not_stop_the_run(make_study):
    study = make_study(trial(number=1))
    command = [sys.executable, "-m", "chimeralab", "run", str(study.path), "--events", "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 0
    assert "no more events are written to -" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--events", "-", "--json"), "both write to standard output; give --events a file"),
        (("--events", "/nowhere/at/all"), "/nowhere/at/all can't be written"),
    ],
)
def test_unusable_event_stream_is_rejected_before_the_first_request(
    make_study, chimera, options, said
):
    study = make_study(trial(number=1))
    ran = chimera("run", study.path, *options)
    assert (ran.code, said in ran.err) == (2, True)
    assert not (study.path / "study.db").exists()
