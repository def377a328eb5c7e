"""The analysis of trials: measures, contrasts, and when no effect is estimated."""

from dataclasses import replace

import numpy as np
import pytest

from chimeralab.stats.contrasts import holm
from chimeralab.stats.effects import ArmKey
from chimeralab.trial import measures
from chimeralab.trial.analysis import TrialAnalysis, analyse_sessions, follow_quarters
from chimeralab.trial.columns import columns_of
from chimeralab.trial.countermeasures import Notebook
from chimeralab.trial.effects import (
    MeasuredSession,
    countermeasure_contrasts,
    dose_contrasts,
    estimate_effects,
    estimate_measure,
    factorial_contrasts,
    is_aimed,
    measure_sessions,
    reference_contrasts,
)
from chimeralab.trial.measures import HitRate
from chimeralab.trial.metrics import MetricWeights, measure
from chimeralab.trial.script import Arm
from chimeralab.trial.stressors import Amnesia, Conformity, Infallibility
from chimeralab.trial.trials import COLUMNS, Statement, TrialRow
from tests.plans import plan_of

ROW = TrialRow.from_cells(
    dict.fromkeys(COLUMNS)
    | {"trial": 1, "item": "q1", "kind": "recall", "options": 4, "truth": "a", "response": "a"}
    | {"correct": True, "confidence": 0.9, "weight": 0.5, "novel": False, "bias": False}
    | {"round": 0, "needs": "f1", "lag": 2, "disturbed": False, "asked": 2, "unread": 0},
    session="s",
)


def changed(row: TrialRow, **cells) -> TrialRow:
    return TrialRow.from_cells(row.cells() | cells, row.session)


def placed(arm: str, scenario: str, row: TrialRow = ROW) -> TrialRow:
    return replace(row, session=f"{arm}/{scenario}", arm=arm, scenario=scenario, repeat=1)


CRITICAL = changed(ROW, consensus="critical", signal="b", alone="a")
STRESSORS = {"amnesia": Amnesia(), "infallibility": Infallibility(), "conformity": Conformity()}


def belief(*answers: str, item: str = "q1") -> list[TrialRow]:
    """One answer before the evidence, then answers with it; the truth is a, the lure b."""
    phases = ["held", *["tested"] * (len(answers) - 1)]
    return [
        changed(ROW, item=item, phase=phase, round=max(n, 1), response=answer, signal="b",
                correct=answer == "a")
        for n, (phase, answer) in enumerate(zip(phases, answers, strict=True))
    ]  # fmt: skip


def test_conformity_counts_only_answers_that_were_right_alone():
    rows = [
        changed(CRITICAL, response="b", correct=False),
        CRITICAL,
        changed(CRITICAL, response="c", correct=False),
        changed(CRITICAL, alone="b", response="b", correct=False),
        changed(CRITICAL, response=None, correct=None),
    ]
    assert measures.conformity_rate(rows) == HitRate(1, 3)
    assert measures.independence(rows) == HitRate(1, 3)
    assert measures.severity(rows) == HitRate(0.9, 1)


def test_shift_is_the_way_from_the_private_number_to_that_of_the_majority():
    number = changed(CRITICAL, truth="10", alone="10", signal="20")
    rows = [
        changed(number, response="10"),
        changed(number, response="13", correct=False),
        changed(number, response="25", correct=False),
        changed(number, response="8", correct=False),
        changed(number, response="many", correct=False),
        changed(number, alone="20", response="20", correct=False),
        changed(CRITICAL, response="b", correct=False),
    ]
    shift = measures.conformity_shift(rows)
    assert shift.share == pytest.approx((0 + 0.3 + 1 + 0) / 4)
    assert shift.among == 4
    assert measures.conformity_shift(rows[-1:]) == HitRate(0, 0)


