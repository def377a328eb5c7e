"""Claude Code sessions: order by parents, messages over several lines, side chains apart."""

import json
from typing import Any

import pytest

from chimeralab import readers
from chimeralab.detection.seam import choose_turns
from chimeralab.readers.sessions import threads


def line(kind: str, uuid: str, parent: str | None, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content} | more.pop("message", {})
    entry = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s-1"}
    return entry | {"message": message} | more


def user(uuid: str, parent: str | None, content: Any = "", **more: Any) -> dict[str, Any]:
    return line("user", uuid, parent, content or f"user {uuid}", **more)


def reply(uuid: str, parent: str | None, content: Any = "", **more: Any) -> dict[str, Any]:
    return line("assistant", uuid, parent, content or f"reply {uuid}", **more)


def texts(trajectory) -> list[str]:
    return [turn.text for turn in trajectory.turns]


CALL = [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]
RESULT = [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]
NOTES = [
    {"type": "summary", "summary": "A talk", "leafUuid": "x"},
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
    {"type": "queue-operation", "operation": "enqueue", "sessionId": "s-1"},
]


def test_a_session_is_one_conversation(talk):
    read = talk(*NOTES, user("1", None), reply("2", "1", message={"model": "m"}), user("3", "2"))
    assert texts(read) == ["user 1", "reply 2", "user 3"]
    assert read.id == "s-1"
    assert read.metadata == {"session": "s-1", "model": "m", "side_chain": False}
    assert choose_turns(read)[0] == (2,)


def test_turns_follow_their_parents_not_the_file(talk):
    read = talk(reply("4", "3"), user("3", "2"), user("1", None), reply("2", "1"))
    assert texts(read) == ["user 1", "reply 2", "user 3", "reply 4"]


def test_lines_of_one_message_are_one_turn(talk):
    message = {"id": "msg", "model": "m"}
    read = talk(
        user("1", None),
        reply("2", "1", [{"type": "thinking", "thinking": "hm"}], message=message),
        reply("3", "2", [{"type": "text", "text": "Let me look."}], message=message),
        reply("4", "3", CALL, message=message),
        user("5", "4", RESULT),
        reply("6", "5", "Done."),
    )
    assert texts(read) == ["user 1", "Let me look.", "ok", "Done."]
    assert [turn.spoken for turn in read.turns] == [True, True, False, True]


def test_text_on_an_off_branch_line_of_a_message_is_kept(talk):
    message = {"id": "msg"}
    read = talk(
        user("1", None),
        reply("2", "1", CALL, message=message),
        reply("3", "2", [{"type": "text", "text": "And this."}], message=message),
        user("4", "2", RESULT),
        reply("5", "4", "Done."),
    )
    assert texts(read) == ["user 1", "And this.", "ok", "Done."]


def test_a_message_that_only_calls_tools_is_not_spoken(talk):
    read = talk(user("1", None), reply("2", "1", CALL), user("3", "2", RESULT))
    assert [turn.spoken for turn in read.turns] == [True, False, False]


def test_the_latest_branch_counts(talk):
    read = talk(
        user("1", None),
        reply("2", "1"),
        user("3", "2"),
        reply("4", "3"),
        user("5", "4"),
        user("3b", "2"),
        reply("4b", "3b"),
    )
    assert texts(read) == ["user 1", "reply 2", "user 3b", "reply 4b"]


def test_latest_branch_is_chosen_by_time(talk):
    read = talk(
        user("2b", "1", timestamp="2026-01-01T00:00:09Z"),
        user("1", None, timestamp="2026-01-01T00:00:00Z"),
        user("2", "1", timestamp="2026-01-01T00:00:05Z"),
    )
    assert texts(read) == ["user 1", "user 2b"]


def test_system_lines_link_but_have_no_content(talk):
    system = {"type": "system", "uuid": "2", "parentUuid": "1", "sessionId": "s-1", "content": "x"}
    assert texts(talk(user("1", None), system, reply("3", "2"))) == ["user 1", "reply 3"]


def test_compacted_session_continues_after_the_boundary(talk):
    boundary = {"type": "system", "uuid": "3", "parentUuid": None, "logicalParentUuid": "2"}
    summary = user("4", "3", "So far: …", isCompactSummary=True)
    lines = [user("1", None), reply("2", "1"), boundary | {"sessionId": "s-1"}, summary]
    read = talk(*lines, reply("5", "4"))
    assert texts(read) == ["user 1", "reply 2", "So far: …", "reply 5"]
    assert [turn.spoken for turn in read.turns] == [True, True, False, True]


def test_missing_parent_does_not_split_the_conversation(talk):
    assert len(talk(user("1", None), reply("2", "1"), reply("4", "3")).turns) == 3


def test_lines_without_links_follow_the_file(talk):
    bare = [{k: v for k, v in user(n, None).items() if k != "parentUuid"} for n in "12"]
    assert texts(talk(*bare)) == ["user 1", "user 2"]


