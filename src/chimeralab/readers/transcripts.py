"""Talks written down as text: a line for each turn, with the name of who says it."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chimeralab.core.records import ROLES, SILENT, Trajectory, Turn, role_of
from chimeralab.readers.fields import Unreadable
from chimeralab.readers.seam import Place, Reader

LABEL = re.compile(
    r"[ \t]{0,3}(?:[-*>#]{1,6}[ \t]+)?(?:[\[(][^\])\n]{1,40}[\])][ \t]{0,3})?"
    r"(?:\*\*|__)?([^\W\d_][\w .'-]{0,39})(?:\*\*|__)?:(?:\*\*|__)?(?:[ \t]+|$)"
)
# Words before a colon that begin the lines of other files.
NO_NAMES = {"info", "warning", "error", "debug", "note", "notes", "todo", "http", "https", "warn"}


@dataclass(frozen=True, slots=True)
class WrittenTalk:
    """A talk as its lines have it: who says what."""

    turns: tuple[tuple[str, str], ...]


def talk_in(text: str) -> WrittenTalk | None:
    """The talk that a text is; None where its lines do not begin with names that come back.

    >>> talk_in("Ann: Hi.\\nBo: Hello!\\nHow are you?\\nAnn: Fine.\\nBo: Good.").turns[1]
    ('Bo', 'Hello!\\nHow are you?')
    """
    lines = text.splitlines()
    labels = [LABEL.match(line) for line in lines]
    counted = Counter(label[1].strip() for label in labels if label)
    names = {
        name
        for name, count in counted.items()
        if name.lower() not in NO_NAMES and (count > 1 or name.lower() in ROLES)
    }
    turns: list[tuple[str, list[str]]] = []
    for line, label in zip(lines, labels, strict=True):
        if label and label[1].strip() in names:
            turns.append((label[1].strip(), [line[label.end() :]]))
        elif turns:
            turns[-1][1].append(line)
        elif line.strip() and not line.startswith("#"):
            return None  # it begins with something else
    if len(turns) < 2 or len(names) < 2:
        return None
    return WrittenTalk(tuple((name, "\n".join(said).strip()) for name, said in turns))


class NameAndText(Reader):
    """A text of lines that begin with a name and a colon."""

    name = "transcript"
    recognised = "a text that begins with a name and a colon, with at least two names that return"
    turns = "a line with a name, and the lines up to the next; a returning name is a speaker"
    left_out = "headings before the first turn, times in brackets before a name"

    def matches(self, value: Any) -> bool:
        return isinstance(value, WrittenTalk)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        if not isinstance(value, WrittenTalk):
            raise Unreadable("is not a text of 'Name: text' lines")
        turns = tuple(
            Turn(said, name, spoken=role_of(name) not in SILENT) for name, said in value.turns
        )
        yield Trajectory(place.stem, turns, {}, str(place))
