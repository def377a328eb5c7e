"""A trial from its plan to its analysis: on phantoms, killed, offline, and on a real model."""

import json
import multiprocessing
import os
import random
import shutil
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from chimeralab.embedding import weights
from chimeralab.pipeline import analyse_trial, run
from chimeralab.runner import RunStarted, TrialScored
from chimeralab.sandbox.hooks import POINTS, Hooks
from chimeralab.study import RunOptions, Study, run_study
from chimeralab.study.database import StoreError
from chimeralab.study.export import export_study
from chimeralab.study.forecast import forecast
from chimeralab.study.scaffold import new_study, templates
from chimeralab.study.trial_rows import stored_trials
from chimeralab.study.verify import verify_study

KILLS = 12
PLAN = """
[study]
name = "trial"
kind = "trial"
[models.p]
{model}
[trial]
subjects = ["p"]
{design}
[scenarios]
use = "ledger"
number = {number}
recall = 5
inference = 2
novel = 2
[layout]
beliefs = 1
tested = 1
[sampling]
max_tokens = 8
[run]
concurrency = 4
"""
PHANTOM = 'use = "subject"'
ALL = 'factorial = ["amnesia", "infallibility", "conformity"]'
SLOW = """
import asyncio
from dataclasses import dataclass, field

from chimeralab.sandbox.phantoms import PhantomSubject, PhantomSubjectSettings


@dataclass(frozen=True)
class Slow:
    wait: float = 0.003

    def open(self):
        return Subject(self.wait)


class Subject:
    def __init__(self, wait):
        self.wait = wait
        self.phantom = PhantomSubject(PhantomSubjectSettings())

    async def reply(self, request):
        await asyncio.sleep(self.wait)
        return await self.phantom.reply(request)
"""


def make_trial(
    folder: Path, model: str = PHANTOM, design: str = ALL, number: int = 3, more: str = ""
) -> Study:
    folder.mkdir()
    plan = PLAN.format(model=model, design=design, number=number)
    (folder / "plan.toml").write_text(plan + more)
    (folder / "slow.py").write_text(SLOW)
    return Study(folder)


def rows(study: Study) -> list:
    return list(stored_trials(study))


def test_a_trial_runs_from_its_lock_to_its_analysis(tmp_path, chimera):
    study = make_trial(tmp_path / "trial")
    for command in (("check", "--offline"), ("lock",), ("run",), ("verify",)):
        assert chimera(command[0], study.path, *command[1:]).code == 0
    again = chimera("run", study.path, "--json")
    assert json.loads(again.out)["complete"]
    measured = json.loads(chimera("measure", study.path, "--by", "arm", "--json").out)
    assert measured["mci"]["value"] is not None
    assert measured["groups"].keys() == study.plan.trial.arms.keys()
    found = json.loads(chimera("analyse", study.path, "--json").out)["subjects"][0]
    assert found["informative"]
    mains = {e["name"]: e["estimate"] for e in found["factorial"] if e["measure"] == "accuracy"}
    assert len(mains) == 7
    assert all(mains[name] < 0 for name in ("amnesia", "infallibility", "conformity"))
    assert "against sham" in chimera("analyse", study.path).out
    page = Path(json.loads(chimera("report", study.path, "--json").out)["page"])
    assert "Informative" in page.read_text()


def test_an_analysis_takes_its_own_options_and_refuses_those_of_self_play(tmp_path, chimera):
    study = make_trial(tmp_path / "trial", design='each = ["amnesia"]', number=8)
    chimera("run", study.path)
    by_seed = [chimera("analyse", study.path, "--json", "--seed", seed).out for seed in (0, 1, 1)]
    assert by_seed[0] != by_seed[1] == by_seed[2]
    for option in (("--level", "0.9"), ("--robustness",), ("--contrast", "a = b")):
        ran = chimera("analyse", study.path, *option)
        assert ran.code == 2
        assert f"{option[0]} is about self-play" in ran.err


