"""Ratings of a study are stored once, samples are disjoint, and a gate's sample is used once."""

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from chimeralab.core.errors import InputError
from chimeralab.rating.rater_checks import check_rater
from chimeralab.rating.raters import (
    export_study_packet,
    find_rater,
    import_study_packet,
    load_ratings,
    rate_study,
)
from chimeralab.rating.rubric import BUILT_IN
from chimeralab.rating.samples import draw, find_sample, load_samples, mark_used
from chimeralab.rating.study_audit import audit_study
from chimeralab.rating.validity import Validity
from chimeralab.study import LockError, RunOptions, Study, run_study
from chimeralab.study.store import Store
from chimeralab.study.verdicts import detect_study
from tests.plans import RATED, judge

DONE = ("run",)


def test_each_conversation_is_rated_once(make_study):
    study = make_study(RATED, steps=DONE)
    first, second = rate_study(study, "rules"), rate_study(study, "rules")
    assert (first.newly_rated, second.newly_rated) == (16, 0)
    assert (second.ones, second.zeros) == (8, 8)
    rating = load_ratings(study, "rules")["looping/p1/1"]
    assert (rating.label, rating.step, rating.kinds[0]) == (1, "verbatim", "A")
    assert "in a row" in rating.reason


def test_a_model_of_the_plan_rates_and_its_repairs_are_kept(make_study):
    study = make_study(RATED, judge("wordy"), steps=DONE)
    done = rate_study(study, "judge")
    assert (done.newly_rated, done.ones, done.zeros) == (16, 8, 8)
    assert (done.tally["repaired"], done.tally["clean"]) == (16, 0)
    attempts = load_ratings(study, "judge")["free/p1/1"].attempts
    assert attempts[0].answer.startswith("Here you are")


def test_an_answer_that_is_never_usable_is_stored_as_null(make_study):
    study = make_study(RATED, judge("babbling"), steps=DONE)
    done = rate_study(study, "judge")
    assert (done.newly_rated, done.tally["nulls"], done.tally["unreadable"]) == (16, 16, 48)
    assert rate_study(study, "judge").newly_rated == 0


def test_an_unreachable_model_is_asked_again_later(make_study):
    study = make_study(RATED, judge("down"), steps=DONE)
    done = rate_study(study, "judge")
    assert (done.newly_rated, done.unanswered, done.tally["items"]) == (0, 16, 0)


def test_other_settings_make_another_rater(make_study):
    study = make_study(RATED, steps=DONE)
    rate_study(study, "judge")
    other = make_study(RATED, "[raters]\nretries = 0\n")
    assert rate_study(other, "judge").newly_rated == 16


def test_an_unknown_rater_is_named_with_the_choices(make_study):
    with pytest.raises(InputError, match=r"unknown rater 'juge'; known: rules, loops, free, judge"):
        rate_study(make_study(RATED, steps=DONE), "juge")


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("rules", "a program"),
        ("judge", "a model"),
        ("served", "a model, costs money, needs a network"),
        ("human:ann", "a person, is given a packet"),
    ],
)
def test_a_rater_describes_its_kind_and_needs(make_study, name, facts):
    served = '[models.served]\nuse = "openai"\nmodel = "m"\nbase_url = "http://x/v1"\n'
    study = make_study(RATED, served)
    who = find_rater(study, name)
    assert (str(who.about), who.identity_record.kind) == (facts, who.about.kind)
    assert who.name == name


def test_samples_are_disjoint_and_reproducible(make_study):
    study = make_study(RATED, steps=DONE)
    trained = draw(study, "calibration", 8, seed=1)
    gate = draw(study, "gate", 6, seed=1)
    assert not set(trained.ids) & set(gate.ids)
    assert [stratum for _, stratum in gate.items] == ["free"] * 3 + ["looping"] * 3
    assert draw(study, "gate", 6, seed=1) == gate == find_sample(study, "gate-1")
    assert rate_study(study, "judge", only="gate-1").newly_rated == 6


