"""A study from `chimera new` to its export, as a user meets it: with keys, faults and Ctrl-C."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from chimeralab import detect_all, readers, weights
from chimeralab.cli.main import cli
from chimeralab.core.errors import InputError
from chimeralab.runner import TurnStored
from chimeralab.study import RunOptions, Study, run_study
from chimeralab.study.verify import verify_study

PLAN = """
[study]
name = "e2e"
[models.a]
{model}
[conditions.solo]
speakers = ["a", "a"]
[sampling]
max_tokens = 8
[conversation]
turns = {turns}
repeats = {repeats}
on_failure = "retry 3 then stop"
[prompts]
items = [{{ id = "p1", text = "Name a colour." }}, {{ id = "p2", text = "Name a town." }}]
[run]
concurrency = 2
retry_wait = 0.0
"""
PHANTOM = 'use = "phantom"\nprice = { output = 1.0 }'


MAIN = "from chimeralab.cli.main import main; main()"


def make_study(folder: Path, model: str = PHANTOM, turns: int = 6, repeats: int = 1) -> Study:
    folder.mkdir()
    (folder / "plan.toml").write_text(PLAN.format(model=model, turns=turns, repeats=repeats))
    return Study(folder)


def chimera(command: str, *args: object, code: int = 0) -> str:
    """Run a command; what it prints, on both streams unless it is JSON."""
    result = CliRunner().invoke(cli, [command, *map(str, args)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout if "--json" in args else result.output


def attempts(study: Study) -> Counter[str]:
    with study.archive() as archive:
        return Counter(row["outcome"] for row in archive.rows("SELECT outcome FROM attempts"))


@pytest.mark.parametrize("template", ["selfplay", "escape-velocity", "escape"])
def test_new_study_is_valid_as_it_is_written(template, tmp_path):
    chimera("new", tmp_path / "mine", "--template", template)
    told = chimera("check", tmp_path / "mine", "--offline")
    assert "mine: the plan is valid (not locked" in told
    with pytest.raises(InputError, match="already exists"):
        chimera("new", tmp_path / "mine", "--template", template)


def test_new_completes_a_study_but_overwrites_nothing(tmp_path):
    chimera("new", tmp_path / "mine")
    written = {path.name: path.read_bytes() for path in (tmp_path / "mine").iterdir()}
    (tmp_path / "mine" / "prompts.jsonl").unlink()  # as if the command had been killed
    chimera("new", tmp_path / "mine")
    assert {path.name: path.read_bytes() for path in (tmp_path / "mine").iterdir()} == written
    (tmp_path / "mine" / "prompts.jsonl").unlink()
    (tmp_path / "mine" / "plan.toml").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match=r"plan\.toml already exists"):
        chimera("new", tmp_path / "mine")
    assert (tmp_path / "mine" / "plan.toml").read_text(encoding="utf-8") == "mine"


def test_escape_velocity_template_is_the_published_design(tmp_path):
    chimera("new", tmp_path / "ev", "--template", "escape-velocity")
    plan = Study(tmp_path / "ev").plan
    assert list(plan.conditions) == ["HOMO_A", "HOMO_B", "HOMO_C", "HETERO_ROT"]
    assert Counter(prompt.bucket for prompt in plan.prompts) == dict.fromkeys(
        (
            "argumentative",
            "creative_rewrite",
            "factual_qa",
            "instruction_following",
            "paraphrase",
            "planning",
        ),
        6,
    )
    assert (plan.conversation.turns, plan.conversation.repeats) == (40, 5)
    sampling = {speaker.sampling for c in plan.conditions.values() for speaker in c.speakers}
    assert [(s.temperature, s.top_p, s.max_tokens) for s in sampling] == [(0.7, 0.95, 256)]
    assert len({subject.revision for subject in plan.models.values()}) == 3
    forecast = json.loads(chimera("check", tmp_path / "ev", "--offline", "--json"))
    assert (forecast["conversations"], forecast["calls"]) == (720, 28_800)
    assert "180 prompts x 1 repeat find a difference of 0.078" in forecast["advice"][0]


@pytest.mark.weights
def test_study_goes_from_plan_to_verdicts(tmp_path):
    model = 'use = "phantom"\ncourse = "verbatim"\nonset = 2'
    study = make_study(tmp_path / "s", model, turns=8)
    assert "a answered as phantom-verbatim" in chimera("check", study.path)
    locked = json.loads(chimera("lock", study.path, "--json"))
    done = json.loads(chimera("run", study.path, "--no-watch", "--json"))
    assert (done["complete"], done["locked"]) == (True, True)
    assert "no mismatch" in chimera("verify", study.path)
    chimera("export", study.path, "--out", tmp_path / "out")
    conversations = readers.read_all([tmp_path / "out" / "trajectories.jsonl"])
    assert [verdict.first_collapse_turn for verdict in detect_all(conversations)] == [5, 5]
    again = json.loads(chimera("run", study.path, "--no-watch", "--json"))
    assert again["arms"] == done["arms"]
    assert locked["sha256"] == study.lock.sha256


def test_verify_exits_with_1_when_a_turn_was_edited(tmp_path):
    study = make_study(tmp_path / "s")
    chimera("run", study.path, "--no-watch")
    study.store_path.write_bytes(
        study.store_path.read_bytes().replace(b"Name a town.", b"Name a city.")
    )
    assert "its prompt, condition or repeat" in chimera("verify", study.path, code=1)


def test_exploratory_run_says_so(tmp_path):
    study = make_study(tmp_path / "s")
    assert "exploratory" in chimera("run", study.path, "--no-watch")


def test_cost_limit_stops_cleanly_and_can_be_raised(tmp_path):
    study = make_study(tmp_path / "s", turns=20)
    told = chimera("run", study.path, "--no-watch", "--max-cost", "0.0001", code=1)
    assert "stopped: max_cost = 0.0001 is used up" in told
    assert "2 conversations left" in told
    assert attempts(study).keys() == {"answered"}
    chimera("run", study.path, "--no-watch")
    assert attempts(study) == {"answered": 40}


def test_cost_limit_needs_prices(tmp_path):
    study = make_study(tmp_path / "s", 'use = "phantom"')
    with pytest.raises(InputError, match="max_cost can't be enforced without a price for a"):
        chimera("run", study.path, "--max-cost", "1")


def test_server_that_is_down_is_named_before_anything_is_spent(tmp_path):
    model = 'use = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\nmax_retries = 0'
    study = make_study(tmp_path / "s", model)
    for command in ("check", "run"):
        with pytest.raises(InputError, match=r"\[models.a\] can't be used: .*can't be reached"):
            chimera(command, study.path)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda s: s.plan_path.unlink(), "is not a study: it has no plan.toml"),
        (lambda s: s.plan_path.write_text("[study"), "plan.toml: not valid TOML"),
        (lambda s: s.store_path.write_text("x" * 5_000), "study.db: the file is damaged"),
        (lambda s: s.lock_path.write_text("{}"), "plan.lock is damaged"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(damage, told, tmp_path):
    study = make_study(tmp_path / "s")
    damage(study)
    process = start_run(study)
    said, _ = process.communicate()
    assert process.returncode == 2
    assert told in said
    assert said.startswith("chimera: ")
    assert said.count("\n") == 1


def start_run(study: Study, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "run", str(study.path), "--no-watch", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


INTERRUPTED = """
import asyncio
import os
import signal
from dataclasses import dataclass