def test_an_analysis_says_when_the_trial_is_not_at_its_end(tmp_path, chimera):
    study = make_trial(tmp_path / "trial", design='each = ["amnesia"]', number=2)
    chimera("run", study.path)
    assert "left out" not in chimera("analyse", study.path).err
    with sqlite3.connect(study.store_path) as db:
        db.execute("UPDATE trajectories SET outcome = 'overflow' WHERE id = 'amnesia/ledger-1/1'")
        db.execute("UPDATE trajectories SET outcome = NULL WHERE id = 'amnesia/ledger-2/1'")
    ran = chimera("analyse", study.path)
    assert "left out, since cut short: amnesia, 1 (overflow)" in ran.err
    assert "left out, since cut short: amnesia, 1 (not finished)" in ran.err
    found = json.loads(chimera("analyse", study.path, "--json").out)["subjects"][0]
    assert {arm["arm"]: arm["sessions"] for arm in found["arms"]}["amnesia"] == 0


def test_a_dose_outside_its_range_is_refused_before_anything_is_asked(tmp_path, chimera):
    study = make_trial(tmp_path / "trial", more="[stressors.amnesia]\nscope = 2.0\n")
    ran = chimera("run", study.path)
    assert ran.code == 2
    assert "[stressors.amnesia] scope = 2.0" in ran.err
    assert not study.store_path.exists()


def test_every_injection_is_an_event_with_what_was_done(tmp_path):
    study = make_trial(tmp_path / "trial")
    run_study(study)
    with study.archive() as archive:
        events = list(archive.rows("SELECT * FROM events"))
    done = [(e["kind"], i) for e in events for i in json.loads(e["detail"])["injections"]]
    assert {kind for kind, _ in done} == {"amnesia", "infallibility", "conformity", "sham"}
    assert {i["action"] for kind, i in done if kind == "amnesia"} == {"removed"}
    assert all(i["text"] for _, i in done)
    assert not any(event["trajectory"].startswith("control/") for event in events)
    places = [(e["trajectory"], e["turn"], e["kind"]) for e in events]
    assert len(places) == len(set(places))


def test_the_same_plan_gives_the_same_trials_to_the_byte(tmp_path):
    first, second = make_trial(tmp_path / "first"), make_trial(tmp_path / "second")
    for study in (first, second):
        run_study(study)
    assert rows(first) == rows(second)


def test_the_order_of_events_does_not_hang_on_the_order_of_hashes(tmp_path):
    stored = []
    for seed in ("1", "2", "3"):
        study = make_trial(tmp_path / seed, design=f'{ALL}\nmeasures = ["ledger"]', number=1)
        command = (sys.executable, "-m", "chimeralab", "run", study.path)
        hashes = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, env=hashes, check=True, capture_output=True)
        with study.archive() as archive:
            query = "SELECT trajectory, turn, kind, detail FROM events ORDER BY trajectory, id"
            stored.append(list(archive.rows(query)))
    assert len({(event["trajectory"], event["turn"]) for event in stored[0]}) < len(stored[0])
    assert stored[0] == stored[1] == stored[2]


def test_without_its_probes_a_session_says_the_same(tmp_path):
    probed = make_trial(tmp_path / "probed")
    bare = make_trial(tmp_path / "bare", design=f"{ALL}\nprobes = []")
    for study in (probed, bare):
        run_study(study)
    assert [r.response for _, r in rows(probed)] == [r.response for _, r in rows(bare)]
    assert all(r.confidence is None for _, r in rows(bare))


def test_the_forecast_is_what_a_trial_asks_at_the_most(tmp_path):
    study = make_trial(tmp_path / "trial")
    expected = forecast(study.plan)
    run_study(study)
    with study.archive() as archive:
        calls = archive.value("SELECT count(*) FROM attempts")
        words = archive.value("SELECT sum(prompt_tokens) FROM attempts")
    assert calls == expected.calls
    assert words < expected.loads[0].prompt_tokens


def test_the_forecast_counts_every_question_about_a_false_signal(tmp_path):
    study = make_trial(tmp_path / "trial", design='factorial = ["infallibility", "conformity"]')
    run_study(study)
    with study.archive() as archive:
        assert archive.value("SELECT count(*) FROM attempts") == forecast(study.plan).calls
        asked = archive.value("SELECT count(*) FROM probes WHERE probe = 'noticed'")
    told = [row for _, row in rows(study) if row.noticed is not None]
    # One belief and one first majority a scenario, in two arms each.
    assert asked == len(told) == 3 * 2 * 2
    assert all(row.noticed for row in told)


