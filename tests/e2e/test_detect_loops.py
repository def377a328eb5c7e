"""`chimera detect` on realistic loops: repeated tool calls, cycles, bots under any name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Chimera = Callable[..., Any]
NEWS = (
    "The harbour froze over in the second week of January.",
    "Our baker sells rye bread on Tuesdays only.",
    "Seven violins were stolen from the concert hall.",
    "A comet will cross the northern sky tonight.",
    "My uncle repairs watches in a cellar near the station.",
    "Nobody expected the glacier to retreat so quickly.",
)


def write(path: Path, *talks: Any) -> Path:
    path.write_text("".join(json.dumps(talk) + "\n" for talk in talks))
    return path


def calls(number: int) -> dict[str, Any]:
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "function": {"name": "bash", "arguments": '{"c": "ls"}'}}],
    }
    back = {"role": "tool", "tool_call_id": "a", "content": "a.txt"}
    return {"messages": [{"role": "user", "content": "Go."}, *[call, back] * number]}


def test_58_identical_calls_are_a_loop(chimera: Chimera, tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", calls(58))
    [row] = chimera("detect", "--json", log).rows
    assert row["looping"] is True
    assert row["collapse_rate"] is None
    [loop] = [loop for loop in row["loops"] if loop["level"] == "verdict"]
    assert (loop["kind"], loop["stream"], loop["began"], loop["noticed"]) == ("tool", "calls", 2, 6)
    assert loop["repeats"] == [2, 4]
    assert "bash" in loop["excerpt"]
    assert row["loop_score"] > 0.5
    assert row["loop_detector"]["operating_point"] == "loops-2"
    assert chimera("detect", "--fail-on", "loop", log).code == 1
    ran = chimera("detect", "--fail-on", "collapse", log)
    assert (ran.code, "no conversation could be judged for collapse" in ran.err) == (1, True)


def test_bot_that_says_one_sentence_is_judged_as_the_assistant(
    chimera: Chimera, tmp_path: Path
) -> None:
    said = [{"speaker": "user", "text": news} for news in NEWS]
    bot = {"speaker": "bot", "text": "I can't find a booking under this name, sorry."}
    turns = [turn for each in said for turn in (each, bot)]
    log = write(tmp_path / "log.jsonl", {"id": "a", "turns": turns})
    [row] = chimera("detect", "--json", log).rows
    assert row["judged"] == "assistant turns (chat)"
    assert row["collapsed"] == [5, 6]
    assert row["looping"] is True
    assert "assistant" in chimera("detect", "--full", log).out


def test_cycle_of_three_loops_where_the_locked_rule_sees_nothing(
    chimera: Chimera, tmp_path: Path
) -> None:
    log = write(tmp_path / "log.jsonl", {"id": "a", "turns": list(NEWS[:3]) * 4})
    ran = chimera("detect", log)
    headline, *_, row = ran.out.splitlines()[:5]
    loops, spent, since = headline.split("; ")
    assert (loops, since) == ("1 of 1 conversation loops", "it began at message 1.")
    assert spent == "~100 % of all tokens were spent inside a loop"
    assert row.split()[:7] == ["a", "12", "a", "cycle", "of", "3", "1–end"]


def test_without_vectors_there_is_no_collapse_verdict(chimera: Chimera, tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", {"id": "a", "turns": [NEWS[0]] * 6})
    ran = chimera("detect", "--no-vectors", "--json", log)
    [row] = ran.rows
    assert row["looping"] is True
    assert row["collapse_rate"] is None
    assert row["detector"]["name"] is None
    assert "no collapse verdict" in ran.err
    assert "share" not in chimera("detect", "--no-vectors", log).out


@pytest.mark.parametrize("which", ["locked", "loops"])
def test_one_detector_can_run_alone(chimera: Chimera, tmp_path: Path, which: str) -> None:
    log = write(tmp_path / "log.jsonl", {"id": "a", "turns": [NEWS[0]] * 6})
    [row] = chimera("detect", "--detector", which, "--json", log).rows
    assert (row["looping"] is None) == (which == "locked")
    assert (row["collapse_rate"] is None) == (which == "loops")


def test_odd_tool_calls_are_judged_and_shown(chimera: Chimera, tmp_path: Path) -> None:
    def called(name: str, arguments: Any) -> dict[str, Any]:
        function = {"name": "bash", "arguments": arguments}
        asked = [{"id": name, "function": function}]
        return {"role": "assistant", "content": None, "tool_calls": asked}

    def back(name: str, content: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": name, "content": content}

    go, many = {"role": "user", "content": "Go."}, [str(n) for n in range(1_000)]
    asked = [call for n in many for call in called(n, '{"n": ' + n + "}")["tool_calls"]]
    at_once = {"role": "assistant", "content": None, "tool_calls": asked}
    odd: dict[str, list[Any]] = {
        "not-json": [go, *[called("a", "{not json"), back("a", "fine")] * 3],
        "huge": [go, *[called("a", "{}"), back("a", "line\n" * 2_000_000)] * 3],
        "thousand": [go, at_once, *[back(n, f"result {n}") for n in many]],
        "results-first": [go, *[back("a", "fine"), called("a", "{}")] * 5],
        "other-roles": [{"role": f"poet-{n % 3}", "content": NEWS[n % 3]} for n in range(12)],
    }
    logs = [write(tmp_path / name, {"id": name, "messages": odd[name]}) for name in odd]
    rows = {row["id"]: row for row in chimera("detect", "--json", "--no-vectors", *logs).rows}
    assert {name: row["looping"] for name, row in rows.items()} == {
        "not-json": True, "huge": True, "thousand": False, "results-first": True,
        "other-roles": True,
    }  # fmt: skip
    assert rows["other-roles"]["judged"] == "all turns (self-play)"
    page = tmp_path / "page.html"
    for log in logs:
        assert chimera("show", log, "--no-vectors", "--out", page).code == 0
        assert page.stat().st_size < 400_000


def test_nothing_judged_can_fail_a_build(chimera: Chimera, tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", {"id": "a", "turns": ["Hi.", "Hello!"]})
    assert chimera("detect", log).code == 0
    assert chimera("detect", "--fail-on", "nothing-judged", log).code == 1
    ran = chimera("detect", "--fail-on", "loop", log)
    assert (ran.code, "failed: nothing could be judged" in ran.err) == (1, True)


def test_healthy_agents_that_poll_and_page_pass(chimera: Chimera, tmp_path: Path) -> None:
    def step(n: int, name: str, arguments: Any) -> dict[str, Any]:
        return {
            "role": "assistant",
            "text": "",
            "calls": [{"name": name, "arguments": arguments, "result": f"{n} of 40 rows"}],
        }

    polling = {"id": "poll", "turns": [step(n, "status", {"job": 7}) for n in range(20)]}
    paging = {"id": "page", "turns": [step(n, "rows", {"page": n}) for n in range(20)]}
    log = write(tmp_path / "log.jsonl", polling, paging)
    ran = chimera("detect", "--fail-on", "loop", "--no-vectors", log)
    assert ran.code == 0
    assert "0 of 2 conversations loop" in ran.out


@pytest.mark.parametrize("command", ["detect", "show"])
@pytest.mark.parametrize(
    ("options", "way_out"),
    [
        (("--no-vectors", "--s1", "0.95"), "leave out --s1"),
        (("--detector", "loops", "--window", "4"), "leave out --window"),
        (("--no-vectors", "--detector", "locked"), "leave out --detector locked"),
    ],
)
def test_options_that_contradict_each_other_are_rejected(
    chimera: Chimera, tmp_path: Path, command: str, options: tuple[str, ...], way_out: str
) -> None:
    log = write(tmp_path / "log.jsonl", {"id": "a", "turns": list(NEWS)})
    ran = chimera(command, *options, log)
    assert ran.code == 2
    assert "computes no collapse verdict" in ran.err
    assert way_out in ran.err


@pytest.mark.parametrize(
    "options",
    [
        ("--no-vectors", "--fail-on", "collapse"),
        ("--detector", "loops", "--fail-on-collapse"),
        ("--detector", "locked", "--fail-on", "loop"),
    ],
)
def test_check_that_could_never_fail_is_rejected(
    chimera: Chimera, tmp_path: Path, options: tuple[str, ...]
) -> None:
    log = write(tmp_path / "log.jsonl", {"id": "a", "turns": [NEWS[0]] * 9})
    ran = chimera("detect", *options, log)
    assert ran.code == 2
    assert "--fail-on " in ran.err
    assert "leave out --" in ran.err


def test_groups_have_the_columns_of_the_detectors_that_ran(
    chimera: Chimera, tmp_path: Path
) -> None:
    stuck, fine = {"turns": [NEWS[0]] * 6, "model": "m"}, {"turns": NEWS, "model": "m"}
    log = write(tmp_path / "log.jsonl", stuck, fine, calls(9) | {"model": "tooled"})

    def rows(*options: str) -> list[list[str]]:
        ran = chimera("detect", log, "--group-by", "model", *options)
        lines = ran.out.partition("model ")[2].splitlines()
        return [line.split() for line in lines]

    both = rows("--full")
    assert both[0] == "n loop 95 % collapsed 95 % share of turns 95 %".split()
    # Half of m loops and collapsed; the agent calls tools alone, and has no share of turns.
    assert both[1][:7] == ["m", "2", "50.0", "%", "9–91", "%", "50.0"]
    assert both[2] == ["tooled", "1", "100.0", "%", "21–100", "%", "–", "–", "–", "–"]
    assert rows()[0] == rows("--detector", "loops")[0] == "n loop 95 % in loops of tokens".split()
    assert rows("--detector", "locked")[0] == "n collapsed 95 % share of turns 95 %".split()


def test_grouping_by_an_unknown_field_is_an_error(chimera: Chimera, tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", {"turns": list(NEWS), "model": "m", "lab": "x"})
    ran = chimera("detect", log, "--no-vectors", "--group-by", "modle")
    assert ran.code == 2
    assert "no conversation has a field 'modle' to group by; fields: lab, model" in ran.err


def test_table_names_what_the_loop_detector_judged(chimera: Chimera, tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", calls(9))
    *_, head, row = chimera("detect", log, "--no-vectors", "--full").out.splitlines()
    assert head.split() == ["conversation", "judged", "steps", "loop"]
    assert row.split()[1:3] == ["all", "10"]
    assert "loop" not in chimera("detect", log, "--detector", "locked").out


def test_line_of_a_loop_names_messages_kind_span_and_cost(chimera: Chimera, tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", calls(9))
    *_, head, row = chimera("detect", log, "--no-vectors").out.splitlines()
    assert head.split() == ["conversation", "messages", "loop", "since–to", "cost"]
    assert row.split()[1:5] == ["19", "same", "call", "2–end"]
    assert row.split()[5].startswith("~")


def test_only_loops_are_listed_unless_all_are_asked_for(chimera: Chimera, tmp_path: Path) -> None:
    stuck, fine = {"id": "stuck", "turns": [NEWS[0]] * 6}, {"id": "fine", "turns": list(NEWS)}
    log = write(tmp_path / "log.jsonl", fine, stuck)
    few, every = (chimera("detect", log, "--no-vectors", *o).out for o in ((), ("--all",)))
    assert "stuck" in few
    assert "fine" not in few
    assert "1 conversation without a loop: see --all." in few
    assert every.index("stuck") < every.index("fine")
    assert "see --all" not in every


def test_loops_are_sorted_by_cost_or_as_asked(chimera: Chimera, tmp_path: Path) -> None:
    talks = [
        {"id": "long", "turns": [*NEWS, *NEWS[:1] * 8]},
        {"id": "early", "turns": NEWS[:1] * 5},
        {"id": "costly", "turns": ["So it goes, and so it goes. " * 40] * 4 + list(NEWS)},
    ]
    log = write(tmp_path / "log.jsonl", *talks)

    def order(*options: str) -> list[str]:
        lines = chimera("detect", log, "--no-vectors", *options).out.splitlines()
        names = (line.split()[0] for line in lines if line.strip())
        return [name for name in names if name in ("long", "early", "costly")]

    assert order()[0] == order("--sort", "cost")[0] == "costly"
    assert order("--sort", "share")[0] == "early"
    assert order("--sort", "messages")[0] == "long"
    assert order("--sort", "onset")[-1] == "long"
    assert order("--sort", "log") == ["long", "early", "costly"]
