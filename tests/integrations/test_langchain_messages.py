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

from chimeralab import Guard, InputError, detect
from chimeralab.integrations.watch import Watch

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


def test_watch_follows_them_in_a_graph_of_ones_own() -> None:
    from langgraph.graph import END, START, MessagesState, StateGraph

    watch, told = Watch(), list[str | None]()

    def call(state: MessagesState) -> dict[str, list[object]]:
        found = watch.follow(state["messages"])
        told.append(found and found.action)
        name = f"c{len(told)}"
        asked = {"name": "bash", "args": {"cmd": "make"}, "id": name}
        failed = ToolMessage("make: *** no rule", tool_call_id=name, status="error")
        return {"messages": [AIMessage("", tool_calls=[asked]), failed]}

    graph = StateGraph(MessagesState)
    graph.add_node("call", call)
    graph.add_edge(START, "call")
    graph.add_conditional_edges("call", lambda _: END if told[-1] == "stop" else "call")
    graph.compile().invoke({"messages": [HumanMessage("Build it.")]}, {"recursion_limit": 20})
    assert told == [None, None, None, "nudge", None, "stop"]


def test_what_is_not_a_message_raises_in_the_face_of_the_caller() -> None:
    with pytest.raises(InputError, match="item 2 of the list is an object"):
        Watch().follow([*tool_loop()[:2], object()])
