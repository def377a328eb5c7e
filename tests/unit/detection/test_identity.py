"""Which calls are the same: cosmetic arguments are known, learnt, or declared."""

from typing import Any

import pytest

from chimeralab import Call, Trajectory, Turn, detect
from chimeralab.detection.identity import Identities
from chimeralab.integrations.watch import Watch

NOTES = ["first look", "to be sure", "checking again", "one more", "now then", "hm", "again", "so"]


def learnt(*calls: tuple[dict[str, Any], str], is_query: bool = False) -> Identities:
    identities = Identities()
    for arguments, result in calls:
        identities.learn(Call("run", arguments), result, is_query=is_query)
    return identities


def same(identities: Identities, one: dict[str, Any], other: dict[str, Any]) -> bool:
    return identities.identify(Call("run", one)) == identities.identify(Call("run", other))


def test_argument_that_never_changes_a_result_is_learnt_per_tool() -> None:
    calls = [({"action": a, "note": NOTES[n]}, f"did {a}") for n, a in enumerate("aabb")]
    for is_query in (True, False):
        identities = learnt(*calls, is_query=is_query)
        assert same(identities, {"action": "c", "note": "x"}, {"action": "c", "note": "y"})
        assert not same(identities, {"action": "c", "note": "x"}, {"action": "d", "note": "x"})
        other = [identities.identify(Call("other", {"action": "c", "note": n})) for n in "xy"]
        assert other[0] != other[1]


@pytest.mark.parametrize(
    "calls",
    [
        [({"query": n, "limit": 10}, "No results.") for n in NOTES],
        [({"city": "Rome", "day": n}, "sunny") for n in range(8)],
        [({"schema": "s", "document": n}, "valid") for n in NOTES],
        [({"action": "a", "note": n}, n) for n in NOTES],
        [({"command": f"make {n}", "mode": n}, "ok") for n in range(8)],
    ],
)
def test_what_may_matter_is_not_learnt(calls: list[tuple[dict[str, Any], str]]) -> None:
    identities = learnt(*calls)
    assert not same(identities, calls[0][0], calls[1][0])


def run(calls: list[Call], **settings: Any) -> list[tuple[int, str]]:
    watch, told = Watch(**settings), list[tuple[int, str]]()
    turns = [Turn("", "a", "assistant", spoken=False, calls=(call,)) for call in calls]
    for n in range(1, len(turns) + 1):
        found = watch.follow(Trajectory("t", tuple(turns[:n])))
        told += [(n, found.action)] if found else []
    return told


def test_guard_and_detector_see_through_a_learnt_argument() -> None:
    calls = [Call("bash", {"command": "make", "mood": note}, "make: up to date") for note in NOTES]
    assert run(calls) == [(6, "nudge"), (8, "stop")]
    talk = Trajectory("t", tuple(Turn("", "a", "assistant", calls=(call,)) for call in calls))
    assert detect(talk, detector=None).looping


def test_tool_declares_which_arguments_count() -> None:
    calls = [Call("look", {"page": 1, "query": note}, "a page") for note in NOTES[:5]]
    declared = {"look": {"identity": ["page"]}}
    assert run(calls, tools=declared) == [(3, "nudge"), (5, "stop")]
    assert run(calls) == []
    patient = {"look": {"identity": ["page"], "repeats": 5}}
    assert run(calls, tools=patient) == [(5, "nudge")]
