"""Tells the format of a JSON value by what is in it, never by the file's ending."""

from collections.abc import Callable
from typing import Any

from chimeralab.readers import claude_code, inspect, openai, plain, sharegpt
from chimeralab.readers.expect import Unreadable, kind

FORMATS: dict[str, Callable[[Any], bool]] = {
    "plain": plain.matches,
    "inspect": inspect.matches,
    "openai": openai.matches,
    "sharegpt": sharegpt.matches,
    "claude-code": claude_code.matches,
}
"""Every format by name, in the order in which they are tried."""


def format_of(value: Any) -> str:
    for name, matches in FORMATS.items():
        if matches(value):
            return name
    raise Unreadable(f"is no conversation in a known format: {_shape(value)}")


def is_one_talk(values: list[Any]) -> bool:
    """Whether a list is the messages of one conversation, and not a list of conversations.

    >>> is_one_talk([{"role": "user", "content": "Hi"}]), is_one_talk([{"turns": ["Hi"]}])
    (True, False)
    """
    by_the_list = (openai.matches(values), sharegpt.matches(values))
    whole_talks = (plain.matches, inspect.matches, openai.matches, sharegpt.matches)
    return any(by_the_list) and not any(matches(values[0]) for matches in whole_talks)


def _shape(value: Any) -> str:
    if not isinstance(value, dict):
        return f"it is {kind(value)}"
    keys = ", ".join(repr(key[:20]) for key in list(value)[:5])
    return f"its fields are {keys or 'none'}; expected turns, messages or conversations"