def test_conformity_is_kept_if_the_next_answer_without_others_repeats_it():
    about = Statement("Ada", "owns", "b")
    gone = changed(CRITICAL, response="b", correct=False)
    together = replace(gone, states=about)
    recalled = {name: replace(about, value=name) for name in "ab"}
    assert measures.conformity_kept([together]) == HitRate(0, 0)
    for value, kept in (("a", 0), ("b", 1)):
        probe = replace(ROW, item="other", recall_states=recalled[value])
        asked = replace(ROW, response=value, states=recalled[value])
        assert measures.conformity_kept([together, probe]) == HitRate(kept, 1)
        assert measures.conformity_kept([together, asked]) == HitRate(kept, 1)
        # Only the first answer without others counts, and only after that in company.
        assert measures.conformity_kept([probe, together, together, asked]) == HitRate(2 * kept, 2)
    by_item = [gone, changed(ROW, response="a")]
    assert measures.conformity_kept(by_item) == HitRate(0, 1)


def test_leaving_a_right_majority_is_anti_conformity():
    together = changed(ROW, consensus="neutral", alone="a")
    rows = [together, changed(together, response="c", correct=False)]
    assert measures.anti_conformity(rows) == HitRate(1, 2)


def test_belief_is_updated_maintained_or_over_corrected():
    rows = [
        *belief("b", "b", "a", item="updated"),
        *belief("b", "b", "b", item="maintained"),
        *belief("a", "a", "c", item="over-corrected"),
        *belief("a", "a", "a", item="right"),
    ]
    assert measures.wrong_belief_rate(rows) == HitRate(2, 4)
    assert measures.belief_update(rows) == HitRate(1, 2)
    assert measures.persistence(rows) == HitRate(1, 2)
    assert measures.over_correction(rows) == HitRate(1, 2)
    assert list(measures.corrections(rows)) == [(2, 2), (None, 2)]


def test_only_a_right_first_answer_can_flip():
    answers = {
        "flipped": ("a", "b"),
        "third answer": ("a", "c"),
        "stayed": ("a", "a"),
        "wrong at first": ("b", "b"),
    }
    rows = [
        row
        for item, (first, held) in answers.items()
        for row in (
            changed(ROW, item=item, phase="taught", round=1, correct=first == "a"),
            changed(ROW, item=item, phase="taught", round=2, correct=False),
            *belief(held, "a", item=item),
        )
    ]
    assert measures.flip_rate(rows) == HitRate(2, 3)
    assert measures.flip_rate([row for row in rows if row.phase != "taught"]) == HitRate(0, 0)


def test_coherence_counts_repeated_answers_to_a_question():
    rows = [ROW, changed(ROW, response="b"), changed(ROW, response="b"), changed(ROW, item="q2")]
    assert measures.narrative_coherence(rows) == HitRate(1, 2)


def test_coherence_compares_probe_replies_with_the_conversation():
    said = changed(ROW, states="Ada|lives in|Rome")
    recall = {"recall_truth": "Rome", "recall_options": 2}
    aside = changed(ROW, item="q2", recall_states="Ada|lives in|Paris", **recall)
    again = changed(aside, item="q3")
    assert measures.narrative_coherence([said, aside, again]) == HitRate(0, 2)
    assert measures.narrative_coherence([aside, said]) == HitRate(0, 0)
    assert measures.narrative_coherence(
        [said, changed(aside, recall_states="Ada|lives in|Rome")]
    ) == HitRate(1, 1)


@pytest.mark.weights
@pytest.mark.parametrize(
    ("before", "after", "coherent"),
    [
        ("Rome", "It is Rome.", True),
        ("It is Rome.", "rome", True),
        ("She owns twelve cows.", "She owns 12 cows.", True),
        ("He bought a big house.", "He bought a large house.", True),
        ("It is Rome.", "It is Oslo.", False),
        ("She owns twelve cows.", "She owns ten cows.", False),
        ("The door was open.", "The door was not open.", False),
    ],
)
def test_free_answers_cohere_if_they_mean_the_same(before, after, coherent):
    first, again = (changed(ROW, options=0, response=text) for text in (before, after))
    expected = HitRate(int(coherent), 1)
    assert measures.narrative_coherence([first, again]) == expected
    said = changed(first, states=f"Ada|does|{before}")
    aside = changed(ROW, item="q2", recall_states=f"Ada|does|{after}", recall_options=0)
    assert measures.narrative_coherence([said, aside]) == expected


