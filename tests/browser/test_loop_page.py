"""Loops and tool calls in a real browser: marks are seen, and nothing from a tool runs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from chimeralab import Call, Trajectory, Turn
from chimeralab.report.conversation import draw_conversation
from tests.browser.pages import (
    Screens,
    broken_links,
    complaints,
    fetched,
    low_contrast,
    overflow,
    show_on_screens,
)

pytestmark = pytest.mark.anyio
HOSTILE = (
    "<script>document.title = 'owned'; fetch('https://example.org/')</script>"
    "<img src=x onerror=\"document.title = 'owned'\"></div></li></ol><h1>Not a heading</h1>"
    "<iframe src=https://example.org/></iframe>\u202e\x1b[31m"
)
SIZES = (320, 360, 768, 1280)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent whose calls, arguments and results are hostile, and that goes round in circles."""
    long = "W" * 3_000 + "\n" + "line\n" * 60
    made = [
        Call(HOSTILE, HOSTILE, HOSTILE, error=True),
        Call("read", {"path": HOSTILE}, long),
        Call("", None, None),
    ]
    turns = [Turn("Go.", "user", "user")]
    for call in (*made, *[Call("bash", '{"c": "make"}', HOSTILE, error=True)] * 5):
        turns.append(Turn("", "assistant", "assistant", spoken=False, calls=(call,)))
        turns.append(Turn(call.result or "", "tool", "tool", spoken=False))
    turns += [Turn("Once more, the build has failed.", "assistant", "assistant")] * 7
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(draw_conversation(Trajectory("agent", tuple(turns))), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
async def screens(browser: Browser, file: Path) -> AsyncIterator[Screens]:
    async with show_on_screens(browser, file) as screens:
        yield screens


@pytest.mark.parametrize("width", SIZES)
async def test_page_fits_the_screen_and_makes_no_requests(screens: Screens, width: int) -> None:
    page = await screens.at(width)
    assert await overflow(page) == 0
    assert await complaints(page) == []
    assert await fetched(page) == []


async def test_nothing_from_a_tool_runs(screens: Screens) -> None:
    page = await screens.at()
    assert await page.title() == "Conversation agent"
    assert await page.locator("script, img, iframe").count() == 0
    assert await page.locator("h1").count() == 1
    shown = "".join(await page.locator(".call .result").all_text_contents())
    assert "<script>document.title = 'owned'" in shown


@pytest.mark.parametrize("width", [360, 1280])
async def test_loop_marks_are_visible(screens: Screens, width: int) -> None:
    page = await screens.at(width)
    await page.locator(".fold details").evaluate_all("all => all.forEach(one => one.open = true)")
    marks = page.locator("li.looping .loop")
    assert await marks.filter(visible=True).count() == 12
    assert (await marks.first.inner_text()).startswith("a loop begins here")
    paper = "element => getComputedStyle(element).backgroundColor"
    plain = await page.locator("body").evaluate(paper)
    coloured = f"turns => turns.map({paper})"
    assert plain not in await page.locator("li.looping").evaluate_all(coloured)
    await expect(page.locator("h1")).to_contain_text("Since message", use_inner_text=True)


@pytest.mark.parametrize("dark", [False, True])
async def test_text_has_enough_contrast(screens: Screens, dark: bool) -> None:
    assert await low_contrast(await screens.at(dark=dark)) == []


async def test_long_results_are_folded(screens: Screens) -> None:
    page = await screens.at()
    assert await page.locator(".call details:not([open])").count() == 1
    heights = "calls => calls.map(call => call.getBoundingClientRect().height)"
    assert max(await page.locator(".call").evaluate_all(heights)) < 400


async def test_links_point_to_messages(screens: Screens) -> None:
    page = await screens.at()
    assert await broken_links(page) == []
    assert await page.locator(".loop a").count() > 8
