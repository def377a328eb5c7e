"""Text of logs is always escaped."""

import unicodedata
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from markupsafe import Markup

from chimeralab.core.text import neutralize
from chimeralab.report.page import _ENVIRONMENT

ANY_TEXT = st.text(st.characters(), max_size=60)


@given(ANY_TEXT)
def test_neutralized_text_has_no_control_characters(text: str) -> None:
    left = neutralize(text)
    left.encode("utf-8")
    acting = [c for c in left if unicodedata.category(c) in ("Cc", "Cs") and c not in "\t\n"]
    turning = {c for c in left if unicodedata.bidirectional(c) in TURNING}
    assert not acting
    assert not turning


TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=60))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert neutralize(text) == text


def test_line_endings_of_every_system_are_kept() -> None:
    assert neutralize("a\r\nb\rc\nd\u2028e") == "a\nb\nc\nd\ne"


@given(ANY_TEXT)
def test_templates_show_text_and_never_markup(text: str) -> None:
    page = _ENVIRONMENT.from_string("<p title='{{ text }}'>{{ text }}</p>").render(text=text)
    inside = page.removeprefix("<p title='").removesuffix("</p>")
    assert not set(inside.replace("'>", "", 1)) & set("<>'\"")
    assert unescape(inside.partition("'>")[2]) == neutralize(text)


def test_own_markup_is_not_escaped() -> None:
    template = _ENVIRONMENT.from_string("{{ drawing }}")
    assert template.render(drawing=Markup("<svg/>")) == "<svg/>"


def test_missing_template_value_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        _ENVIRONMENT.from_string("{{ verdcit }}").render(verdict="No collapse.")
