"""What an author changed in a document, carried over to the document as it is written now."""

from difflib import SequenceMatcher


def carried_over(base: str, edited: str, new: str) -> str | None:
    """The new text with the edits that led from the base to the edited one.

    None where a line that was edited is not in the new text any more.

    >>> carried_over("by: ?\\nturns: 4\\n", "by: Ada\\nturns: 4\\n", "by: ?\\nturns: 9\\n")
    'by: Ada\\nturns: 9\\n'
    """
    before, after, lines = (text.splitlines(keepends=True) for text in (base, edited, new))
    places = {
        block.a + offset: block.b + offset
        for block in SequenceMatcher(None, before, lines, autojunk=False).get_matching_blocks()
        for offset in range(block.size)
    }
    # The places around the text, so that something can be added at its ends.
    places |= {-1: -1, len(before): len(lines)}
    changes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for kind, start, end, first, last in reversed(changes):
        if kind == "equal":
            continue
        there = [places.get(place) for place in range(start, end)]
        at = there[0] if there else _behind(places, start)
        if at is None or there != list(range(at, at + len(there))):
            return None
        lines[at : at + len(there)] = after[first:last]
    return "".join(lines)


def _behind(places: dict[int, int], start: int) -> int | None:
    """Where something stands now that was put before a line of the base."""
    if start - 1 in places:
        return places[start - 1] + 1
    return places.get(start)
