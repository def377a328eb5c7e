"""Failure kinds, and redaction of their messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimeralab.models.seam import classify_status, make_failure

KEY = "sk-secret-0123456789"


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (400, "This model's maximum context length is 8192 tokens", "overflow"),
        (400, '{"type": "exceed_context_size_error"}', "overflow"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "overflow"),
        (413, "the context window is full", "overflow"),
        (400, "code: content_filter", "refused"),
        (400, "temperature: unknown parameter", "server"),
        (401, "", "auth"),
        (403, "", "auth"),
        (403, "flagged by moderation", "refused"),
        (404, "no such model", "server"),
        (408, "", "timeout"),
        (429, "context length of your queue", "rate_limit"),
        (500, "", "server"),
        (504, "", "timeout"),
    ],
)
def test_status_and_words_decide_the_kind(status: int, words: str, kind: str) -> None:
    assert classify_status(status, words) == kind


@given(st.text(max_size=400), st.text(max_size=400))
def test_key_is_redacted_anywhere(before: str, after: str) -> None:
    # A key that the cut goes through must not leave its first half behind.
    message = str(make_failure("auth", before + KEY + after, {"LAB_KEY": KEY}))
    assert KEY not in message
    assert KEY[:10] not in message or KEY[:10] in before + after


def test_long_messages_are_cut() -> None:
    assert len(str(make_failure("server", "x" * 10_000))) < 400
