"""The plan of a trial: designs, checked doses, and scenarios in the lock."""

from pathlib import Path

import pytest

from chimeralab.core.errors import InputError
from chimeralab.study.forecast import forecast
from chimeralab.study.lock import LockError, make_lock
from chimeralab.trial.plan import estimate_tokens
from chimeralab.trial.stressors import STRESSORS, Conformity
from tests.plans import SMALL_TRIAL as SMALL
from tests.plans import Files, changed
from tests.studies import MakeStudy


def test_factorial_has_a_control_and_a_sham(make_study):
    arms = make_study(SMALL).plan.own.arms
    assert len(arms) == 9
    assert arms["control"].stressors == {}
    assert {arm.cell for arm in arms.values()} == {
        *(f"{n:03b}" for n in range(8)),
        "sham",
    }
    assert arms["amnesia+infallibility"].stressors["amnesia"].frequency == 0.5


def test_dose_design_is_one_line(make_study):
    line = "dose = { conformity.size = [0, 3, 7] }"
    plan = make_study(SMALL, ('factorial = ["amnesia", "infallibility", "conformity"]', line),
                 ("[stressors.amnesia]\nfrequency = 0.5\n", "")).plan  # fmt: skip
    doses = {name: arm.dose for name, arm in plan.own.arms.items() if arm.dose is not None}
    assert doses == {"conformity-size-0": 0, "conformity-size-3": 3, "conformity-size-7": 7}


def test_frequency_and_duration_of_amnesia_can_be_dosed(make_study):
    line = "dose = { amnesia.frequency = [0.2, 0.8], amnesia.duration = [1, 4] }"
    design = ('factorial = ["amnesia", "infallibility", "conformity"]', line)
    arms = make_study(SMALL, design).plan.own.arms.values()
    parts = [arm.stressors["amnesia"] for arm in arms if arm.dose is not None]
    doses = {(part.frequency, part.duration) for part in parts}
    assert doses == {(0.2, 2), (0.8, 2), (0.5, 1), (0.5, 4)}


def test_countermeasure_comes_with_its_bare_arm(make_study):
    plan = make_study(SMALL, ("factorial =", 'countermeasures = ["ledger"]\nfactorial =')).plan
    assert {"amnesia", "amnesia-with-ledger"} <= plan.own.arms.keys()


def test_every_subject_is_in_every_arm(make_study):
    both = ('subjects = ["p"]', 'subjects = ["p", "q"]')
    plan = make_study(SMALL, both, ("[trial]", '[models.q]\nuse = "subject"\n[trial]')).plan
    assert {"p.control", "q.control", "q.sham"} <= plan.conditions.keys()


def test_sessions_of_one_scenario_have_the_same_seeds_under_every_arm(make_study):
    talks = make_study(SMALL).talks
    assert len(talks) == 9 * 2
    for scenario in ("ledger-1", "ledger-2"):
        same = [talk for talk in talks if talk.prompt.id == scenario]
        assert len({talk.seed_for(3) for talk in same}) == 1
        assert len({talk.script.seed for talk in same}) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("frequency = 0.5", "frequency = 1.5"), r"\[stressors.amnesia\] frequency = 1.5"),
        (("frequency = 0.5", "frequenzy = 0.5"), "did you mean 'frequency'"),
        (("frequency = 0.5", "duration = 0"), r"\[stressors.amnesia\] duration = 0"),
        (("frequency = 0.5", 'mode = "erase"'), r"\[stressors.amnesia\] mode"),
        (("[stressors.amnesia]", "[stressors.amnezia]"), "did you mean 'amnesia'"),
        (('"infallibility", "conf', '"infalibility", "conf'), "did you mean 'infallibility'"),
        (("factorial =", "dose = { conformity.size = [21] }\nfactorial ="), "conformity size = 21"),
        (("factorial =", "dose = { conformity.sise = [2] }\nfactorial ="), "did you mean 'size'"),
        (
            ("factorial =", 'countermeasures = ["notes"]\nfactorial ='),
            "unknown countermeasure 'notes'",
        ),
        (('subjects = ["p"]', 'subjects = ["x"]'), "unknown model 'x'"),
        (('use = "ledger"', 'use = "legder"'), "did you mean 'ledger'"),
        (("recall = 4", "recall = -1"), "recall must be 0 to 28, not -1"),
        (("[scenarios]", "[layout]\nconsensus = 0\n[scenarios]"), "conformity.* never acts"),
        (("[scenarios]", "[metrics]\nmci = [0.5, 0.5, 0.5]\n[scenarios]"), "sum to 1"),
        (
            ("[scenarios]", "[conversation]\nturns = 3\n[scenarios]"),
            "turns does not apply to trials",
        ),
        (("[scenarios]", "[prompts]\n[scenarios]"), r"unknown table \[prompts\]"),
        (
            ("[scenarios]", "[stressors.infallibility]\nrounds = 101\n[scenarios]"),
            "less than or equal to 100",
        ),
        (("[scenarios]", "[arms.control]\n[scenarios]"), "the arm 'control' is built in"),
    ],
)
def test_invalid_trial_is_rejected(make_study, change, said):
    with pytest.raises(InputError, match=said):
        _ = make_study(SMALL, change).plan


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('each = ["amnesia", "amnesia"]', r'\[trial\] each has "amnesia" twice'),
        ('countermeasures = ["ledger", "ledger"]', r'\[trial\] countermeasures has "ledger" twice'),
        ('probes = ["recall", "recall"]', r'\[trial\] probes has "recall" twice'),
        ("dose = { amnesia.scope = [0.4, 0.4] }", r"dose amnesia.scope has 0.4 twice"),
        ("dose = { conformity.size = [1, 1.0] }", r"dose conformity.size has 1.0 twice"),
        ("dose = { amnesia.scope = [] }", r"dose amnesia.scope lists no doses"),
        ("dose = { amnesia = {} }", r"dose amnesia lists no doses"),
    ],
)
def test_duplicates_and_empty_doses_are_rejected(make_study, line, said):
    with pytest.raises(InputError, match=said):
        _ = make_study(SMALL, ("factorial =", f"{line}\nfactorial =")).plan


