"""Each rule of another project does what that project's documentation and tests say of it."""

import random
import string
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from benchmarks.stuck.rules import RULES
from benchmarks.stuck.rules.browser_use import BrowserUse, describe_action
from benchmarks.stuck.rules.deepeval import DeepEval, count_words, similarity
from benchmarks.stuck.rules.gemini_cli import GeminiCli
from benchmarks.stuck.rules.openclaw import OpenClaw
from benchmarks.stuck.rules.opencode import OpenCode
from benchmarks.stuck.rules.openhands import OpenHands
from benchmarks.stuck.rules.openlit import OpenLit
from benchmarks.stuck.rules.qwen_code import QwenCode
from benchmarks.stuck.rules.seam import Event, Rule
from chimeralab import Call, Turn
from chimeralab.detection.seam import Observation, check_detector

OPENHANDS, GEMINI, QWEN, ALL = OpenHands(), GeminiCli(), QwenCode(), QwenCode(heuristics=True)
OPENCLAW, BROWSER, DEEPEVAL, ANY = OpenClaw(), BrowserUse(), DeepEval(), DeepEval(threshold=1.0)
LETTERS = string.ascii_letters + string.digits


def call(name: str = "tool", *, result: str = "ok", failed: bool = False, **arguments: Any) -> Turn:
    made = Call(name, arguments, result, failed)
    return Turn("", "assistant", "assistant", spoken=False, calls=(made,))


def say(text: str) -> Turn:
    return Turn(text, "assistant", "assistant")


def ask(text: str = "Try something else.") -> Turn:
    return Turn(text, "user", "user")


def think(text: str) -> Turn:
    return Turn("", "assistant", "assistant", spoken=False, reasoning=text)


def alarms(rule: Rule, turns: Iterable[Turn]) -> list[int]:
    """The positions at which a rule alarms."""
    stream = rule.start()
    return [n for n, turn in enumerate(turns, 1) if stream.update(Observation(turn)).collapsed]


def first(rule: Rule, turns: Iterable[Turn]) -> int | None:
    return next(iter(alarms(rule, turns)), None)


def in_turn(turns: Sequence[Turn], total: int) -> list[Turn]:
    return [turns[n % len(turns)] for n in range(total)]


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_a_detector_that_names_its_source(name: str) -> None:
    check_detector(RULES[name], name)
    assert RULES[name].source
    assert len(RULES[name].release) == 40


@pytest.mark.parametrize("name", RULES)
def test_no_rule_alarms_about_work_that_differs(name: str) -> None:
    turns = [ask()]
    for n in range(7):
        turns += [call(f"tool_{n}", item=n, result=f"result {n}"), ask()]
    assert alarms(RULES[name], turns) == []


class TestOpenHands:
    def test_same_action_with_same_result_is_stuck_the_fourth_time(self) -> None:
        assert first(OPENHANDS, [ask(), *[call("terminal", command="ls")] * 4]) == 5
        assert first(OPENHANDS, [ask(), *[call("terminal", command="ls")] * 3]) is None

    def test_thresholds_can_be_set(self) -> None:
        assert first(OpenHands(action_observation=6), [call(command="ls")] * 9) == 6

    def test_same_action_with_an_error_is_nudged_the_third_time(self) -> None:
        missing = call("terminal", command="nonsense", result="not found", failed=True)
        assert first(OPENHANDS, [ask(), *[missing] * 3]) == 4
        assert first(OPENHANDS, [ask(), *[missing] * 2]) is None

    def test_three_messages_without_the_user_are_a_monologue(self) -> None:
        assert first(OPENHANDS, [ask(), *(say(f"Hm {n}.") for n in range(3))]) == 4
        assert first(OPENHANDS, [say("One."), say("Two."), ask(), say("Three.")]) is None

    def test_two_actions_in_turn_are_stuck_at_the_sixth(self) -> None:
        pair = [call("edit", file="a"), call("run", command="test")]
        assert first(OPENHANDS, in_turn(pair, 6)) == 6

    def test_different_actions_are_not_stuck(self) -> None:
        commands = ["ls", "pwd", "whoami", "date"]
        assert alarms(OPENHANDS, [call(command=each, result=each) for each in commands]) == []

    def test_a_message_of_the_user_starts_afresh(self) -> None:
        turns = [ask(), *[call(command="ls")] * 4, ask(), call(command="pwd")]
        assert alarms(OPENHANDS, turns) == [5]

    def test_only_the_last_twenty_events_are_scanned(self) -> None:
        other = [call(command=f"{n}", result=f"{n}") for n in range(9)]
        repeated = call(command="ls")
        assert alarms(OPENHANDS, [*[repeated] * 3, *other, repeated]) == []