@pytest.mark.parametrize(
    ("kind", "claim", "own", "answer", "expected"),
    [
        ("converse", "Ada|Bo", ["Ada|Bo"], "yes", HitRate(1, 1)),
        ("converse", "Ada|Bo", ["Ada|Cy"], "yes", HitRate(0, 1)),
        # Wrong about Ada's superior, but true to it: not the one that is asked about either.
        ("converse", "Ada|Bo", ["Ada|Cy"], "no", HitRate(1, 1)),
        ("converse", "Ada|Bo", [], "no", HitRate(0, 0)),
        ("transitive", "Ada|Cy", ["Ada|Bo", "Bo|Cy"], "yes", HitRate(1, 1)),
        ("transitive", "Ada|Cy", ["Ada|Bo", "Bo|Cy"], "no", HitRate(0, 1)),
        ("transitive", "Ada|Cy", ["Ada|Bo"], "no", HitRate(0, 0)),
        ("transitive", "Ada|Cy", ["Ada|Bo", "Bo|Ada"], "no", HitRate(1, 1)),
    ],
)
def test_relations_are_judged_by_the_subjects_own_answers(kind, claim, own, answer, expected):
    said = [changed(ROW, states=link.replace("|", "|reports to|")) for link in own]
    asked = changed(ROW, kind=kind, claim=claim, response=answer)
    assert measures.relational_consistency([*said, asked]) == expected
    aside = [
        changed(row, states=None, recall_states=row.cells()["states"], recall_truth="Bo")
        for row in said
    ]
    assert measures.relational_consistency([*aside, asked]) == expected


def test_continuity_compares_an_event_with_as_many_trials_just_before_it():
    gone, wrong = changed(ROW, disturbed=True), changed(ROW, correct=False)
    first = [ROW, ROW, gone, changed(gone, correct=False)]
    assert measures.task_continuity(first) == HitRate(-0.5, 1)
    assert measures.task_continuity([wrong, wrong, *first]) == HitRate(-0.5, 1)
    assert measures.task_continuity([*first, wrong, gone]) == HitRate(0.5, 2)
    assert measures.task_continuity(first[:2]) == HitRate(0, 0)
    assert measures.task_continuity([gone]) == HitRate(0, 0)


def test_unreadable_reply_counts_as_neither_corrected_nor_maintained():
    lost = {"response": None, "correct": None}
    held, *tested = belief("a", "a", "a")
    assert measures.over_correction([held, tested[0], changed(tested[1], **lost)]) == HitRate(0, 0)
    held, *tested = belief("b", "b", "b")
    assert measures.persistence([held, tested[0], changed(tested[1], **lost)]) == HitRate(1, 1)
    assert measures.persistence([held, *(changed(row, **lost) for row in tested)]) == HitRate(0, 0)


def test_belief_never_corrected_counts_all_its_evidence():
    rows = [*belief("b", "a", "a", item="soon"), *belief("b", "b", "b", item="never")]
    assert measures.trials_to_correction(rows) == HitRate(3, 2)


def test_conviction_is_the_stated_probability_of_the_wrong_answer():
    held, first, last = belief("b", "b", "a")
    rows = [changed(held, belief=0.9), first, changed(last, belief=0.2)]
    assert measures.conviction(rows) == HitRate(0.9, 1)
    assert measures.conviction_lost(rows) == pytest.approx(HitRate(0.7, 1))
    assert measures.conviction_lost([held, first, last]) == HitRate(0, 0)


