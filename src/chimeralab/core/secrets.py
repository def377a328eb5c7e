"""Keys stay in the environment: find them, and blot them out of any text that will be kept."""

import os
import re

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
# Shorter values are flags and numbers, and blotting those out would make messages unreadable.
_SHORTEST = 8


def secrets(*names: str) -> dict[str, str]:
    """The values in the environment that look like keys, or are called so, by their variable."""
    return {
        name: value
        for name, value in os.environ.items()
        if len(value) >= _SHORTEST and (name in names or _SECRET_NAME.search(name))
    }


def redact(text: str) -> str:
    """The text without any key of this environment."""
    for name, value in secrets().items():
        text = text.replace(value, f"<{name}>")
    return text
