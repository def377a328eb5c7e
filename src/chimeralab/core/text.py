"""Text of others, made safe to store and to show: it can be read, and does nothing."""

_LINE_ENDS = dict.fromkeys((0x0B, 0x0C, 0x0D, 0x85, 0x2028, 0x2029), "\n")
_CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - {ord("\t"), ord("\n")}
# These turn the writing direction around, and could make a text read as another.
_TURNING = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_SIGNS = {code: f"[U+{code:04X}]" for code in _CONTROLS | _TURNING} | _LINE_ENDS


def markdown(text: str) -> str:
    """Text of others inside Markdown: one line, no markup, no new cells.

    >>> markdown("a | b\\n*c*")
    'a \\\\| b \\\\*c\\\\*'
    """
    flat = " ".join(text.split())
    return "".join(f"\\{char}" if char in "\\|<>`*_[]#!" else char for char in flat)


def readable(text: str) -> str:
    """The text with lone surrogates, which no encoder accepts, replaced by the sign for unknown.

    >>> readable("fine"), readable("half \\ud83d a pair")
    ('fine', 'half \ufffd a pair')
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def inert(text: str) -> str:
    """The text with every character that acts instead of being seen replaced by its name.

    >>> inert("\\x1b[31mred\\u202e\\r\\n")
    '[U+001B][31mred[U+202E]\\n'
    """
    return readable(text).replace("\r\n", "\n").translate(_SIGNS)
