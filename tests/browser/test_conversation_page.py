"""The page of a conversation in a real browser: it renders, stays quiet, and runs nothing."""

from pathlib import Path
from typing import Any

import pytest

from chimeralab import Trajectory, Turn
from chimeralab.report.conversation import draw_conversation

HOSTILE = [
    "<script>document.title = 'owned'; fetch('https://example.org/')</script>",
    "<img src=x onerror=\"document.title = 'owned'\"><svg onload=\"document.title = 'owned'\">",
    "<style>body { display: none }</style><link rel=stylesheet href=https://example.org/a.css>",
    "<meta http-equiv=refresh content='0; url=https://example.org/'><base href=https://x.org/>",
    "</div></li></ol></section></main></body></html><h1>Not a heading</h1>",
    "<iframe src=https://example.org/></iframe><object data=https://example.org/></object>",
    "W" * 6_000,
    "\u202eesrever ni\u202c \u2067isolated",
    "Z" + "\u0300\u0323" * 400,
    "\x1b[2J\x1b[31mred\x00",
    "שלום עולם, this is both ways",
]
LOOP = "Let me check that once more and come back to you."
SIZES = (320, 360, 768, 1280)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A conversation of hostile turns, a long one, a silent one, and then a loop."""
    texts = [*HOSTILE, "A long story. " * 400, *[LOOP] * 8]
    names = [f"<b>{n}</b>" + "\u202e" * (n % 2) for n in range(len(texts))]
    turns = [Turn(text, name) for text, name in zip(texts, names, strict=True)]
    system = Turn("<u>Be brief.</u>", "system", "system", spoken=False)
    talk = Trajectory("<i>hostile</i>" + "id" * 200, (system, *turns), {"<s>": "<s>" * 200})
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(draw_conversation(talk), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", SIZES)
def test_page_fits_the_screen(browser: Any, page: Path, width: int) -> None:
    visit = browser.visit(page, width=width)
    assert visit.overflow() == 0
    assert visit.complaints() == []


def test_page_asks_the_network_for_nothing(browser: Any, page: Path) -> None:
    assert browser.visit(page).fetched() == []


def test_planted_markup_stays_text(browser: Any, page: Path) -> None:
    visit = browser.visit(page)
    assert visit.value_of("document.title").startswith("Conversation <i>hostile</i>")
    planted = "script, img, iframe, object, base, b, u, i, s, svg[onload], meta[content*=url]"
    assert visit.value_of(f"document.querySelectorAll('{planted}').length") == 0
    assert visit.value_of("document.querySelectorAll('h1').length") == 1
    for text in HOSTILE[:6]:
        assert text in visit.value_of("document.querySelector('main').textContent")


def test_every_turn_has_its_place_inside_the_list(browser: Any, page: Path) -> None:
    visit = browser.visit(page)
    turns = len(HOSTILE) + 9
    assert visit.value_of("document.querySelectorAll('ol.turns > li[id^=turn-]').length") == turns
    assert visit.value_of("document.querySelectorAll('li.collapsed').length") == 5
    assert visit.value_of("document.querySelectorAll('li.silent').length") == 1


@pytest.mark.parametrize("width", [320, 1280])
def test_exactly_one_timeline_and_one_heat_map_are_seen(
    browser: Any, page: Path, width: int
) -> None:
    seen = "[...document.querySelectorAll('.chart')].filter(c => c.getClientRects().length).length"
    assert browser.visit(page, width=width).value_of(seen) == 2


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_its_paper(browser: Any, page: Path, dark: bool) -> None:
    assert browser.visit(page, dark=dark).low_contrast() == []


def test_towers_of_combining_marks_stay_with_their_turn(browser: Any, page: Path) -> None:
    clipped = (
        "[...document.querySelectorAll('.text')]"
        ".every(text => getComputedStyle(text).overflowY === 'clip')"
    )
    assert browser.visit(page).value_of(clipped) is True


def test_links_of_the_evidence_lead_to_turns(browser: Any, page: Path) -> None:
    broken = (
        "[...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.getAttribute('href'))"
        ".filter(href => !document.getElementById(href.slice(1)))"
    )
    visit = browser.visit(page)
    assert visit.value_of(broken) == []
    assert visit.value_of("document.querySelectorAll('.collapsed .repeat a').length") == 5


def test_page_is_whole_without_javascript(browser: Any, page: Path) -> None:
    visit = browser.visit(page, scripts=False)
    assert visit.value_of("document.querySelectorAll('svg').length") == 3


def test_browser_reports_what_a_bad_page_does(browser: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<p style='color:#ccc;width:3000px'>faint</p>"
        "<img src='https://127.0.0.1:9/x.png'><script>console.error('oh'); nothing()</script>"
    )
    visit = browser.visit(bad)
    assert visit.overflow() > 1_000
    assert visit.low_contrast() == [": faint"]
    assert visit.fetched() == ["https://127.0.0.1:9/x.png"]
    assert any("oh" in complaint for complaint in visit.complaints())
    assert any("nothing is not defined" in complaint for complaint in visit.complaints())
