"""A Markdown text in passages: one a sentence, one a cell of a table, each with its line."""

import re
from collections.abc import Iterator
from typing import NamedTuple

FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
UNREAD = re.compile(r"<!--.*?-->|`[^`\n]*[A-Za-z/][^`\n]*`|https?://\S+|\]\([^)]*\)", re.DOTALL)
MARKUP = re.compile(r"[*`]|^\s*(?:#+|>|[-+]\s|\d+\.\s)", re.MULTILINE)
SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\bvs\.)(?<!\bca\.)(?<!approx\.)\s+(?=[\"'(“]*[A-Z\d~])")
BLANK = re.compile(r"\n\s*\n")


class Passage(NamedTuple):
    """A stretch of text to look for claims in; numbers count only from `numbers_from` on.

    What stands before is the heading of a table's row and column, which says what the number is.
    """

    text: str
    line: int
    numbers_from: int = 0

    def line_of(self, place: int) -> int:
        return self.line + self.text.count("\n", 0, place)


def passages(text: str) -> Iterator[Passage]:
    """Sentences and table cells, code and comments left out.

    >>> [passage.text for passage in passages("Kappa is low. It was **0.57**.")]
    ['Kappa is low.', 'It was   0.57  .']
    """
    readable = _blanked(text)
    at = 0
    for block in BLANK.split(readable):
        start = readable.index(block, at) if block else at
        at = start + len(block)
        line = readable.count("\n", 0, start) + 1
        if block.strip():
            yield from _table(block, line) if _is_table(block) else _sentences(block, line)


def _blanked(text: str) -> str:
    """The text with everything that is not prose replaced by spaces, so that places stay."""
    for pattern in (FENCE, UNREAD, MARKUP):
        text = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return text


def _is_table(block: str) -> bool:
    lines = block.strip().splitlines()
    return len(lines) > 1 and lines[0].lstrip().startswith("|") and set(lines[1]) <= set("|-: ")


def _sentences(block: str, line: int) -> Iterator[Passage]:
    at = 0
    for end in (*(found.start() for found in SENTENCE_END.finditer(block)), len(block)):
        sentence = block[at:end]
        lead = len(sentence) - len(sentence.lstrip())
        yield Passage(sentence.strip(), line + block.count("\n", 0, at + lead))
        at = end


def _table(block: str, line: int) -> Iterator[Passage]:
    """Each cell after the heading of its row and of its column."""
    lead = len(block) - len(block.lstrip("\n"))
    rows = [_cells(row) for row in block.strip().splitlines()]
    for number, cells in enumerate(rows[2:], line + 2 + block.count("\n", 0, lead)):
        for column, cell in enumerate(cells[1:], 1):
            heading = rows[0][column] if column < len(rows[0]) else ""
            before = f"{heading} {_row_heading(cells[:column])}: "
            yield Passage(before + cell, number, len(before))


def _row_heading(cells: list[str]) -> str:
    """The nearest cell to the left that holds words and no figure; else the first."""
    words = (cell for cell in reversed(cells) if re.search(r"[^\W\d]{2}", cell))
    return next((cell for cell in words if not re.search(r"\d[.,]\d|\d\s?%|/\d", cell)), cells[0])


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]
