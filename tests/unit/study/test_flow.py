"""The flow of conversations, with a reason for everything that is incomplete."""

from chimeralab.study import flow, run_study
from tests.plans import SCRIPTED

USE = 'use = "scripted:Script"'


def arms(study):
    run_study(study)
    with study.archive() as archive:
        return {arm.condition: arm for arm in flow(archive)}


def test_finished_study_is_complete_in_every_arm(make_study):
    found = arms(make_study(SCRIPTED))
    assert found.keys() == {"solo", "trio"}
    for arm in found.values():
        assert (arm.planned, arm.attempted, arm.completed, arm.open) == (4, 4, 4, 0)
        assert (arm.turns, arm.attempts, arm.tokens) == (24, {"answered": 24}, 120)


def test_every_failed_attempt_is_counted_by_its_reason(make_study):
    failing = (USE, f'{USE}\nfails = "server"')
    rule = ("turns = 6", 'turns = 6\non_failure = "retry 2 then stop"')
    for arm in arms(make_study(SCRIPTED, failing, rule)).values():
        assert arm.outcomes == {"failed": 4}
        assert arm.attempts == {"answered": 8, "server": 12}
        assert (arm.completed, arm.open, arm.turns) == (0, 0, 8)


def test_a_paused_conversation_is_open(make_study):
    failing = (USE, f'{USE}\nfails = "server"')
    study = make_study(SCRIPTED, failing, ("turns = 6", 'turns = 6\non_failure = "pause"'))
    found = arms(study)
    assert sum(arm.open for arm in found.values()) == 8
    assert all(arm.outcomes == {} for arm in found.values())


def test_cost_is_unknown_without_a_price_and_known_with_one(make_study):
    assert arms(make_study(SCRIPTED))["solo"].cost is None
    priced = make_study(SCRIPTED, (USE, f"{USE}\nprice = {{ output = 1.0 }}"), name="priced")
    assert round(arms(priced)["solo"].cost, 9) == 24 * 5 / 1e6
