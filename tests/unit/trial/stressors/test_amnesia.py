"""Corruption swaps values between facts: plausible, wrong, each given to one fact."""

from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import pytest

from chimeralab.core.errors import InputError
from chimeralab.models.seam import Request
from chimeralab.trial.course import Layout
from chimeralab.trial.phantoms import PhantomSubject, PhantomSubjectSettings
from chimeralab.trial.scenarios import Ledger
from chimeralab.trial.scenarios.items import Fact
from chimeralab.trial.scene import Moment
from chimeralab.trial.script import Arm, Script
from chimeralab.trial.stressors import Amnesia, Conformity, Infallibility
from chimeralab.trial.stressors.builtin import swap_values
from chimeralab.trial.stressors.seam import Stressor

COURSES = [Layout().lay_out(Ledger().make(seed), 3, 0) for seed in range(1, 7)]
EVERYTHING = Amnesia("corrupt", frequency=1, scope=1)
CHANCE = 1, "course"


def altered(course, turn, part=EVERYTHING):
    """The facts that are altered at a turn, each with its new value."""
    facts = {fact.text: fact for step in course.steps for fact in step.told}
    script = Script(course, Arm({"amnesia": part}), 1, {})
    found = script.scene(turn, [step.truth for step in course.steps]).injections
    return {facts[each.text]: value_of(each.instead, facts[each.text]) for each in found}


def value_of(text, fact):
    head, tail = fact.text.split(fact.value)
    assert text.startswith(head)
    assert text.endswith(tail)
    return text[len(head) : len(text) - len(tail)]


def fact(subject, value):
    return Fact(f"f-{subject}", subject, "reports to", value, f"{subject} reports to {value}.")


@pytest.mark.parametrize("course", COURSES, ids=lambda course: course.id)
def test_no_fact_keeps_its_value_or_is_about_itself(course):
    turns = range(2, len(course.steps) + 1)
    found = [entry for turn in turns for entry in altered(course, turn).items()]
    assert found
    assert all(value not in (fact.value, fact.subject) for fact, value in found)


@pytest.mark.parametrize("course", COURSES, ids=lambda course: course.id)
def test_swapped_values_are_a_permutation(course):
    given, had = defaultdict(Counter), defaultdict(Counter)
    for each, value in altered(course, len(course.steps)).items():
        given[each.relation][value] += 1
        had[each.relation][each.value] += 1
    assert given == had


def test_two_facts_swap_and_a_chain_of_command_does_not_end_in_itself():
    two = [fact("Ada", "Bo"), fact("Cy", "Di")]
    assert swap_values(two, *CHANCE) == {"f-Ada": "Di", "f-Cy": "Bo"}
    three = [fact("Ada", "Bo"), fact("Bo", "Cy"), fact("Di", "Ada")]
    for seed in range(20):
        got = swap_values(three, seed)
        assert sorted(got.values()) == ["Ada", "Bo", "Cy"]
        assert got["f-Ada"] == "Cy"  # Bo is its own value, and Ada is itself
        assert got["f-Bo"] == "Ada"


def test_fact_without_a_partner_keeps_its_value():
    same = [fact("Ada", "Bo"), fact("Cy", "Bo"), fact("Di", "Bo"), fact("Bo", "Eve")]
    got = swap_values(same, *CHANCE)
    # Bo can't report to Bo, and of the three others only one can get Eve.
    assert "f-Bo" not in got
    assert list(got.values()) == ["Eve"]
    assert swap_values([fact("Ada", "Bo")], *CHANCE) == {}


def test_single_fact_gets_a_value_of_its_relation():
    course = COURSES[0]
    first = altered(course, 2)
    relations = Counter(each.relation for each in first)
    alone = [each for each in first if relations[each.relation] == 1]
    assert alone
    assert all(first[each] in course.other_values(each) for each in alone)


def changed(part: Amnesia, **settings: Any) -> Amnesia:
    return replace(part, **settings)


@pytest.mark.parametrize("key", ["frequency", "scope"])
def test_higher_dose_alters_every_fact_of_a_lower_one(key):
    course = COURSES[0]
    turns = range(1, len(course.steps) + 1)
    hit = [
        {(turn, each.id) for turn in turns for each in altered(course, turn, part)}
        for part in (changed(EVERYTHING, **{key: dose}) for dose in (0.2, 0.5, 1.0))
    ]
    assert hit[0] < hit[1] < hit[2]


