"""The inputs that `detect` accepts, and the errors for all others."""

import subprocess
import sys
from collections import UserDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chimeralab import Call, Guard, InputError, Results, Trajectory, Turn, detect, detect_all

AGAIN = "Let me check that again."
QUESTIONS = ["And now?", "What of the second file?", "Is the build green?", "Who wrote this?",
             "When was that?", "May I go home?"]  # fmt: skip
CHAT = [
    message
    for question in QUESTIONS
    for message in (
        {"role": "user", "content": question},
        {"role": "assistant", "content": AGAIN},
    )
]
OPENAI_TOOLS = [
    message
    for n in range(4)
    for message in (
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": f"c{n}", "type": "function",
                 "function": {"name": "bash", "arguments": '{"cmd": "make"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": f"c{n}", "content": "make: *** no rule"},
    )
]  # fmt: skip
ANTHROPIC_TOOLS = [
    message
    for n in range(4)
    for message in (
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": f"c{n}", "name": "bash", "input": {"cmd": "make"}}
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": f"c{n}", "content": "make: *** no rule"}
            ],
        },
    )
]
TURNS = [Turn(str(m["content"]), str(m["role"]), str(m["role"])) for m in CHAT]


def judge(held: Any) -> Any:
    return detect(held, detector=None)


@pytest.mark.parametrize(
    "held",
    [
        CHAT,
        tuple(CHAT),
        iter(CHAT),
        list(map(UserDict, CHAT)),
        TURNS,
        Trajectory("talk", tuple(TURNS)),
        [{"role": m["role"], "content": [{"type": "text", "text": m["content"]}]} for m in CHAT],
        [{"from": m["role"], "value": m["content"]} for m in CHAT],
        [{"speaker": m["role"], "text": m["content"]} for m in CHAT],
    ],
    ids=["dicts", "tuple", "iterator", "mappings", "turns", "trajectory", "parts", "sharegpt",
         "speakers"],
)  # fmt: skip
def test_chat_gets_the_same_verdict_in_every_container(held: Any) -> None:
    found = judge(held)
    assert found.judged == "assistant turns (chat)"
    assert (found.looping, found.turns, found.loops[0].kind) == (True, 6, "alternating")


@pytest.mark.parametrize(
    "held",
    [[AGAIN] * 6, (AGAIN,) * 6, (AGAIN for _ in range(6)), np.array([AGAIN] * 6)],
    ids=["list", "tuple", "generator", "array"],
)  # fmt: skip
def test_texts_are_judged_from_lists_and_arrays(held: Any) -> None:
    assert (judge(held).looping, judge([AGAIN] * 6).loops[0].began) == (True, 1)


@pytest.mark.parametrize("messages", [OPENAI_TOOLS, ANTHROPIC_TOOLS], ids=["openai", "anthropic"])
def test_tool_calls_and_their_results_are_judged(messages: list[dict[str, Any]]) -> None:
    (loop,) = [loop for loop in judge(messages).loops if loop.level == "verdict"]
    assert (loop.kind, loop.stream, loop.excerpt[:6]) == ("tool", "calls", "bash {")


def test_turns_with_calls_are_judged_by_them() -> None:
    call = Call("bash", {"cmd": "make"}, "no rule", error=True)
    assert judge([Turn("", "assistant", spoken=False, calls=(call,))] * 4).loops[0].kind == "tool"


def test_sdk_messages_and_dicts_can_be_mixed() -> None:
    chat = pytest.importorskip("openai.types.chat", reason="the SDK comes with [lab]")
    answer = chat.ChatCompletionMessage(role="assistant", content=AGAIN)
    found = judge([{"role": "user", "content": "And now?"}, answer] * 6)
    assert (found.judged, found.looping) == ("assistant turns (chat)", True)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"a": 1}, "a dict is not a conversation; detect takes a list of texts"),
        ({"messages": CHAT}, "a dict is not a conversation; pass its 'messages'"),
        ("Hello", "a str is not a conversation; pass a list of texts, or read a log with"),
        (b"Hello", "a bytes is not a conversation"),
        (Path("logs"), "read a log with detect_file"),
        (None, "None is not a conversation"),
        (5, "an int is not a conversation"),
        ({"Hello"}, "a set is not a conversation"),
        ([CHAT, CHAT], "item 0 of the list is a list; use detect_all for several"),
        ([{"messages": CHAT}, {"messages": CHAT}], "several conversations; use detect_all"),
        (["Hello", None], "item 1 of the list is None, not a text"),
        ([{"role": "user", "content": "Hi"}, "Ho"], "item 0 of the list is a dict, not a text"),
        ([1, 2], "item 0 of the list is an int, not a string, a Turn or a message"),
        ([{"role": "user"}, {"content": "Hi"}], "these messages can't be read: messages[1].role"),
        ([{"role": "user", "content": 5}], "messages[0].content is a number, not text"),
        ([{"colour": "red"}], "item 0 is not a message in a known format"),
        ([Turn(5)], "the text of a Turn is int, not str"),  # type: ignore[arg-type]
    ],
)
def test_anything_else_is_rejected_in_one_sentence(held: Any, said: str) -> None:
    with pytest.raises(InputError) as refused:
        judge(held)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_open_file_is_not_judged_by_its_lines(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("{}\n")
    with (tmp_path / "log.jsonl").open() as file, pytest.raises(InputError, match="detect_file"):
        judge(file)


def test_several_conversations_of_any_kind_are_judged_one_after_another() -> None:
    found = Results(detect_all([CHAT, [AGAIN] * 6, TURNS], detector=None))
    assert [(each.id, each.looping) for each in found] == [
        ("conversation-1", True), ("conversation-2", True), ("conversation-3", True),
    ]  # fmt: skip
    with pytest.raises(InputError, match="detect_all takes several conversations, not a str"):
        next(detect_all("Hello"))


def test_without_pandas_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "import importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'pandas' else real(name, *a)\n"
        "import chimeralab\n"
        "try:\n    chimeralab.detect(['a'], detector=None).to_pandas()\n"
        "except chimeralab.InputError as error:\n    print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "chimera-lab[pandas]"' in ran.stdout


def test_package_never_imports_a_dataframe_library() -> None:
    code = (
        "import sys, chimeralab; chimeralab.detect(['a'] * 6, detector=None)\n"
        "print({'pandas', 'polars', 'pyarrow'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def test_guard_takes_the_message_objects_of_an_sdk_and_checks_turns_first() -> None:
    chat = pytest.importorskip("openai.types.chat", reason="the SDK comes with [lab]")
    guard = Guard(vectors=False)
    for _ in range(4):
        seen = guard.update(chat.ChatCompletionMessage(role="assistant", content=AGAIN))
    assert seen.loop is not None
    before = guard.state()
    for wrong in (Turn(5), Turn("a", calls=("b",)), {"role": "user", "content": 5}, None, 5):  # type: ignore[arg-type]
        with pytest.raises(InputError):
            guard.update(wrong)  # type: ignore[arg-type]
    assert guard.state() == before