def test_side_chains_are_separate_conversations(write):
    log = write(
        user("1", None),
        reply("2", "1", CALL),
        user("a1", None, "task a", isSidechain=True),
        reply("a2", "a1", "done a", isSidechain=True),
        user("b1", None, "task b", isSidechain=True),
        reply("b2", "b1", "done b", isSidechain=True),
        user("c1", None, "task c", isSidechain=True, agentId="c0ffee"),
        reply("3", "2", "All done."),
    )
    found = {one.id: texts(one) for one in readers.read(log)}
    assert found == {
        "s-1": ["user 1", "", "All done."],
        "s-1#side": ["task a", "done a"],
        "s-1#side-2": ["task b", "done b"],
        "s-1#c0ffee": ["task c"],
    }


def test_file_may_have_several_sessions(write):
    log = write(user("1", None), user("2", None, sessionId="s-2"))
    assert [one.id for one in readers.read(log)] == ["s-1", "s-2"]


def test_a_second_beginning_is_a_second_conversation(write):
    log = write(user("1", None), reply("2", "1"), user("3", None), reply("4", "3"))
    assert [one.id for one in readers.read(log)] == ["s-1", "s-1#2"]


def test_repeated_lines_count_once(talk):
    assert len(talk(user("1", None), reply("2", "1"), user("1", None), reply("2", "1")).turns) == 2


@pytest.mark.parametrize(
    "aside",
    [
        reply("2", "1", "API Error: 500", isApiErrorMessage=True),
        reply("2", "1", "No response requested.", message={"model": "<synthetic>"}),
        user("2", "1", "<command-name>/clear</command-name>", isMeta=True),
    ],
)
def test_program_text_in_someones_name_is_not_spoken(talk, aside):
    assert [turn.spoken for turn in talk(user("1", None), aside).turns] == [True, False]


def test_cyclic_parents_terminate(talk):
    assert len(talk(user("1", "2"), reply("2", "1")).turns) == 2


def test_file_of_notes_has_no_conversations(reason):
    assert reason(*NOTES) == "has no conversations"


def test_a_list_of_lines_in_one_json_is_a_session(write):
    log = write(json.dumps([user("1", None), reply("2", "1")], indent=1).encode())
    (read,) = readers.read(log)
    assert texts(read) == ["user 1", "reply 2"]


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ({"message": "Hi."}, "message is text, not an object"),
        ({"message": {"content": 5}}, "message.content is a number, not text"),
        ({"parentUuid": 5}, "parentUuid is a number, not text"),
        ({"sessionId": []}, "sessionId is a list, not text"),
    ],
)
def test_a_wrong_type_names_its_place(reason, bad, expected):
    assert reason(user("1", None) | bad) == expected


def test_threads_end_at_the_latest_message_below_each_root():
    assert threads([None, 0, 1, 0, None, 4], ["a", "b", "c", "d", "e", None]) == [[0, 3], [4]]


def use(name: str) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": name, "name": "Read", "input": {"path": name}}]


def result(name: str) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": name, "content": f"text of {name}"}]


PARALLEL = {
    # Each result follows its call, and the next call of the message follows that result.
    "in a row": [("a", "1"), ("ra", "a"), ("b", "ra"), ("rb", "b"), ("c", "rb"), ("rc", "c")],
    # All calls first; each result follows its own call, so only one is on the latest branch.
    "side by side": [("a", "1"), ("b", "a"), ("c", "b"), ("ra", "a"), ("rb", "b"), ("rc", "c")],
}


@pytest.mark.parametrize("shape", PARALLEL)
def test_every_parallel_call_keeps_its_result(talk, shape):
    lines = [
        user(uuid, parent, result(uuid[1:]))
        if uuid[0] == "r"
        else reply(uuid, parent, use(uuid), message={"id": "msg"})
        for uuid, parent in PARALLEL[shape]
    ]
    read = talk(user("1", None), *lines, reply("9", lines[-1]["uuid"], "Done."))
    assert [call.result for call in read.turns[1].calls] == ["text of a", "text of b", "text of c"]
    assert texts(read)[-1] == "Done."
    assert len(read.turns) == 6  # the question, the calls, three results, the answer


def test_prompts_typed_while_it_worked_are_turns(talk):
    def queued(uuid: str, parent: str, text: str, mode: str) -> dict[str, Any]:
        attachment = {"type": "queued_command", "prompt": text, "commandMode": mode}
        link = {"uuid": uuid, "parentUuid": parent, "sessionId": "s-1"}
        return {**link, "type": "attachment", "attachment": attachment}

    read = talk(
        user("1", None),
        queued("2", "1", "And the tests.", "prompt"),
        queued("3", "2", "<task-notification>done</task-notification>", "task-notification"),
        reply("4", "3"),
    )
    assert [(turn.text[:14], turn.role, turn.spoken) for turn in read.turns[1:3]] == [
        ("And the tests.", "user", True),
        ("<task-notifica", "user", False),
    ]


def test_other_attachments_are_left_out(talk):
    link = {"uuid": "2", "parentUuid": "1", "sessionId": "s-1"}
    attachment = {"type": "skill_listing", "content": "- simplify"}
    listing = {**link, "type": "attachment", "attachment": attachment}
    assert texts(talk(user("1", None), listing, reply("3", "2"))) == ["user 1", "reply 3"]