class TestGeminiCli:
    def test_fifth_identical_call_is_a_loop(self) -> None:
        assert first(GEMINI, [call(param="value")] * 5) == 5
        assert first(GEMINI, [call(param="value")] * 4) is None

    def test_results_do_not_matter(self) -> None:
        assert first(GEMINI, [call(param=1, result=f"{n}") for n in range(5)]) == 5

    def test_other_events_do_not_reset_the_calls(self) -> None:
        same = call(param="value")
        assert first(GEMINI, [*[same] * 4, think("Hm."), same]) == 6

    @pytest.mark.parametrize(("period", "noticed"), [(2, 10), (3, 15), (5, 25)])
    def test_cycles_of_calls_are_loops(self, period: int, noticed: int) -> None:
        turns = in_turn([call("read_file", path=f"{n}") for n in range(period)], 30)
        assert first(GEMINI, turns) == noticed

    def test_a_cycle_that_is_broken_is_not_a_loop(self) -> None:
        a, b, c = (call("read_file", path=each) for each in "abc")
        assert alarms(GEMINI, [a, b, a, b, c, a, b, a, b]) == []

    def test_three_different_calls_three_times_are_not_a_loop(self) -> None:
        three = [call("one", p=1), call("one", p=2), call("two", p=1)]
        assert alarms(GEMINI, in_turn(three, 9)) == []

    def test_a_new_prompt_starts_afresh(self) -> None:
        assert alarms(GEMINI, [*[call(p=1)] * 4, ask(), *[call(p=1)] * 4]) == []


def chunk(number: int = 1, length: int = 50) -> str:
    return (f"This sentence is one of a kind, number {number}. " * 9)[:length]


def noise(rng: random.Random, length: int) -> str:
    return "".join(rng.choices(LETTERS, k=length))


@pytest.mark.parametrize("rule", [GEMINI, ALL], ids=["gemini-cli", "qwen-code"])
class TestChanting:
    def test_a_piece_ten_times_is_a_chant(self, rule: Rule) -> None:
        assert alarms(rule, [say(chunk() * 10)]) == [1]
        assert alarms(rule, [say(chunk() * 9)]) == []

    def test_random_text_is_not_a_chant(self, rule: Rule) -> None:
        rng = random.Random(1)
        assert alarms(rule, [say(noise(rng, 10)) for _ in range(1000)]) == []

    def test_pieces_far_apart_are_not_a_chant(self, rule: Rule) -> None:
        filler = noise(random.Random(1), 500)
        assert alarms(rule, [say((chunk() + filler) * 10)]) == []

    def test_code_is_not_a_chant(self, rule: Rule) -> None:
        assert alarms(rule, [say(f"Look:\n```python\n{chunk()}\n" + chunk() * 20 + "\n```")]) == []
        fenced = "```\n" + "for i in range(10): print(i)\n" * 20 + "```"
        assert alarms(rule, [say(fenced)]) == []

    def test_text_after_code_can_be_a_chant(self, rule: Rule) -> None:
        assert alarms(rule, [say("```\nsome code\n```\n" + chunk() * 10)]) == [1]

    def test_several_code_blocks_are_not_a_chant(self, rule: Rule) -> None:
        assert alarms(rule, [say("```\none\n```\nsome text\n```\ntwo\n```")]) == []

    @pytest.mark.parametrize(
        "element",
        [
            *("| a | b |", "|---|---|", "|++|++|", "+---+---+", "* item", "+ item", "1. item"),
            *("42. item", "# head", "## head", "### head", "###### head", "> quoted", "```\n```"),
        ],
    )
    def test_another_element_starts_afresh(self, rule: Rule, element: str) -> None:
        assert alarms(rule, [say(f"{chunk() * 9}\n{element}\n{chunk() * 9}")]) == []

    @pytest.mark.parametrize("ruler", ["-" * 50, "╭─" * 25], ids=["dashes", "boxes"])
    def test_rulers_are_not_a_chant(self, rule: Rule, ruler: str) -> None:
        if ruler[0] == "-":  # box corners are within the same range of characters
            assert alarms(rule, [say(f"{ruler}\n" * 15)]) == []
        assert alarms(rule, [say(ruler * 15)]) == []

    def test_a_call_between_starts_afresh(self, rule: Rule) -> None:
        assert alarms(rule, [say(chunk() * 9), call(p=1), say(chunk() * 9)]) == []

    def test_no_text_is_not_a_chant(self, rule: Rule) -> None:
        assert alarms(rule, [say("")]) == []


