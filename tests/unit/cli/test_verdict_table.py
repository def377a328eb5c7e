"""Intervals of `chimera detect` account for clusters of conversations on one prompt."""

from dataclasses import replace
from math import log

import pytest

from chimeralab import Detection, detect
from chimeralab.cli.verdict_table import VerdictCounts
from chimeralab.core.result_words import FACT

LOOPING, FREE = detect(["Once more."] * 6), replace(detect(["Once more."] * 6), collapsed=())


def counted(talks: list[Detection], prompts: list[str | None]) -> VerdictCounts:
    counts = VerdictCounts()
    for rate, (talk, prompt) in enumerate(zip(talks, prompts, strict=True)):
        counts.add(replace(talk, collapse_rate=(rate // 20) / 10), prompt)
    return counts


def test_twenty_repeats_of_three_prompts_are_three_clusters() -> None:
    talks = [LOOPING] * 20 + [FREE] * 40
    prompts = ["a"] * 20 + ["b"] * 20 + ["c"] * 20
    apart = counted(talks, [None] * 60)
    together = counted(talks, list(prompts))
    assert apart.collapses.hits == together.collapses.hits == 20
    narrow, wide = apart.collapses.share.interval, together.collapses.share.interval
    assert narrow is not None
    assert wide is not None
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    rates, clustered = apart.rate_interval, together.rate_interval
    assert rates is not None
    assert clustered is not None
    # Three cluster means 0, 0.1 and 0.2: their error is 0.1 / sqrt(3), on two degrees of freedom;
    # on the scale of log odds it is that over 0.1 x 0.9.
    reach = log(clustered.high / (1 - clustered.high)) - log(0.1 / 0.9)
    assert reach == pytest.approx(4.3027 * 0.1 / 3**0.5 / 0.09, rel=1e-4)
    assert clustered.high > rates.high


def test_one_prompt_alone_has_no_interval() -> None:
    counts = counted([LOOPING, FREE] * 20, ["a"] * 40)
    assert counts.collapses.share.interval is None
    assert counts.loops.share.interval is None
    assert counts.rate_interval is None
    assert counts.sentence(FACT).endswith(" 20 of 40 conversations collapsed (50.0 %).")


def test_loop_share_is_of_conversations_judged_for_loops() -> None:
    counts = VerdictCounts()
    for talk in (LOOPING, replace(FREE, looping=False), replace(FREE, looping=None)):
        counts.add(talk, None)
    assert (counts.loops.hits, counts.loops.total, counts.conversations) == (1, 2, 3)
    assert counts.loops.share.value == 0.5
