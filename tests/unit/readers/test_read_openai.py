"""OpenAI chat logs in all their shapes, and rows of data sets."""

import json

import pytest

from chimeralab import readers
from chimeralab.detection.seam import choose_turns, list_judged_turns

CALL = [{"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]


def said(role: str, content: object, **more: object) -> dict[str, object]:
    return {"role": role, "content": content, **more}


CHAT = [said("system", "Be kind."), said("user", "Hi."), said("assistant", "Hello!")]


@pytest.mark.parametrize(
    "shape", [{"messages": CHAT}, CHAT, {"traj": CHAT}, {"body": {"messages": CHAT}}]
)
def test_messages_are_found_in_every_known_place(talk, shape):
    turns = talk(shape).turns
    assert [turn.text for turn in turns] == ["Be kind.", "Hi.", "Hello!"]
    assert [turn.role for turn in turns] == ["system", "user", "assistant"]
    assert [turn.spoken for turn in turns] == [False, True, True]


ASKED, SAID = {"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}


@pytest.mark.parametrize(
    "row",
    [
        {"messages": json.dumps([ASKED, SAID]), "tools": "[]"},
        {"conversations": json.dumps([ASKED, SAID])},
        {"trajectory": [{"role": "user", "text": "Hi."}, {"role": "ai", "text": "Hello."}]},
        {"trajectory": [
            {"source": "user", "action": "message", "args": {"content": "Hi."}},
            {"source": "agent", "action": "message", "args": {"content": "Hello."}},
        ]},
        {"instance_id": "i", "history": [
            [{"source": "user", "action": "message", "args": {"content": "Hi."}},
             {"observation": "null", "content": ""}],
            [{"source": "agent", "action": "message", "args": {"content": "Hello."}}],
        ]},
    ],
)  # fmt: skip
def test_rows_of_published_data_sets_are_chats(talk, row):
    told = talk(row)
    assert [turn.text for turn in told.turns] == ["Hi.", "Hello."]
    assert choose_turns(told)[1] == "assistant turns (chat)"


def test_lines_with_a_message_inside_are_a_chat(talk):
    told = talk(*({"role": m["role"], "message": {"content": m["content"]}} for m in (ASKED, SAID)))
    assert [turn.text for turn in told.turns] == ["Hi.", "Hello."]


def test_a_chat_is_judged_by_the_assistant(talk):
    assert choose_turns(talk({"messages": CHAT}))[0] == (3,)


def test_request_and_response_make_one_conversation(talk):
    pair = {
        "custom_id": "q-1",
        "request": {"body": {"model": "m", "messages": CHAT[:2]}},
        "response": {"body": {"model": "m-2024", "choices": [{"message": CHAT[2]}]}},
    }
    read = talk(pair)
    assert [turn.text for turn in read.turns] == ["Be kind.", "Hi.", "Hello!"]
    assert read.id == "q-1"
    assert read.metadata["model"] == "m-2024"


def test_a_response_without_its_body_is_read_too(talk):
    pair = {"request": {"messages": CHAT[:2]}, "response": {"choices": [{"message": CHAT[2]}]}}
    assert len(talk(pair).turns) == 3


def test_a_response_alone_is_one_turn(talk):
    assert [t.text for t in talk({"response": {"choices": [{"message": CHAT[2]}]}}).turns] == [
        "Hello!"
    ]


@pytest.mark.parametrize(
    "call",
    [
        said("assistant", None, tool_calls=CALL),
        said("assistant", "", tool_calls=CALL),
        said("assistant", " \n", tool_calls=CALL),
        said("assistant", None, function_call={"name": "look", "arguments": ""}),
        said("assistant", [{"type": "tool_use", "id": "1", "name": "look", "input": {}}]),
        said("user", [{"type": "tool_result", "tool_use_id": "1", "content": "42"}]),
        said("tool", "42", tool_call_id="1"),
        said("developer", "Be brief."),
    ],
)
def test_tools_and_instructions_are_not_spoken(talk, call):
    assert not talk({"messages": [call]}).turns[0].spoken


def test_text_with_a_tool_call_is_spoken(talk):
    turn = talk({"messages": [said("assistant", "I'll look.", tool_calls=CALL)]}).turns[0]
    assert (turn.text, turn.spoken) == ("I'll look.", True)


@pytest.mark.parametrize(
    "reply", [said("assistant", None), said("assistant", ""), {"role": "assistant"}]
)
def test_an_empty_reply_without_a_tool_call_is_a_turn(talk, reply):
    turn = talk({"messages": [reply]}).turns[0]
    assert (turn.text, turn.spoken) == ("", True)


def test_empty_tool_calls_call_nothing(talk):
    assert talk({"messages": [said("assistant", None, tool_calls=[])]}).turns[0].spoken


def test_text_parts_are_joined_and_others_are_not_text(talk):
    parts = [
        {"type": "text", "text": "One."},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "thinking", "thinking": "hm"},
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "output_text", "text": "Two."},
        "Three.",
    ]
    assert talk({"messages": [said("assistant", parts)]}).turns[0].text == "One.\nTwo.\nThree."


def test_a_refusal_is_what_the_assistant_says(talk):
    turn = talk({"messages": [said("assistant", None, refusal="I can't.")]}).turns[0]
    assert turn.text == "I can't."


def test_a_name_is_the_speaker_and_the_role_stays(talk):
    turn = talk({"messages": [said("user", "Hi.", name="Ann")]}).turns[0]
    assert (turn.speaker, turn.role) == ("Ann", "user")


def test_single_fields_become_metadata_and_payloads_do_not(talk):
    line = {"messages": CHAT, "model": "m", "reward": 0.5, "tools": [{}], "metadata": {"seed": 3}}
    assert talk(line).metadata == {"model": "m", "reward": 0.5, "seed": 3}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"messages": "Hi."}, "messages is text, not a list"),
        ({"messages": [said("user", 5)]}, "messages[0].content is a number, not text"),
        ({"messages": [{"content": "x"}]}, "messages[0].role is missing"),
        ({"messages": ["Hi."]}, "messages[0] is text, not an object"),
        ({"messages": [said("user", [5])]}, "messages[0].content[0] is a number, not an object"),
        (
            {"messages": [said("user", [{"type": "text", "text": None}])]},
            "messages[0].content[0].text is null, not text",
        ),
        ({"messages": []}, "no turns"),
        ({"request": [1]}, "messages is missing"),
        ({"response": {"choices": {"0": 1}}}, "choices is an object, not a list"),
        ({"response": {"choices": [None]}}, "choices[0] is null, not an object"),
    ],
)
def test_a_wrong_type_names_its_place(reason, line, expected):
    assert reason(line) == expected