def test_no_second_gate_sample_is_drawn_before_the_first_is_used(make_study):
    study = make_study(RATED, steps=DONE)
    draw(study, "gate", 6, seed=1)
    detect_study(study)
    with pytest.raises(InputError, match="drawn with the seed of the plan, 1"):
        draw(study, "gate", 6, seed=2)
    with pytest.raises(InputError, match="decided on 6 items"):
        draw(study, "gate", 7, seed=1)
    assert len(load_samples(study)) == 1


def test_a_gate_sample_is_used_once(make_study):
    study = make_study(RATED, steps=DONE)
    sample = draw(study, "gate", 6, seed=1)
    mark_used(study, sample, "labels", passed=False)
    with pytest.raises(InputError, match="used once"):
        mark_used(study, sample, "other labels", passed=True)
    assert find_sample(study, "gate-1").passed is False
    second = draw(study, "gate", 6, seed=1)
    assert not set(second.ids) & set(sample.ids)
    mark_used(study, second, "labels", passed=False)
    with pytest.raises(InputError, match="allows 2 attempts"):
        draw(study, "gate", 6, seed=1)


def test_a_gate_sample_is_as_large_as_the_plan_says(make_study):
    with pytest.raises(InputError, match="decided on 6 items by condition"):
        draw(make_study(RATED, steps=DONE), "gate", 5, seed=1)


def test_a_gate_sample_is_drawn_when_all_conversations_are_finished(make_study):
    study = make_study(RATED, steps=DONE)
    database = sqlite3.connect(study.store_path)
    with database:
        database.execute("UPDATE trajectories SET outcome = NULL WHERE id = 'free/p1/1'")
    database.close()
    with pytest.raises(InputError, match="1 conversations are not finished"):
        draw(study, "gate", 6, seed=1)


# A draft of the built-in rubric next to the plan.
DRAFT = BUILT_IN.read_text(encoding="utf-8").replace('state = "locked"', 'state = "draft"', 1)
DRAFTED = RATED | {"mine.toml": DRAFT}
OWN_RUBRIC = '[rubric]\nfile = "mine.toml"\n'


def test_a_gate_needs_a_locked_rubric(make_study):
    study = make_study(DRAFTED, OWN_RUBRIC, ("sample = 6\n", ""), steps=DONE)
    rate_study(study, "rules")
    rate_study(study, "judge")
    with pytest.raises(InputError, match="the rubric is draft; a gate needs a locked one"):
        audit_study(study)
    assert load_samples(study) == []


def test_an_audit_without_all_ratings_does_not_use_the_sample(make_study):
    study = make_study(RATED, ("sample = 6\n", ""), steps=DONE)
    rate_study(study, "rules")
    with pytest.raises(InputError, match="judge has not rated 16 of the 16 conversations"):
        audit_study(study)
    assert load_samples(study) == []


def test_a_sample_can_be_balanced_on_the_verdict(make_study):
    study = make_study(
        RATED, ("sample = 6", 'sample = 4\nby = "verdict"'), ("turns = 4", "turns = 8"), steps=DONE
    )
    with pytest.raises(InputError, match="no verdict yet; run `chimera detect` first"):
        draw(study, "gate", 4, seed=1, by="verdict")
    detect_study(study)
    drawn = draw(study, "gate", 4, seed=1, by="verdict")
    assert sum(drawn.weights.values()) == pytest.approx(16)
    rate_study(study, "rules")
    rate_study(study, "judge")
    found = audit_study(study)
    assert found.weighted
    assert [isinstance(each, Validity) for each in found.against.values()] == [True, True]


def test_the_lock_contains_the_rubric(make_study):
    study = make_study(DRAFTED, OWN_RUBRIC)
    locked = study.freeze().resolved["extras"]["rubric"]
    assert locked["version"] == "3.0"
    run_study(study)
    (study.path / "mine.toml").write_text(DRAFT + "\n# one more line\n", encoding="utf-8")
    with pytest.raises(LockError, match=r"extras.rubric.sha256"):
        rate_study(Study(study.path, allow_code=True), "rules")


