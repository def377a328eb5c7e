"""Secrets are redacted by the name of their variable; short placeholders are not."""

import re
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimeralab.core.text import redact, secrets


def test_placeholder_keys_are_not_redacted() -> None:
    assert redact("the box is EMPTY", {"LAB_KEY": "EMPTY", "NONE": ""}) == "the box is EMPTY"


def test_values_that_look_like_keys_are_redacted_under_their_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAB_API_KEY", "sk-0123456789")
    monkeypatch.setenv("LAB_COLOUR", "ultramarine")
    assert redact("sk-0123456789 ultramarine") == "<LAB_API_KEY> ultramarine"
    assert secrets("LAB_COLOUR")["LAB_COLOUR"] == "ultramarine"


KEY = "sk-planted-0123456789-do-not-print"
BARE = re.sub(r"[\W_]", "", KEY)


def pieces_left(text: str, size: int = 12) -> list[str]:
    joined = re.sub(r"[\W_]", "", text)
    return [BARE[n : n + size] for n in range(len(BARE) - size + 1) if BARE[n : n + size] in joined]


@given(st.integers(0, len(KEY)), st.text(max_size=12), st.text(max_size=5), st.text(max_size=5))
def test_long_fragments_of_a_key_are_redacted(
    cut: int, between: str, before: str, after: str
) -> None:
    shown = redact(before + KEY[:cut] + between + KEY[cut:] + after, {"LAB_KEY": KEY})
    assert not pieces_left(shown)
    assert "<LAB_KEY>" in shown


@pytest.mark.parametrize(
    "echo",
    [
        " ".join(KEY),
        KEY.replace("-", "\n"),
        "\u200b".join(KEY),
        '", "'.join(KEY),
        f"{KEY[:17]} is the first half of your key, and {KEY[17:]} the second",
    ],
)
def test_a_key_that_is_spelled_out_or_halved_is_redacted(echo: str) -> None:
    shown = redact(f"You sent {echo}.", {"LAB_KEY": KEY})
    assert not pieces_left(shown)
    assert "<LAB_KEY>" in shown


ECHOES = {
    "reversed": lambda key: key[::-1],
    "percent-encoded": lambda key: quote(key, safe=""),
    "every byte percent-encoded": lambda key: "".join(f"%{b:02X}" for b in key.encode()),
    "lower-case percent": lambda key: quote(key, safe="").lower(),
    "hex": lambda key: key.encode().hex(),
    "upper-case hex with colons": lambda key: key.encode().hex(":").upper(),
    "escapes of Python": lambda key: "".join(f"\\x{ord(c):02x}" for c in key),
    "escapes of JSON": lambda key: "".join(f"\\u{ord(c):04x}" for c in key),
    "entities": lambda key: "".join(f"&#{ord(c)};" for c in key),
    "entities in hex": lambda key: "".join(f"&#x{ord(c):X};" for c in key),
    "base64": lambda key: b64encode(key.encode()).decode(),
    "url-safe base64": lambda key: urlsafe_b64encode(key.encode()).decode(),
    "basic authentication": lambda key: b64encode(f"me:{key}".encode()).decode(),
    "base64 of a header": lambda key: b64encode(f"Bearer {key}\r\n".encode()).decode(),
}


@pytest.mark.parametrize("echo", ECHOES)
@given(st.text("abcdefghijklmnopqrstuvwxyz0123456789-_/+=?~", min_size=12, max_size=60))
def test_encoded_key_is_redacted(echo: str, key: str) -> None:
    shown = redact(f"You sent {ECHOES[echo](key)}.", {"LAB_KEY": key})
    assert "<LAB_KEY>" in shown
    assert ECHOES[echo](key) not in shown
    assert ECHOES[echo](key)[4:-4] not in shown


@given(st.text())
def test_text_without_a_key_stays_as_it_is(text: str) -> None:
    assert redact(text, {"LAB_KEY": KEY}) == text


@pytest.mark.parametrize("value", ["/home/lab9/tokens/current", "english-international"])
def test_fragments_of_paths_and_words_are_not_redacted(value: str) -> None:
    assert redact(f"can't read {value[:-3]}", {"TOKEN_FILE": value}) == f"can't read {value[:-3]}"