def test_tau_bench_sessions_are_chats_with_silent_tools(request):
    log = request.config.rootpath / "../shared/data/tau-bench/gpt-4o-airline.json"
    if not log.exists():
        pytest.skip("the tau-bench data is not next to the project")
    sessions = list(readers.read(log))
    assert len(sessions) == 200
    assert {choose_turns(session)[1] for session in sessions} == {"assistant turns (chat)"}
    assert all(turn.text.strip() for session in sessions for turn in list_judged_turns(session))


def test_parts_may_have_a_value(talk):
    call = {"type": "tool_call", "value": '{"name": "look", "arguments": {"at": "a"}}'}
    thought = {"type": "reasoning", "value": "Hm."}
    asked, answered = ([{"type": "text", "value": text}] for text in ("Hi.", "Found."))
    read = talk({
        "messages": [
            said("user", asked), said("assistant", [thought, call]), said("tool", answered),
        ]
    })  # fmt: skip
    assert [turn.text for turn in read.turns] == ["Hi.", "", "Found."]
    (made,) = read.turns[1].calls
    assert (made.name, made.arguments, made.result) == ("look", {"at": "a"}, "Found.")
    assert read.turns[1].reasoning == "Hm."


def test_messages_whose_text_is_elsewhere_are_refused(reason):
    told = [{"role": role, "output_raw": "Hi."} for role in ("user", "assistant")]
    assert reason({"messages": told}) == "messages[0].content is missing"
