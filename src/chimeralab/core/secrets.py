"""Keys stay in the environment: find them, and redact them in any text that will be kept."""

import os
import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
# Shorter values are flags, numbers and placeholders; without them messages would be unreadable.
_SHORTEST = 8


def secrets(*names: str) -> dict[str, str]:
    """The values in the environment that look like keys, or are called so, by their variable."""
    return {
        name: value
        for name, value in os.environ.items()
        if len(value) >= _SHORTEST and (name in names or _SECRET_NAME.search(name))
    }


def redact(text: str, keys: Mapping[str, str] | None = None) -> str:
    """The text with every key of this environment, or each one given, replaced by its name.

    >>> redact("no such key: sk-very-secret", {"LAB_KEY": "sk-very-secret", "OTHER": "no"})
    'no such key: <LAB_KEY>'
    """
    for name, value in (secrets() if keys is None else keys).items():
        if len(value) >= _SHORTEST:
            text = text.replace(value, f"<{name}>")
    return text
