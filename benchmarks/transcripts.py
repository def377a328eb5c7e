"""Real transcripts where they are at hand, and made ones of the same shape where they are not."""

import json
import random
from pathlib import Path

from chimeralab import Trajectory, Turn, readers

DATA = Path(__file__).parent.parent.parent / "shared" / "data"
WORDS = Path(__file__).read_text(encoding="utf-8").split()


def selfchats() -> list[Trajectory]:
    """22 chats between models, or as many made ones."""
    path = DATA / "selfchats" / "conversations.jsonl"
    return list(readers.read(path)) if path.exists() else made(22, 50, words=30)


def made(conversations: int, turns: int, words: int, seed: int = 1) -> list[Trajectory]:
    """Conversations of random words, a third of whose turns repeat an earlier one."""
    rng = random.Random(seed)
    return [
        Trajectory(f"made-{n}", tuple(map(Turn, _texts(rng, turns, words))))
        for n in range(conversations)
    ]


def _texts(rng: random.Random, turns: int, words: int) -> list[str]:
    texts: list[str] = []
    for _ in range(turns):
        new = " ".join(rng.choices(WORDS, k=words))
        texts.append(rng.choice(texts) if texts and rng.random() < 1 / 3 else new)
    return texts


def write_plain(path: Path, trajectories: list[Trajectory]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for trajectory in trajectories:
            turns = [{"speaker": "a", "text": turn.text} for turn in trajectory.turns]
            print(json.dumps({"id": trajectory.id, "turns": turns}), file=file)