def test_unaltered_fact_is_not_recorded():
    course = COURSES[0]
    only = course.steps[0].told[:1]
    bare = replace(course, steps=tuple(replace(step, told=()) for step in course.steps))
    lone = replace(bare, steps=(replace(bare.steps[0], told=only), *bare.steps[1:]))
    assert altered(lone, 5) == {}


def told(script, turn, answers):
    return [m.content for m in script.pose(turn, answers).messages if m.role == "user"]


@pytest.mark.parametrize("course", COURSES, ids=lambda course: course.id)
def test_amnesia_removes_the_same_facts_and_spares_other_stressors(course):
    gone = Amnesia(frequency=0.6, scope=0.8)
    others = {"infallibility": Infallibility(), "conformity": Conformity()}
    answers = [step.lure or step.truth for step in course.steps]
    apart = Script(course, Arm({"amnesia": gone}), 1, {})
    rest, both = (Script(course, Arm(arm), 1, {}) for arm in (others, others | {"amnesia": gone}))
    facts = [fact.text for step in course.steps for fact in step.told]
    heard = 0
    for turn in range(1, len(course.steps) + 1):
        alone, bare, all_of_it = (told(each, turn, answers) for each in (apart, rest, both))
        for fact in facts:
            assert "\n".join(all_of_it).count(fact) == "\n".join(alone).count(fact)
        for word in ("Examiner:", "Participant 3:", "A check that is right"):
            times = "\n".join(bare).count(word)
            assert "\n".join(all_of_it).count(word) == times
            heard += times
        roles = [message.role for message in both.pose(turn, answers).messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    assert heard


def test_amnesia_removes_what_also_names():
    course, answers = COURSES[0], [step.lure or step.truth for step in COURSES[0].steps]
    arm = {"infallibility": Infallibility(), "conformity": Conformity()}
    everything = Amnesia(frequency=1, scope=1, also=("infallibility",))
    script = Script(course, Arm({**arm, "amnesia": everything}), 1, {})
    past = [line for exchange in script.scene(20, answers).past for line in exchange.lines]
    assert {line.by for line in past} == {"conformity", "evidence"}


def test_amnesia_does_not_remove_a_taught_belief():
    """A fully credulous phantom is misled as often with amnesia as without."""
    subject = PhantomSubject(PhantomSubjectSettings(credulity=1, rigidity=1))
    taught: dict[str, Stressor] = {"infallibility": Infallibility()}
    arms = [taught, {**taught, "amnesia": Amnesia(frequency=1, scope=1)}]
    misled = []
    for arm in arms:
        held = 0
        for course in COURSES:
            script = Script(course, Arm(arm), 1, {})
            answers: list[str] = []
            for turn, step in enumerate(course.steps, start=1):
                shown = script.pose(turn, answers)
                request = Request(shown.messages, turn=turn, conversation="one", key=shown.key)
                answers.append(subject.answer(request))
                held += step.phase == "held" and answers[-1] == step.lure
        misled.append(held)
    assert misled[0] == misled[1] == 2 * len(COURSES)


@pytest.mark.parametrize(
    ("schedule", "starts"),
    [
        ({"every": 4}, {4, 8, 12}),
        ({"every": 1}, set(range(2, 13))),
        ({"at": (0.25, 0.5, 0.75)}, {4, 7, 10}),
        ({"at": (0.0, 1.0)}, {2, 12}),
    ],
)
def test_events_follow_their_schedule_for_their_duration(schedule, starts):
    course = COURSES[0]
    course = replace(course, steps=course.steps[:12])
    for duration in (1, 2):
        part = Amnesia("corrupt", scope=1, duration=duration, **schedule)
        for turn in range(1, 13):
            moment = Moment(course, turn, 1, (), 0.9, None)
            begun = {start for start in starts if turn - duration < start <= turn}
            assert set(part.event_starts(moment)) == begun


def test_two_schedules_at_once_are_refused():
    with pytest.raises(InputError, match="both `every` and `at`"):
        Amnesia(every=3, at=(0.5,))
