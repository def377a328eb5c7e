"""The index of many conversations in a real browser: it fits a phone, and its links lead on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from chimeralab import Trajectory, Turn
from chimeralab.detection.loops import LOOPS, DetectorPair
from chimeralab.report.conversation import write_index
from tests.browser.pages import (
    DESKTOP,
    PHONE,
    Screens,
    complaints,
    fetched,
    low_contrast,
    overflow,
    show_on_screens,
    violations,
)

pytestmark = pytest.mark.anyio
# More than get pictures; the longer the list, the longer a check for accessibility takes.
TALKS = 60


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index") / "conversations"
    loop = "Let me try <b>that</b> once more. " + "x" * 90
    said = {True: (Turn(loop),) * 6, False: (Turn("The ferry sails."), Turn("Whales sleep."))}
    talks = [
        Trajectory(f"run-{n}/" + "long" * 40, said[n % 3 > 0], {}, "log:1") for n in range(TALKS)
    ]
    write_index(talks, folder, DetectorPair(None, LOOPS))
    return folder / "index.html"


@pytest.fixture(scope="module")
async def screens(browser: Browser, index: Path) -> AsyncIterator[Screens]:
    async with show_on_screens(browser, index) as screens:
        yield screens


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
async def test_index_fits_the_screen_and_makes_no_requests(screens: Screens, width: int) -> None:
    page = await screens.at(width)
    assert await overflow(page) == 0
    assert await complaints(page) == []
    assert await fetched(page) == []
    assert await low_contrast(page) == []
    assert await violations(page) == []


async def test_every_conversation_is_listed_and_linked(screens: Screens) -> None:
    page = await screens.at()
    assert await page.locator(".conversations tbody tr").count() == TALKS
    assert await page.locator(".conversations tr.looping").count() == TALKS * 2 / 3
    links = await page.locator(".conversations a").evaluate_all("links => links.map(a => a.href)")
    assert len(links) >= TALKS
    assert all(Path(link.removeprefix("file://")).is_file() for link in links)
