"""Explanations: they are what the detector found, and name the rule that kept a message quiet."""

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import chimeralab
from chimeralab import readers
from chimeralab.core.errors import InputError
from chimeralab.core.records import Call, Trajectory, Turn
from chimeralab.detection.loops import Loops
from tests.laws.test_loops_laws import talks

ROOT = Path(__file__).parents[3]
LOGS = [ROOT / "examples" / f"{name}.jsonl" for name in ("agent-chat", "conversations")]


def check_agrees(talk: Any, **settings: Any) -> None:
    """Every loop is noticed at its message, and the verdicts are the same."""
    found = chimeralab.detect(talk, **settings)
    why = chimeralab.explain(talk, **settings)
    noticed = {
        (row["position"], loop["kind"], loop["began"], loop["level"])
        for row in why["messages"]
        for loop in row["noticed"]
    }
    last = {(each.noticed, each.stream, each.began, each.level) for each in found.loops}
    kinds = {(n, began, level) for n, _, began, level in noticed}
    assert {(n, began, level) for n, _, began, level in last} <= kinds
    assert why["looping"] == found.looping
    assert why["verdict"] in repr(found)


@pytest.mark.parametrize("vectors", [False, True])
def test_an_explanation_agrees_with_the_verdict(vectors: bool) -> None:
    for talk in readers.read_all(LOGS):
        check_agrees(talk, vectors=vectors)


@given(talks())
def test_explanations_of_random_talks_agree_with_their_verdicts(turns: list[Turn]) -> None:
    check_agrees(Trajectory("talk", tuple(turns)), vectors=False)


def quiet(talk: Any, message: int, **settings: Any) -> str:
    [row] = chimeralab.explain(talk, message=message, vectors=False, **settings)["messages"]
    return "; ".join(row["quiet"])


def turn(name: str, result: str, **arguments: Any) -> Turn:
    return Turn("", "assistant", "assistant", spoken=False, calls=(Call(name, arguments, result),))


def test_every_rule_that_keeps_a_message_quiet_is_named() -> None:
    reading = turn("read", "a = 1", path="a.py")
    other = turn("read", "b = 2", path="b.py")
    polling = [turn("job_state", f"{n} % done", job=7) for n in (10, 60)]
    agent = [Turn("Fix it.", "user", "user"), reading, reading, Turn("Go on.", "user", "user")]
    assert "the first call of its kind" in quiet([reading], 1)
    assert "not the call of message 1: other arguments" in quiet([reading, other], 2)
    assert "the same call as in message 1, with another result" in quiet(polling, 2)
    assert "calls of read are ignored" in quiet([reading], 1, tools={"read": "ignore"})
    assert "what the user of an agent types is not compared" in quiet(agent, 4)
    assert "no text and no tool call" in quiet(
        [Turn("Be brief.", "system", "system", spoken=False)], 1
    )
    assert "no earlier message is like it" in quiet(["Shall we?", "By train."], 2)
    assert "fewer than 4 words" in quiet(["Let me check.", "All good.", "Let me check."], 3)


def test_a_message_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="there is no message 3; conversation has 1 to 2"):
        chimeralab.explain(["a", "b"], message=3, vectors=False)


def test_the_locked_rule_shows_its_similarities() -> None:
    rows = chimeralab.explain(["Let me try that again."] * 6)["messages"]
    assert [row["locked"]["collapsed"] for row in rows] == [False] * 4 + [True] * 2
    assert rows[5]["locked"]["s1"] == pytest.approx(1)


def test_the_command_shows_a_message_in_full(chimera: Callable[..., Any]) -> None:
    done = chimera("explain", "--demo", "--id", "looping-agent", "--message", "25")
    page = (ROOT / "docs" / "loops.md").read_text(encoding="utf-8")
    example = re.search(r"--message 25\n(.*?)```", page, re.DOTALL)
    assert example
    assert done.out == example[1]
    assert "→ verdict: same call" in chimera("explain", "--demo", "--id", "looping-agent").out
    assert chimera("explain", "--demo", "--id", "looping-agent", "--json").json["looping"]
    assert "choose one with --id" in chimera("explain", "--demo").err
    assert chimera("explain").code == 2


def test_the_table_of_settings_has_each_with_its_default() -> None:
    page = (ROOT / "docs" / "loops.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", page.split("### Settings")[1], re.MULTILINE)
    assert table == [(each.name, f"{each.default:g}") for each in fields(Loops)]


def test_message_that_is_answered_alike_is_explained() -> None:
    call = Call("ls", {"path": "."}, "a.txt")
    said = [("assistant", 'bash{"command": "ls -l src"}'), ("user", "That is not a tool call.")]
    turns = [Turn("", "assistant", calls=(call,)), *(Turn(text, who) for who, text in said * 3)]
    why = chimeralab.explain(Trajectory("a", tuple(turns)), message=6, vectors=False)
    (row,) = why["messages"]
    assert ("answers", 3) in [(each["rule"], each["strength"]) for each in row["evidence"]]
    assert [each["level"] for each in row["noticed"]] == ["verdict"]