@pytest.mark.parametrize(
    ("new", "complaint"),
    [
        ('raters = ["rules"]', r"\[gate\] raters = \['rules'\]: agreement needs two or more"),
        ('raters = ["rules", "jugde"]', r"unknown rater 'jugde' in \[gate\] raters; known: rules"),
        ('raters = ["rules", "judge"]\nthreshold = 1.5', r"\[gate\] threshold 1.5: agreement"),
        ('raters = ["rules", "judge"]\nstatistic = "kapa"', r"\[gate\] statistic = \"kapa\""),
        ("raters = []", r"\[gate\] needs raters"),
        ('raters = ["rules", "a b"]', r"\[gate\] raters"),
    ],
)
def test_errors_in_a_gate_are_named(make_study, new, complaint):
    study = make_study(RATED, ('raters = ["rules", "judge"]', new))
    with pytest.raises(InputError, match=complaint):
        assert study.plan


def test_a_rubric_with_another_version_or_hash_is_rejected(make_study):
    study = make_study(DRAFTED, OWN_RUBRIC + 'version = "4.0"\n')
    with pytest.raises(InputError, match=r"\[rubric\] version = '4.0', but the rubric's is '3.0'"):
        assert study.plan


def fill(folder: Path, label: str = "0") -> Path:
    sheet = folder / "ratings.csv"
    with sheet.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(row | {"label": label} for row in rows)
    return sheet


def test_an_imported_packet_is_stored_as_ratings_of_a_person(make_study, tmp_path):
    study = make_study(RATED, steps=DONE)
    draw(study, "gate", 6, seed=1)
    export_study_packet(study, tmp_path / "packet", "gate-1", seed=5)
    page = (tmp_path / "packet" / "packet.html").read_text(encoding="utf-8")
    assert "looping" not in page.partition("</style>")[2]
    sheet = fill(tmp_path / "packet")
    import_study_packet(study, sheet, "human:ann")
    assert {rating.label for rating in load_ratings(study, "human:ann").values()} == {0}
    assert len(load_ratings(study, "human:ann")) == 6
    with pytest.raises(InputError, match="human:ann has already rated"):
        import_study_packet(study, sheet, "human:ann")


def test_a_packet_of_another_study_is_rejected(make_study, tmp_path):
    study = make_study(RATED, steps=DONE)
    export_study_packet(study, tmp_path / "packet")
    sheet = fill(tmp_path / "packet")
    with sqlite3.connect(study.store_path) as database:
        database.execute("DELETE FROM packets")
    with pytest.raises(InputError, match="was not exported from"):
        import_study_packet(study, sheet, "human:ann")
    with pytest.raises(InputError, match="who filled in the packet, as human:NAME"):
        import_study_packet(study, sheet, "judge")


FREE = "price = { input = 0, output = 0 }"
PRICED = (
    ('course = "verbatim"', f'course = "verbatim"\n{FREE}'),
    ('[models.free]\nuse = "phantom"', f'[models.free]\nuse = "phantom"\n{FREE}'),
    ('"judging:Judge"', '"judging:Judge"\nprice = { input = 10, output = 0 }'),
)


def limited(**limits: float) -> tuple[str, str]:
    lines = "".join(f"{name} = {value}\n" for name, value in limits.items())
    return "[run]\n", f"[run]\nconcurrency = 1\n{lines}"


def test_a_model_stops_rating_at_the_cost_limit_of_the_study(make_study):
    study = make_study(RATED, *PRICED, limited(max_cost=0.035), steps=DONE)
    done = rate_study(study, "judge")
    assert (done.newly_rated, done.left, done.tally["items"]) == (4, 12, 4)
    # With the first question of the rater, estimated without token counts.
    assert done.stopped == "max_cost = 0.035 is used up (0.0401 spent)"
    again = rate_study(study, "judge")
    assert (again.newly_rated, again.left) == (0, 16 - 4)


def test_a_free_rater_is_not_stopped_by_the_cost_limit(make_study):
    study = make_study(RATED, *PRICED, limited(max_cost=0.005), steps=DONE)
    assert rate_study(study, "judge").left == 15
    assert rate_study(study, "rules").newly_rated == 16


def test_an_answer_of_unknown_cost_stops_a_rater_with_a_limit(make_study):
    uncounted = ('"judging:Judge"\n', '"judging:Judge"\nmanner = "uncounted"\n')
    study = make_study(RATED, *PRICED, uncounted, limited(max_cost=5), steps=DONE)
    done = rate_study(study, "judge")
    assert done.newly_rated == 1
    assert "max_cost can't be enforced" in (done.stopped or "")
    # It counts by its estimate when the next command adds up what was spent.
    with closing(Store(study.store_path)) as store:
        assert store.total_cost() > 0.01


