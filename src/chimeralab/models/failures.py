"""Why a server gave no reply: its status and words in the failure kinds of the seam."""

import re

from chimeralab.models.seam import FailureKind, ModelFailure

_BY_STATUS: dict[int, FailureKind] = {
    401: "auth",
    403: "auth",
    408: "timeout",
    429: "rate_limit",
    504: "timeout",
}
_OVERFLOW = re.compile(
    r"context.?(length|size|window)|(prompt|input).{0,20}too long", re.IGNORECASE
)
_POLICY = re.compile(r"content.?(filter|policy|management policy)|moderation", re.IGNORECASE)
_LONGEST_MESSAGE = 300
_SHORTEST_KEY = 8


def kind_of(status: int, words: str) -> FailureKind:
    """What an error status means.

    >>> kind_of(400, "This model's maximum context length is 8192 tokens")
    'overflow'
    >>> kind_of(503, "context length")
    'server'
    """
    if status in {400, 413, 422} and _OVERFLOW.search(words):
        return "overflow"
    if status in {400, 403} and _POLICY.search(words):
        return "refused"
    return _BY_STATUS.get(status, "server")


def failure(kind: FailureKind, words: str, *, keys: tuple[str, ...] = ()) -> ModelFailure:
    """A failure whose message is short and holds none of the keys."""
    words = without_keys(words, keys)
    if len(words) > _LONGEST_MESSAGE:
        words = words[:_LONGEST_MESSAGE] + " …"
    return ModelFailure(kind, words)


def without_keys(text: str, keys: tuple[str, ...]) -> str:
    """The text with every key blotted out. A short one is a placeholder like `EMPTY`, a plain word.

    >>> without_keys("no such key: sk-very-secret", ("sk-very-secret", "EMPTY"))
    'no such key: <key>'
    """
    for key in keys:
        if len(key) >= _SHORTEST_KEY:
            text = text.replace(key, "<key>")
    return text
