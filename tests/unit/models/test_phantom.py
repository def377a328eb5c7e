"""Phantoms follow their settings."""

import asyncio
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimeralab.core.errors import InputError
from chimeralab.detection.judging import detect
from chimeralab.models.catalogue import PhantomCourse, PhantomSettings
from chimeralab.models.phantom import line
from chimeralab.models.seam import Message, ModelFailure, Reply, Request


def said(settings: PhantomSettings, turns: int = 40, talk: str = "talk") -> list[str]:
    return [reply.text for reply in replies(settings, turns, talk)]


def replies(settings: PhantomSettings, turns: int, talk: str = "talk") -> list[Reply]:
    async def converse() -> list[Reply]:
        model = settings.open()
        return [await model.reply(request(turn, talk)) for turn in range(1, turns + 1)]

    return asyncio.run(converse())


def request(turn: int, talk: str = "talk") -> Request:
    return Request((Message("user", "Go on, please."),), conversation=talk, turn=turn)


@given(st.integers(0, 2**32), st.text(max_size=20), st.integers(1, 10_000))
def test_novel_lines_share_nothing_with_their_neighbours(seed: int, talk: str, turn: int) -> None:
    here, following, second = (line(seed, talk, turn + lag) for lag in range(3))
    assert len({here, following, second}) == 3
    assert not set(here.split()[1:2]) & set(following.split()[1:2])


def test_novel_never_repeats_in_fifteen_thousand_turns() -> None:
    assert len({line(0, "talk", turn) for turn in range(15_525)}) == 15_525


@pytest.mark.parametrize("course", sorted({*get_args(PhantomCourse)} - {"script"}))
def test_course_does_not_depend_on_process_or_order(course: str) -> None:
    settings = PhantomSettings(course=course, seed=3)  # type: ignore[arg-type]
    forwards = said(settings)
    model = settings.open()
    backwards = [asyncio.run(model.reply(request(turn))).text for turn in range(40, 0, -1)]
    assert forwards == backwards[::-1]


def test_first_line_is_known() -> None:
    expected = said(PhantomSettings(course="verbatim", onset=1), turns=2, talk="a")
    assert expected == [line(0, "a", 1)] * 2
    assert line(0, "a", 1) != line(1, "a", 1) != line(0, "b", 1)


def test_verbatim_loop_starts_at_onset() -> None:
    texts = said(PhantomSettings(course="verbatim", onset=10))
    assert len(set(texts[:10])) == 10
    assert set(texts[9:]) == {texts[9]}


def test_alternation_starts_at_onset() -> None:
    texts = said(PhantomSettings(course="alternation", onset=10))
    assert len(set(texts[:11])) == 11
    assert texts[9:] == [texts[9], texts[10]] * 15 + [texts[9]]


def test_relapse_recovers_in_between() -> None:
    texts = said(PhantomSettings(course="relapse", onset=5, escape=15, back=25))
    assert set(texts[4:14]) == {texts[4]}
    assert len(set(texts[14:25])) == 11
    assert set(texts[24:]) == {texts[24]}


def test_script_starts_again_at_its_end() -> None:
    assert said(PhantomSettings(course="script", script=("a", "", "c")), 5) == [
        "a",
        "",
        "c",
        "a",
        "",
    ]


@pytest.mark.weights
@pytest.mark.parametrize(
    ("course", "episodes"),
    [
        ("novel", []),
        ("verbatim", [(13, 40)]),
        ("alternation", [(14, 40)]),
        ("template", [(13, 40)]),
        ("relapse", [(13, 19), (33, 40)]),
    ],
)
@pytest.mark.parametrize("talk", ["a", "b", "c"])
def test_detector_sees_what_the_course_says(
    course: str, episodes: list[tuple[int, int]], talk: str
) -> None:
    texts = said(PhantomSettings(course=course), talk=talk)  # type: ignore[arg-type]
    assert [(e.start, e.end) for e in detect(texts).episodes] == episodes


def test_failures_follow_the_settings() -> None:
    model = PhantomSettings(fail_turns=(2,), fail_times=2, fail_kind="rate_limit").open()

    async def outcomes(turn: int) -> list[str]:
        kinds = []
        for _ in range(3):
            try:
                await model.reply(request(turn))
                kinds.append("ok")
            except ModelFailure as failed:
                kinds.append(failed.kind)
        return kinds

    assert asyncio.run(outcomes(1)) == ["ok"] * 3
    assert asyncio.run(outcomes(2)) == ["rate_limit", "rate_limit", "ok"]


def test_refusals_follow_the_settings() -> None:
    finishes = [reply.finish for reply in replies(PhantomSettings(refuse_turns=(2,)), 3)]
    assert finishes == ["stop", "refusal", "stop"]


def test_settings_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(InputError, match="needs a script"):
        PhantomSettings(course="script")
    with pytest.raises(InputError, match="onset < escape < back"):
        PhantomSettings(course="relapse", onset=10, escape=5)
