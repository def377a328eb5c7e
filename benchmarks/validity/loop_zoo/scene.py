"""One case in the making: randomness, texts that do not come back soon, and noise."""

import random
import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.validity.loop_zoo.hosts import Host, Turn, choose_host

TEXTS: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("texts.toml").read_text(encoding="utf-8")
)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


class Scene:
    """One case in the making: its randomness, its half of the texts, and who speaks next."""

    def __init__(self, rng: random.Random, half: int, host: Host, speakers: Sequence[str]) -> None:
        self.rng, self.half, self.host, self.speakers = rng, half, host, tuple(speakers)
        self.agent = next((name for name in self.speakers if name != "user"), self.speakers[0])
        self.tells_errors = rng.random() < 0.5
        self._decks: dict[str, list[str]] = {}

    def draw(self, bank: str, halved: bool = False) -> str:
        """An entry of `table.bank` that comes back only after all others."""
        deck = self._decks.setdefault(bank, [])
        if not deck:
            table, name = bank.split(".")
            deck.extend(self.half_of(entries(table, name)) if halved else entries(table, name))
            self.rng.shuffle(deck)
        return deck.pop()

    def half_of(self, bank: Sequence[Any]) -> Sequence[Any]:
        return bank[self.half :: 2]

    def fact(self) -> str:
        """A sentence of its own content."""
        slots = {
            "person": self.draw("facts.people"),
            "verb": self.draw("facts.verbs"),
            "object": self.draw("facts.objects"),
            "quality": self.draw("facts.qualities"),
            "place": self.draw("facts.places"),
            "time": self.draw("facts.times"),
            "reason": self.draw("facts.reasons"),
        }
        slots |= {"Person": upper(slots["person"]), "Time": upper(slots["time"])}
        told = self.draw("facts.frames").format(**slots)
        return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", told)

    def facts(self, most: int = 2) -> str:
        return " ".join(self.fact() for _ in range(self.rng.randint(1, most)))

    def fill(self, frame: str, **more: object) -> str:
        """A frame with new fillings in its slots; facts only where it asks for them."""
        rng = self.rng
        slots: dict[str, object] = {
            "name": self.draw("words.names"),
            "town": self.draw("words.towns"),
            "thing": self.draw("facts.objects"),
            "other": self.draw("facts.objects"),
            "code": "".join(rng.choices("BCDFGHKLMPRTVX346789", k=6)),
            "code2": "".join(rng.choices("BCDFGHKLMPRTVX346789", k=6)),
            "k": rng.randint(2, 97),
            "k2": rng.randint(100, 999),
            "hour": f"{rng.randint(1, 12)}:{rng.randint(10, 59)}",
            "hour2": f"{rng.randint(1, 12)}:{rng.randint(10, 59)}",
        }
        for slot in ("fact", "fact2"):
            if f"{{{slot}}}" in frame:
                slots[slot] = self.fact()
        for slot in ("phrase", "phrase2", "phrase3"):
            if f"{{{slot}}}" in frame:
                slots[slot] = self.draw("template.phrases")
        return frame.format(**(slots | more)).replace("\\n", "\n")

    def said(self, texts: Iterable[str]) -> list[Turn]:
        """The texts, spoken in turn."""
        return [Turn(self.speakers[i % 2], text) for i, text in enumerate(texts)]


@cache
def entries(table: str, name: str) -> tuple[str, ...]:
    """A bank of texts: its lines, or its words where it is one line."""
    bank = TEXTS[table][name].strip()
    return tuple(bank.splitlines() if "\n" in bank else bank.split())


@cache
def synonyms() -> dict[str, tuple[str, ...]]:
    groups = [tuple(group.split()) for group in entries("noise", "synonyms")]
    return {word: tuple(w for w in group if w != word) for group in groups for word in group}


def upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def blur(scene: Scene, text: str, noise: int) -> str:
    """1: other case, punctuation, numbers; 2: other words too; 3: sentences reordered too."""
    rng = scene.rng
    if noise >= 3:
        sentences = SENTENCE_END.split(text)
        rng.shuffle(sentences)
        text = " ".join(sentences[: max(3, len(sentences) - rng.randint(0, 1))])
    if noise >= 2:
        text = re.sub(r"[A-Za-z]+", lambda word: _other_word(rng, word.group()), text)
        text = re.sub(" +", " ", text)
        text = f"{scene.draw('noise.openers')} {text}" if rng.random() < 0.5 else text
    if noise >= 1:
        text = re.sub(r"\d", lambda _: str(rng.randint(0, 9)), text)
        text = rng.choice((str, str.lower, upper, str.upper if rng.random() < 0.2 else str))(text)
        text = text.rstrip(".!?。 ") + rng.choice((".", "!", "...", "", " ."))
    return text


def _other_word(rng: random.Random, word: str) -> str:
    others = synonyms().get(word.lower())
    if others and rng.random() < 0.8:
        return rng.choice(others).replace("-", " ")
    return "" if rng.random() < 0.04 else word


def source_text(scene: Scene, sentences: int = 1) -> str:
    """A real turn of a few sentences, or a made one."""
    for _ in range(40):
        turn = scene.rng.choice(choose_host(scene.rng, scene.half).turns)
        enough = len(SENTENCE_END.split(turn.text)) >= sentences and not turn.calls
        if enough and 6 <= len(turn.text.split()) <= 90:
            return turn.text
    return " ".join(scene.fact() for _ in range(max(3, sentences)))
