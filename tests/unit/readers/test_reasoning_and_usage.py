"""Reasoning, tokens, cost, times and agents are kept, apart from the texts that are compared."""

import json
from pathlib import Path
from typing import Any

import pytest

from chimeralab import readers
from chimeralab.core.records import Tokens, Trajectory, Turn, load_trajectory
from chimeralab.detection.seam import list_judged_turns
from chimeralab.readers import plain

AT = "2026-01-01T12:00:00Z"


def read_values(folder: Path, *values: Any) -> list[Trajectory]:
    log = folder / "log.jsonl"
    log.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return list(readers.read(log))


def chat(**answer: Any) -> dict[str, Any]:
    asked = {"role": "user", "content": "How many?"}
    return {"messages": [asked, {"role": "assistant", "content": "Four."} | answer]}


THINKING = {"type": "thinking", "thinking": "Two and two.", "signature": "x"}
TEXT = {"type": "text", "text": "Four."}
ITEM = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Two and two."}]}
SAID = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Four."}],
}
ASKED = {"role": "user", "content": "How many?"}


def claude_line(n: int, kind: str, message: Any, **fields: Any) -> dict[str, Any]:
    link = {"type": kind, "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None}
    return link | {"sessionId": "s", "timestamp": AT, "message": message} | fields


def codex_line(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": AT, "type": kind, "payload": payload}


ANTHROPIC_USAGE = {"input_tokens": 2, "cache_read_input_tokens": 40, "output_tokens": 5}
OPENAI_USAGE = {"prompt_tokens": 42, "completion_tokens": 5, "total_tokens": 47}
SPENT = Tokens(42, 5, 47)

WITH_REASONING: dict[str, list[Any]] = {
    "thinking part": [chat(content=[THINKING, TEXT])],
    "reasoning part of Inspect": [
        chat(content=[{"type": "reasoning", "reasoning": "Two and two."}, TEXT])
    ],
    "reasoning_content": [chat(reasoning_content="Two and two.")],
    "reasoning field": [chat(reasoning="Two and two.")],
    "think tags": [chat(content="<think>\nTwo and two.\n</think>\n\nFour.")],
    "thinking tags": [chat(content="<thinking>Two and two.</thinking>Four.")],
    "only the end of think tags": [chat(content="Two and two.\n</think>\nFour.")],
    "responses item": [{"input": [ASKED], "output": [ITEM, SAID]}],
    "codex": [codex_line("response_item", **ITEM), codex_line("response_item", **SAID)],
    "codex exec": [
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.completed", "item": {"type": "reasoning", "text": "Two and two."}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "Four."}},
    ],
    "claude code": [
        claude_line(0, "user", {"role": "user", "content": "How many?"}),
        claude_line(1, "assistant", {"id": "m", "role": "assistant", "content": [THINKING]}),
        claude_line(2, "assistant", {"id": "m", "role": "assistant", "content": [TEXT]}),
    ],
    "gemini": [
        {
            "contents": [{"role": "user", "parts": [{"text": "How many?"}]}],
            "candidates": [{"content": {"parts": [
                {"text": "Two and two.", "thought": True}, {"text": "Four."},
            ]}}],
        }
    ],
    "gemini cli": [
        {"sessionId": "s", "messages": [
            {"id": "1", "timestamp": AT, "type": "user", "content": "How many?"},
            {"id": "2", "timestamp": AT, "type": "gemini", "content": "Four.",
             "thoughts": [{"description": "Two and two."}]},
        ]}
    ],
    "langchain": [
        {"messages": [
            {"type": "human", "content": "How many?"},
            {"type": "ai", "content": "Four.",
             "additional_kwargs": {"reasoning_content": "Two and two."}},
        ]}
    ],
    "autogen": [
        {"messages": [
            {"source": "bot", "type": "ThoughtEvent", "content": "Two and two."},
            {"source": "bot", "type": "TextMessage", "content": "Four."},
        ]}
    ],
    "openhands": [
        {"history": [
            {"source": "agent", "action": "think", "args": {"thought": "Two and two."}},
            {"source": "agent", "action": "message", "args": {"content": "Four."}},
        ]}
    ],
    "atif": [
        {"schema_version": "ATIF-v1.0", "session_id": "s", "steps": [
            {"source": "agent", "message": "Four.", "reasoning_content": "Two and two."}
        ]}
    ],
    "chatgpt": [
        {"current_node": "b", "mapping": {
            "a": {"parent": None, "message": {"author": {"role": "assistant"}, "content":
                  {"content_type": "thoughts", "thoughts": [{"content": "Two and two."}]}}},
            "b": {"parent": "a", "message": {"author": {"role": "assistant"}, "content":
                  {"content_type": "text", "parts": ["Four."]}}},
        }}
    ],
    "plain": [{"turns": [{"speaker": "assistant", "text": "Four.", "reasoning": "Two and two."}]}],
}  # fmt: skip


@pytest.mark.parametrize("kind", WITH_REASONING)
def test_reasoning_is_kept_beside_the_text(tmp_path: Path, kind: str) -> None:
    (talk,) = read_values(tmp_path, *WITH_REASONING[kind])
    last = talk.turns[-1]
    assert (last.text, last.reasoning) == ("Four.", "Two and two.")
    assert [turn.text for turn in list_judged_turns(talk)][-1:] == ["Four."]


def test_reasoning_cut_off_before_the_answer_is_kept(tmp_path: Path) -> None:
    (talk,) = read_values(tmp_path, codex_line("response_item", **SAID | {"role": "user"}),
                          codex_line("response_item", **ITEM))  # fmt: skip
    assert (talk.turns[-1].reasoning, talk.turns[-1].spoken) == ("Two and two.", False)
    (talk,) = read_values(tmp_path, chat(content="<think>Two and two. Two and two."))
    assert (talk.turns[-1].text, talk.turns[-1].reasoning) == ("", "Two and two. Two and two.")


def test_empty_tags_are_not_part_of_the_text(tmp_path: Path) -> None:
    (talk,) = read_values(tmp_path, chat(content="<thinking>\n\n</thinking>\nFour."))
    assert (talk.turns[-1].text, talk.turns[-1].reasoning) == ("Four.", None)


def test_a_user_who_writes_about_think_tags_is_left_alone(tmp_path: Path) -> None:
    text = "<think>Do you use this tag?</think>"
    (talk,) = read_values(tmp_path, {"messages": [{"role": "user", "content": text}]})
    assert (talk.turns[0].text, talk.turns[0].reasoning) == (text, None)


WITH_TOKENS: dict[str, list[Any]] = {
    "usage of a message": [chat(usage=OPENAI_USAGE)],
    "usage of a response": [
        {"request": {"messages": [ASKED]}, "response": {"usage": OPENAI_USAGE, "choices": [
            {"message": {"role": "assistant", "content": "Four."}}]}}
    ],
    "usage of a Responses object": [{"input": [ASKED], "output": [SAID], "usage": ANTHROPIC_USAGE}],
    "codex": [
        codex_line("response_item", **SAID),
        codex_line("event_msg", type="token_count", info={"last_token_usage": OPENAI_USAGE}),
    ],
    "claude code": [
        claude_line(0, "assistant",
                    {"id": "m", "role": "assistant", "content": [TEXT], "usage": ANTHROPIC_USAGE}),
    ],
    "gemini": [
        {"candidates": [{"content": {"parts": [{"text": "Four."}]}}],
         "usageMetadata": {"promptTokenCount": 42, "candidatesTokenCount": 3,
                           "thoughtsTokenCount": 2, "totalTokenCount": 47}}
    ],
    "langchain": [
        {"messages": [{"type": "ai", "content": "Four.", "usage_metadata":
                       {"input_tokens": 42, "output_tokens": 5, "total_tokens": 47}}]}
    ],
    "langsmith": [
        {"run_type": "llm", "id": "r", "inputs": {"messages": [ASKED]},
         "outputs": {"role": "assistant", "content": "Four."}, **OPENAI_USAGE}
    ],
    "opentelemetry": [
        {"traceId": "t", "attributes": [
            {"key": "gen_ai.completion.0.content", "value": {"stringValue": "Four."}},
            {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "42"}},
            {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "5"}},
        ]}
    ],
    "atif": [
        {"schema_version": "ATIF-v1.0", "steps": [
            {"source": "agent", "message": "Four.", "metrics": OPENAI_USAGE}]}
    ],
    "plain": [{"turns": [{"speaker": "assistant", "text": "Four.", "tokens": OPENAI_USAGE}]}],
}  # fmt: skip