from chimeralab.models.seam import Reply


@dataclass(frozen=True)
class Interrupted:
    times: int
    signal: str = "SIGINT"

    def open(self):
        return Talker(self.times, getattr(signal, self.signal))


class Talker:
    def __init__(self, times, number):
        self.times = times
        self.number = number
        self.waiting = 0
        self.answer = asyncio.Event()

    async def reply(self, request):
        if request.turn == 3:
            self.waiting += 1
            if self.waiting == 2:
                for _ in range(self.times):
                    # From another thread, so that the loop is idle, as it is at a real Ctrl-C.
                    await asyncio.to_thread(os.kill, os.getpid(), self.number)
                if self.times == 1:
                    self.answer.set()
            await self.answer.wait()
        return Reply("words")
"""


def interrupted_study(folder: Path, times: int, signal: str = "SIGINT") -> Study:
    """Two conversations of six turns; at the third of both, the signal comes `times` times."""
    settings = f'use = "interrupted:Interrupted"\ntimes = {times}\nsignal = "{signal}"'
    study = make_study(folder, settings)
    (folder / "interrupted.py").write_text(INTERRUPTED)
    return Study(study.path, allow_code=True)


@pytest.mark.kill
@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signal_stops_cleanly_and_the_next_run_resumes(tmp_path, signal):
    """Ctrl-C, a polite kill, and a terminal that was closed lose no request in flight."""
    study = interrupted_study(tmp_path / "s", times=1, signal=signal)
    process = start_run(study, "--allow-code")
    told, _ = process.communicate()
    assert process.returncode == 1, told
    assert f"stopped: stopped by {signal}" in told
    assert "Traceback" not in told
    with study.archive() as archive:
        assert archive.value("SELECT reason FROM runs") == f"stopped by {signal}"
    assert attempts(study) == {"answered": 6}
    assert run_study(study, RunOptions(watch=False)).complete
    assert attempts(study) == {"answered": 12}


@pytest.mark.kill
def test_a_second_ctrl_c_cancels_the_requests_in_flight(tmp_path):
    study = interrupted_study(tmp_path / "s", times=2)
    process = start_run(study, "--allow-code")
    told, _ = process.communicate()
    assert process.returncode == 1, told
    assert "Traceback" not in told
    assert attempts(study) == {"answered": 4, "cancelled": 2}


def openai(url: str, key: str, **more: object) -> str:
    settings = {"model": "smollm2-test", "base_url": url, "key_env": key, "timeout": 3_600.0} | more
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    return "\n".join(['use = "openai"', *lines])


@pytest.mark.model
def test_real_server_behind_every_fault_gives_every_turn_once(
    tmp_path, smollm_url, smollm_key, fault_proxy
):
    faults = ["pass", "busy", "pass", "broken", "drop", "pass", "garbage", "no_choices", "page"]
    proxy = fault_proxy(smollm_url, faults)
    study = make_study(tmp_path / "s", openai(proxy.url, smollm_key), turns=4)
    study.freeze()
    assert run_study(study, RunOptions(watch=False)).complete
    assert verify_study(study).findings == ()
    recorded = attempts(study)
    assert recorded.pop("answered") == 8
    assert recorded == {"rate_limit": 1, "server": 1, "connection": 1, "bad_answer": 3}
    assert all(t.metadata["outcome"] == "completed" for t in study.trajectories())


def test_key_reaches_nothing_that_is_kept_or_shown(tmp_path, smollm_key, fault_proxy, caplog):
    caplog.set_level("DEBUG")
    proxy = fault_proxy("http://127.0.0.1:9", ["reply_with_key"] * 6 + ["echo_key"] * 9)
    study = make_study(tmp_path / "s", openai(proxy.url, smollm_key), turns=9)
    key = os.environ[smollm_key]
    told = chimera("check", study.path) + chimera("lock", study.path)
    told += chimera("run", study.path, "--no-watch", code=1)
    told += chimera("verify", study.path)
    for kind in ("jsonl", "csv", "parquet"):
        told += chimera("export", study.path, "--format", kind, "--out", tmp_path / "s" / "out")
    with pytest.raises(InputError) as refused:
        chimera("check", study.path)
    told += str(refused.value) + caplog.text
    assert attempts(study)["auth"] >= 1
    assert key not in told
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(kept) >= 12
    assert not [path for path in kept if key.encode() in path.read_bytes()]


MEASURES = """
[models.fresh]
use = "phantom"
seed = 5
[conditions.nudged]
speakers = ["a", "a"]
countermeasure = { use = "nudge" }
[conditions.rotated]
speakers = ["a", "a"]
countermeasure = { use = "rotate", to = ["fresh"], turns = 3 }
[conditions.warmed]
speakers = ["a", "a"]
countermeasure = { use = "warm", by = 0.3, turns = 3 }
[conditions.trimmed]
speakers = ["a", "a"]
countermeasure = { use = "trim", keep = 2 }
"""


@pytest.mark.weights
def test_countermeasures_act_when_the_detector_fires(tmp_path):
    model = 'use = "phantom"\ncourse = "verbatim"\nonset = 2'
    study = make_study(tmp_path / "s", model, turns=12)
    study.plan_path.write_text(study.plan_path.read_text() + MEASURES)
    assert run_study(study, RunOptions(watch=False)).complete
    assert verify_study(study).findings == ()
    with study.archive() as archive:
        events = Counter(
            (row["trajectory"], json.loads(row["detail"])["use"], row["turn"])
            for row in archive.rows("SELECT * FROM events")
        )
        rotated = [row["model"] for row in archive.turns("rotated/p1/1")]
        warm = "SELECT turn FROM attempts WHERE trajectory = 'warmed/p1/1' AND temperature = 1.0"
        warmed = [row["turn"] for row in archive.rows(warm)]
    assert events["nudged/p1/1", "nudge", 5] == events["nudged/p1/1", "nudge", 9] == 1
    assert events["trimmed/p2/1", "trim", 5] == 1
    assert not [talk for talk, _, _ in events if talk.startswith("solo")]
    assert rotated == ["a"] * 5 + ["fresh"] * 3 + ["a"] * 4
    assert warmed == [6, 7, 8, 9, 10, 11, 12]


RUN_UP_TO_A_TURN = """
import sys
from chimeralab.runner import TurnStored
from chimeralab.study import Study, run_study

