"""What a newcomer meets in Python: names, one-line verdicts, and a sentence for a wrong input."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import chimeralab as typed
from chimeralab.integrations.watch import Watch
from chimeralab.testing import assert_no_loop

chimeralab: Any = typed  # wrong types are what is tested
AGAIN = ["Shall we go?", *["Try <b>that</b> again."] * 5]


def test_dir_shows_what_is_public_alone() -> None:
    assert set(dir(chimeralab)) == set(chimeralab.__all__)


@pytest.mark.parametrize("name", ["detect", "detect_all", "detect_file", "explain", "Guard"])
def test_settings_are_keywords_with_types(name: str) -> None:
    parameters = inspect.signature(getattr(chimeralab, name)).parameters.values()
    assert all(each.kind is not each.VAR_KEYWORD for each in parameters)
    assert all(each.annotation not in (each.empty, Any, "Any") for each in parameters)


def test_a_verdict_is_one_line() -> None:
    found = chimeralab.detect(AGAIN, vectors=False)
    assert repr(found) == "<Detection 'conversation': same text again, messages 2–end>"
    said = "“Try <b>that</b> again.”"
    assert repr(found.loops[0]) == f"<Loop: verdict, same text again, messages 2–end: {said}>"
    assert repr(chimeralab.detect(["Hi."], vectors=False)).endswith("'conversation': no loop>")
    both = repr(chimeralab.detect(AGAIN))
    assert both == (
        "<Detection 'conversation': same text again, messages 2–end; 2 of 6 turns collapsed>"
    )


def test_a_notebook_shows_a_table_in_which_texts_are_escaped() -> None:
    found = chimeralab.Results(chimeralab.detect_all([AGAIN, ["Hi.", "Bye."]], vectors=False))
    page = found._repr_html_()
    assert page.count("<tr>") == 3
    assert "Try &lt;b&gt;that" in page
    assert "<b>" not in page
    assert found[0]._repr_html_().count("<tr>") == 2


def test_vectors_false_means_in_detect_what_it_means_for_a_guard() -> None:
    assert chimeralab.detect(AGAIN, vectors=False) == chimeralab.detect(AGAIN, detector=None)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "an item that is none": (
        lambda: chimeralab.detect(["a", None]),
        "item 1 of the list is None, not a text as others are",
    ),
    "a detector by name": (lambda: chimeralab.detect(AGAIN, detector="loops"), "detector is 'lo"),
    "an encoder by name": (lambda: chimeralab.Guard(encoder="x"), "encoder is 'x'; expected"),
    "tools as a list": (lambda: chimeralab.Guard(tools=["wait"]), "tools is ['wait'], a list"),
    "a tool that is a number": (lambda: chimeralab.Guard(tools={3: "ignore"}), "tools[3] is"),
    "a path that is none": (lambda: chimeralab.detect_file(None), "path is None; expected"),
    "a format that is a number": (
        lambda: chimeralab.detect_file("examples", format=3),
        "format is 3; expected a name",
    ),
    "a turn that is a text": (
        lambda: chimeralab.detect(chimeralab.Trajectory("a", ("x",))),
        "a turn of the Trajectory is a str",
    ),
    "no loop to allow": (lambda: chimeralab.Guard(vectors=False).allow(None), "loop is None"),
    "a window in words": (lambda: chimeralab.Loops(window="x"), "window is 'x'; expected a whole"),
    "no window": (lambda: chimeralab.Loops(window=0), "window is 0; expected a whole number"),
    "a negative threshold": (lambda: chimeralab.Loops(on=-1), "on is -1; expected a number"),
    "a threshold in words": (lambda: chimeralab.LockedRule(s1="x"), "s1 must be a number"),
    "a study without a folder": (lambda: chimeralab.Study(None), "path is None; expected"),
    "a run of a path": (lambda: chimeralab.run("mine"), "study is 'mine'; expected"),
    "a test of nothing": (lambda: assert_no_loop(None), "None is not a conversation"),  # type: ignore[arg-type]
    "a delta that is none": (lambda: chimeralab.Guard(vectors=False).feed(None), "a delta is None"),
    "a budget in words": (lambda: Watch(budget="x"), "budget is 'x'; expected"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_input_gets_a_sentence(name: str) -> None:
    act, sentence = WRONG[name]
    with pytest.raises(chimeralab.InputError) as caught:
        act()
    assert str(caught.value).startswith(sentence)
