"""Laws of plans, run orders, locks and chains."""

import json
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from chimeralab.core.errors import InputError
from chimeralab.core.parts import Part, PartLoader
from chimeralab.models.seam import Sampling
from chimeralab.runner import Prompt, Rules, Speaker, TurnRecord
from chimeralab.study.folder import plan_talks
from chimeralab.study.lock import digest, link, list_changes, opening
from chimeralab.study.plan import Condition, Plan, RunTable, StudyTable, make_plan

names = st.text("abcxyz", min_size=1, max_size=4)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)


@st.composite
def plans(draw):
    speakers = (Speaker("a", "m", Sampling()), Speaker("b", "m", Sampling()))
    conditions = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    prompts = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    return Plan(
        study=StudyTable("law"),
        models={},
        conditions={name: Condition(speakers) for name in conditions},
        conversation=Rules(repeats=draw(st.integers(1, 4))),
        prompts=tuple(Prompt(name, "text") for name in prompts),
        detector=Part("locked", None),
        run=RunTable(seed=draw(st.integers()), interleave=draw(st.booleans())),
    )


@given(plans())
def test_every_conversation_is_planned_once(plan):
    ids = [talk.id for talk in plan_talks(plan)]
    assert len(ids) == len(set(ids))
    assert len(ids) == len(plan.conditions) * len(plan.prompts) * plan.conversation.repeats


@given(plans())
def test_order_depends_on_the_plan_alone(plan):
    assert plan_talks(plan) == plan_talks(plan)


@given(plans())
def test_interleaved_conditions_are_adjacent(plan):
    talks = plan_talks(plan)
    if plan.run.interleave:
        blocks = [list(b) for _, b in groupby(talks, lambda talk: (talk.prompt.id, talk.repeat))]
        assert {len(block) for block in blocks} == {len(plan.conditions)}
    else:
        assert [c for c, _ in groupby(talk.condition for talk in talks)] == list(plan.conditions)


@given(plans(), st.integers(1, 40), st.integers(0, 3))
def test_every_turn_and_every_redraw_of_it_has_its_own_seed(plan, turn, draw):
    talk = plan_talks(plan)[0]
    seeds = {
        talk.seed_for(turn, draw),
        talk.seed_for(turn + 1, draw),
        talk.seed_for(turn, draw + 1),
    }
    assert len(seeds) == 3
    assert all(0 <= seed < 2**31 for seed in seeds)


@given(st.dictionaries(names, plain, max_size=5))
def test_hash_does_not_depend_on_the_order_of_keys(values):
    backwards = dict(reversed(values.items()))
    assert digest(values) == digest(backwards) == digest(json.loads(json.dumps(values)))


@given(st.dictionaries(names, plain, max_size=4), st.dictionaries(names, plain, max_size=4))
def test_equal_values_have_equal_hashes(one, other):
    if digest(one) == digest(other):
        assert list_changes(one, other) == []
    assert list_changes(one, one) == []


TABLES = {
    "study": {"name": "law", "question": "?"},
    "models": {"a": {"use": "phantom", "price": {"input": 1.0}, "sampling": {"top_p": 0.5}}},
    "conditions": {
        "c": {
            "speakers": ["a", {"model": "a", "name": "b", "system": "s"}],
            "countermeasure": {"use": "rotate", "to": ["a"]},
        }
    },
    "conversation": {"turns": 4, "on_empty": "retry 2"},
    "prompts": {"items": [{"id": "p", "text": "t"}]},
    "detector": {"use": "locked", "s1": 0.9},
    "sampling": {"temperature": 1.0},
    "run": {"seed": 1, "max_cost": 1.0},
}


def places(value, path=()):
    """The path of everything inside a plan."""
    yield path
    inside = list(enumerate(value)) if isinstance(value, list) else []
    for key, item in value.items() if isinstance(value, dict) else inside:
        yield from places(item, (*path, key))


@given(st.sampled_from(list(places(TABLES))[1:]), plain, st.booleans())
@example(("detector",), "locked", False)
def test_any_plan_is_read_or_rejected_with_a_reason(path, value, drop):
    tables = json.loads(json.dumps(TABLES))
    inside = tables
    for key in path[:-1]:
        inside = inside[key]
    if drop:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    with suppress(InputError):  # any other error fails the law
        make_plan(tables, PartLoader(Path()))


def test_plan_of_the_law_is_valid():
    assert make_plan(TABLES, PartLoader(Path())).study.name == "law"


texts = st.lists(st.text(max_size=8), min_size=2, max_size=8)


def chained(turns):
    hashes = [opening("talk", Prompt("p", "text"))]
    for number, text in enumerate(turns, start=1):
        hashes.append(link(hashes[-1], TurnRecord(number, "s", "m", text, "stop")))
    return hashes


@given(texts, st.data())
def test_changed_turn_breaks_the_chain_from_there_on(turns, data):
    place = data.draw(st.integers(0, len(turns) - 1))
    changed = [*turns[:place], turns[place] + "!", *turns[place + 1 :]]
    before, after = chained(turns), chained(changed)
    assert before[: place + 1] == after[: place + 1]
    assert all(a != b for a, b in zip(before[place + 1 :], after[place + 1 :], strict=True))


@given(texts, st.data())
def test_dropped_turn_changes_the_closing_hash(turns, data):
    place = data.draw(st.integers(0, len(turns) - 1))
    assert chained(turns)[-1] != chained(turns[:place] + turns[place + 1 :])[-1]
