"""A trial from its plan to its analysis: on phantoms, killed, offline, and on a real model."""

import json
import os
import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from chimeralab import weights
from chimeralab.pipeline import analyse_trial, run
from chimeralab.study import Study, run_study
from chimeralab.study.folder import new_study, templates
from chimeralab.study.forecast import forecast
from chimeralab.study.verify import verify_study
from chimeralab.trial.hooks import POINTS, Hooks
from chimeralab.trial.trials import TrialRow
from tests.killed_run import quick_processes, run_and_kill
from tests.plans import ALL, TRIAL, trial
from tests.studies import rows

KILLS = 12
AT_ONCE = 4


@pytest.fixture
def finished(make_study):
    """A trial with every stressor, run."""
    return make_study(TRIAL, steps=("run",), name="finished")


def test_trial_runs_from_its_lock_to_its_analysis(make_study, chimera):
    study = make_study(TRIAL)
    for command in (("check", "--offline"), ("lock",), ("run",), ("verify",)):
        assert chimera(command[0], study.path, *command[1:]).code == 0
    again = chimera("run", study.path, "--json")
    assert json.loads(again.out)["complete"]
    measured = json.loads(chimera("measure", study.path, "--by", "arm", "--json").out)
    assert measured["mci"]["value"] is not None
    assert measured["groups"].keys() == study.plan.own.arms.keys()
    found = json.loads(chimera("analyse", study.path, "--json").out)["subjects"][0]
    assert found["informative"]
    mains = {e["name"]: e["estimate"] for e in found["factorial"] if e["measure"] == "accuracy"}
    assert len(mains) == 7
    assert all(mains[name] < 0 for name in ("amnesia", "infallibility", "conformity"))
    assert "against sham" in chimera("analyse", study.path, "--full").out
    page = Path(json.loads(chimera("report", study.path, "--json").out)["page"])
    assert "Informative" in page.read_text()


def test_dose_outside_its_range_is_rejected_before_anything_is_asked(make_study, chimera):
    study = make_study(TRIAL, "[stressors.amnesia]\nscope = 2.0\n")
    ran = chimera("run", study.path)
    assert ran.code == 2
    assert "[stressors.amnesia] scope = 2.0" in ran.err
    assert not study.store_path.exists()


def test_every_injection_is_an_event_with_what_was_done(finished):
    with finished.archive() as archive:
        events = list(archive.rows("SELECT * FROM events"))
    done = [(e["kind"], i) for e in events for i in json.loads(e["detail"])["injections"]]
    assert {kind for kind, _ in done} == {"amnesia", "infallibility", "conformity", "sham"}
    assert {i["action"] for kind, i in done if kind == "amnesia"} == {"removed"}
    assert all(i["text"] for _, i in done)
    assert not any(event["trajectory"].startswith("control/") for event in events)
    places = [(e["trajectory"], e["turn"], e["kind"]) for e in events]
    assert len(places) == len(set(places))


def test_same_plan_gives_the_same_trials_to_the_byte(finished, make_study):
    again = make_study(TRIAL)
    run_study(again)
    assert rows(again) == rows(finished)


def test_order_of_events_does_not_depend_on_the_order_of_hashes(make_study):
    stored = []
    for seed in ("1", "2", "3"):
        study = make_study(
            trial(design=f'{ALL}\ncountermeasures = ["ledger"]', number=1), name=seed
        )
        command = (sys.executable, "-m", "chimeralab", "run", study.path)
        hashes = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, env=hashes, check=True, capture_output=True)
        with study.archive() as archive:
            query = "SELECT trajectory, turn, kind, detail FROM events ORDER BY trajectory, id"
            stored.append(list(archive.rows(query)))
    assert len({(event["trajectory"], event["turn"]) for event in stored[0]}) < len(stored[0])
    assert stored[0] == stored[1] == stored[2]


def test_without_its_probes_a_session_says_the_same(finished, make_study):
    bare = make_study(trial(design=f"{ALL}\nprobes = []"), steps=("run",))
    assert [r.response for r in rows(finished)] == [r.response for r in rows(bare)]
    assert all(r.confidence is None for r in rows(bare))


def test_forecast_is_what_a_trial_asks_at_the_most(finished):
    expected = forecast(finished.plan)
    with finished.archive() as archive:
        calls = archive.value("SELECT count(*) FROM attempts")
        words = archive.value("SELECT sum(prompt_tokens) FROM attempts")
    assert calls == expected.calls
    assert words < expected.loads[0].prompt_tokens


def test_forecast_counts_every_question_about_a_false_signal(make_study):
    study = make_study(trial(design='factorial = ["infallibility", "conformity"]'), steps=("run",))
    with study.archive() as archive:
        assert archive.value("SELECT count(*) FROM attempts") == forecast(study.plan).calls
        asked = archive.value("SELECT count(*) FROM probes WHERE probe = 'noticed'")
    told = [row for row in rows(study) if row.noticed is not None]
    # One belief and one first majority a scenario, in two arms each.
    assert asked == len(told) == 3 * 2 * 2
    assert all(row.noticed for row in told)


def test_hooks_fire_at_every_point_and_live_rows_equal_stored_ones(make_study):
    study, hooks, seen, live = make_study(TRIAL), Hooks(), [], []
    for point in POINTS:
        hooks.on(point, lambda observed: seen.append(observed.point))

    def publish(news):
        hooks(news)
        if isinstance(news, TrialRow):
            live.append(news)

    run(study, publish=publish)
    assert set(seen) == set(POINTS)
    assert sorted(live, key=repr) == sorted(rows(study), key=repr)


@pytest.mark.kill
def test_trial_killed_at_random_moments_has_every_trial_once(make_study):
    rng, processes = random.Random(7), quick_processes()
    killed = make_study(TRIAL, steps=("lock",), name="killed")
    peaceful = make_study(TRIAL, steps=("lock",), name="peaceful")
    assert killed.plan.run.concurrency == AT_ONCE
    waiting = [rng.randint(1, AT_ONCE) for _ in range(KILLS)]
    for each in waiting:
        run_and_kill(Study(killed.path), processes, answers=rng.randint(0, 80), waiting=each)
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
    assert sum(waiting) <= interrupted <= KILLS * AT_ONCE


def test_nothing_but_the_subject_is_contacted(make_study, monkeypatch):
    def refuse(*_):
        raise AssertionError("the network was touched")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    study = make_study(TRIAL)
    study.freeze()
    assert run_study(study).complete
    assert analyse_trial(study).subjects[0].informative


@pytest.mark.parametrize("name", [name for name in templates() if name.startswith("trial-")])
def test_every_template_is_a_valid_plan(tmp_path, name):
    new_study(tmp_path / "study", name)
    plan = Study(tmp_path / "study", allow_code=True).plan
    assert plan.own is not None
    assert {"phantom.control", "phantom.sham"} <= plan.conditions.keys()


@pytest.mark.model
@pytest.mark.skipif(weights.locate("smollm2") is None, reason="the embedded model is not here")
def test_embedded_model_goes_through_a_trial(make_study):
    design = 'each = ["amnesia"]\nprobes = ["confidence"]\nsham = false'
    files = trial('use = "embedded"', design, number=1)
    study = make_study(files, ("recall = 5", "recall = 2"))
    assert run_study(study).complete
    found = rows(study)
    assert len(found) == 2 * study.plan.conversation.turns
    assert any(row.disturbed for row in found)
    assert analyse_trial(study).subjects[0].checks