@pytest.mark.parametrize("key", ["factorial", "subjects"])
def test_duplicate_factor_or_subject_is_rejected(make_study, key):
    twice = (f"{key} = [", f'{key} = ["amnesia", "amnesia", ')
    more = ("[models.p]", '[models.amnesia]\nuse = "subject"\n[models.p]')
    with pytest.raises(InputError, match=rf'\[trial\] {key} has "amnesia" twice'):
        _ = make_study(SMALL, twice, more).plan


@pytest.mark.parametrize(
    ("arm", "said"),
    [
        (
            "[arms.amnesia]\nstressors = { amnesia = {} }",
            r"\[trial\] already makes the arm 'amnesia'",
        ),
        ("[arms.x]", r"\[arms.x\] has neither stressors nor a countermeasure"),
        ("[arms.x]\nsham = true", r"\[arms.x\] has neither stressors nor a countermeasure"),
        (
            '[arms.x]\nstressors = { conformity = {} }\ncountermeasure = { use = "ledger" }',
            "'ledger' works against amnesia",
        ),
        (
            '[arms.x]\nstressors = { conformity = {} }\ncountermeasure = { use = "review" }',
            r"\[arms.x\] countermeasure 'review' works against infallibility",
        ),
    ],
)
def test_named_arm_must_differ_from_the_others(make_study, arm, said):
    with pytest.raises(InputError, match=said):
        _ = make_study(SMALL, ("[scenarios]", f"{arm}\n[scenarios]")).plan


def test_named_arm_cannot_replace_one_of_a_countermeasure(make_study):
    arm = "[arms.amnesia-with-ledger]\nstressors = { conformity = {} }\n[scenarios]"
    with pytest.raises(InputError, match="already makes the arm"):
        _ = make_study(
            SMALL,
            ("factorial =", 'countermeasures = ["ledger"]\nfactorial ='),
            ("[scenarios]", arm),
        ).plan


def test_lock_contains_the_laid_out_scenarios(make_study):
    lock = make_study(SMALL).freeze()
    courses = lock.resolved["trial"]["courses"]
    assert [course["id"] for course in courses] == ["ledger-1", "ledger-2"]
    asked = courses[0]["steps"][0]["question"]
    assert asked["prompt"]
    assert asked["truth"] in asked["options"]


def test_changed_generator_breaks_the_lock(make_study, monkeypatch):
    make_study(SMALL).freeze()
    monkeypatch.setattr("chimeralab.trial.course.OPENING", "Hello.")
    monkeypatch.setattr("chimeralab.trial.scenarios.generators.TOWNS", ("Rome", "Oslo") * 6)
    with pytest.raises(LockError, match="courses"):
        make_study(SMALL).check_lock()


PUBLIC = Path(__file__).parents[4].parent / "shared" / "data"


