"""Reports in a real browser, of self-play and of a trial: they fit, print, and run nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page

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
from tests.plans import HOSTILE, LOOPERS, STRESSED, Files
from tests.studies import RUN, StudyCache

pytestmark = pytest.mark.anyio
SIZES = (320, 360, 768, 1280)


def write_report(studies: StudyCache, files: Files, folder: Path) -> Path:
    study = studies.copy(folder / "study", files, steps=(*RUN, "report"))
    return study.path / "report" / "index.html"


@pytest.fixture(scope="module")
def selfplay(studies: StudyCache, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(studies, LOOPERS, tmp_path_factory.mktemp("selfplay"))


@pytest.fixture(scope="module")
def trial(studies: StudyCache, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(studies, STRESSED, tmp_path_factory.mktemp("trial"))


@pytest.fixture(scope="module")
async def selfplay_screens(browser: Browser, selfplay: Path) -> AsyncIterator[Screens]:
    async with show_on_screens(browser, selfplay) as screens:
        yield screens


@pytest.fixture(scope="module")
async def trial_screens(browser: Browser, trial: Path) -> AsyncIterator[Screens]:
    async with show_on_screens(browser, trial) as screens:
        yield screens


@pytest.fixture(scope="module", params=["selfplay", "trial"])
def file(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module", params=["selfplay", "trial"])
def screens(request: pytest.FixtureRequest) -> Screens:
    found: Screens = request.getfixturevalue(f"{request.param}_screens")
    return found


def seen_charts(page: Page) -> Locator:
    return page.locator("figure .chart").filter(visible=True)


@pytest.mark.parametrize("width", SIZES)
async def test_report_fits_the_screen_and_makes_no_requests(screens: Screens, width: int) -> None:
    page = await screens.at(width)
    assert await overflow(page) == 0
    assert await complaints(page) == []
    assert await fetched(page) == []


async def test_report_has_no_accessibility_violation(screens: Screens) -> None:
    assert await violations(await screens.at()) == []


async def test_planted_markup_stays_text(selfplay_screens: Screens) -> None:
    page = await selfplay_screens.at()
    assert await page.title() == "Report on loops <i>and</i> others"
    planted = "script, img, iframe, object, base, i, b, u, svg[onload]"
    assert await page.locator(planted).count() == 0
    shown = await page.locator("main").text_content()
    assert shown is not None
    assert HOSTILE in shown
    assert "Do <script>alert(1)</script> loops differ?" in shown
    assert "<u>odd</u>" in shown


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
async def test_text_has_enough_contrast(screens: Screens, dark: bool, width: int) -> None:
    assert await low_contrast(await screens.at(width, dark=dark)) == []


@pytest.mark.parametrize("width", [320, 1280])
async def test_every_figure_is_shown_once_with_its_caption(
    browser: Browser, file: Path, width: int
) -> None:
    async with new_page(browser, width) as page:
        await page.goto(file.as_uri())
        unfold = "all => all.forEach(details => details.open = true)"
        await page.locator("details").evaluate_all(unfold)
        charts = seen_charts(page)
        assert await charts.count() == await page.locator("figure").count() > 12
        words = "charts => charts.map(chart => chart.getAttribute('aria-label').length)"
        assert min(await charts.evaluate_all(words)) > 40


@pytest.mark.parametrize(("width", "most"), [(390, 844), (1280, 800)])
async def test_first_result_is_on_the_first_screen(screens: Screens, width: int, most: int) -> None:
    page = await screens.at(width)
    glance = page.locator("#glance")
    for result in (glance.locator(".bars li"), glance.locator(".card strong")):
        assert await result.first.evaluate("e => e.getBoundingClientRect().bottom") < most


async def test_summary_of_a_trial_comes_before_its_details(trial_screens: Screens) -> None:
    page = await trial_screens.at()
    words = await seen_charts(page).first.get_attribute("aria-label")
    assert words is not None
    assert words.startswith("Differences in MCI, GFQ and DFS on one scale")
    assert await page.locator("#glance .card").count() == 3
    folded = await page.locator("details figure").count()
    assert folded == await page.locator("details:not([open]) figure").count() > 8


async def test_planted_replies_of_a_trial_stay_text(trial_screens: Screens) -> None:
    page = await trial_screens.at()
    assert await page.title() == "Report on stress <i>and</i> sham"
    planted = "script, img, iframe, object, base, i, svg[onload]"
    assert await page.locator(planted).count() == 0
    shown = await page.locator("main").text_content()
    assert shown is not None
    assert HOSTILE in shown


async def test_injections_are_highlighted_where_they_were_made(
    trial_screens: Screens,
) -> None:
    page = await trial_screens.at()
    marked = await page.locator(".session .injected .put").all_text_contents()
    assert any("Participant 8" in text for text in marked)
    assert await page.locator(".session .disturbed li").count() > 0


async def test_row_of_a_table_becomes_a_card_on_a_phone(selfplay_screens: Screens) -> None:
    heading = "cell => getComputedStyle(cell, '::before').content"
    cell = "#distributions ~ .scroll td:nth-child(4)"
    phone = await selfplay_screens.at(360)
    assert "mean" in await phone.locator(cell).first.evaluate(heading)
    desktop = await selfplay_screens.at(1280)
    assert await desktop.locator(cell).first.evaluate(heading) == "none"


async def test_print_unfolds_the_tables_and_leaves_the_rest_of_the_transcripts_folded(
    selfplay_screens: Screens,
) -> None:
    page = await selfplay_screens.at()
    content = "details => getComputedStyle(details, '::details-content').contentVisibility"
    numbers, rest = page.locator("details.numbers").first, page.locator("details.rest").first
    assert await numbers.evaluate(content) == "hidden"
    await page.emulate_media(media="print")
    assert await numbers.evaluate(content) == "visible"
    assert await rest.evaluate(content) == "hidden"


async def test_links_point_to_sections(screens: Screens) -> None:
    assert await broken_links(await screens.at()) == []


async def test_ids_of_the_page_are_unique(screens: Screens) -> None:
    page = await screens.at()
    ids = await page.locator("[id]").evaluate_all("elements => elements.map(e => e.id)")
    assert sorted(set(ids)) == sorted(ids)