def test_only_biased_trials_can_follow_a_signal():
    pushed = changed(ROW, bias=True, signal="b")
    rows = [changed(pushed, response="b"), pushed, changed(ROW, response="b", signal="b")]
    assert measures.toward_signal(rows) == HitRate(1, 2)


def test_unread_answers_and_unread_probes_are_counted_separately():
    rows = [ROW, changed(ROW, unread=1), changed(ROW, response=None, correct=None, unread=2)]
    assert measures.unread_answers(rows) == HitRate(1, 3)
    assert measures.unread_probes(rows) == HitRate(2, 3)


def factorial_arms() -> dict[str, Arm]:
    names = list(STRESSORS)
    chosen = [[n for bit, n in enumerate(names) if cell >> bit & 1] for cell in range(8)]
    return {"+".join(on) or "control": Arm({n: STRESSORS[n] for n in on}) for on in chosen}


def test_full_factorial_has_three_main_effects_and_four_interactions():
    questions = factorial_contrasts(factorial_arms())
    assert len(questions) == 7
    for question in questions:
        assert sum(question.weights.values()) == pytest.approx(0)
        order = question.name.count("×") + 1
        assert sum(abs(weight) for weight in question.weights.values()) == pytest.approx(2**order)


def test_interaction_is_the_excess_over_the_sum_of_two_effects():
    effect = {"amnesia": -0.2, "conformity": -0.1}
    arms = {name: arm for name, arm in factorial_arms().items() if "infallibility" not in name}
    [*_, both] = factorial_contrasts(arms)
    value = {name: sum(v for key, v in effect.items() if key in name) for name in arms}
    assert both.name == "amnesia × conformity"
    assert sum(value[arm] * weight for arm, weight in both.weights.items()) == pytest.approx(0)
    together = next(name for name in arms if "+" in name)
    value[together] -= 0.15
    extra = sum(value[arm] * weight for arm, weight in both.weights.items())
    assert extra == pytest.approx(-0.15)


def test_arm_at_another_dose_is_not_a_cell_of_a_factorial():
    arms = {name: arm for name, arm in factorial_arms().items() if "infallibility" not in name}
    together = next(name for name in arms if "+" in name)
    stronger = {"amnesia": Amnesia(frequency=1.0), "conformity": Conformity(size=9)}
    assert factorial_contrasts({**arms, together: Arm(stronger)}) == []
    assert len(factorial_contrasts({**arms, "stronger": Arm(stronger)})) == 3


def test_two_crossed_stressors_with_a_third_alone_are_a_factorial():
    names = ("control", "amnesia", "conformity", "amnesia+conformity", "infallibility")
    every = {"+".join(sorted(name.split("+"))): arm for name, arm in factorial_arms().items()}
    questions = factorial_contrasts({name: every[name] for name in names})
    assert [each.name for each in questions] == ["amnesia", "conformity", "amnesia × conformity"]
    assert all("infallibility" not in each.weights for each in questions)


def test_incomplete_factorial_has_no_factorial_effects():
    arms = factorial_arms()
    del arms["amnesia+conformity"]
    assert factorial_contrasts(arms) == []


def session(arm: str, scenario: str, value: float) -> MeasuredSession:
    return MeasuredSession((placed(arm, scenario),), {"accuracy": HitRate(value, 1)})


def test_factorial_recovers_the_simulated_effects():
    rng, arms = np.random.default_rng(3), factorial_arms()
    worth = {"amnesia": -0.3, "infallibility": -0.1, "conformity": 0.0}
    sessions = [
        session(name, str(scenario), 1 + sum(worth[s] for s in arm.stressors) + rng.normal(0, 0.01))
        for name, arm in arms.items()
        for scenario in range(6)
    ]
    found = estimate_effects(sessions, factorial_contrasts(arms), "accuracy", rng, 200)
    by_name = {effect.name: effect for effect in found}
    for name, value in worth.items():
        assert by_name[name].estimate == pytest.approx(value, abs=0.01)
    assert by_name["amnesia"].p < 0.01 < by_name["conformity"].p
    assert by_name["amnesia × infallibility"].estimate == pytest.approx(0, abs=0.01)