def test_a_rater_is_stopped_by_answers_that_are_billed_and_unusable(make_study):
    billed = ('"judging:Judge"\n', '"judging:Judge"\nmanner = "billed"\n')
    study = make_study(RATED, *PRICED, billed, limited(max_cost=0.05), steps=DONE)
    done = rate_study(study, "judge")
    # A cent for each answer, three answers for each item: the second item is given up midway.
    assert done.stopped == "max_cost = 0.05 is used up (0.0501 spent)"
    assert (done.unanswered, done.left) == (1, 15)
    assert rate_study(study, "judge").left == 16


PAYING = """
from dataclasses import dataclass
from chimeralab.rating.ratings import Attempt, RaterFacts, Rating

@dataclass(frozen=True)
class Paid:
    about = RaterFacts("program", costs_money=True)

    def open(self, rubric):
        return self

    async def rate(self, item):
        attempt = Attempt("clean", "", "0", cost=0.02)
        return Rating(item.id, "", 0, "No loop.", attempts=(attempt,))
"""


def test_a_custom_rater_is_charged_for_its_attempts(make_study):
    plan = '[raters.paid]\nuse = "paying:Paid"\n'
    files = RATED | {"paying.py": PAYING}
    study = make_study(files, plan, *PRICED, limited(max_cost=0.05), steps=DONE)
    done = rate_study(study, "paid")
    assert done.stopped == "max_cost = 0.05 is used up (0.0600 spent)"
    assert (done.newly_rated, done.left) == (3, 13)
    assert rate_study(study, "paid").left == 13


def test_a_rater_stops_at_the_time_limit(make_study):
    study = make_study(RATED, limited(max_hours=1e-9))
    run_study(study, RunOptions(max_hours=1.0))
    done = rate_study(study, "judge")
    assert (done.newly_rated, done.left) == (0, 16)
    assert "max_hours" in (done.stopped or "")


def test_a_consistent_rater_is_never_flipped_and_its_check_is_stored(make_study):
    study = make_study(RATED, steps=DONE)
    check = check_rater(study, "judge")
    report = check.report
    assert report is not None
    assert report.position is not None
    rows = (report.undisturbed, report.position, *report.attacks)
    assert [(row.items, row.flip_rate) for row in rows] == [(16, 0.0)] * 10
    with sqlite3.connect(study.store_path) as db:
        stored = db.execute("SELECT value FROM study WHERE key LIKE 'check of rater judge%'")
        assert json.loads(stored.fetchone()[0]) == json.loads(json.dumps(check.as_dict()))
    assert load_ratings(study, "judge") == {}


def test_a_rater_that_obeys_injected_orders_is_detected(make_study):
    study = make_study(RATED, judge("obedient"), steps=DONE)
    report = check_rater(study, "judge").report
    assert report is not None
    flips = {row.name: (row.flips, row.as_wanted) for row in report.attacks}
    assert flips["orders 0"] == (8, 8)
    assert flips["pleads"] == (0, 0)


def test_programs_have_no_position_check_and_people_are_not_attacked(make_study):
    study = make_study(RATED, steps=DONE)
    report = check_rater(study, "rules").report
    assert report is not None
    assert report.position is None
    assert not any(row.flips for row in report.attacks)
    with pytest.raises(InputError, match="human:ann is a person"):
        check_rater(study, "human:ann")


def test_a_check_stops_at_the_cost_limit_and_its_cost_counts(make_study):
    study = make_study(RATED, *PRICED, limited(max_cost=0.055), steps=DONE)
    with pytest.raises(InputError, match="the check was stopped: max_cost"):
        check_rater(study, "judge")
    assert rate_study(study, "judge").newly_rated == 0


def test_a_check_can_be_limited_to_a_sample(make_study):
    study = make_study(RATED, steps=DONE)
    drawn = draw(study, "calibration", 4)
    assert len(check_rater(study, "judge", drawn.name).items) == 4
