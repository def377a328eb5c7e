"""Pages of a study in a browser: layout, accessibility, keyboard."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pytest
from playwright.async_api import Browser, Page, expect

from chimeralab.rating.invitations import RatingService
from chimeralab.rating.packets import DraftRating
from chimeralab.report.files import write_report
from tests.browser.pages import (
    DESKTOP,
    PHONE,
    complaints,
    fetched,
    low_contrast,
    new_page,
    overflow,
    press,
    tab_to,
    violations,
)
from tests.browser.servers import Server, serving
from tests.plans import PEOPLE_RATED
from tests.studies import StudyCache

pytestmark = pytest.mark.anyio
STEPS = ("run", "draw")
PAGES = (
    "/study/1",
    "/study/1/talk/looping/p1/1",
    "/study/1/raters",
    "/study/1/reliability",
    "/study/1/report",
    "/study/1/report/index.html",
)


class Decided(NamedTuple):
    """A server with a study whose gate is decided, and the link of its adjudicator."""

    server: Server
    link: str


@pytest.fixture(scope="module")
def decided(studies: StudyCache, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Decided]:
    study = studies.copy(tmp_path_factory.mktemp("decided") / "study", PEOPLE_RATED, steps=STEPS)
    with RatingService(study) as service:
        for name, label in (("ann", "1"), ("bob", "0")):
            invitation = service.find_invitation(service.invite(name))
            assert invitation is not None
            for sheet in service.session(invitation).sheets:
                service.save(invitation, DraftRating(sheet, label, "2-3", "As I <b>see</b> it."))
            service.hand_in(invitation)
        token = service.invite("cid", task="adjudicate")
    write_report(study)
    with serving(study.path) as server:
        yield Decided(server, f"{server.origin}/rate?token={token}")


@pytest.fixture
async def owner(page: Page, decided: Decided) -> Page:
    """A page that has opened the start-up link."""
    await page.goto(decided.server.url)
    return page


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
async def test_study_pages_fit_and_are_accessible(
    browser: Browser, decided: Decided, width: int
) -> None:
    async with new_page(browser, width) as page:
        await page.goto(decided.server.url)
        for address in PAGES:
            await page.goto(decided.server.origin + address)
            assert await overflow(page) == 0, address
            assert await complaints(page) == [], address
            assert await low_contrast(page) == [], address
            assert await violations(page) == [], address
        assert all(url.startswith(decided.server.origin) for url in await fetched(page))


async def test_study_can_be_navigated_by_keyboard(owner: Page, decided: Decided) -> None:
    study = f"{decided.server.origin}/study/1"
    await owner.goto(study)
    await press(owner, "j", "j")
    focus = owner.locator(".grid a[data-walk]:focus")
    opened = unquote(await focus.get_attribute("href") or "")
    await press(owner, "Enter")
    await owner.wait_for_url(lambda url: unquote(url) == decided.server.origin + opened)
    await press(owner, "u")
    await owner.wait_for_url(study)
    for name in ("raters", "reliability", "report"):
        # Links are reached by Tab, which pages can't intercept.
        await tab_to(owner.locator(f"header a[href$={name}]"))
        await press(owner, "Enter")
        await owner.wait_for_url(f"{study}/{name}")
        await press(owner, "u")
        await owner.wait_for_url(study)


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
async def test_report_has_its_styles_and_runs_nothing(
    browser: Browser, decided: Decided, width: int
) -> None:
    async with new_page(browser, width) as login:
        await login.goto(decided.server.url)
        page = await login.context.new_page()
        await page.goto(f"{decided.server.origin}/study/1/report/index.html")
        assert await page.evaluate("document.styleSheets.length") > 0
        assert await fetched(page) == []
        assert await complaints(page) == []
        planted = """() => {
          const script = document.createElement('script');
          script.textContent = 'window.owned = 1';
          document.body.append(script);
          return String(window.owned);
        }"""
        assert await page.evaluate(planted) == "undefined"
        assert all("Content Security Policy" in text for text in await complaints(page))


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
async def test_a_third_person_settles_by_keys_and_sees_no_names(
    browser: Browser, decided: Decided, width: int
) -> None:
    async with new_page(browser, width) as page:
        await page.goto(decided.link)
        await expect(page.locator("main")).to_contain_text("The raters' labels")
        assert await overflow(page) == 0
        assert await low_contrast(page) == []
        assert await violations(page) == []
        assert await page.locator("blockquote").count() == 2
        assert await page.locator("blockquote b").count() == 0
        received = (await page.content()).lower()
        assert [word for word in ("human:", "ann", "bob") if f">{word}" in received] == []
        assert "human:" not in received
        heading = page.locator("h1")
        first = await heading.inner_text()
        await press(page, "j", "j", "e", "r", *"New.", "Escape", "0")
        await expect(heading).not_to_have_text(first)
        await page.wait_for_load_state()
        await press(page, "z")
        await expect(heading).to_have_text(first)
        assert await page.locator("input[name=turn]").count() == 4
        assert await complaints(page) == []


@pytest.fixture
def unrated(studies: StudyCache, tmp_path: Path) -> Iterator[Server]:
    study = studies.copy(tmp_path / "study", PEOPLE_RATED, steps=STEPS)
    with serving(study.path) as server:
        yield server


async def test_study_without_raters_says_so(browser: Browser, unrated: Server) -> None:
    async with new_page(browser, PHONE) as page:
        await page.goto(unrated.url)
        for address, said in (
            ("/study/1/raters", "Nobody has been invited yet"),
            ("/study/1/report", "There is no report yet"),
        ):
            await page.goto(unrated.origin + address)
            await expect(page.locator("main")).to_contain_text(said)
            assert await overflow(page) == 0
            assert await violations(page) == []
