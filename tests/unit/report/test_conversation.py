"""The page of a conversation: its text, its links, and its safety."""

import re
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest

from chimeralab import LockedRule, Trajectory, Turn
from chimeralab.core.records import Episode
from chimeralab.detection.loops import DetectorPair
from chimeralab.report.conversation import draw_conversation, format_spans

TOPICS = [
    "The lighthouse keeper counts the ships before breakfast.",
    "Bake the bread at two hundred degrees for half an hour.",
    "My sister plays the cello in a small orchestra.",
    "Glaciers carve valleys in the shape of a bowl.",
]
WAYS = ("track", "path", "road", "way", "line", "course", "trail")
LOOP = "Here is the revised version of the text."
VOID = {"meta", "link", "br", "img", "input"}
HOSTILE = [
    "<script>document.title = 'owned'</script>",
    '<img src="https://example.org/x.png" onerror="document.title = 1">',
    "</div></li></ol></main><h1>Not a heading</h1>",
    "{{ 7 * 7 }} {% raw %} ${7 * 7}",
    "left \u202eright to left\u2066 \u2069",
    "\x1b[31mred\x1b[0m \x00 \x07 \ud800",
    "x" * 5_000,
    "&lt;b&gt; &amp; <b>",
]


class Page(HTMLParser):
    """What a browser would find in a page, for as much as a test asks."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.add(tag)
        self.attributes |= values.keys()
        if anchor := values.get("id"):
            self.ids.append(anchor)
        if link := values.get("href"):
            self.links.append(link)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if "style" not in self._open else ""

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def page(*texts: str, **options: Any) -> Page:
    return _page(
        Trajectory("talk-1", tuple(Turn(text, "AB"[i % 2]) for i, text in enumerate(texts))),
        **options,
    )


def _page(talk: Trajectory, **options: Any) -> Page:
    return Page(draw_conversation(talk, **options))


@cache
def looping() -> Page:
    return page(*TOPICS, *[LOOP] * 6)


@cache
def hostile() -> Page:
    turns = tuple(Turn(text, f"<b>{i}</b>", model="<i>m</i>") for i, text in enumerate(HOSTILE))
    talk = Trajectory("<u>id</u>\u202e", turns, {"<s>key": "<s>value"}, "<a href=x>")
    return _page(talk)


def test_verdict_names_the_turns_the_share_and_the_first() -> None:
    assert "Turns 8–10 collapsed: 3 of 10 judged turns (30 %), first at turn 8." in looping().words


def test_locked_rule_has_a_fold_of_its_own_that_names_its_turns() -> None:
    fold = looping().html.split('<details class="locked">')[1].split("</details>")[0]
    assert fold.count('<tr class="collapsed">') == 3
    assert "The locked rule: 3 of 10 turns collapsed" in fold
    assert re.search(
        'turn <a href="#message-8">8</a> repeats turn <a href="#message-7">7</a>', fold
    )
    assert "collapsed" not in looping().html.split('<ol class="turns">')[1].split("</ol>")[0]


def test_headline_says_since_when_who_repeats_how_often_and_until_when() -> None:
    assert "Since message 5, both speakers say the same text again: 6 times, to the end." in (
        looping().words
    )


def test_repeats_are_folded_and_can_be_read() -> None:
    assert "× 3 more: messages 8 to 10, nothing new" in looping().words
    turns = looping().html.split('<ol class="turns">', 1)[1]
    assert turns.count(LOOP) >= 6


def test_words_that_repeat_are_grey_and_new_ones_are_marked() -> None:
    found = page(*TOPICS, *[f"I think that you are on the right {w}, go on." for w in WAYS])
    assert '<span class="same">I think that you are on the right </span><mark>road</mark>' in (
        found.html
    )
    assert re.findall("<mark>(.*?)</mark>", found.html)[1:] == list(WAYS[2:])


def test_every_link_leads_somewhere_on_the_page() -> None:
    found = looping()
    inside = [link for link in found.links if link != "data:,"]
    assert {"#message-5", "#message-7", "#message-10"} <= set(inside)
    assert {link.removeprefix("#") for link in inside} <= set(found.ids)
    assert len(found.ids) == len(set(found.ids))


def test_charts_have_a_text_alternative() -> None:
    labels = re.findall(r'role="img" aria-label="([^"]+)"', looping().html)
    assert len(labels) == 3
    assert "Turns at or above the threshold: s1 (0.92) 5, s2 (0.90) 4." in labels[0]
    assert "Shaded: Turns 8–10." in labels[0]
    assert "Most similar: 5 and 6: 1.00" in labels[2]


def test_numbers_behind_the_lines_are_in_a_table() -> None:
    assert "10 1.000 1.000 s1 and s2 5 collapsed" in " ".join(
        re.sub(r"<[^>]+>", " ", looping().html).split()
    )


def test_operating_point_is_named() -> None:
    assert "locked: a turn repeats when" in looping().words
    changed = page(*TOPICS, LOOP, LOOP, judges=DetectorPair(LockedRule(s1=0.5, window=2)))
    assert "not the locked rule: s1 = 0.5 instead of 0.92, window = 2 instead of 3" in changed.words
    assert "where 2 turns in a row" in changed.words


def test_healthy_talk_has_no_collapse() -> None:
    found = page(*TOPICS, TOPICS[0] + " And then some.", "Potatoes keep best in a dark cellar.")
    assert "No collapse in 6 judged turns." in found.words
    assert "Collapsed:" not in found.words
    assert "First collapsed turn" not in found.words


def test_short_talk_has_no_verdict_and_says_why() -> None:
    assert (
        "No verdict on collapse: 2 judged turns, and the rule needs 5." in page(*TOPICS[:2]).words
    )


@pytest.mark.parametrize("texts", [[], ["Hello?"]])
def test_conversation_without_pairs_has_no_charts(texts: list[str]) -> None:
    found = page(*texts)
    assert "svg" not in found.tags
    assert "nothing to compare" in found.words


def test_unspoken_messages_are_shown_as_not_judged() -> None:
    system = Turn("You are a pirate.", "system", "system", spoken=False)
    talk = Trajectory("talk", (system, *(Turn(text, "A") for text in TOPICS)))
    found = _page(talk)
    assert "1 system not judged You are a pirate." in found.words
    assert "message-1" in found.ids
    assert "message-6" not in found.ids


def test_hostile_text_adds_no_tags_and_no_attributes() -> None:
    assert hostile().tags <= looping().tags | {"ul", "li", "details", "summary"}
    assert hostile().attributes <= looping().attributes
    assert not hostile().tags & {"script", "img", "b", "u", "i", "s", "iframe", "object"}


def test_hostile_text_can_be_read() -> None:
    for text in (*HOSTILE[:4], HOSTILE[7]):
        assert text in hostile().words
    assert "[U+001B][31mred[U+001B][0m [U+0000] [U+0007] �" in hostile().words
    assert "left [U+202E]right" in hostile().words


def test_page_loads_no_external_resources() -> None:
    for found in (looping(), hostile()):
        assert not found.tags & {"script", "iframe", "object", "embed", "img"}
        assert "default-src 'none'" in found.html
        outside = [link for link in found.links if not link.startswith(("#", "data:"))]
        assert not outside
        assert not re.search(r"url\(|@import", found.html)


def test_long_talk_says_that_it_is_drawn_in_blocks() -> None:
    found = page(*[f"Point {i}: {TOPICS[i % 4]}" for i in range(250)])
    assert "each square is the mean over blocks of 3 turns" in found.words
    assert "message-250" in found.ids


def test_very_long_talk_says_what_it_leaves_out() -> None:
    found = page(*TOPICS, *[LOOP] * 2_996)
    assert "Of its 3,000 messages this page shows" in found.words
    assert "messages left out:" in found.words
    inside = [link.removeprefix("#") for link in found.links if link.startswith("#")]
    assert set(inside) <= set(found.ids)


def test_many_spans_are_abbreviated() -> None:
    many = [Episode(10 * n, 10 * n + 1) for n in range(1, 10)]
    assert format_spans(many[:2]) == "Turns 10–11 and 20–21"
    assert format_spans(many).endswith("60–61 and 3 more spans")
    assert format_spans([Episode(7, 7)]) == "Turn 7"


def test_messages_without_a_speaker_are_called_by_their_number() -> None:
    found = _page(Trajectory("talk", tuple(Turn(text) for text in TOPICS)))
    assert f"2 {TOPICS[1]}" in found.words


def test_long_names_and_many_fields_are_truncated() -> None:
    fields = {f"field-{n}": "x" * 1_000 for n in range(40)}
    found = _page(Trajectory("id" * 500, (Turn("Hello?", "A" * 500),), fields))
    assert "Further fields 28, in the log only" in found.words
    assert max(map(len, found.words.split())) < 500