class TestChantingOfGeminiCli:
    @pytest.mark.parametrize(
        "pattern",
        [
            chunk(length=150),
            "I say no more.\nI just end here.\nI have finished.\nThere is nothing left.\nI wait.\n",
            "All logs are there and the tests were looked at. The task is now complete.\n  ",
            "Wait... Fine. ",
            "I look for the file. It is not there. I make the file. ",
        ],
    )
    def test_longer_and_shorter_patterns_are_chants(self, pattern: str) -> None:
        assert alarms(GEMINI, [say(pattern * 30)]) == [1]

    def test_a_list_with_a_long_prefix_is_not_a_chant(self) -> None:
        prefix = "projects/one-of-our-projects-98765/locations/europe-north1/services/"
        listed = "".join(f"- {prefix}{n}\n" for n in range(15))
        assert alarms(GEMINI, [say(listed)]) == []


class TestQwenCode:
    def test_fifth_identical_call_is_always_a_loop(self) -> None:
        assert first(QWEN, [call(param="value")] * 5) == 5
        assert first(QWEN, [call(param="value")] * 4) is None

    def test_order_of_fields_does_not_matter(self) -> None:
        one, other = call(a=1, b=2), call(b=2, a=1)
        assert first(QWEN, in_turn([one, other], 5)) == 5

    def test_eighth_overview_of_the_repository_is_always_a_loop(self) -> None:
        assert first(QWEN, [shell(each) for each in OVERVIEWS]) == 8
        pairs = zip(OVERVIEWS, OVERVIEWS[1:] + OVERVIEWS[:1], strict=True)
        assert first(QWEN, [shell("\n".join(pair)) for pair in pairs]) == 8

    def test_another_call_interrupts_overviews(self) -> None:
        seven = [shell(each) for each in OVERVIEWS[:7]]
        assert alarms(QWEN, [*seven, call("read_file", path="README.md"), *seven]) == []

    @pytest.mark.parametrize(
        "command",
        [
            "git add {n}.txt && git status --short && git commit -m step-{n}",
            "git status --short && npm test -- --run={n}",
            "npm test -- --run={n}",
            "git diff -- src/{n}.ts",
            "git diff src/{n}.ts",
        ],
    )
    def test_commands_that_do_more_are_not_overviews(self, command: str) -> None:
        assert alarms(QWEN, [shell(command.format(n=n)) for n in range(10)]) == []

    def test_many_calls_are_a_loop_if_one_recurs(self) -> None:
        others = [call(f"t{n % 7}", n=n) for n in range(150)]
        assert alarms(QWEN, others) == []
        assert first(QWEN, [*others, *in_turn([call("same"), call("x", y=1)], 11)]) == 161
        within = in_turn([call("same"), *others[:15]], 101)
        assert first(QWEN, within) == 101

    def test_a_thousand_calls_are_the_end(self) -> None:
        assert first(QWEN, [call(f"t{n % 7}", n=n) for n in range(1001)]) == 1001

    def test_heuristics_are_off_as_it_comes(self) -> None:
        assert alarms(QWEN, in_turn([call("a"), call("b")], 40)) == []
        assert alarms(QWEN, [think("Plan it.")] * 9) == []
        assert alarms(QWEN, [say(chunk() * 20)]) == []

    def test_sixth_call_of_a_kind_is_a_loop_wherever_it_comes(self) -> None:
        others = [call("other", n=n) for n in range(5)]
        turns = [each for other in others for each in (call("stuck", p="same"), other)]
        assert alarms(ALL, turns) == []
        assert first(ALL, [*turns, call("stuck", p="same")]) == 11
        assert alarms(ALL, [call("stuck", p=n) for n in range(6)]) == []

    def test_two_calls_in_turn_three_times_are_a_loop(self) -> None:
        a, b, c = call("a", p=1), call("b", p=1), call("c", p=1)
        assert first(ALL, [a, b] * 3) == 6
        assert first(ALL, [a, b, a, b, c, a, b, a, b, a, b]) == 11
        assert alarms(ALL, [call(name, p=n) for n in range(5) for name in "ab"]) == []

    def test_reading_after_something_else_is_a_loop_the_eighth_time(self) -> None:
        reading = [call("read_file", path=f"{n}") for n in range(8)]
        assert first(ALL, [call("write_file", path="a"), *reading]) == 9
        names = ["read_many_files", "list_directory", "read_resource", "zoom_image"] * 2
        mixed = [call(name, path=n) for n, name in enumerate(names)]
        assert first(ALL, [call("write_file", path="a"), *mixed]) == 9

    def test_a_prompt_may_begin_with_reading(self) -> None:
        names = ("read_file", "list_directory")
        opening = [call(names[n % 2], path=f"{n}") for n in range(20)]
        assert alarms(ALL, opening) == []
        assert first(ALL, [*opening[:7], call("write_file", path="a"), *opening[7:]]) == 9

    def test_names_that_only_contain_such_words_do_not_read(self) -> None:
        names = ["review", "concat_chunks", "viewport_set", "listener_bind"]
        turns = [call("write_file"), *(call(names[n % 4], i=n) for n in range(12))]
        assert alarms(ALL, turns) == []

    def test_eighth_call_of_one_tool_in_a_row_is_a_loop(self) -> None:
        searches = [call("search_code", query=f"{n}") for n in range(8)]
        assert first(ALL, searches) == 8
        assert alarms(ALL, [*searches[:5], call("write_file"), *searches[3:]]) == []

    def test_a_thought_three_times_in_a_row_is_a_loop(self) -> None:
        assert first(ALL, [think("Inspect the script.")] * 3) == 3
        again = ["Inspect the schema.", "Look at risks.", "Inspect the schema."] * 2
        assert alarms(ALL, [think(each) for each in again]) == []
        between = [
            think("Inspect."),
            call("a", n=1),
            think("Inspect."),
            call("b"),
            think("Inspect."),
        ]
        assert alarms(ALL, between) == []


