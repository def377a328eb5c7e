"""Talks between models in layouts of their own, as they were shown to the readers of `labels/`.

These are logs of experiments and games that no reader of the product takes. A talk counts only if
it has as many messages as the readers of the labels saw.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from chimeralab import Trajectory, Turn

Said = Iterable[tuple[str, str]]

# Lines that begin a message in logs that are texts, by repository.
HEADS = {
    "meistro57/chat_bridge": r"^\*\*(.+?)(?: \(\w+\))?\*\* \[[^\]]*\]:",
    "lechmazur/buyout_game": r"^\*\*(P\d+ \(.+\))\*\*$",
    "saskia-rr/Evaluating-Constitutions": r"^(Doctor|Patient):",
    "kris2475/LLM-Battleground---Adversarial-Dialogue-Simulator": r"^([A-Z]{3,}):(?= )",
    "surfkansas/werewolf-gpt": r"^>?\*\*\*([^*:]+):\*\*\*",
    "ramonpebo/philosopher-ai-debate": r"^(\w+)(?: \([^)]*\))?:(?= )",
}
RULER = "-" * 50  # llm-echochamber puts one before each message
# What pi-llm says, and then numbers and other notes.
SPOKEN = re.compile(
    r"^(user|bob|jane) +: (.*?)(?=\n(?:\+\+\+|---|\w+ +: )|\Z)", re.IGNORECASE | re.M | re.S
)


def convert(repository: str, name: str, text: str, messages: int) -> Trajectory | None:
    """The talk of that name in the text of a file; None if it can't be told."""
    if repository in HEADS:
        said = split_text(
            HEADS[repository], text, name.rpartition("#it")[2] if "#it" in name else ""
        )
    elif text.startswith("turn,student_msg"):
        rows = csv.DictReader(io.StringIO(text))
        mine = [row for row in rows if row["student_id"] == name.rpartition("#")[2]]
        said = [(who, row[who]) for row in mine for who in ("student_msg", "tutor_msg")]
    elif repository == "martijnat/llm-echochamber":
        parts = [part.strip() for part in text.split(RULER) if part.strip()]
        said = [("AB"[n % 2], part) for n, part in enumerate(parts)]
    elif repository == "radiodee1/pi-llm":
        said = SPOKEN.findall(text)
    else:
        try:
            said = list(read_rows(json.loads(text), name))
        except ValueError:
            said = list(read_events(map(json.loads, text.splitlines())))
    # The readers of pi-llm's talks counted empty messages, too.
    keeps = repository == "radiodee1/pi-llm"
    turns = tuple(Turn(each, who) for who, each in said if keeps or (each and each.strip()))
    return Trajectory(name, turns) if len(turns) == messages else None


def split_text(head: str, text: str, iteration: str) -> list[tuple[str, str]]:
    """The messages of a text, each after a line that names its speaker."""
    if iteration:
        parts = re.split(r"^ ?## --- Iteration (\d+) ---$", text, flags=re.MULTILINE)
        text = dict(zip(parts[1::2], parts[2::2], strict=True)).get(iteration, "")
    _, *parts = re.split(head, text, flags=re.MULTILINE)
    heading = re.compile(r"^(?:#{1,6} |\[ROUND|---).*", re.MULTILINE)
    said = zip(parts[::2], parts[1::2], strict=True)
    return [(who, heading.split(each)[0].strip()) for who, each in said if who != "GAME"]


def read_rows(found: Any, name: str) -> Iterator[tuple[str, str]]:
    """The messages of a file that is one JSON value."""
    if isinstance(found, dict) and "conversations" in found:
        rows = found["conversations"][int(name.rpartition("#")[2])]["full_conversation"]
        yield from ((row["speaker"], row["content"]) for row in rows)
    elif isinstance(found, dict):
        yield from ((row["from"], row["content"]) for row in found.get("chat", ()))
    elif "utterances" in found[0]:
        yield from found[int(name.rpartition("#")[2])]["utterances"]
    else:
        yield from ((row["participant_id"], row["evolved_message"]) for row in found)


def read_events(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """The messages among the events of a game or an experiment."""
    for row in rows:
        if row.get("type") == "conversation":
            yield row["player_id"], row["message"]
        elif row.get("event_type") == "MessageCompleteEvent":
            yield row["agent_id"], row["message"]["content"]
        elif row.get("event_type") == "message":
            who, _, said = row["description"].partition(": ")
            yield who.partition(" ")[0], said
