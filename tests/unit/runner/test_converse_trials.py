"""One subject under a script: probes never end a session, and events are recorded once."""

import asyncio

import pytest

from chimeralab.models.seam import ModelFailure, Reply, Sampling
from chimeralab.runner import Prompt, Rules, Speaker, Talk
from chimeralab.runner.converse import converse
from chimeralab.trial.course import Layout
from chimeralab.trial.probes import LEVELS, PROBES
from chimeralab.trial.scenarios import Ledger
from chimeralab.trial.script import AnswerRules, Arm, Script
from chimeralab.trial.stressors import Amnesia, Conformity

COURSE = Layout(beliefs=0).lay_out(Ledger(recall=4, inference=0, novel=0).make(3), 0, seed=2)
TURNS = len(COURSE.steps)
NO_REPLY = {
    "empty": "",
    "refusal": Reply("I won't say.", "refusal"),
    "refused": ModelFailure("refused", "blocked"),
    "overflow": ModelFailure("overflow", "too long"),
}
RULES = ("stop", "retry 2 then stop")


def examined(stressors=None, answering=None, **rules) -> Talk:
    arm = Arm(stressors or {"conformity": Conformity()})
    script = Script(COURSE, arm, 11, PROBES, answering=answering or AnswerRules())
    speaker = Speaker("s", "m", Sampling(max_tokens=20))
    rule = Rules(turns=TURNS, **rules)
    return Talk("arm", Prompt(COURSE.id, ""), 1, (speaker,), rule, 7, script=script)


def silent_about(probe, answer):
    def reply(request):
        if request.probe == probe:
            return answer
        return "0.5" if request.probe == "confidence" else request.key["truth"]

    return reply


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("probe", ["alone", "confidence", "noticed"])
@pytest.mark.parametrize("answer", NO_REPLY)
def test_a_probe_without_a_reply_is_unread_and_the_session_goes_on(stage, rule, probe, answer):
    talk = examined(on_empty=rule, on_refusal=rule, on_overflow=rule)
    held = stage(talk, silent_about(probe, NO_REPLY[answer]))
    assert asyncio.run(converse(talk, held.run)).outcome == "completed"
    asked = held.counts(f"SELECT turn FROM probes WHERE probe = '{probe}'")
    assert asked
    unread = held.counts("SELECT trial, unread FROM trials WHERE unread")
    assert unread == [(turn, 1) for (turn,) in asked]


def test_a_probe_is_asked_again_as_often_as_the_rule_says(stage):
    talk = examined(on_overflow="retry 2 then stop")
    held = stage(talk, silent_about("noticed", NO_REPLY["overflow"]))
    asyncio.run(converse(talk, held.run))
    tries = held.counts("SELECT outcome FROM attempts WHERE probe = 'noticed'")
    assert tries == [("overflow",)] * 3


@pytest.mark.parametrize("rule", RULES)
def test_an_answer_that_is_empty_ends_the_session_as_the_rule_says(stage, rule):
    talk = examined(on_empty=rule)
    held = stage(talk, silent_about("", ""))
    assert asyncio.run(converse(talk, held.run)).outcome == "empty"


@pytest.mark.parametrize(
    ("kind", "rule", "outcome"),
    [
        ("connection", "stop", "failed"),
        ("connection", "pause", "paused"),
        ("auth", "stop", "paused"),
    ],
)
def test_a_model_that_fails_ends_the_session_at_a_probe_too(stage, kind, rule, outcome):
    talk = examined(on_failure=rule)
    held = stage(talk, silent_about("confidence", ModelFailure(kind, "no")))
    assert asyncio.run(converse(talk, held.run)).outcome == outcome


def test_the_events_of_a_session_are_read_once(stage, monkeypatch):
    talk = examined({"amnesia": Amnesia(frequency=1), "conformity": Conformity()})
    held = stage(talk, lambda request: request.key["truth"])
    reads = []
    read = held.store.events

    def counted(talk_id):
        reads.append(talk_id)
        return read(talk_id)

    monkeypatch.setattr(held.store, "events", counted)
    asyncio.run(converse(talk, held.run))
    assert len(read(talk.id)) > TURNS
    assert len(reads) <= 1


def test_resumed_session_does_not_repeat_its_events(stage):
    talk = examined(
        {"amnesia": Amnesia(frequency=1), "conformity": Conformity()}, on_failure="pause"
    )
    cut = iter([*range(9)])

    def falls_silent(request):
        done = next(cut, None) is None
        return ModelFailure("connection", "cut") if done else request.key["truth"]

    asyncio.run(converse(talk, stage(talk, falls_silent).run))
    held = stage(talk, lambda request: request.key["truth"])
    assert asyncio.run(converse(talk, held.run)).outcome == "completed"
    places = held.counts("SELECT turn, kind FROM events")
    assert len(places) == len(set(places)) > TURNS


def test_subject_sees_neither_solution_nor_condition(stage):
    talk = examined({"amnesia": Amnesia(), "conformity": Conformity()})
    asked = []

    class Blind:
        async def reply(self, request):
            asked.append(request)
            return Reply("0.5")

    asyncio.run(converse(talk, stage(talk, None, models={"m": Blind()}).run))
    assert {(each.key, each.probe) for each in asked} == {(None, "")}
    assert {each.conversation for each in asked} == {talk.session}
    assert "arm" not in talk.session


MUMBLE = "I would rather talk about the weather, which is fine."


def mumbling(at, times=1):
    """A truthful subject whose first replies at a turn are unreadable."""
    left = {at: times}
    seen = []

    def reply(request):
        seen.append(request)
        if request.probe == "" and left.get(request.turn, 0):
            left[request.turn] -= 1
            return MUMBLE
        return "0.5" if request.probe == "confidence" else request.key["truth"]

    return reply, seen


@pytest.mark.parametrize(
    ("unreadable", "times", "stays", "unread"),
    [
        ("record", 1, True, 1),
        ("drop", 1, False, 1),
        ("ask again", 1, False, 0),
        ("ask again", 2, False, 1),
    ],
)
def test_unreadable_reply_follows_the_rule_of_the_plan(stage, unreadable, times, stays, unread):
    talk = examined(answering=AnswerRules(unreadable=unreadable))
    reply, seen = mumbling(2, times)
    held = stage(talk, reply)
    assert asyncio.run(converse(talk, held.run)).outcome == "completed"
    last = [request for request in seen if request.probe == ""][-1]
    said = [message.content for message in last.messages]
    assert (MUMBLE in said) is stays
    facts = [fact.text for step in COURSE.steps for fact in step.told]
    assert all(any(fact in message for message in said) for fact in facts)
    roles = [message.role for message in last.messages]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    missing = held.counts("SELECT trial FROM trials WHERE response IS NULL")
    assert missing == [(2,)] * unread


@pytest.mark.parametrize("constrained", [True, False])
def test_every_question_with_options_is_put_with_them_unless_the_plan_says_no(stage, constrained):
    talk = examined(answering=AnswerRules(constrained=constrained))
    reply, seen = mumbling(0)
    asyncio.run(converse(talk, stage(talk, reply).run))
    assert {bool(request.options) for request in seen} == {constrained}
    levels = [request.options for request in seen if request.probe == "confidence"]
    assert set(levels) == {LEVELS if constrained else ()}