OVERVIEWS = [
    "git status --short",
    "git status --short && git diff --stat",
    "git diff --name-only HEAD",
    "git status --porcelain=v1",
    "git diff --stat HEAD",
    "git -C . status --short",
    "git --no-pager diff --stat",
    "git ls-files --modified",
]


def shell(command: str) -> Turn:
    return call("run_shell_command", command=command, description="look")


class TestOpenClaw:
    def test_ten_calls_are_warned_about_before_the_next(self) -> None:
        assert first(OPENCLAW, [call("read", path="/same.txt")] * 11) == 11
        assert first(OPENCLAW, [call("read", path=f"/{n}.txt") for n in range(16)]) is None

    def test_a_generic_call_is_warned_about_whatever_it_returns(self) -> None:
        assert (
            first(OPENCLAW, [call("exec", command="date", result=f"{n}") for n in range(30)]) == 11
        )

    def test_polling_is_warned_about_without_progress_only(self) -> None:
        still = [call("process", action="poll", session="s", result="running")] * 11
        moves = [call("process", action="poll", session="s", result=f"{n}") for n in range(25)]
        assert first(OPENCLAW, still) == 11
        assert alarms(OPENCLAW, moves) == []

    def test_two_in_turn_are_warned_about_at_the_tenth(self) -> None:
        pair = [call("read", path="/a.txt"), call("list", dir="/workspace")]
        assert first(OPENCLAW, in_turn(pair, 10)) == 10

    def test_alternation_that_is_broken_is_not_a_loop(self) -> None:
        read, listed, write = call("read", path="a"), call("list", dir="w"), call("write", path="o")
        assert alarms(OPENCLAW, [read, listed, read, write, listed]) == []

    def test_a_missing_tool_is_blocked_after_ten_calls(self) -> None:
        missing = [
            call("exec", command=f"{n}", result="Tool exec not found", failed=True)
            for n in range(20)
        ]
        assert first(OPENCLAW, missing) == 11
        assert alarms(OPENCLAW, missing[:10]) == []

    def test_other_runs_do_not_count(self) -> None:
        same = call("read", path="/same.txt")
        assert alarms(OPENCLAW, [*[same] * 10, ask(), same]) == []

    @pytest.mark.parametrize(
        ("paths", "found"),
        [
            ("abaab" * 6, True),
            ("abababab1bababababa2bababababa", True),
            ("".join(chr(97 + n) for n in range(30)), False),
            ("abcdefghijklmno" * 2, False),
        ],
        ids=["a few", "a few and probes", "a batch", "a batch twice"],
    )
    def test_a_few_arguments_without_news_are_blocked(self, paths: str, found: bool) -> None:
        turns = [call("write", path=path, result=f"wrote {path}") for path in paths]
        last = alarms(OPENCLAW, [*turns, call("write", path="next")])
        assert (31 in last) is found

    def test_arguments_that_bring_news_are_not_blocked(self) -> None:
        turns = [call("write", path="ab"[n % 2], result=f"revision {n}") for n in range(30)]
        assert 31 not in alarms(OPENCLAW, [*turns, call("write", path="c")])


