"""Real healthy talk, read in place: what loops are spliced into."""

import csv
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, takewhile
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

DATA = Path(__file__).parents[4] / "shared" / "data"
DIALOGUES = DATA / "dialogue-eval" / "conversations.jsonl"
SELFCHATS = DATA / "selfchats" / "conversations.jsonl"
SESSIONS = DATA / "tau-bench" / "gpt-4o-airline.json"
LABELS = DATA / "loop-labels" / "labels.csv"


class Call(NamedTuple):
    """A tool call with its result; `error` is None where the format does not say."""

    name: str
    arguments: str
    result: str
    error: bool | None = None


class Turn(NamedTuple):
    """What one speaker says, and the calls made while saying it."""

    speaker: str
    text: str
    calls: tuple[Call, ...] = ()


class Host(NamedTuple):
    """A real healthy stretch."""

    id: str
    source: str
    turns: tuple[Turn, ...]


def available() -> bool:
    """Whether the public conversations are on this machine."""
    return all(path.exists() for path in (DIALOGUES, SELFCHATS, SESSIONS, LABELS))


@cache
def hosts(source: str, half: int) -> tuple[Host, ...]:
    """Real healthy stretches of `dialogue`, `selfchat` or `session`."""
    readers = {"dialogue": _dialogues, "selfchat": _selfchats, "session": _sessions}
    return tuple(readers[source]())[half::2]


def choose_host(rng: random.Random, half: int) -> Host:
    source = rng.choices(("dialogue", "session", "selfchat"), (6, 3, 1))[0]
    return rng.choice(hosts(source, half))


def _dialogues() -> Iterator[Host]:
    """Those that people did not find repetitive, less the slips: bots of a few phrases, as read."""
    for line in DIALOGUES.read_text(encoding="utf-8").splitlines():
        talk = json.loads(line)
        rated = talk["model"] != "QualityControl" and (talk["scores"]["repetitive"] or 0) >= 80
        turns = _turns(talk["turns"])
        if rated and _shared_words(turns, "bot") <= 0.2 and _most_often(turns) < 3:
            yield Host(f"dialogue-eval/{talk['id']}", "dialogue", turns)


def _shared_words(turns: Sequence[Turn], speaker: str) -> float:
    """The share of longer words that two turns of a speaker have in common, on average."""
    said = [
        {word for word in turn.text.lower().split() if len(word) > 3}
        for turn in turns
        if turn.speaker == speaker
    ]
    pairs = [(one, other) for one, other in combinations(said, 2) if one and other]
    return fmean([len(one & other) / min(len(one), len(other)) for one, other in pairs] or [0])


def _most_often(turns: Sequence[Turn]) -> int:
    """How often a turn of four words or more stands there, at most."""
    texts = Counter(turn.text.lower() for turn in turns if len(turn.text.split()) > 3)
    return max(texts.values(), default=0)


def _selfchats() -> Iterator[Host]:
    """Whole chats without a loop, and of the others what came two turns before the first reader's
    onset."""
    chats = {}
    for line in SELFCHATS.read_text(encoding="utf-8").splitlines():
        chat = json.loads(line)
        chats[chat["id"]] = chat["turns"]
    for row in _labels("selfchats"):
        end = min(int(row["first_1"]), int(row["first_2"])) - 3 if row["stuck"] == "1" else None
        if end is None or end >= 4:
            yield Host(f"selfchats/{row['id']}", "selfchat", _turns(chats[row["id"]][:end]))


def _sessions() -> Iterator[Host]:
    sessions = json.loads(SESSIONS.read_text(encoding="utf-8"))
    for row in _labels("tau-bench"):
        if row["stuck"] == "0":
            messages = sessions[int(row["index"])]["traj"]
            yield Host(f"tau-bench/{row['id']}", "session", tuple(_session_turns(messages)))


def _labels(source: str) -> Iterator[dict[str, str]]:
    """The labels of which neither reader called it a guess."""
    with LABELS.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["source"] == source and "1" not in (row["sure_1"], row["sure_2"]):
                yield row


def _turns(turns: list[dict[str, str]]) -> tuple[Turn, ...]:
    return tuple(Turn(turn["speaker"], turn["text"]) for turn in turns if turn["text"].strip())


def _session_turns(messages: list[dict[str, Any]]) -> Iterator[Turn]:
    """Calls take the tool messages that follow them, in order: ids in the file are not unique."""
    for i, message in enumerate(messages):
        text = (message["content"] or "").replace("###STOP###", "").strip()
        answers = takewhile(lambda each: each["role"] == "tool", messages[i + 1 :])
        calls = tuple(
            Call(call["function"]["name"], call["function"]["arguments"], answer["content"])
            for call, answer in zip(message.get("tool_calls") or (), answers, strict=False)
        )
        if message["role"] in ("user", "assistant") and (text or calls):
            yield Turn(message["role"], text, calls)


def next_speakers(turns: Sequence[Turn]) -> tuple[str, str]:
    """The two speakers of a talk, the one whose turn it is first."""
    last = turns[-1].speaker
    other = next((turn.speaker for turn in reversed(turns) if turn.speaker != last), "user")
    return other, last
