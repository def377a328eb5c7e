"""Verification finds every later change of a study."""

import sqlite3
from contextlib import closing

import pytest

from chimeralab.runner import TurnRecord
from chimeralab.study import Study, run_study
from chimeralab.study.lock import link
from chimeralab.study.verify import verify_study
from tests.plans import SCRIPTED
from tests.studies import RUN


def tamper(study, *statements):
    with closing(sqlite3.connect(study.store_path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


def findings(study):
    return [str(finding) for finding in verify_study(Study(study.path)).findings]


@pytest.fixture
def done(make_study):
    return make_study(SCRIPTED, steps=RUN)


def test_untouched_study_verifies(done):
    verified = verify_study(done)
    assert (verified.findings, verified.conversations, verified.turns) == ((), 8, 48)
    assert verified.locked


AT = "WHERE trajectory = 'solo/p1/1' AND turn"


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (f"UPDATE turns SET text = text || '.' {AT} = 2", "turn 2 is not the one that was stored"),
        (f"UPDATE turns SET speaker = 'echo-1' {AT} = 2", "turn 2 is not the one"),
        (f"UPDATE turns SET model = 'better' {AT} = 2", "turn 2 is not the one"),
        (f"UPDATE turns SET finish = 'length' {AT} = 2", "turn 2 is not the one"),
        (f"DELETE FROM turns {AT} = 3", "turn 3 is missing"),
        (f"DELETE FROM turns {AT} = 6", "it ended with 6 turns and now has 5"),
        (f"DELETE FROM turns {AT} > 0", "it ended with 6 turns and now has 0"),
        ("DELETE FROM attempts WHERE trajectory = 'solo/p1/1'", "was never answered"),
        ("UPDATE trajectories SET prompt_text = 'Other.'", "its prompt, condition or repeat"),
        ("UPDATE trajectories SET repeat = 9 WHERE id = 'solo/p1/1'", "its prompt, condition"),
        ("UPDATE trajectories SET id = 'solo/p9/1' WHERE id = 'solo/p1/1'", "but not planned"),
        ("DELETE FROM trajectories WHERE id = 'solo/p1/1'", "planned, but not in the store"),
        ("UPDATE study SET value = 'x' WHERE key = 'lock'", "under a different lock"),
        ("""UPDATE study SET value = '{}' WHERE key = 'resolved'""", "its copy of the plan"),
    ],
)
def test_every_change_in_the_store_is_found(statement, found, done):
    tamper(done, statement)
    assert any(found in finding for finding in findings(done)), findings(done)


def test_swapped_turns_are_found(done):
    swap = f"UPDATE turns SET turn = CASE turn WHEN 2 THEN -4 ELSE -2 END {AT} IN (2, 4)"
    tamper(done, swap, "UPDATE turns SET turn = -turn WHERE turn < 0")
    assert any("turn 2 is not the one" in finding for finding in findings(done))


def test_the_last_turn_of_an_unfinished_conversation_is_missed(done):
    reopen = "UPDATE trajectories SET outcome = NULL, turns = NULL, closing = NULL"
    tamper(done, reopen, f"DELETE FROM turns {AT} = 6")
    assert "solo/p1/1: turn 6 was answered, but is not there" in findings(done)
    assert "solo/p1/1: turn 6 is recorded, but no longer in the store: deleted" in findings(done)


def test_turn_by_an_unplanned_speaker_is_found(done):
    with done.archive() as archive:
        turns = list(archive.turns("solo/p1/1"))
    forged = TurnRecord(6, "echo-1", "echo", turns[5]["text"], "stop")
    chained = link(turns[4]["hash"], forged)
    tamper(
        done,
        f"UPDATE turns SET speaker = 'echo-1', hash = '{chained}' {AT} = 6",
        f"UPDATE trajectories SET closing = '{chained}' WHERE id = 'solo/p1/1'",
    )
    assert "solo/p1/1: turn 6 is by a different speaker than planned" in findings(done)
    assert "solo/p1/1: turn 6 is not as recorded: changed from outside" in findings(done)


def test_a_changed_plan_is_found(done):
    done.plan_path.write_text(done.plan_path.read_text().replace("turns = 6", "turns = 5"))
    assert "plan.toml: not as locked: conversation.turns: 6 → 5" in findings(done)


def test_an_edited_lock_is_found(done):
    text = done.lock_path.read_text().replace('"turns": 6', '"turns": 5')
    done.lock_path.write_text(text)
    assert any(finding.startswith("plan.lock: ") for finding in findings(done))


def test_exploratory_study_is_reported_as_such(make_study):
    study = make_study(SCRIPTED)
    run_study(study)
    verified = verify_study(study)
    assert verified.findings == ()
    (deviation,) = verified.deviations
    assert deviation.kind == "exploratory outcomes"
    assert deviation.sentence == "there is no plan.lock: the study is exploratory"


def test_new_default_that_is_off_is_not_another_plan(done):
    """The version that ran may know more settings than the one that locked."""
    added = "json_set(value, '$.conversation.new', json('null'))"
    tamper(done, f"UPDATE study SET value = {added} WHERE key = 'resolved'")
    assert not any("its copy of the plan" in finding for finding in findings(done))
    tamper(
        done,
        "UPDATE study SET value = json_set(value, '$.conversation.new', 1) WHERE key = 'resolved'",
    )
    assert any("its copy of the plan" in finding for finding in findings(done))