class TestOpenCode:
    def test_third_identical_call_asks_the_user(self) -> None:
        assert first(OpenCode(), [call("grep", pattern="a")] * 3) == 3
        assert first(OpenCode(), [call("grep", pattern="a")] * 2) is None

    def test_other_input_is_another_call(self) -> None:
        a, b = call("grep", pattern="a"), call("grep", pattern="b")
        assert alarms(OpenCode(), [a, a, b, a, a]) == []


class TestBrowserUse:
    @pytest.mark.parametrize(
        ("name", "one", "other", "same"),
        [
            ("search", {"query": "site:a.com b c"}, {"query": "c b site:a.com"}, True),
            ("search", {"query": "Python Tutorial"}, {"query": "python tutorial"}, True),
            ("search", {"query": 'site:a.com "b" c'}, {"query": "site:a.com b, c"}, True),
            ("search", {"query": "python python x"}, {"query": "python x"}, True),
            ("search", {"query": "python scraping"}, {"query": "javascript tests"}, False),
            ("click", {"index": 5}, {"index": 5}, True),
            ("click", {"index": 5}, {"index": 12}, False),
            ("input", {"index": 3, "text": "a", "clear": 1}, {"index": 3, "text": "a"}, True),
            ("input", {"index": 3, "text": "hello"}, {"index": 3, "text": "goodbye"}, False),
            ("navigate", {"url": "https://a.com/1"}, {"url": "https://a.com/1"}, True),
            ("navigate", {"url": "https://a.com/1"}, {"url": "https://a.com/2"}, False),
            ("navigate", {"url": "https://a.com/1"}, {"url": "https://b.com/1"}, False),
            ("scroll", {"down": True}, {"down": False}, False),
            ("scroll", {"down": True, "index": 5}, {"down": True, "index": 10}, False),
            ("scroll", {"down": True, "index": 5}, {"down": True, "index": 5}, True),
        ],
    )
    def test_what_hardly_matters_is_left_out(
        self, name: str, one: dict[str, Any], other: dict[str, Any], same: bool
    ) -> None:
        made = [Event("call", 1, name=name, arguments=each) for each in (one, other)]
        assert (describe_action(made[0]) == describe_action(made[1])) is same

    def test_fifth_time_is_nudged(self) -> None:
        words = ["a b c d", "d c b a", "b a d c", "c a b d", "d a c b"]
        assert first(BROWSER, [search(each) for each in words]) == 5
        assert first(BROWSER, [search("a b")] * 4) is None

    def test_different_actions_are_not_nudged(self) -> None:
        turns = [call("click", index=1), call("scroll", down=True), call("click", index=2)]
        more = [search("something"), call("navigate", url="https://a.com")]
        assert alarms(BROWSER, [*turns, *more]) == []

    def test_old_actions_leave_the_window(self) -> None:
        clicks = [call("click", index=100 + n, result=f"{n}") for n in range(10)]
        found = alarms(BrowserUse(window=10), [*[call("click", index=7)] * 5, *clicks])
        assert found == [5, 6, 7, 8, 9, 10][: len(found)]
        assert 15 not in found

    def test_waiting_and_going_back_are_exempt(self) -> None:
        assert alarms(BROWSER, [call("wait"), call("go_back")] * 10) == []

    def test_sixth_page_that_is_the_same_is_nudged(self) -> None:
        clicks = [call("click", index=n, result="the same page") for n in range(6)]
        assert first(BROWSER, clicks) == 6
        assert alarms(BROWSER, clicks[:5]) == []
        changed = [*clicks[:3], call("click", index=9, result="another"), *clicks[3:]]
        assert alarms(BROWSER, changed) == []