@pytest.mark.parametrize("kind", WITH_TOKENS)
def test_tokens_of_an_answer_are_kept(tmp_path: Path, kind: str) -> None:
    (talk,) = read_values(tmp_path, *WITH_TOKENS[kind])
    assert (talk.turns[-1].text, talk.turns[-1].tokens) == ("Four.", SPENT)


TOTALS: dict[str, Any] = {
    "swe-agent": {
        "trajectory": [{"action": "ls", "observation": "a", "thought": "Look."}],
        "info": {"model_stats": {"tokens_sent": 42, "tokens_received": 5, "instance_cost": 0.5}},
    },
    "openhands": {"history": [
        {"source": "agent", "action": "message", "args": {"content": "Four."},
         "llm_metrics": {"accumulated_cost": 0.5, "accumulated_token_usage": OPENAI_USAGE}},
    ]},
    "atif": {"schema_version": "ATIF-v1.0", "steps": [{"source": "agent", "message": "Four."}],
             "final_metrics": {"total_prompt_tokens": 42, "total_completion_tokens": 5,
                               "total_cost_usd": 0.5}},
}  # fmt: skip


@pytest.mark.parametrize("kind", TOTALS)
def test_totals_of_a_conversation_are_kept(tmp_path: Path, kind: str) -> None:
    (talk,) = read_values(tmp_path, TOTALS[kind])
    assert (talk.tokens, talk.cost) == (SPENT, 0.5)


