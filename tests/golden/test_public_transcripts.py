"""Verdicts on public transcripts: what the published reference sees, and no false alarm."""

import json
from pathlib import Path

import pytest

from chimeralab import Detection, Trajectory, Turn, detect_all, readers
from chimeralab.embedding.encoder import MiniLMEncoder

DATA = Path(__file__).parents[3] / "shared" / "data"
SELFCHATS = DATA / "selfchats" / "conversations.jsonl"
TAU_BENCH = DATA / "tau-bench" / "gpt-4o-airline.json"


@pytest.fixture(scope="module")
def selfchats() -> dict[str, Detection]:
    if not SELFCHATS.exists():
        pytest.skip("the public self-play chats are not at hand")
    found = detect_all(readers.read(SELFCHATS), encoder=MiniLMEncoder())
    return {detection.id.split("/")[-1]: detection for detection in found}


@pytest.mark.parametrize(
    ("chat", "collapsed"),
    [
        ("llm.ckpt04.gpt-3.5-turbo-0125@35-tubo-0125", [13]),
        ("Gemma3-1B", [9]),
        ("Qwen3_30B_A3B", list(range(14, 21))),
        ("llm.gpt-4o_2025_04_23", []),
    ],
)
def test_public_chats_get_the_published_verdicts(
    selfchats: dict[str, Detection], chat: str, collapsed: list[int]
) -> None:
    assert list(selfchats[chat].collapsed) == collapsed


def test_all_turns_of_self_play_are_judged(selfchats: dict[str, Detection]) -> None:
    assert sum(detection.turns for detection in selfchats.values()) == 1141
    assert {detection.judged for detection in selfchats.values()} == {"all turns (self-play)"}


def agent_session(session: dict[str, object], number: int) -> Trajectory:
    messages = session["traj"]
    assert isinstance(messages, list)
    return Trajectory(
        str(number),
        tuple(
            Turn(
                text=message["content"] or "",
                speaker=message["role"],
                role=message["role"],
                spoken=message["role"] in ("user", "assistant") and bool(message["content"]),
            )
            for message in messages
        ),
    )


@pytest.mark.parametrize(
    "every", [8, pytest.param(1, marks=pytest.mark.slow)], ids=["an eighth", "all"]
)
def test_no_false_alarm_on_healthy_agents(every: int) -> None:
    if not TAU_BENCH.exists():
        pytest.skip("the public agent sessions are not at hand")
    sessions = json.loads(TAU_BENCH.read_text(encoding="utf-8"))
    talks = [agent_session(session, n) for n, session in enumerate(sessions)][::every]
    found = list(detect_all(talks, encoder=MiniLMEncoder()))
    assert len(found) == 200 // every
    assert [detection.id for detection in found if detection.collapsed] == []
