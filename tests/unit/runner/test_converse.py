"""One conversation: every turn once, every unusable reply handled by the rules."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from chimeralab.core.errors import InputError
from chimeralab.models.seam import ModelFailure, Reply
from chimeralab.runner import AttemptFailed, Brake, Price, TalkEnded, converse, converse_all
from tests import virtual_time


def counted(request):
    return f"turn {request.turn}"


def run(stage):
    return asyncio.run(converse(stage.talk, stage.run))


def test_a_conversation_has_every_planned_turn_once(stage, make_talk):
    stage = stage(make_talk(speakers=3, turns=7), counted)
    assert run(stage).outcome == "completed"
    said = stage.store.history(stage.talk.id)
    assert [turn.text for turn in said] == [f"turn {n}" for n in range(1, 8)]
    assert [turn.speaker for turn in said] == ["s1", "s2", "s3", "s1", "s2", "s3", "s1"]
    assert stage.outcome() == ("completed", None)


def test_a_turn_is_on_disk_before_the_next_is_asked(stage, make_talk):
    held: Any = stage(make_talk(), lambda request: str(len(held.store.history(held.talk.id))))
    run(held)
    assert [turn.text for turn in held.store.history(held.talk.id)] == list("012345")


def test_a_resumed_conversation_asks_only_for_what_is_missing(stage, make_talk):
    def stops_at_four(request):
        return ModelFailure("server", "down") if request.turn == 4 else counted(request)

    first = stage(make_talk(on_failure="pause"), stops_at_four)
    assert run(first).outcome == "paused"
    assert first.outcome() == (None, None)
    again = stage(make_talk(on_failure="pause"), counted)
    assert run(again).outcome == "completed"
    assert [request.turn for request in again.run.models["m"].asked] == [4, 5, 6]
    assert again.attempts()[3:5] == [(4, "server"), (4, "answered")]


def test_a_resumed_turn_is_asked_with_the_seed_it_had(stage, make_talk):
    first = stage(make_talk(on_failure="pause"), lambda r: ModelFailure("connection", "cut"))
    run(first)
    again = stage(make_talk(on_failure="pause"), counted)
    run(again)
    seeds = [script.asked[0].seed for script in (first.run.models["m"], again.run.models["m"])]
    assert seeds[0] == seeds[1]


def test_seeds_differ_between_turns(stage, make_talk):
    stage = stage(make_talk(turns=40), counted)
    run(stage)
    assert len({request.seed for request in stage.run.models["m"].asked}) == 40


def test_a_failed_request_is_asked_again_as_often_as_the_rule_says(stage, make_talk):
    stage = stage(make_talk(on_failure="retry 2 then stop"), lambda r: ModelFailure("timeout", "!"))
    assert run(stage).outcome == "failed"
    assert stage.attempts() == [(1, "timeout")] * 3
    assert stage.outcome() == ("failed", "timeout: !")


def test_every_failed_attempt_is_published(stage, make_talk):
    stage = stage(make_talk(on_failure="stop"), lambda r: ModelFailure("timeout", "too slow"))
    run(stage)
    failed, ended = stage.news
    assert failed == AttemptFailed("solo/p/1", 1, "m", "timeout", "too slow")
    assert ended == TalkEnded("solo/p/1", "failed", 0, "timeout: too slow")


def test_an_empty_reply_is_a_turn_when_the_rule_is_to_record_it(stage, make_talk):
    stage = stage(make_talk(), lambda r: "  " if r.turn == 2 else "words")
    assert run(stage).outcome == "completed"
    assert stage.store.history(stage.talk.id)[1].text == "  "


def test_an_empty_reply_is_drawn_again_with_another_seed(stage, make_talk):
    stage = stage(make_talk(turns=1, on_empty="retry 3 then stop"), lambda r: "")
    assert run(stage).outcome == "empty"
    assert stage.attempts() == [(1, "empty")] * 4
    assert len({request.seed for request in stage.run.models["m"].asked}) == 4


def test_redraws_keep_counting_after_a_restart(stage, make_talk):
    rules = {"turns": 1, "on_empty": "retry 3 then stop"}
    empty_then_cut = iter(["", "", ModelFailure("connection", "cut")])
    run(stage(make_talk(on_failure="pause", **rules), lambda r: next(empty_then_cut)))
    again = stage(make_talk(**rules), lambda r: "")
    assert run(again).outcome == "empty"
    assert len(again.run.models["m"].asked) == 2


def test_an_empty_reply_is_recorded_after_the_last_redraw(stage, make_talk):
    stage = stage(make_talk(turns=1, on_empty="retry 1"), lambda r: "")
    assert run(stage).outcome == "completed"
    assert stage.attempts() == [(1, "empty"), (1, "answered")]


def test_a_refusal_ends_a_conversation_when_the_rule_is_to_stop(stage, make_talk):
    refusal = Reply("I can't help with that.", "refusal")
    stage = stage(make_talk(on_refusal="stop"), lambda r: refusal if r.turn == 3 else "words")
    assert run(stage).outcome == "refusal"
    assert stage.counts("SELECT rejected_text FROM attempts WHERE outcome = 'refusal'") == [
        ("I can't help with that.",)
    ]


def test_a_request_that_is_refused_without_text_counts_as_a_refusal(stage, make_talk):
    stage = stage(make_talk(turns=2), lambda r: ModelFailure("refused", "content filter"))
    assert run(stage).outcome == "completed"
    assert [turn.finish for turn in stage.store.history(stage.talk.id)] == ["refusal", "refusal"]
    assert stage.counts("SELECT DISTINCT reason FROM attempts") == [("content filter",)]


def full_at(size):
    def answer(request):
        words = sum(len(message.content) for message in request.messages)
        return ModelFailure("overflow", "too long") if words > size else "x" * 10

    return answer


def test_overflow_ends_a_conversation_and_is_recorded(stage, make_talk):
    stage = stage(make_talk(turns=20), full_at(50))
    assert run(stage).outcome == "overflow"
    assert stage.attempts()[-1] == (6, "overflow")


def test_overflow_shortens_the_history_only_where_the_plan_says_so(stage, make_talk):
    stage = stage(make_talk(turns=20, on_overflow="trim 2"), full_at(50))
    assert run(stage).outcome == "completed"
    trims = [event for event in stage.store.events(stage.talk.id) if event.kind == "overflow_trim"]
    assert trims
    assert trims[0].turn == 6
    assert len(stage.attempts()) == 20 + len(trims)


def test_a_history_that_overflows_when_shortened_ends_the_conversation(stage, make_talk):
    stage = stage(make_talk(turns=20, on_overflow="trim 2"), full_at(12))
    assert run(stage).outcome == "overflow"


def test_a_wrong_key_stops_the_whole_run_at_once(stage, make_talk):
    stage = stage(make_talk(), lambda r: ModelFailure("auth", "no such key"))
    assert run(stage).outcome == "paused"
    assert stage.attempts() == [(1, "auth")]
    assert stage.run.brake.reason == "no such key"


def test_a_crash_inside_a_model_is_recorded_and_not_hidden(stage, make_talk):
    def crash(request):
        raise ZeroDivisionError("oops")

    stage = stage(make_talk(), crash)
    with pytest.raises(InputError, match=r"failed with ZeroDivisionError\('oops'\) \(.*, line"):
        run(stage)
    assert stage.counts("SELECT outcome, reason FROM attempts") == [
        ("crashed", "ZeroDivisionError('oops')")
    ]


def test_reply_of_the_wrong_type_is_reported(stage, make_talk):
    stage = stage(make_talk(), lambda r: {"text": "hello"})
    with pytest.raises(InputError, match=r"reply\(\) returned a dict, not a Reply"):
        run(stage)


def test_keys_are_redacted_from_reasons(stage, make_talk, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-planted-1234567890")
    told = "Incorrect API key provided: sk-planted-1234567890"
    stage = stage(make_talk(on_failure="stop"), lambda r: ModelFailure("server", told))
    run(stage)
    assert stage.outcome()[1] == "server: Incorrect API key provided: <SOME_API_KEY>"
    assert "sk-planted" not in str(stage.news)


def test_lone_surrogates_are_stored_as_replacement_characters(stage, make_talk):
    stage = stage(make_talk(turns=2), lambda r: "a\ud800b")
    assert run(stage).outcome == "completed"
    assert {turn.text for turn in stage.store.history(stage.talk.id)} == {"a\ufffdb"}


def test_the_cost_limit_stops_between_turns(stage, make_talk):
    brake = Brake(max_cost=0.025)
    reply = Reply("words", prompt_tokens=1_000, completion_tokens=0)
    prices = {"m": Price(input=10.0)}
    stage = stage(make_talk(), lambda r: reply, brake=brake, prices=prices)
    assert run(stage).outcome == "paused"
    assert len(stage.store.history(stage.talk.id)) == 3
    assert "max_cost" in stage.run.brake.reason


def test_an_unknown_cost_stops_a_run_that_has_a_limit(stage, make_talk):
    brake = Brake(max_cost=1.0)
    stage = stage(make_talk(), counted, brake=brake, prices={"m": Price(input=1.0)})
    run(stage)
    assert len(stage.store.history(stage.talk.id)) == 1
    assert "token counts" in stage.run.brake.reason


def test_the_time_limit_stops_between_turns(stage, make_talk):
    now = [0.0]

    def an_hour_later(request):
        now[0] += 3_600
        return "words"

    brake = Brake(max_hours=2.0, clock=lambda: now[0])
    stage = stage(make_talk(), an_hour_later, brake=brake)
    assert run(stage).outcome == "paused"
    assert len(stage.store.history(stage.talk.id)) == 2


def test_stopping_early_happens_only_when_the_plan_says_so(stage, make_talk, same_thrice):
    plain = stage(make_talk(), lambda r: "same", watch=same_thrice)
    assert run(plain).outcome == "completed"


def test_a_plan_can_stop_at_the_first_collapse(stage, make_talk, same_thrice):
    early = stage(make_talk(stop_early=True), lambda r: "same", watch=same_thrice)
    assert run(early).outcome == "collapsed"
    assert len(early.store.history(early.talk.id)) == 3


def test_conversations_run_concurrently_up_to_the_limit(store, make_talk, stage):
    at_once = []

    class Slow:
        busy = 0

        async def reply(self, request):
            self.busy += 1
            at_once.append(self.busy)
            await asyncio.sleep(0.05)
            self.busy -= 1
            return Reply("words")

    talk = make_talk(turns=3)
    talks = [replace(talk, repeat=n) for n in range(1, 8)]
    held = stage(talk, counted, models={"m": Slow()})
    store.enter_talks(talks)
    virtual_time.run(converse_all(talks, held.run, concurrency=3))
    assert max(at_once) == 3
    assert held.counts("SELECT count(*) FROM turns") == [(21,)]


def test_unreachable_models_stop_the_run_after_a_few_conversations(store, make_talk, stage):
    talk = make_talk(on_failure="pause")
    talks = [replace(talk, repeat=n) for n in range(1, 50)]
    held = stage(talk, lambda r: ModelFailure("connection", "refused"), brake=Brake(patience=4))
    store.enter_talks(talks)
    asyncio.run(converse_all(talks, held.run, concurrency=2))
    assert 4 <= len(held.attempts()) <= 5
    assert "4 conversations in a row" in held.run.brake.reason
