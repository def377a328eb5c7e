"""Sessions of Codex and Gemini CLI, chats of Copilot."""

import json
from typing import Any

import pytest

from chimeralab import readers
from chimeralab.core.errors import LogError
from chimeralab.core.records import Call


def codex(kind: str, **payload: Any) -> Any:
    return {"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": payload}


RUN = codex("response_item", type="function_call", name="run", arguments="{}", call_id="1")


@pytest.mark.parametrize(
    ("output", "result", "failed"),
    [
        ("Chunk ID: 46326d\nWall time: 0.5455 seconds\nProcess exited with code 0\n"
         "Original token count: 3\nOutput:\n1 failed\n", "1 failed\n", None),
        ("Exit code: 1\nWall time: 2 seconds\nOutput:\nno such file", "no such file", True),
        ('{"output": "a.txt", "metadata": {"exit_code": 0, "seconds": 0.1}}', "a.txt", None),
        ('{"output": "gone", "metadata": {"exit_code": 2}}', "gone", True),
        ("Output:\nof the command itself", "Output:\nof the command itself", None),
        ('{"output": "of the command itself"}', '{"output": "of the command itself"}', None),
    ],
)  # fmt: skip
def test_codex_header_is_not_part_of_the_result(talk, output, result, failed):
    """Times and process ids differ between calls, but equal results must compare as equal."""
    back = codex("response_item", type="function_call_output", call_id="1", output=output)
    assert talk(RUN, back).turns[0].calls == (Call("run", "{}", result, failed),)


def test_unknown_codex_lines_are_ignored(talk):
    read = talk(
        codex("session_meta", id="s"),
        codex("world_state", full=True),
        codex("a_line_of_tomorrow", anything=[1]),
        codex("response_item", type="message", role="assistant", content="Hi."),
        codex("response_item", type="an_item_of_tomorrow", content=5),
    )
    assert (read.id, [turn.text for turn in read.turns]) == ("s", ["Hi."])


HEAD = {"sessionId": "s", "projectHash": "p", "startTime": "t", "kind": "main"}


def said(name: str, kind: str, content: Any, **more: Any) -> Any:
    return {"id": name, "timestamp": "t", "type": kind, "content": content} | more


def heard(read: Any) -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for turn in read.turns]


def test_message_that_gemini_cli_rewrites_is_read_once(talk):
    call = {"name": "ls", "args": {}, "resultDisplay": "a.txt", "status": "success"}
    read = talk(
        HEAD,
        said("1", "user", [{"text": "List."}]),
        said("2", "gemini", ""),
        {"$set": {"lastUpdated": "t"}},
        said("2", "gemini", "", toolCalls=[call]),
        said("3", "info", "Update available"),
        said("4", "gemini", "One file."),
    )
    assert read.id == "s"
    assert heard(read) == [("user", "List."), ("assistant", ""), ("assistant", "One file.")]
    assert read.turns[1].calls == (Call("ls", {}, "a.txt"),)


def test_rewound_gemini_cli_messages_are_dropped(talk):
    lines = [said("1", "user", "Hi."), said("2", "gemini", "Hello."), said("3", "user", "No.")]
    assert heard(talk(HEAD, *lines, {"$rewindTo": "2"})) == [("user", "Hi.")]
    read = talk(HEAD, *lines, {"$rewindTo": "unknown"}, said("4", "user", "Again."))
    assert heard(read) == [("user", "Again.")]


def test_set_replaces_the_messages(talk):
    aside = said("0", "user", [{"text": "<session_context>\nToday is Monday."}])
    listed = {"$set": {"messages": [aside, said("1", "user", "Hi.")]}}
    read = talk(HEAD, said("9", "user", "Old."), listed, said("2", "gemini", "Hello."))
    assert [turn.spoken for turn in read.turns] == [False, True, True]
    assert heard(read)[1:] == [("user", "Hi."), ("assistant", "Hello.")]


def test_calls_of_a_resumed_session_are_joined_to_results(talk):
    call = {"functionCall": {"id": "c", "name": "ls", "args": {"dir": "."}}}
    told = "<untrusted_context>\nOutput: a.txt\nProcess Group PGID: 4711\n</untrusted_context>"
    back = {"functionResponse": {"id": "c", "name": "ls", "response": {"output": told}}}
    pair = [said("2", "gemini", [call]), said("2", "user", [back])]
    read = talk(HEAD, {"$set": {"messages": [said("1", "user", "List."), *pair]}})
    assert read.turns[1].calls == (Call("ls", {"dir": "."}, "a.txt"),)
    assert not read.turns[2].spoken


def test_a_damaged_line_of_a_session_names_its_place(reason):
    told = reason(HEAD, said("1", "user", "Hi."), said("2", "gemini", [{"text": 5}]))
    assert told == "the message.content.parts[0].text is a number, not text"


def test_change_of_what_a_chat_never_had_is_named(tmp_path):
    """A journal of VS Code whose head is missing."""
    log = tmp_path / "chat.jsonl"
    asked = {"message": {"text": "Hi."}, "response": [{"value": "Hello."}]}
    first = {"kind": 0, "v": {"sessionId": "s-1", "requests": [asked]}}
    lost = {"kind": 1, "k": ["requests", 4, "response"], "v": []}
    log.write_text(f"{json.dumps(first)}\n{json.dumps(lost)}\n", encoding="utf-8")
    bad: list[LogError] = []
    (talk,) = readers.read(log, on_bad=bad.append)
    assert [turn.text for turn in talk.turns] == ["Hi.", "Hello."]
    assert [error.line for error in bad] == [2]


def test_question_of_cline_that_was_cut_off_is_not_a_message(write):
    asked = {"ts": 1, "type": "say", "say": "text", "text": "Hi."}
    ask = {"ts": 2, "type": "ask", "ask": "followup"}
    texts = ('{"question":"","options":[]}', '{"question":"Which one?","options":[]}', "Why?")
    log = json.dumps([asked, *(ask | {"text": text} for text in texts)]).encode()
    (talk,) = readers.read(write(log))
    assert [turn.text for turn in talk.turns] == ["Hi.", "Which one?", "Why?"]
