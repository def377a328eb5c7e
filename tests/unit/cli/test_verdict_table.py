"""Intervals of `chimera detect` account for clusters of conversations on one prompt."""

from dataclasses import replace
from io import StringIO
from math import log

import pytest
from rich.console import Console
from rich.text import Text

from chimeralab import Detection, detect
from chimeralab.cli.verdict_table import VerdictCounts, VerdictTable
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


def printed(talks: list[Detection], height: int = 0, partly: tuple[str, ...] = ()) -> str:
    """Print the table in 80 columns: to a terminal of some height, or to a file."""
    table, file = VerdictTable(None, FACT), StringIO()
    for talk in talks:
        table.add(talk, [], None, None)
    terminal = height > 0
    console = Console(width=80, height=height or 25, file=file, force_terminal=terminal)
    table.print_conversations(console, partly)
    return Text.from_ansi(file.getvalue()).plain


def test_long_ids_are_shortened_from_the_left() -> None:
    shown = printed([replace(LOOPING, id="project-" * 9 + "run-17")])
    (row,) = (line for line in shown.splitlines() if line.startswith("…"))
    assert row.split()[0].endswith("project-run-17")


def test_file_is_named_when_ids_repeat() -> None:
    sources = "logs/a/run.jsonl:1", "logs/b/run.jsonl:1"
    talks = [replace(LOOPING, id="1", source=source) for source in sources]
    assert all(source in printed(talks) for source in sources)
    alone = printed([replace(LOOPING, id=str(n), source=s) for n, s in enumerate(sources)])
    assert "run.jsonl" not in alone


def test_files_are_named_when_shortened_ids_look_the_same() -> None:
    talks = [
        replace(LOOPING, id=start + "-" * 30, source=f"{start}/{'deep/' * 9}log.jsonl:1")
        for start in ("one", "two")
    ]
    shown = "".join(line.split(" ")[0] for line in printed(talks).splitlines())
    assert all(f"{start}/deep/deep" in shown for start in ("one", "two"))


def test_rows_of_a_partly_read_log_are_marked() -> None:
    talks = [replace(LOOPING, id=name, source=f"{name}.jsonl:1") for name in ("half", "full")]
    shown = printed(talks, partly=("half.jsonl",))
    assert shown.count("partly read") == 1
    assert shown.index("half") < shown.index("partly read") < shown.index("full")


def test_table_fits_on_the_screen_of_a_terminal() -> None:
    shown = printed([replace(LOOPING, id=str(n), looping=n > 40) for n in range(60)], height=30)
    assert len(shown.splitlines()) < 30
    assert "… and 49 more. Shown are the 11" in shown


def test_file_is_named_when_the_other_conversation_with_its_id_is_not_shown() -> None:
    others = [replace(FREE, id=str(n), looping=False, source=f"{n}.jsonl:1") for n in range(50)]
    shown = printed([*others, replace(LOOPING, id="49", source="last.jsonl:1")])
    assert shown.count(".jsonl") == 1
    assert "last.jsonl:1" in shown


def test_files_below_ids_are_counted_as_lines_of_the_screen() -> None:
    talks = [replace(LOOPING, id="s-1", source=f"{n}.jsonl:1") for n in range(30)]
    shown = printed(talks, height=30)
    assert len(shown.splitlines()) < 30 - 8
    assert shown.count(".jsonl:1") == 5