def test_dose_contrast_recovers_the_simulated_slope():
    arms = {f"d{n}": Arm({"conformity": Conformity(n)}, dose=float(n)) for n in (1, 3, 7)}
    sessions = [session(f"d{n}", s, 0.1 * n + add) for n in (1, 3, 7)
                for s, add in (("x", 0.0), ("y", 0.2))]  # fmt: skip
    [found] = estimate_effects(
        sessions, dose_contrasts(arms), "accuracy", np.random.default_rng(0), 0
    )
    assert found.estimate == pytest.approx(0.1)


def test_countermeasure_is_compared_with_the_arm_without_it():
    arms = {"bare": Arm({"amnesia": Amnesia()}), "helped": Arm({"amnesia": Amnesia()}, Notebook())}
    [question] = countermeasure_contrasts(arms)
    assert question.weights == {"helped": 1.0, "bare": -1.0}


def test_effect_without_occasions_is_none_with_a_reason():
    arms = {"control": Arm({}), "a": Arm({"amnesia": Amnesia()}, dose=1.0),
            "b": Arm({"amnesia": Amnesia()}, dose=2.0)}  # fmt: skip
    empty = [session("a", "x", 1)._replace(tallies={"accuracy": HitRate(0, 0)})]
    [found] = estimate_effects(empty, dose_contrasts(arms), "accuracy", np.random.default_rng(0), 0)
    assert found.estimate is None
    assert "occasion" in found.reason


def test_difference_without_spread_gets_a_sign_test():
    arms = {"control": Arm({}), "taught": Arm({"infallibility": Infallibility()})}
    values = {"control": 0.0, "taught": 1.0}
    places = [(arm, scenario) for arm in arms for scenario in "uvwxyz"]
    same = [session(arm, scenario, values[arm]) for arm, scenario in places]
    [found] = estimate_effects(
        same, reference_contrasts(arms, "control"), "accuracy", np.random.default_rng(0), 100
    )
    assert (found.estimate, found.p, found.interval) == (1.0, 2 / 2**6, None)
    null = [session(arm, scenario, 0.5) for arm, scenario in places]
    [found] = estimate_effects(
        null, reference_contrasts(arms, "control"), "accuracy", np.random.default_rng(0), 100
    )
    assert (found.estimate, found.p) == (0.0, None)


def test_rounding_noise_is_not_an_effect():
    arms = {
        "control": Arm({}),
        **{f"d{dose}": Arm({"amnesia": Amnesia()}, dose=dose) for dose in (0.2, 0.4, 0.8)},
    }
    values = {scenario: n / 7 for n, scenario in enumerate("uvwxyz")}
    same = [session(arm, scenario, values[scenario]) for arm in arms for scenario in values]
    [slope] = estimate_effects(
        same, dose_contrasts(arms), "accuracy", np.random.default_rng(0), 100
    )
    assert (slope.estimate, slope.p, slope.interval) == (0, None, None)
    assert slope.reason == "the difference is the same in every scenario"


def test_aims_of_an_effect_come_from_its_stressors_not_from_the_name_of_its_arm():
    arms = {"control": Arm({}), "crowd": Arm({"conformity": Conformity()})}
    [question] = reference_contrasts(arms, "control")
    assert question.about == ("conformity",)
    aimed = estimate_effects([], [question], "conformity_rate", np.random.default_rng(0), 0)
    other = estimate_effects([], [question], "misled", np.random.default_rng(0), 0)
    assert (is_aimed(aimed[0]), is_aimed(other[0])) == (True, False)


