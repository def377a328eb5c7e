"""Make untrusted text safe to store and show: escape control characters, redact secrets."""

import os
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import cycle

_LINE_ENDS = dict.fromkeys((0x0B, 0x0C, 0x0D, 0x85, 0x2028, 0x2029), "\n")
_CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - {ord("\t"), ord("\n")}
# Bidirectional controls can make a text display as another.
_BIDI = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_SIGNS = {code: f"[U+{code:04X}]" for code in _CONTROLS | _BIDI} | _LINE_ENDS

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
# Shorter values are flags, numbers and placeholders; redacting them would garble messages.
_MIN_SECRET = 8
# Longer fragments of a key are redacted; public prefixes such as sk-proj- are shorter.
_MAX_FRAGMENT = 12
_SEPARATORS = re.compile(r"[\W_]+")


def escape_markdown(text: str) -> str:
    """Escape untrusted text for Markdown, on one line.

    >>> escape_markdown("a | b\\n*c*")
    'a \\\\| b \\\\*c\\\\*'
    """
    flat = " ".join(text.split())
    return "".join(f"\\{char}" if char in "\\|<>`*_[]#!" else char for char in flat)


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which can't be encoded, with U+FFFD.

    >>> replace_surrogates("fine"), replace_surrogates("half \\ud83d a pair")
    ('fine', 'half \ufffd a pair')
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def neutralize(text: str) -> str:
    """Replace control characters and bidirectional controls with their code points.

    >>> neutralize("\\x1b[31mred\\u202e\\r\\n")
    '[U+001B][31mred[U+202E]\\n'
    """
    return replace_surrogates(text).replace("\r\n", "\n").translate(_SIGNS)


def secrets(*names: str) -> dict[str, str]:
    """Return environment variables whose names suggest a secret, or are given."""
    return {
        name: value
        for name, value in os.environ.items()
        if len(value) >= _MIN_SECRET and (name in names or _SECRET_NAME.search(name))
    }


def redact(text: str, keys: Mapping[str, str] | None = None) -> str:
    """Replace the secrets of the environment, or the given ones, with their names.

    Long fragments are redacted too, even with spaces, quotes or dashes inside: a server may echo a
    key in two halves, or stream it letter by letter. A whole key is also found in base64,
    in hex, percent-encoded or escaped otherwise, and reversed.

    >>> redact("no such key: sk-very-secret-7", {"LAB_KEY": "sk-very-secret-7", "OTHER": "no"})
    'no such key: <LAB_KEY>'
    >>> redact("sk-01234567, then 89abcdef", {"LAB_KEY": "sk-0123456789abcdef"})
    '<LAB_KEY>, then <LAB_KEY>'
    """
    for name, value in (secrets() if keys is None else keys).items():
        if len(value) >= _MIN_SECRET:
            text = f"<{name}>".join(_any_encoding(value).split(text))
            text = _redact_fragments(text, value, name)
    return text


@lru_cache(maxsize=256)
def _any_encoding(key: str) -> re.Pattern[str]:
    """Find a key as it is, with any of its characters escaped, reversed, or in base64."""

    def escape(char: str) -> str:
        data = char.encode("utf-8", "surrogateescape")
        # %73, \x73, \u0073, &#x73;, 73 and 73:, or &#115;
        in_hex = "".join(rf"(?:%|\\x|\\u00|&#x)?{byte:02x}[;:]?" for byte in data)
        return f"{in_hex}|&#{ord(char)};"

    maybe_escaped = "".join(f"(?:{re.escape(char)}|(?i:{escape(char)}))" for char in key)
    others = [key[::-1], *_in_base64(key.encode("utf-8", "surrogateescape"))]
    return re.compile("|".join([maybe_escaped, *map(re.escape, others)]))


def _in_base64(data: bytes) -> Iterator[str]:
    """The characters of base64 that depend on the data alone, wherever it begins in a group."""
    for before in range(3):
        encoded = b64encode(bytes(before) + data).decode()
        own = encoded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        yield from {own, own.translate(str.maketrans("+/", "-_"))}


def _redact_fragments(text: str, key: str, name: str) -> str:
    """Redact fragments of a key, compared by letters and digits alone."""
    core = _SEPARATORS.sub("", key)
    # Paths, URLs and plain words occur in many messages, and their fragments are not secret.
    if not any(map(str.isdigit, core)) or key.startswith(("/", "~", ".")) or "://" in key:
        return text
    size = min(_MAX_FRAGMENT, max(_MIN_SECRET, len(core) // 3))
    joined = _SEPARATORS.sub("", text)
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
    places = [at for at, char in enumerate(text) if not _SEPARATORS.match(char)] if runs else []
    for start, end in reversed(runs):
        text = text[: places[start]] + f"<{name}>" + text[places[end - 1] + 1 :]
    return text


# Neutral sentences, and one text of every length from 1 to 20 characters, so that nothing is cut.
_FILLER = (
    "The room is quiet and the light stays on.",
    "A clock on the wall shows the time of day.",
    "The paper on the table is white and of the usual size.",
    "Outside, the weather is neither warm nor cold.",
    "The chairs stand in a row along the wall.",
    "Somebody walks down the corridor and back.",
)
_ENDINGS = (
    ".",
    "Hm",
    "Hm.",
    "Now.",
    "Well.",
    "Quiet.",
    "By now.",
    "By noon.",
    "All calm.",
    "All quiet.",
    "It is calm.",
    "It is quiet.",
    "It is silent.",
    "It is evening.",
    "A door is shut.",
    "The lamp is lit.",
    "The door is shut.",
    "The floor is flat.",
    "The walls are bare.",
    "The window is clean.",
)
# Any rest of at least this length can be made of whole sentences.
_MIN_REST = 10


def neutral_text(length: int) -> str:
    """Neutral text of an exact length, in whole sentences unless it is very short.

    >>> neutral_text(40)
    'The window is clean. The walls are bare.'
    """
    said: list[str] = []
    left, fillers = length, cycle(_FILLER)
    while left > len(_ENDINGS):
        sentence = next(fillers)
        room = left - 1 - _MIN_REST
        if len(sentence) > room:
            sentence = _ENDINGS[min(room, len(_ENDINGS)) - 1]
        said.append(sentence)
        left -= len(sentence) + 1
    return " ".join([*said, *_ENDINGS[left - 1 : left]])
