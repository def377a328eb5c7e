"""Forecasts bound the calls, cost and time of a study."""

import pytest

from chimeralab.cli.prepare import describe_answer
from chimeralab.study import Study, run_study
from chimeralab.study.folder import new_study
from chimeralab.study.forecast import forecast, gate_in_words
from chimeralab.study.subjects import FirstAnswer
from tests.plans import SCRIPTED

USE = 'use = "scripted:Script"'


def test_every_call_is_counted(make_study):
    expected = forecast(make_study(SCRIPTED).plan)
    assert (expected.conversations, expected.calls) == (8, 48)
    assert expected.loads[0].completion_tokens == 48 * 20


def test_no_run_exceeds_its_forecast(make_study):
    study = make_study(SCRIPTED)
    (load,) = forecast(study.plan).loads
    run_study(study)
    with study.archive() as archive:
        assert archive.value("SELECT count(*) FROM attempts") == load.calls
        taken = archive.value("SELECT sum(prompt_tokens) FROM attempts")
    assert load.prompt_tokens / 3 < taken < load.prompt_tokens


def test_the_bound_on_history_grows_with_the_square_of_the_turns(make_study):
    short = forecast(make_study(SCRIPTED, ("turns = 6", "turns = 60")).plan).loads[0].prompt_tokens
    long = forecast(make_study(SCRIPTED, ("turns = 6", "turns = 120")).plan).loads[0].prompt_tokens
    assert 3.5 < long / short < 4


def test_cost_follows_from_the_price(make_study):
    priced = make_study(SCRIPTED, (USE, f"{USE}\nprice = {{ output = 10.0 }}")).plan
    assert forecast(priced).cost == pytest.approx(48 * 20 * 10 / 1e6)


def test_an_unpriced_model_has_no_known_cost(make_study):
    assert forecast(make_study(SCRIPTED).plan).cost is None


def test_time_is_unknown_until_the_models_have_been_asked(make_study):
    plan = make_study(SCRIPTED).plan
    assert forecast(plan).hours is None
    answer = FirstAnswer("echo", None, 10, 2.0)
    assert forecast(plan, [answer]).hours == pytest.approx(48 * 20 / 5 / 8 / 3600)


def test_loading_time_is_not_counted_as_latency(make_study):
    answer = FirstAnswer("echo", "tiny", 10, 18.5, again=2.0)
    assert forecast(make_study(SCRIPTED).plan, [answer]).hours == pytest.approx(
        48 * 20 / 5 / 8 / 3600
    )
    assert describe_answer(answer) == (
        "echo answered as tiny in 18.5 s, then 0.5 calls per second, one at a time"
    )
    assert describe_answer(FirstAnswer("p", None, 2, 0.0, again=1e-5)).endswith("in 0.0 s")


def test_more_prompts_are_advised_where_they_beat_more_repeats(make_study):
    assert "more prompts beat more repeats" in " ".join(forecast(make_study(SCRIPTED).plan).advice)
    single = make_study(SCRIPTED, ("repeats = 2", "repeats = 1")).plan
    assert "more prompts" not in " ".join(forecast(single).advice)


@pytest.mark.parametrize(
    ("old", "new", "advice"),
    [
        ("seed = 3", "interleave = false", "without interleaving"),
        (
            "[conditions.solo]",
            f"[models.idle]\n{USE}\n[conditions.solo]",
            "[models.idle] is not used",
        ),
    ],
)
def test_oversights_in_a_plan_are_advised(old, new, advice, make_study):
    assert advice in " ".join(forecast(make_study(SCRIPTED, (old, new)).plan).advice)


def test_a_model_that_a_countermeasure_rotates_to_is_not_idle(make_study):
    rotate = '["echo", "echo"]\ncountermeasure = { use = "rotate", to = ["idle"] }'
    idle = ("[conditions.solo]", f"[models.idle]\n{USE}\n[conditions.solo]")
    plan = make_study(SCRIPTED, idle, ('["echo", "echo"]', rotate)).plan
    assert "idle" not in " ".join(forecast(plan).advice)


GATE = '[gate]\nraters = ["rules", "human:ann"]\n'


@pytest.mark.parametrize(
    ("more", "advice"),
    [
        ("", "the gate can't be met: on 8 items even perfect agreement"),
        ("threshold = 0.0", "the gate has little power"),
        ('rule = "point"', "the gate passes by chance"),
    ],
)
def test_gate_without_power_is_named(more, advice, make_study):
    found = forecast(make_study(SCRIPTED, f"{GATE}{more}\n").plan)
    assert advice in " ".join(found.advice)
    assert [each.items for each in found.gate] == [8, 8]
    assert "gate on 8 items, 50 % of them loops" in gate_in_words(found.gate[0])


def templated(tmp_path, name, *changes):
    new_study(tmp_path / "new", name)
    path = tmp_path / "new" / "plan.toml"
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return Study(tmp_path / "new").plan


@pytest.mark.parametrize("name", ["selfplay", "escape-velocity", "escape"])
def test_the_templates_of_self_play_declare_outcomes_and_a_gate(tmp_path, name):
    plan = templated(tmp_path, name)
    assert plan.extras["gate"].declared
    assert plan.extras["gate"].rule == "lower_ci"
    assert plan.extras["gate"].seed is not None
    assert plan.extras["gate"].validity is not None
    assert "estimands" in (tmp_path / "new" / "plan.toml").read_text(encoding="utf-8")
    assert not any("the sides differ" in each for each in forecast(plan).advice)


def test_conditions_that_differ_in_two_factors_are_named(tmp_path):
    hot = ("sampling = { temperature = 0.3 }\nspeakers = [\n", "speakers = [\n")
    said = " ".join(forecast(templated(tmp_path, "selfplay", hot)).advice)
    assert "voices − cool: the sides differ in instructions and in temperature" in said
    assert "warm − cool: the sides" not in said