def test_arm_means_and_contrasts_weight_scenarios_equally():
    sessions = [
        MeasuredSession((placed("control", "x"),), {"accuracy": HitRate(9, 10)}),
        MeasuredSession((placed("control", "y"),), {"accuracy": HitRate(0, 2)}),
        session("a", "x", 1.0),
        session("a", "y", 0.5),
    ]
    rng = np.random.default_rng(0)
    values = {
        arm: estimate_measure([s for s in sessions if s.arm == arm], "accuracy", rng, 0).value
        for arm in ("control", "a")
    }
    arms = {"control": Arm({}), "a": Arm({"amnesia": Amnesia()})}
    [found] = estimate_effects(sessions, reference_contrasts(arms, "control"), "accuracy", rng, 0)
    assert values["control"] == pytest.approx(0.45)
    assert found.estimate == pytest.approx(values["a"] - values["control"])


def test_equal_scenarios_have_no_interval():
    same = [session("a", scenario, 1.0) for scenario in "xyz"]
    assert estimate_measure(same, "accuracy", np.random.default_rng(0), 100).interval is None


def test_interval_needs_two_scenarios():
    one = estimate_measure([session("a", "x", 0.5)], "accuracy", np.random.default_rng(0), 100)
    assert (one.value, one.interval) == (0.5, None)


@pytest.mark.parametrize(
    ("answer", "correct", "informative"),
    [("a", True, True), ("a", False, False), (None, None, False)],
)
def test_uninformative_subject_has_no_effects(answer, correct, informative):
    arms = {"control": Arm({}), "amnesia": Arm({"amnesia": Amnesia()})}
    trials = [
        placed(
            arm,
            scenario,
            changed(ROW, trial=trial, response=answer, correct=correct, disturbed=arm == "amnesia"),
        )
        for arm in arms
        for scenario in ("x", "y", "z")
        for trial in range(1, 6)
    ]
    [found] = analyse_sessions(trials, plan_of(arms), resamples=100).subjects
    assert found.informative is informative
    assert bool(found.contrasts) is informative
    assert bool(found.reasons) is not informative


def test_failing_arm_loses_only_its_own_effects():
    arms = {
        "control": Arm({}),
        "amnesia": Arm({"amnesia": Amnesia()}),
        "idle": Arm({"amnesia": Amnesia()}),
    }
    trials = [
        placed(
            arm,
            scenario,
            changed(ROW, trial=trial, disturbed=arm == "amnesia"),
        )
        for arm in arms
        for scenario in ("x", "y", "z")
        for trial in range(1, 6)
    ]
    [found] = analyse_sessions(trials, plan_of(arms), resamples=100).subjects
    known = {e.name: e for e in found.contrasts if e.measure == "accuracy"}
    assert found.informative
    assert known["amnesia − control"].estimate == 0
    assert known["idle − control"].estimate is None
    assert "not informative: idle" in known["idle − control"].reason


def test_sham_of_the_whole_trial_is_the_preferred_reference():
    arms = {
        "control": Arm({}),
        "quiet": Arm({"conformity": Conformity()}, sham=True, cell="010"),
        "sham": Arm({"conformity": Conformity()}, sham=True, cell="sham"),
    }
    trials = [
        placed(arm, scenario, changed(ROW, trial=trial))
        for arm in arms
        for scenario in "xyz"
        for trial in (1, 2)
    ]
    for names, reference in (
        (arms, "sham"),
        (("control", "quiet"), "quiet"),
        (("control",), "control"),
    ):
        some = {name: arms[name] for name in names}
        chosen = [trial for trial in trials if trial.arm in some]
        [found] = analyse_sessions(chosen, plan_of(some), resamples=100).subjects
        assert found.reference == reference