def test_a_resilient_subject_is_informative_under_every_stressor(tmp_path):
    steady = f"{PHANTOM}\nrecall = 1.0\nforgetting = 0.0\ncredulity = 0.0\nconformity = 0.0"
    study = make_trial(tmp_path / "trial", steady, 'each = ["infallibility", "conformity"]')
    run_study(study)
    [found] = analyse_trial(study).subjects
    assert found.informative
    assert not found.reasons
    aims = {"infallibility": "misled", "conformity": "conformity_rate"}
    for arm, measure in aims.items():
        [shown] = [
            effect.estimate
            for effect in found.contrasts
            if (effect.name, effect.measure) == (f"{arm} − sham", measure)
        ]
        assert shown == 0


def test_a_trial_that_is_tampered_with_is_found_out(tmp_path):
    study = make_trial(tmp_path / "trial", number=1)
    run_study(study)
    assert not verify_study(study).findings
    with sqlite3.connect(study.store_path) as db:
        db.execute(
            "UPDATE trials SET correct = 1 - correct WHERE trial = 4 AND trajectory LIKE 'c%'"
        )
        db.execute("DELETE FROM probes WHERE turn = 5 AND trajectory LIKE 'sham%'")
    found = [str(finding) for finding in verify_study(study).findings]
    assert any("trial 4 is not what its answers make of it" in line for line in found)
    assert any("turn 5 lacks the reply to its probe" in line for line in found)


@pytest.fixture(scope="module")
def stressed(tmp_path_factory) -> Study:
    """A finished trial in which something is done at every turn but the first."""
    design = 'each = ["amnesia"]\nmeasures = ["ledger"]'
    always = "[stressors.amnesia]\nfrequency = 1.0\nscope = 1.0\n"
    folder = tmp_path_factory.mktemp("stressed") / "trial"
    study = make_trial(folder, design=design, number=1, more=always)
    run_study(study)
    return study


@pytest.mark.parametrize(
    ("tampering", "trial"),
    [
        ("DELETE FROM events WHERE turn = 6", 6),
        ("DELETE FROM events WHERE kind = 'ledger' AND turn = 5", 5),
        ("UPDATE events SET detail = replace(detail, 'is', 'was') WHERE turn = 6", 6),
        ("UPDATE events SET kind = 'sham' WHERE turn = 6 AND kind = 'amnesia'", 6),
        ("UPDATE events SET detail = '{}' WHERE turn = 6", 6),
        (
            "INSERT INTO events (trajectory, turn, kind, detail, at) SELECT id, 4, 'extra', "
            "'{\"injections\": []}', '' FROM trajectories",
            4,
        ),
        (
            "INSERT INTO events (trajectory, turn, kind, detail, at) "
            "SELECT trajectory, turn, kind, detail, at FROM events WHERE turn = 6",
            6,
        ),
    ],
)
def test_an_event_that_is_tampered_with_is_found_out(tmp_path, stressed, tampering, trial):
    study = Study(shutil.copytree(stressed.path, tmp_path / "copy"))
    assert not verify_study(study).findings
    with sqlite3.connect(study.store_path) as db:
        db.execute(tampering)
    found = [str(finding) for finding in verify_study(study).findings]
    assert found
    said = f"trial {trial}: its events are not what was done to it"
    assert all(finding.endswith(said) for finding in found)
    assert any(finding.startswith("amnesia-with-ledger/") for finding in found)


def test_a_trial_stored_before_noticing_was_asked_is_brought_up_to_date(tmp_path):
    study = make_trial(tmp_path / "trial", number=1)
    run_study(study)
    with sqlite3.connect(study.store_path) as db:
        for column in ("noticed", "states", "recall_states", "claim"):
            db.execute(f"ALTER TABLE trials DROP COLUMN {column}")
        db.execute("ALTER TABLE probes DROP COLUMN hash")
        db.execute("PRAGMA user_version = 3")
    with pytest.raises(StoreError, match="older"):
        rows(study)
    assert run_study(Study(study.path)).complete
    assert rows(study)
    assert all(row.noticed is None for _, row in rows(study))


def test_a_trial_can_be_replayed_and_exported(tmp_path):
    study = make_trial(tmp_path / "trial", number=1)
    run_study(study)
    replay = make_trial(tmp_path / "again", 'use = "replay"\nstudy = "../trial"', number=1)
    run_study(replay)
    assert rows(replay) == rows(study)
    written = {path.name for path in export_study(study, "csv", tmp_path / "out")}
    assert {"trials.csv", "probes.csv"} <= written
    lines = (tmp_path / "out" / "trials.csv").read_text().splitlines()
    assert len(lines) == 1 + len(rows(study))
    assert "noticed" in lines[0].split(",")


