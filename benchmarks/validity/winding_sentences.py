"""Messages that say nothing new, and messages that say something, made from our own patterns.

Every fourth pattern of a category is held out, so that a head is tried on sentences that it has
not seen in any wording.
"""

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

SENTENCES = Path(__file__).with_suffix(".toml")
HELD_OUT = 4  # every fourth pattern
LENGTHS = (1, 1, 1, 2, 2, 3, 4, 6)  # sentences in a message
OPENED = 0.35  # share of messages with content that open politely
CLOSED = 0.15  # and that close politely
ORDINARY = frozenset({"thanks", "farewell", "assent"})
BLANKED = 0.5  # share of messages without question marks and digits, which must not be a shortcut
_SLOT = re.compile(r"\{(\w+)\}")
_SHORTCUTS = re.compile(r"[?\d]")


def blank_shortcuts(text: str) -> str:
    """A text without question marks and digits.

    >>> blank_shortcuts("Is it 7?")
    'Is it '
    """
    return _SHORTCUTS.sub("", text)


class Example(NamedTuple):
    """A message with the category of its first sentence.

    `empty` if it says nothing new; `courtesy` is the share of its sentences that are so ordinary
    that any talk may end with them.
    """

    text: str
    empty: bool
    category: str
    courtesy: float


class Grammar:
    """Fills the slots of patterns at random."""

    def __init__(self, rng: random.Random, *, held_out: bool) -> None:
        self._tables: Mapping[str, Any] = tomllib.loads(SENTENCES.read_text(encoding="utf-8"))
        self._rng, self._held_out = rng, held_out

    def categories(self, group: str) -> list[str]:
        return sorted(self._tables[group])

    def sentence(self, group: str, category: str) -> str:
        return self._fill(self._pick(self._tables[group][category]["patterns"]))

    def opener(self) -> str:
        return self._fill(self._pick(self._tables["openers"]["patterns"]))

    def empty_message(self, category: str) -> Example:
        rng = self._rng
        others = [category, *(each for each in self.categories("empty") if each != "signs")]
        more = [rng.choice(others) for _ in range(rng.choice(LENGTHS) - 1)]
        sentences = [self.sentence("empty", each) for each in (category, *more)]
        courtesy = sum(each in ORDINARY for each in (category, *more)) / len(sentences)
        return Example(_join(rng, sentences), True, category, courtesy)

    def message_with_content(self, category: str) -> Example:
        """A message that says something, and may open or close politely."""
        rng = self._rng
        others = [category, *self.categories("content")]
        more = [rng.choice(others) for _ in range(rng.choice(LENGTHS) - 1)]
        sentences = [self.sentence("content", each) for each in (category, *more)]
        if rng.random() < OPENED:
            sentences.insert(0, self.opener())
        if rng.random() < CLOSED and len(sentences) > 1:
            sentences.append(self.sentence("empty", rng.choice(self.categories("empty"))))
        return Example(_join(rng, sentences), False, category, 0.0)

    def _pick(self, patterns: Sequence[str]) -> str:
        mine = [p for n, p in enumerate(patterns) if (n % HELD_OUT == 1) == self._held_out]
        return self._rng.choice(mine)

    def _fill(self, pattern: str) -> str:
        text = _SLOT.sub(lambda slot: self._rng.choice(self._tables["slots"][slot[1]]), pattern)
        return text[:1].upper() + text[1:] if self._rng.random() < 0.9 else text


def make_examples(seed: int, count: int, *, held_out: bool) -> list[Example]:
    """Messages of every category, of one to six sentences; as many empty ones as others."""
    tables = Grammar(random.Random(), held_out=held_out)
    empty, content = tables.categories("empty"), tables.categories("content")
    examples = []
    for category in empty:
        grammar = Grammar(random.Random(f"{seed} {category}"), held_out=held_out)
        examples += [grammar.empty_message(category) for _ in range(count)]
    for category in content:
        grammar = Grammar(random.Random(f"{seed} {category}"), held_out=held_out)
        each = count * len(empty) // len(content)
        examples += [grammar.message_with_content(category) for _ in range(each)]
    return examples


def _join(rng: random.Random, sentences: Sequence[str]) -> str:
    text = rng.choice((" ", " ", " ", "\n\n")).join(sentences)
    return blank_shortcuts(text) if rng.random() < BLANKED else text