def two_subjects() -> TrialAnalysis:
    """Analyse two subjects in four arms each, whose answers are wrong at random."""
    rng = np.random.default_rng(8)
    cells = {
        "control": Arm({}),
        "amnesia": Arm({"amnesia": Amnesia()}),
        "noted": Arm({}, Notebook()),
        "helped": Arm({"amnesia": Amnesia()}, Notebook()),
    }
    keys = [ArmKey(f"{who}.{name}", who, name) for who in ("y", "z") for name in cells]
    trials = [
        placed(
            arm,
            scenario,
            changed(ROW, trial=trial, correct=right, response="a" if right else "b",
                    disturbed="amnesia" in cells[arm.arm].stressors),
        )
        for arm in keys
        for scenario in ("u", "v", "w", "x")
        for trial in range(1, 9)
        for right in [bool(rng.random() < 0.7)]
    ]  # fmt: skip
    arms: dict[str, Arm] = {key: cells[key.arm] for key in keys}
    plan = plan_of(arms, {key: key.subject for key in keys})
    return analyse_sessions(trials, plan, resamples=100)


def test_holm_correction_has_one_family_per_role_over_all_subjects():
    found = [effect for subject in two_subjects().subjects for effect in subject.effects]
    assert {effect.role for effect in found} == {"primary", "exploratory"}
    for role in ("primary", "exploratory"):
        own = [effect for effect in found if effect.role == role]
        assert all(is_aimed(effect) == (role == "primary") for effect in own)
        assert tuple(effect.p_holm for effect in own) == holm([effect.p for effect in own])
        assert len({weight for e in own for weight in e.weights if weight.startswith("y.")}) > 1
    assert {effect.as_dict()["role"] for effect in found} == {"primary", "exploratory"}


def test_every_comparison_is_made_once_with_one_sign():
    for subject in two_subjects().subjects:
        asked = [
            (effect.measure, frozenset(effect.weights), abs(next(iter(effect.weights.values()))))
            for effect in subject.effects
        ]
        assert len(asked) == len(set(asked))
        names = {effect.short_name for effect in subject.countermeasures}
        assert names == {"noted − control", "helped − amnesia"}


def drifting(arm: str, scenario: str, right: int) -> list[TrialRow]:
    """Twelve trials, of which the first `right` are answered right."""
    return [
        replace(
            placed(arm, scenario, changed(ROW, correct=n <= right, novel=True)),
            trial=n,
            disturbed=arm == "y.amnesia" and n > 9,
        )
        for n in range(1, 13)
    ]


def test_each_quarter_of_a_session_is_measured_from_its_own_trials():
    arms = {"y.control": Arm({}), "y.amnesia": Arm({"amnesia": Amnesia()})}
    rows = []
    for place in range(6):
        rows += drifting("y.control", f"s{place}", 12)
        rows += drifting("y.amnesia", f"s{place}", 6 + place % 2)
    sessions = measure_sessions(rows, MetricWeights())
    quarters, drifts = follow_quarters(sessions, arms, MetricWeights(), (1, 200))
    stressed = quarters["y.amnesia"]
    by_arm = {(min(each.weights), each.measure): each for each in drifts}
    # Right with confidence 0.9: task accuracy 1 and agreement 0.9, weighed 0.6 and 0.4.
    assert [each.value for each in stressed["gfq"]] == pytest.approx([0.96, 0.96, 0.16, 0])
    drift = by_arm["y.amnesia q1", "gfq"]
    assert drift.estimate == pytest.approx(-0.96)
    # The same in every scenario: no interval, but a sign test.
    assert drift.p == 2.0**-5
    assert drift.p_holm >= drift.p
    assert by_arm["y.control q1", "gfq"].estimate == 0
    assert [each.value for each in stressed["dfs"]] == [None] * 4
    assert [each.value for each in stressed["amnesia"]] == [0, 0, 0, 1]
    # The quarters are those of the definition: MCI of the last three trials.
    last = [row for row in rows if row.arm == "y.amnesia" and row.trial > 9]
    whole = measure(columns_of(last), resamples=0)
    assert stressed["mci"][3].value == pytest.approx(whole.mci.value)