def search(words: str) -> Turn:
    return call("search", query=words, result=words)


LONG = (
    "We have to look up how warm it is in Lisbon with the tool for searching. The person wants"
    " temperatures of today in Lisbon Portugal, so the query names Lisbon, temperatures and today."
    " After the results arrive we write them down in plain words for the person who wants them."
)


class TestDeepEval:
    def test_clean_trace_scores_one(self) -> None:
        assert DEEPEVAL.score(1.0, 1.0) == 1.0
        assert (
            alarms(ANY, [search("a"), call("forecast", city="a"), call("summarize", text="b")])
            == []
        )

    def test_third_identical_call_lowers_the_score(self) -> None:
        assert first(ANY, [search("weather")] * 4) == 3

    def test_six_identical_calls_alone_pass_at_the_default_threshold(self) -> None:
        assert DEEPEVAL.score(0.0, 1.0) == 0.6
        assert alarms(DEEPEVAL, [search("weather")] * 8) == []

    def test_identical_calls_and_identical_answers_fail(self) -> None:
        assert round(DEEPEVAL.score(0.0, 0.0), 2) == 0.25
        assert first(DEEPEVAL, [*[search("a")] * 6, say(LONG), say(LONG)]) == 8

    def test_identical_answers_stagnate(self) -> None:
        assert alarms(ANY, [say(LONG)] * 3) == [2, 3]

    def test_reordered_answers_are_alike(self) -> None:
        other = LONG.replace("We have to look up", "Let us find out").replace(
            "in plain words for the person", "for the person in plain words"
        )
        assert similarity(count_words(LONG), count_words(other)) > 0.75

    def test_short_answers_are_not_compared(self) -> None:
        assert alarms(ANY, [say("The same few words.")] * 5) == []

    def test_other_arguments_are_another_call(self) -> None:
        assert alarms(ANY, [search("foo"), call("other", x="bar"), search("baz")]) == []


class TestOpenLit:
    def test_third_identical_call_is_a_loop(self) -> None:
        assert first(OpenLit(), [search("orders")] * 3) == 3
        assert first(OpenLit(), [search("orders")] * 2) is None

    def test_calls_without_arguments_do_not_count(self) -> None:
        for given in ("", "  ", None):
            bare = Turn("", "assistant", spoken=False, calls=(Call("Bash", given),))
            assert alarms(OpenLit(), [bare] * 3) == []

    def test_other_arguments_are_another_group(self) -> None:
        assert alarms(OpenLit(), [search("a"), search("a"), search("b")]) == []

    def test_white_space_does_not_matter(self) -> None:
        texts = ["a   b", "a b", " a\n b "]
        turns = [Turn("", "assistant", spoken=False, calls=(Call("run", t),)) for t in texts]
        assert first(OpenLit(), turns) == 3

    def test_a_conversation_is_one_group_over_its_prompts(self) -> None:
        assert first(OpenLit(), [search("a"), ask(), search("a"), ask(), search("a")]) == 5
