"""The page of a conversation in a real browser: it renders, stays quiet, and runs nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from chimeralab import Trajectory, Turn
from chimeralab.report.conversation import draw_conversation
from tests.browser.pages import (
    Screens,
    broken_links,
    complaints,
    fetched,
    low_contrast,
    new_page,
    overflow,
    show_on_screens,
    violations,
)

pytestmark = pytest.mark.anyio
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
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A conversation of hostile turns, a long one, a silent one, and then a loop."""
    texts = [*HOSTILE, "A long story. " * 400, *[LOOP] * 8]
    names = [f"<b>{n}</b>" + "\u202e" * (n % 2) for n in range(len(texts))]
    turns = [Turn(text, name) for text, name in zip(texts, names, strict=True)]
    system = Turn("<u>Be brief.</u>", "system", "system", spoken=False)
    talk = Trajectory("<i>hostile</i>" + "id" * 200, (system, *turns), {"<s>": "<s>" * 200})
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(draw_conversation(talk), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
async def screens(browser: Browser, file: Path) -> AsyncIterator[Screens]:
    async with show_on_screens(browser, file) as screens:
        yield screens


async def test_page_has_no_accessibility_violation(screens: Screens) -> None:
    assert await violations(await screens.at()) == []


@pytest.mark.parametrize("width", SIZES)
async def test_page_fits_the_screen(screens: Screens, width: int) -> None:
    page = await screens.at(width)
    assert await overflow(page) == 0
    assert await complaints(page) == []


async def test_page_makes_no_network_requests(screens: Screens) -> None:
    assert await fetched(await screens.at()) == []


async def test_planted_markup_stays_text(screens: Screens) -> None:
    page = await screens.at()
    assert (await page.title()).startswith("Conversation <i>hostile</i>")
    planted = "script, img, iframe, object, base, b, u, i, s, svg[onload], meta[content*=url]"
    assert await page.locator(planted).count() == 0
    assert await page.locator("h1").count() == 1
    shown = await page.locator("main").text_content()
    assert shown is not None
    assert [text for text in HOSTILE[:6] if text not in shown] == []


async def test_every_turn_is_inside_the_list(screens: Screens) -> None:
    page = await screens.at()
    assert await page.locator("ol.turns > li[id^=message-]").count() == len(HOSTILE) + 10
    assert await page.locator("tr.collapsed").count() == 5
    assert await page.locator("li.silent").count() == 1


@pytest.mark.parametrize("width", [320, 1280])
async def test_one_timeline_and_one_heat_map_are_visible(screens: Screens, width: int) -> None:
    page = await screens.at(width)
    await page.locator("details.heat").evaluate("fold => fold.open = true")
    assert await page.locator(".chart").filter(visible=True).count() == 2


@pytest.mark.parametrize("dark", [False, True])
async def test_text_has_enough_contrast(screens: Screens, dark: bool) -> None:
    assert await low_contrast(await screens.at(dark=dark)) == []


async def test_towers_of_combining_marks_stay_with_their_turn(screens: Screens) -> None:
    texts = (await screens.at()).locator(".text")
    clipped = "texts => texts.map(text => getComputedStyle(text).overflowY)"
    assert set(await texts.evaluate_all(clipped)) == {"clip"}


async def test_links_of_the_evidence_point_to_turns(screens: Screens) -> None:
    page = await screens.at()
    assert await broken_links(page) == []
    assert await page.locator("tr.collapsed a").count() == 5


async def test_page_is_complete_without_javascript(browser: Browser, file: Path) -> None:
    async with new_page(browser, java_script_enabled=False) as page:
        await page.goto(file.as_uri())
        assert await page.locator("svg").count() == 3


async def test_browser_reports_what_a_bad_page_does(page: Page, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<p style='color:#ccc;width:3000px'>faint</p><a href='#nowhere'></a>"
        "<img src='https://127.0.0.1:9/x.png'><script>console.error('oh'); nothing()</script>"
    )
    await page.goto(bad.as_uri())
    assert await overflow(page) > 1_000
    assert await low_contrast(page) == [": faint"]
    assert await broken_links(page) == ["#nowhere"]
    assert await fetched(page) == ["https://127.0.0.1:9/x.png"]
    failed, *said = sorted(await complaints(page))
    assert failed.startswith("Failed to load resource")
    assert said == ["nothing is not defined", "oh"]
