"""What a study may take, counted before it is spent."""

import pytest

from chimeralab.study import run_study
from chimeralab.study.forecast import forecast
from chimeralab.study.subjects import FirstAnswer

USE = 'use = "scripted:Script"'


def test_every_call_is_counted(make_study):
    expected = forecast(make_study().plan)
    assert (expected.conversations, expected.calls) == (8, 48)
    assert expected.loads[0].completion_tokens == 48 * 20


def test_no_run_takes_more_than_was_forecast(make_study):
    study = make_study()
    (load,) = forecast(study.plan).loads
    run_study(study)
    with study.archive() as archive:
        assert archive.value("SELECT count(*) FROM attempts") == load.calls
        taken = archive.value("SELECT sum(prompt_tokens) FROM attempts")
    assert load.prompt_tokens / 3 < taken < load.prompt_tokens


def test_the_bound_on_history_grows_with_the_square_of_the_turns(make_study):
    short = forecast(make_study(("turns = 6", "turns = 60")).plan).loads[0].prompt_tokens
    long = forecast(make_study(("turns = 6", "turns = 120")).plan).loads[0].prompt_tokens
    assert 3.5 < long / short < 4


def test_cost_follows_from_the_price(make_study):
    priced = make_study((USE, f"{USE}\nprice = {{ output = 10.0 }}")).plan
    assert forecast(priced).cost == pytest.approx(48 * 20 * 10 / 1e6)


def test_an_unpriced_model_has_no_known_cost(make_study):
    assert forecast(make_study().plan).cost is None


def test_time_is_unknown_until_the_models_have_been_asked(make_study):
    plan = make_study().plan
    assert forecast(plan).hours is None
    answer = FirstAnswer("echo", None, 10, 2.0)
    assert forecast(plan, [answer]).hours == pytest.approx(48 * 20 / 5 / 8 / 3600)


def test_more_prompts_are_advised_where_they_beat_more_repeats(make_study):
    assert "more prompts beat more repeats" in " ".join(forecast(make_study().plan).advice)
    single = make_study(("repeats = 2", "repeats = 1")).plan
    assert "more prompts" not in " ".join(forecast(single).advice)


@pytest.mark.parametrize(
    ("old", "new", "advice"),
    [
        ("seed = 3", "interleave = false", "without interleaving"),
        ("[conditions.solo]", f"[models.idle]\n{USE}\n[conditions.solo]", "[models.idle] is named"),
    ],
)
def test_what_a_plan_may_have_overlooked_is_said(old, new, advice, make_study):
    assert advice in " ".join(forecast(make_study((old, new)).plan).advice)


def test_a_model_that_a_countermeasure_rotates_to_is_not_idle(make_study):
    rotate = '["echo", "echo"]\ncountermeasure = { use = "rotate", to = ["idle"] }'
    idle = ("[conditions.solo]", f"[models.idle]\n{USE}\n[conditions.solo]")
    plan = make_study(idle, ('["echo", "echo"]', rotate)).plan
    assert "idle" not in " ".join(forecast(plan).advice)