def test_usage_and_cost_of_zero_are_unknown(tmp_path: Path) -> None:
    zero = {"usage": {"prompt_tokens": 0, "completion_tokens": 0}, "cost": 0}
    (talk,) = read_values(tmp_path, chat(**zero))
    assert (talk.turns[1].tokens, talk.turns[1].cost) == (None, None)


def test_cost_and_time_of_a_message_are_kept(tmp_path: Path) -> None:
    (talk,) = read_values(tmp_path, chat(cost=0.25, timestamp=AT, agent="solver"))
    answer = talk.turns[-1]
    assert (answer.cost, answer.at, answer.agent) == (0.25, AT, "solver")
    (talk,) = read_values(tmp_path, *WITH_REASONING["claude code"])
    assert [turn.at for turn in talk.turns] == [AT, AT]


def test_a_side_chain_names_its_parent_and_its_agent(tmp_path: Path) -> None:
    said = {"id": "m", "role": "assistant", "content": "Looking."}
    main, side = read_values(
        tmp_path,
        claude_line(0, "user", {"role": "user", "content": "Look."}),
        {**claude_line(0, "assistant", said, isSidechain=True, agentId="a7"), "uuid": "x"},
    )
    assert (main.parent, side.parent) == (None, main.id)
    assert side.turns[0].agent == "a7"


def test_stored_conversation_of_an_earlier_version_still_loads() -> None:
    turn = {
        "text": "Hi.",
        "speaker": None,
        "role": None,
        "model": None,
        "spoken": True,
        "calls": [],
    }
    row = {"id": "a", "turns": [turn], "metadata": {}, "source": None}
    assert load_trajectory(row) == Trajectory("a", (Turn("Hi."),))


def test_a_log_of_ours_keeps_texts_as_they_are(tmp_path: Path) -> None:
    talk = Trajectory("a", (Turn("<think>Two.</think>Four.", "assistant", tokens=SPENT),))
    (back,) = read_values(tmp_path, json.loads(plain.dumps(talk)))
    assert back.turns == talk.turns
