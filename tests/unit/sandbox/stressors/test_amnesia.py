"""Corruption swaps values between facts: each is plausible, wrong, and given to one fact only."""

from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from chimeralab.sandbox.course import Layout
from chimeralab.sandbox.scenarios import Ledger
from chimeralab.sandbox.scenarios.items import Fact
from chimeralab.sandbox.script import Arm, Script
from chimeralab.sandbox.stressors import Amnesia
from chimeralab.sandbox.stressors.amnesia import swapped_values

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
def test_what_one_fact_gets_another_has_given_up(course):
    given, had = defaultdict(Counter), defaultdict(Counter)
    for each, value in altered(course, len(course.steps)).items():
        given[each.relation][value] += 1
        had[each.relation][each.value] += 1
    assert given == had


def test_two_facts_swap_and_a_chain_of_command_does_not_end_in_itself():
    two = [fact("Ada", "Bo"), fact("Cy", "Di")]
    assert swapped_values(two, *CHANCE) == {"f-Ada": "Di", "f-Cy": "Bo"}
    three = [fact("Ada", "Bo"), fact("Bo", "Cy"), fact("Di", "Ada")]
    for seed in range(20):
        got = swapped_values(three, seed)
        assert sorted(got.values()) == ["Ada", "Bo", "Cy"]
        assert got["f-Ada"] == "Cy"  # Bo is its own value, and Ada is itself
        assert got["f-Bo"] == "Ada"


def test_whoever_finds_no_partner_is_left_out():
    same = [fact("Ada", "Bo"), fact("Cy", "Bo"), fact("Di", "Bo"), fact("Bo", "Eve")]
    got = swapped_values(same, *CHANCE)
    # Bo can't report to Bo, and of the three others only one can get Eve.
    assert "f-Bo" not in got
    assert list(got.values()) == ["Eve"]
    assert swapped_values([fact("Ada", "Bo")], *CHANCE) == {}


def test_a_fact_hit_alone_gets_a_value_of_its_relation():
    course = COURSES[0]
    first = altered(course, 2)
    relations = Counter(each.relation for each in first)
    alone = [each for each in first if relations[each.relation] == 1]
    assert alone
    assert all(first[each] in course.alike(each) for each in alone)


@pytest.mark.parametrize("key", ["frequency", "scope"])
def test_a_higher_dose_alters_every_fact_that_a_lower_one_alters(key):
    course = COURSES[0]
    turns = range(1, len(course.steps) + 1)
    hit = [
        {(turn, each.id) for turn in turns for each in altered(course, turn, part)}
        for part in (replace(EVERYTHING, **{key: dose}) for dose in (0.2, 0.5, 1.0))
    ]
    assert hit[0] < hit[1] < hit[2]


def test_what_cannot_be_altered_is_not_said_to_be():
    course = COURSES[0]
    only = course.steps[0].told[:1]
    bare = replace(course, steps=tuple(replace(step, told=()) for step in course.steps))
    lone = replace(bare, steps=(replace(bare.steps[0], told=only), *bare.steps[1:]))
    assert altered(lone, 5) == {}
