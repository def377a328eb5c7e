"""Text of others, made safe to store and show: it can be read, does nothing, and holds no key."""

import os
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import lru_cache

_LINE_ENDS = dict.fromkeys((0x0B, 0x0C, 0x0D, 0x85, 0x2028, 0x2029), "\n")
_CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - {ord("\t"), ord("\n")}
# These turn the writing direction around, and could make a text read as another.
_TURNING = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_SIGNS = {code: f"[U+{code:04X}]" for code in _CONTROLS | _TURNING} | _LINE_ENDS

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
# Shorter values are flags, numbers and placeholders; without them messages would be unreadable.
_SHORTEST = 8
# What one piece of a key may tell; public beginnings such as sk-proj- are shorter.
_LONG_PIECE = 12
_JOINTS = re.compile(r"[\W_]+")


def escape_markdown(text: str) -> str:
    """Text of others inside Markdown: one line, no markup, no new cells.

    >>> escape_markdown("a | b\\n*c*")
    'a \\\\| b \\\\*c\\\\*'
    """
    flat = " ".join(text.split())
    return "".join(f"\\{char}" if char in "\\|<>`*_[]#!" else char for char in flat)


def replace_surrogates(text: str) -> str:
    """The text with lone surrogates, which no encoder accepts, replaced by the sign for unknown.

    >>> replace_surrogates("fine"), replace_surrogates("half \\ud83d a pair")
    ('fine', 'half \ufffd a pair')
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def neutralize(text: str) -> str:
    """The text with every character that acts instead of being seen replaced by its name.

    >>> neutralize("\\x1b[31mred\\u202e\\r\\n")
    '[U+001B][31mred[U+202E]\\n'
    """
    return replace_surrogates(text).replace("\r\n", "\n").translate(_SIGNS)


def secrets(*names: str) -> dict[str, str]:
    """The values in the environment that look like keys, or are called so, by their variable."""
    return {
        name: value
        for name, value in os.environ.items()
        if len(value) >= _SHORTEST and (name in names or _SECRET_NAME.search(name))
    }


def redact(text: str, keys: Mapping[str, str] | None = None) -> str:
    """The text with every key of this environment, or each one given, replaced by its name.

    So are long pieces of a key, with or without blanks, quotes or dashes inside: a server may echo
    a key in two halves, or stream it letter by letter. A whole key is also found in base64,
    percent-encoded, and reversed.

    >>> redact("no such key: sk-very-secret-7", {"LAB_KEY": "sk-very-secret-7", "OTHER": "no"})
    'no such key: <LAB_KEY>'
    >>> redact("sk-01234567, then 89abcdef", {"LAB_KEY": "sk-0123456789abcdef"})
    '<LAB_KEY>, then <LAB_KEY>'
    """
    for name, value in (secrets() if keys is None else keys).items():
        if len(value) >= _SHORTEST:
            text = f"<{name}>".join(_any_encoding(value).split(text))
            text = _without_pieces(text, value, name)
    return text


@lru_cache(maxsize=256)
def _any_encoding(key: str) -> re.Pattern[str]:
    """Find a key as it is, percent-encoded in whole or in part, reversed, or in base64."""

    def percent(char: str) -> str:
        return "".join(f"%{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))

    maybe_percent = "".join(f"(?:{re.escape(char)}|(?i:{percent(char)}))" for char in key)
    others = [key[::-1], *_in_base64(key.encode("utf-8", "surrogateescape"))]
    return re.compile("|".join([maybe_percent, *map(re.escape, others)]))


def _in_base64(data: bytes) -> Iterator[str]:
    """The characters of base64 that depend on the data alone, wherever it begins in a group."""
    for before in range(3):
        encoded = b64encode(bytes(before) + data).decode()
        own = encoded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        yield from {own, own.translate(str.maketrans("+/", "-_"))}


def _without_pieces(text: str, key: str, name: str) -> str:
    """The text without the pieces of a key, found where nothing but letters and digits is left."""
    core = _JOINTS.sub("", key)
    # A path, an address or plain words are in many messages, and no piece of them is secret.
    if not any(map(str.isdigit, core)) or key.startswith(("/", "~", ".")) or "://" in key:
        return text
    size = min(_LONG_PIECE, max(_SHORTEST, len(core) // 3))
    joined = _JOINTS.sub("", text)
    pieces = {core[at : at + size] for at in range(len(core) - size + 1)}
    starts = {
        found.start()
        for piece in pieces
        if piece in joined
        for found in re.finditer(f"(?={re.escape(piece)})", joined)
    }
    runs: list[list[int]] = []
    for start in sorted(starts):
        if runs and start <= runs[-1][1]:
            runs[-1][1] = start + size
        else:
            runs.append([start, start + size])
    places = [at for at, char in enumerate(text) if not _JOINTS.match(char)] if runs else []
    for start, end in reversed(runs):
        text = text[: places[start]] + f"<{name}>" + text[places[end - 1] + 1 :]
    return text
