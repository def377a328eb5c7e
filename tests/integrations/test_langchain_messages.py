"""LangChain's own message objects are judged, as a list and one by one."""

import pytest

pytest.importorskip("langchain_core", reason="`make test-integrations` brings it")

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from chimeralab import Guard, detect

pytestmark = pytest.mark.integrations


def tool_loop() -> list[object]:
    messages: list[object] = [SystemMessage("Be brief."), HumanMessage("Build it.")]
    for n in range(4):
        call = {"name": "bash", "args": {"cmd": "make"}, "id": f"c{n}"}
        messages += [
            AIMessage("", tool_calls=[call]),
            ToolMessage("make: *** no rule", tool_call_id=f"c{n}", status="error"),
        ]
    return messages


def test_tool_calls_of_langchain_messages_are_judged_with_their_results() -> None:
    found = detect(tool_loop(), detector=None)
    (loop,) = [loop for loop in found.loops if loop.level == "verdict"]
    assert (loop.kind, loop.began, loop.noticed) == ("tool", 3, 7)


def test_every_kind_of_message_is_read() -> None:
    talk = [
        HumanMessage("And now?"),
        AIMessageChunk(content="Let me check that again."),
        ChatMessage("And then?", role="user"),
        AIMessage([{"type": "text", "text": "Let me check that again."}]),
    ]
    found = detect(talk * 3, detector=None)
    assert (found.judged, found.turns, found.looping) == ("assistant turns (chat)", 6, True)


def test_a_guard_takes_them_one_by_one() -> None:
    guard = Guard(vectors=False)
    levels = [seen.loop.level for seen in map(guard.update, tool_loop()) if seen.loop]
    assert levels[:2] == ["notice", "notice"]
    assert levels[-1] == "nudge"
