"""Tool calls and their results are shown for every log format."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from chimeralab import Call, Trajectory, Turn, detect, readers
from chimeralab.detection.loops import DetectorPair
from chimeralab.report.conversation import draw_conversation
from chimeralab.report.messages import ShownMessage, format_arguments, list_messages

COMMAND = {"command": "make tests", "lines": ["a", "b"], "code": "if x:\n    y()"}
SHOWN = "command: make tests lines: [&#34;a&#34;, &#34;b&#34;] code: if x: y()"
RESULT = "uniqueword one\nand a second line"
ASK = {"role": "user", "content": "Go."}


def words(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", page.split("</style>")[1]).split())


def openai(error: bool) -> list[dict[str, Any]]:
    function = {"name": "bash", "arguments": json.dumps(COMMAND)}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": function}]}
    back = {"role": "tool", "tool_call_id": "a", "content": RESULT}
    return [{"messages": [ASK, call, back | ({"error": True} if error else {})]}]


def anthropic(error: bool) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": "a", "name": "bash", "input": COMMAND}
    text = [{"type": "text", "text": RESULT}]
    back = {"type": "tool_result", "tool_use_id": "a", "content": text, "is_error": error}
    said = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [back]}]
    return [{"messages": [ASK, *said]}]


def claude_code(error: bool) -> list[dict[str, Any]]:
    return [
        {
            "type": message["role"],
            "uuid": str(number),
            "parentUuid": str(number - 1) if number else None,
            "sessionId": "s",
            "message": message,
        }
        for number, message in enumerate(anthropic(error)[0]["messages"])
    ]


def inspect(error: bool) -> list[dict[str, Any]]:
    call = {"id": "a", "function": "bash", "arguments": COMMAND}
    back: dict[str, Any] = {"role": "tool", "tool_call_id": "a", "content": RESULT}
    if error:  # Inspect keeps the message of an error apart from the content.
        back |= {"content": "", "error": {"type": "timeout", "message": RESULT}}
    said = [{"role": "assistant", "content": "", "tool_calls": [call]}, back]
    sample = {"id": 1, "epoch": 1, "messages": [ASK, *said]}
    return [{"status": "success", "eval": {"task": "t", "model": "m"}, "samples": [sample]}]


def sharegpt(error: bool) -> list[dict[str, Any]]:
    spelled = json.dumps({"name": "bash", "arguments": COMMAND})
    back = f"Error: {RESULT}" if error else RESULT
    said = [("human", "Go."), ("function_call", spelled), ("observation", back)]
    return [{"conversations": [{"from": role, "value": text} for role, text in said]}]


def plain(error: bool) -> list[dict[str, Any]]:
    call = {"name": "bash", "arguments": COMMAND, "result": RESULT, "error": error}
    return [{"turns": [{"speaker": "user", "text": "Go."}, {"speaker": "bot", "calls": [call]}]}]


@pytest.mark.parametrize("error", [False, True])
@pytest.mark.parametrize("written", [openai, anthropic, claude_code, inspect, sharegpt, plain])
def test_every_format_shows_name_arguments_result_and_error(
    written: Any, error: bool, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in written(error)))
    (talk,) = readers.read(log)
    page = draw_conversation(talk, DetectorPair(None))
    shown = words(page)
    assert f"calls bash {SHOWN} {'error' if error else 'result'}" in shown
    assert "uniqueword one\nand a second line</div>" in page
    assert page.count('class="call failed"') == error
    # It stands where the call does, and the message that brought it says so.
    assert page.count("uniqueword") == 1
    assert "no text" not in shown
    if written is not plain:
        assert "3 tool the result shown with the call in message 2" in (
            shown.replace("observation", "tool")
        )


def shown_messages(*turns: Turn) -> list[ShownMessage]:
    items = list_messages(Trajectory("t", turns), detect(["Go."], detector=None))
    return [item for item in items if isinstance(item, ShownMessage)]


def test_a_message_may_bring_the_results_of_several_calls() -> None:
    calls = tuple(Call("look", {"n": n}, result) for n, result in enumerate(["a", "a\nb", "b", ""]))
    asks = Turn("", "assistant", "assistant", spoken=False, calls=calls)
    more = Turn("", "assistant", "assistant", spoken=False, calls=(Call("look", None, "c"),))
    both = Turn("a\nb\na\nb", "tool", "tool", spoken=False)
    assert shown_messages(asks, both)[1].answers == [1]
    across = Turn("c\na", "tool", "tool", spoken=False)
    assert shown_messages(asks, more, across)[2].answers == [2, 1]
    with_news = Turn("a\nb\nnews", "tool", "tool", spoken=False)
    assert shown_messages(asks, with_news)[1].answers == ()


def test_a_result_without_its_call_is_shown_as_a_result() -> None:
    early = Turn("it came too soon", "tool", "tool", spoken=False)
    nothing = Turn("", "tool", "tool", spoken=False)
    page = words(draw_conversation(Trajectory("t", (early, nothing)), DetectorPair(None)))
    assert "result of a tool it came too soon" in page
    assert "result of a tool: empty" in page


@pytest.mark.parametrize(
    "arguments", ["{not json", "[" * 100_000, "", "ls -l", "[1, 2]", "{}", '"text"']
)
def test_arguments_without_names_stay_as_they_are(arguments: str) -> None:
    assert format_arguments(arguments) == arguments


def test_arguments_that_are_not_text_are_json() -> None:
    assert format_arguments([1, "a"]) == '[1, "a"]'
    assert format_arguments({}) == "{}"
    assert format_arguments({"a": {"b": None}}) == 'a: {"b": null}'