def publish(news):
    if isinstance(news, TurnStored):
        print("stored a turn", flush=True)
        sys.stdin.read()  # until it is killed

run_study(Study(sys.argv[1]), publish=publish)
"""


@pytest.mark.weights
@pytest.mark.model
@pytest.mark.kill
@pytest.mark.skipif(weights.locate("smollm2") is None, reason="needs `chimera models pull smollm2`")
def test_embedded_model_goes_on_after_a_kill_and_can_be_replayed(tmp_path):
    study = make_study(tmp_path / "s", 'use = "embedded"\ncache_gb = 1', turns=5)
    command = [sys.executable, "-c", RUN_UP_TO_A_TURN, str(study.path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "stored a turn\n"
    process.kill()
    process.communicate()
    assert {talk.metadata["outcome"] for talk in study.trajectories()} == {None}
    assert run_study(study).complete
    assert verify_study(study).findings == ()

    again = make_study(tmp_path / "again", 'use = "replay"\nstudy = "../s"', turns=5)
    run_study(again)
    first, second = list(study.trajectories()), list(again.trajectories())
    assert [t.turns for t in first] == [t.turns for t in second]
    assert [v.trace for v in detect_all(first, trace=True)] == [
        v.trace for v in detect_all(second, trace=True)
    ]


@pytest.mark.weights
@pytest.mark.parametrize(("concurrency", "watched"), [(64, True), (65, False)])
def test_large_parallel_runs_are_not_watched_live(tmp_path, concurrency, watched):
    study, news = make_study(tmp_path / "study", turns=2), []
    run_study(study, RunOptions(concurrency=concurrency), news.append)
    verdicts = [each.collapsed for each in news if isinstance(each, TurnStored)]
    assert [verdict is not None for verdict in verdicts] == [watched] * 4