def test_hooks_hear_every_point_and_live_rows_are_the_stored_ones(tmp_path):
    study, hooks, seen, live = make_trial(tmp_path / "trial"), Hooks(), [], []
    for point in POINTS:
        hooks.on(point, lambda observed: seen.append(observed.point))

    def publish(news):
        hooks(news)
        if isinstance(news, TrialScored):
            live.append((news.place, news.row))

    run(study, publish=publish)
    assert set(seen) == set(POINTS)
    assert sorted(live, key=repr) == sorted(rows(study), key=repr)


def run_and_kill(study: Study, seconds: float, processes) -> None:
    news = processes.SimpleQueue()
    process = processes.Process(target=run_study, args=(study, RunOptions(), news.put))
    process.start()
    assert isinstance(news.get(), RunStarted)
    process.join(seconds)
    process.kill()
    process.join()


def test_a_trial_killed_at_random_moments_has_every_trial_once(tmp_path):
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["chimeralab.study"])
    rng, slow = random.Random(7), 'use = "slow:Slow"'
    killed = make_trial(tmp_path / "killed", slow)
    peaceful = make_trial(tmp_path / "peaceful", slow)
    for study in (killed, peaceful):
        study.freeze()
    for _ in range(KILLS):
        run_and_kill(Study(killed.path), rng.uniform(0.0, 0.25), processes)
    assert run_study(Study(killed.path)).complete
    run_study(peaceful)

    assert rows(killed) == rows(peaceful)
    assert not verify_study(killed).findings
    with killed.archive() as archive:
        events = "SELECT trajectory, turn, kind, detail FROM events ORDER BY 1, 2, 3"
        stored = list(archive.rows(events))
        interrupted = archive.value("SELECT count(*) FROM attempts WHERE outcome = 'interrupted'")
    with peaceful.archive() as archive:
        assert stored == list(archive.rows(events))
    assert interrupted > 0


def test_nothing_but_the_subject_is_contacted(tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("the network was touched")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    study = make_trial(tmp_path / "trial")
    study.freeze()
    assert run_study(study).complete
    assert analyse_trial(study).subjects[0].informative


def test_a_subject_that_guesses_is_not_informative(tmp_path, chimera):
    guesser = f"{PHANTOM}\nrecall = 0.0"
    study = make_trial(tmp_path / "trial", guesser)
    chimera("run", study.path)
    found = json.loads(chimera("analyse", study.path, "--json").out)["subjects"][0]
    assert not found["informative"]
    assert "guessing would give" in found["reasons"][0]
    assert not found["contrasts"]
    assert not found["factorial"]
    assert "not informative" in chimera("analyse", study.path).out


def test_a_subject_that_cannot_be_read_is_not_informative(tmp_path):
    mumbler = 'use = "phantom"\ncourse = "novel"'
    study = make_trial(tmp_path / "trial", mumbler, 'each = ["amnesia"]', number=2)
    run_study(study)
    [found] = analyse_trial(study).subjects
    assert not found.informative
    assert any("can't be read" in reason for reason in found.reasons)


@pytest.mark.parametrize("name", [name for name in templates() if name.startswith("trial-")])
def test_every_template_is_a_valid_plan(tmp_path, name):
    new_study(tmp_path / "study", name)
    plan = Study(tmp_path / "study").plan
    assert plan.trial is not None
    assert {"phantom.control", "phantom.sham"} <= plan.conditions.keys()


@pytest.mark.skipif(weights.locate("smollm2") is None, reason="the embedded model is not here")
def test_the_embedded_model_goes_through_a_trial(tmp_path):
    design = 'each = ["amnesia"]\nprobes = ["confidence"]\nsham = false'
    study = make_trial(tmp_path / "trial", 'use = "embedded"', design, number=1)
    plan = study.plan_path.read_text()
    study.plan_path.write_text(plan.replace("recall = 5", "recall = 2"))
    assert run_study(study).complete
    found = rows(study)
    assert len(found) == 2 * study.plan.conversation.turns
    assert any(row.disturbed for _, row in found)
    assert analyse_trial(study).subjects[0].checks
