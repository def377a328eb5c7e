"""After the lock, no change of plan, prompt, default or code is accepted."""

import json
from dataclasses import replace

import pytest

import chimeralab
from chimeralab.core.errors import InputError
from chimeralab.core.schema import FIRST_SCHEMA, SCHEMA
from chimeralab.study import LockError, Study, run_study
from chimeralab.study.lock import digest
from chimeralab.study.verify import verify_study
from tests.plans import SCRIPTED


def reread(study):
    return Study(study.path, allow_code=True)


def change(study, old, new, file="plan.toml"):
    path = study.path / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return reread(study)


def test_locking_twice_changes_nothing(make_study):
    study = make_study(SCRIPTED)
    first = study.freeze()
    before = study.lock_path.read_bytes()
    assert reread(study).freeze() == first
    assert study.lock_path.read_bytes() == before


def test_the_lock_holds_every_default_and_every_prompt(make_study):
    resolved = make_study(SCRIPTED).freeze().resolved
    assert resolved["conversation"]["on_failure"] == "retry 5 then pause"
    assert resolved["detector"]["settings"]["s1"] == 0.92
    assert resolved["conditions"]["solo"]["speakers"][0]["sampling"]["top_p"] == 0.95
    assert [prompt["text"] for prompt in resolved["prompts"]] == ["Begin.", "Start."]
    assert resolved["chimeralab"] == chimeralab.__version__
    assert len(resolved["encoder"]["model.safetensors"]) == 64


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("turns = 6", "turns = 7", "conversation.turns: 6 → 7"),
        ("seed = 3", "seed = 4", "run.seed: 3 → 4"),
        ("Begin.", "Begin!", r"prompts\[p1\].text: \"Begin.\" → \"Begin!\""),
        ("[run]", "[detector]\ns1 = 0.9\n[run]", "detector.settings.s1: 0.92 → 0.9"),
        ('name = "critic"', 'name = "sceptic"', 'speakers.*name: "critic" → "sceptic"'),
    ],
)
def test_locked_plan_cannot_change(old, new, named, make_study):
    study = make_study(SCRIPTED)
    study.freeze()
    changed = change(study, old, new)
    with pytest.raises(LockError, match=named):
        run_study(changed)
    assert not study.store_path.exists()


def test_comment_does_not_break_the_lock(make_study):
    study = make_study(SCRIPTED)
    study.freeze()
    assert change(study, "turns = 6", "turns = 6 # as agreed").check_lock()


def test_a_changed_default_breaks_the_lock(make_study):
    study = make_study(SCRIPTED)
    study.freeze()
    later = reread(study)
    plan = later.plan
    later.__dict__["plan"] = replace(plan, run=replace(plan.run, concurrency=9))
    with pytest.raises(LockError, match=r"run.concurrency: 8 → 9"):
        later.check_lock()


def test_changed_code_breaks_the_lock(make_study):
    study = make_study(SCRIPTED)
    study.freeze()
    changed = change(study, '"turn"', '"turns"', "scripted.py")
    with pytest.raises(InputError, match=r"scripted\.py is not the file that was locked"):
        changed.check_lock()


@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.parametrize("version", ["0.1.0", "0.3.0", "1.2.0", "99.0"])
def test_another_minor_version_is_refused_and_names_the_one_to_install(
    make_study, monkeypatch, version, locked
):
    monkeypatch.setattr("chimeralab.version.__version__", "0.2.4")
    study = make_study(SCRIPTED)
    if locked:
        study.freeze()
    run_study(study)
    monkeypatch.setattr("chimeralab.version.__version__", version)
    way_out = r"with chimera-lab 0\.2\.4 .*`pip install chimera-lab~=0\.2\.4`"
    with pytest.raises(LockError, match=way_out):
        run_study(reread(study))


@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.parametrize("version", ["0.2.0", "0.2.1", "0.2.10"])
def test_patch_version_continues_a_study_of_its_minor_version(
    make_study, monkeypatch, version, locked
):
    monkeypatch.setattr("chimeralab.version.__version__", "0.2.4")
    study = make_study(SCRIPTED)
    if locked:
        study.freeze()
    run_study(study)
    monkeypatch.setattr("chimeralab.version.__version__", version)
    assert run_study(reread(study)).complete
    assert verify_study(reread(study)).findings == ()
    with pytest.raises(LockError, match=r"conversation.turns: 6 → 7"):
        run_study(change(study, "turns = 6", "turns = 7"))


@pytest.mark.parametrize("locked", [True, False])
def test_study_of_the_version_before_the_first_release_goes_on(make_study, monkeypatch, locked):
    monkeypatch.setattr("chimeralab.version.__version__", "0.1.0")
    study = make_study(SCRIPTED)
    if locked:
        study.freeze()
    run_study(study)
    monkeypatch.setattr("chimeralab.version.__version__", "0.2.0")
    assert run_study(reread(study)).complete
    assert verify_study(reread(study)).findings == ()
    with pytest.raises(LockError, match=r"conversation.turns: 6 → 7"):
        run_study(change(study, "turns = 6", "turns = 7"))


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [(SCHEMA + 1, "later version of chimera-lab"), (FIRST_SCHEMA - 1, "before the first release")],
)
def test_lock_of_an_unknown_schema_is_refused(make_study, schema, complaint):
    study = make_study(SCRIPTED)
    study.freeze()
    with pytest.raises(LockError, match=f"plan.lock was written .*{complaint}"):
        change(study, f'"schema": {SCHEMA}', f'"schema": {schema}', "plan.lock").check_lock()


def test_an_edited_lock_is_refused(make_study):
    study = make_study(SCRIPTED)
    study.freeze()
    with pytest.raises(LockError, match="was edited"):
        change(study, '"turns": 6', '"turns": 7', "plan.lock").check_lock()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"sha256": 1}'])
def test_a_damaged_lock_is_named(text, make_study):
    study = make_study(SCRIPTED)
    study.lock_path.write_text(text)
    with pytest.raises(LockError, match=r"plan.lock is damaged"):
        study.check_lock()


def test_study_that_was_run_cannot_be_locked(make_study):
    study = make_study(SCRIPTED)
    run_study(study)
    with pytest.raises(LockError, match="already holds 48 turns"):
        reread(study).freeze()


def test_removed_lock_is_noticed(make_study):
    study = make_study(SCRIPTED)
    study.freeze()
    run_study(study)
    study.lock_path.unlink()
    with pytest.raises(LockError, match="a different lock"):
        run_study(reread(study))


def test_exploratory_study_cannot_change_its_plan(make_study):
    study = make_study(SCRIPTED)
    run_study(study)
    with pytest.raises(LockError, match=r"conversation.turns: 6 → 7"):
        run_study(change(study, "turns = 6", "turns = 7"))


def test_a_lock_is_plain_json_under_its_own_hash(make_study):
    study = make_study(SCRIPTED)
    lock = study.freeze()
    stored = json.loads(study.lock_path.read_text())
    assert stored.pop("sha256") == lock.sha256 == digest(stored)
    assert stored["locked_at"] == lock.locked_at


def test_every_field_of_a_lock_is_under_its_hash(make_study):
    study = make_study(SCRIPTED)
    study.freeze()
    stored = json.loads(study.lock_path.read_text())
    for name, value in {"locked_at": "2020-01-01T00:00:00+00:00", "note": "added"}.items():
        study.lock_path.write_text(json.dumps(stored | {name: value}))
        with pytest.raises(LockError, match="was edited"):
            reread(study).check_lock()