@pytest.mark.parametrize(("use", "file"), [("benchform", ""), ("mt-consistency", "*.csv")])
def test_public_sets_become_scenarios(make_study, use, file):
    found = sorted((PUBLIC / use).glob(file)) if file else [PUBLIC / use]
    if not found or not found[0].exists():
        pytest.skip(f"the public set {use} is not here")
    table = f'use = "{use}"\npath = "{found[0].resolve()}"\nquestions = 5\n'
    design = ('factorial = ["amnesia", "infallibility", "conformity"]', 'each = ["conformity"]')
    plan = make_study(
        SMALL,
        design,
        ("[stressors.amnesia]\nfrequency = 0.5\n", "[layout]\nbeliefs = 0\n"),
        ('use = "ledger"\n', table),
        ("recall = 4\ninference = 2\nnovel = 1\n", ""),
    ).plan
    assert len(plan.prompts) == 2
    assert all(len(course.steps) == 5 for course in plan.own.courses)


def test_missing_public_set_is_named(make_study):
    table = ('use = "ledger"\n', 'use = "benchform"\npath = "nowhere"\n')
    settings = ("recall = 4\ninference = 2\nnovel = 1\n", "")
    with pytest.raises(InputError, match="nowhere"):
        _ = make_study(SMALL, table, settings).plan


def with_measure(use: str, code: str = "") -> Files:
    arm = "[arms.helped]\nstressors = { conformity = {}, infallibility = {} }"
    against = f'countermeasure = {{ use = "{use}" }}'
    return changed(SMALL | {"own.py": code}, f"{arm}\n{against}\n")


def test_lock_names_the_countermeasure_of_an_arm(make_study):
    found = {use: make_lock(make_study(with_measure(use)).plan) for use in ("review", "commit")}
    assert found["review"].resolved != found["commit"].resolved
    assert found["review"].resolved["trial"]["arms"]["helped"]["against"] == "review"


def test_lock_has_the_code_of_a_custom_countermeasure(make_study):
    code = (
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Own:\n"
        "    def apply(self, scene, moment):\n        return scene\n"
    )
    one = make_lock(make_study(with_measure("own:Own", code), name="one").plan)
    other = make_lock(make_study(with_measure("own:Own", code + "# changed\n"), name="other").plan)
    assert list(one.resolved["outside_code"]) == ["own:Own"]
    assert one.resolved != other.resolved


def test_commitment_requires_the_private_answer_probe(make_study):
    with pytest.raises(InputError, match='probes lacks "alone"'):
        _ = make_study(
            SMALL, ("factorial", 'countermeasures = ["commit"]\nprobes = ["recall"]\nfactorial')
        ).plan


def test_self_play_table_is_rejected_in_a_trial(make_study):
    with pytest.raises(InputError, match=r"unknown key 'resamples' in \[outcomes\]"):
        _ = make_study(SMALL, ("[scenarios]", "[outcomes]\nresamples = 500\n[scenarios]")).plan


def test_new_built_in_stressor_does_not_change_other_cells(
    make_study: MakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Another(Conformity):
        name = "another"

    monkeypatch.setitem(STRESSORS, Another.name, Another)
    arms = make_study(SMALL).plan.own.arms
    assert arms["amnesia+conformity"].cell == "110"
    factorial = 'factorial = ["amnesia", "infallibility", "conformity"]'
    arms = make_study(SMALL, (factorial, 'each = ["amnesia", "another"]')).plan.own.arms
    assert (arms["amnesia"].cell, arms["another"].cell) == ("1000", "0001")


def test_amnesia_can_remove_only_what_a_stressor_said(make_study):
    named = make_study(SMALL, ("frequency = 0.5", 'also = ["infallibility", "evidence"]'))
    assert named.plan.own.arms["amnesia"].stressors["amnesia"].also
    misspelt = make_study(SMALL, ("frequency = 0.5", 'also = ["infalibility"]'))
    with pytest.raises(InputError, match="unknown stressor 'infalibility'"):
        _ = misspelt.plan


def test_max_tokens_fit_the_options_and_check_warns_otherwise(make_study):
    roomy = make_study(SMALL).plan
    limits = {c.speakers[0].sampling.max_tokens for c in roomy.conditions.values()}
    assert limits == {estimate_tokens(roomy.own.courses)}
    assert min(limits) >= 24
    assert not any("truncate" in advice for advice in forecast(roomy).advice)
    tight = make_study(SMALL, ("[scenarios]", "[sampling]\nmax_tokens = 6\n[scenarios]")).plan
    assert any("max_tokens = 6 may truncate" in advice for advice in forecast(tight).advice)


def test_plan_decides_about_unreadable_replies(make_study):
    table = '[answers]\nunreadable = "ask again"\n[scenarios]'
    assert make_study(SMALL, ("[scenarios]", table)).plan.own.answering.unreadable == "ask again"
    odd = '[answers]\nunreadable = "retry"\n[scenarios]'
    with pytest.raises(InputError, match="unreadable"):
        _ = make_study(SMALL, ("[scenarios]", odd)).plan
