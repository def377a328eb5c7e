"""Keys stay in the environment: find them, and redact them in any text that will be kept."""

import os
import re
from collections.abc import Iterator, Mapping

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
# Shorter values are flags, numbers and placeholders; without them messages would be unreadable.
_SHORTEST = 8
# What one piece of a key may tell; public beginnings such as sk-proj- are shorter.
_LONG_PIECE = 12
_JOINTS = re.compile(r"[\W_]+")


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
    a key in two halves, or stream it letter by letter.

    >>> redact("no such key: sk-very-secret-7", {"LAB_KEY": "sk-very-secret-7", "OTHER": "no"})
    'no such key: <LAB_KEY>'
    >>> redact("sk-01234567, then 89abcdef", {"LAB_KEY": "sk-0123456789abcdef"})
    '<LAB_KEY>, then <LAB_KEY>'
    """
    for name, value in (secrets() if keys is None else keys).items():
        if len(value) >= _SHORTEST:
            text = _without_pieces(text.replace(value, f"<{name}>"), value, name)
    return text


def _without_pieces(text: str, key: str, name: str) -> str:
    """The text without the pieces of a key, found where nothing but letters and digits is left."""
    core = _JOINTS.sub("", key)
    # A path, an address or plain words are in many messages, and no piece of them is secret.
    if not any(map(str.isdigit, core)) or key.startswith(("/", "~", ".")) or "://" in key:
        return text
    size = min(_LONG_PIECE, max(_SHORTEST, len(core) // 3))
    joined = _JOINTS.sub("", text)
    runs: list[list[int]] = []
    for start in sorted(_found(core, size, joined)):
        if runs and start <= runs[-1][1]:
            runs[-1][1] = start + size
        else:
            runs.append([start, start + size])
    places = [at for at, char in enumerate(text) if not _JOINTS.match(char)] if runs else []
    for start, end in reversed(runs):
        text = text[: places[start]] + f"<{name}>" + text[places[end - 1] + 1 :]
    return text


def _found(key: str, size: int, text: str) -> Iterator[int]:
    """Where pieces of the key begin that have this size."""
    for piece in (key[at : at + size] for at in range(len(key) - size + 1)):
        at = text.find(piece)
        while at >= 0:
            yield at
            at = text.find(piece, at + 1)
