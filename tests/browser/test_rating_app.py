"""Two people rate at once in a real browser, by keys alone, and a killed server loses nothing."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, Response, expect

from chimeralab.rating.invitations import RatingService
from chimeralab.rating.packets import DraftRating
from chimeralab.rating.raters import load_ratings
from chimeralab.rating.samples import load_samples
from chimeralab.study import Study
from chimeralab.study.verify import verify_study
from chimeralab.web.pages import static_file
from tests.browser.pages import (
    DESKTOP,
    PHONE,
    complaints,
    low_contrast,
    new_page,
    overflow,
    press,
    tab_to,
    violations,
)
from tests.browser.servers import Host, hosted
from tests.plans import PEOPLE_RATED, TELLING
from tests.studies import StudyCache

pytestmark = pytest.mark.anyio
SHEETS = 7


def copy_study(studies: StudyCache, folder: Path) -> Path:
    return studies.copy(folder / "study", PEOPLE_RATED, steps=("run", "draw")).path


@pytest.fixture
def host(studies: StudyCache, tmp_path: Path) -> Iterator[Host]:
    """A server for one test, which may kill it."""
    with hosted(copy_study(studies, tmp_path)) as host:
        yield host


@pytest.fixture(scope="module")
def shared_host(studies: StudyCache, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A server for tests that each invite a rater of their own."""
    with hosted(copy_study(studies, tmp_path_factory.mktemp("rated"))) as host:
        yield host


async def see(heading: Locator, text: str) -> None:
    """Wait until the page with this heading has loaded, scripts and all."""
    await expect(heading).to_have_text(text)
    await heading.page.wait_for_load_state()


async def train(page: Page) -> None:
    """The worked examples, by keys: a label, then on to the next."""
    heading = page.locator("h1")
    await see(heading, "Thank you for rating")
    await press(page, "Enter")
    await expect(heading).to_contain_text("Example 1 of ")
    examples = int((await heading.inner_text()).split(" of ")[1])
    for n in range(1, examples + 1):
        await see(heading, f"Example {n} of {examples}")
        await press(page, "1")
        await expect(page.locator(".verdict")).to_contain_text("rubric")
        await page.wait_for_load_state()
        await press(page, "Enter")


async def rate(page: Page, label: str, sheets: range) -> None:
    heading = page.locator("h1")
    for n in sheets:
        await see(heading, f"Conversation {n} of {SHEETS}")
        await press(page, "j", "j", "e", label)
        await expect(heading).not_to_have_text(f"Conversation {n} of {SHEETS}")


async def test_two_rate_at_once_and_a_killed_server_loses_nothing(
    browser: Browser, host: Host
) -> None:
    async with new_page(browser) as ann, new_page(browser) as bob:
        urls: list[str] = []
        for page, name in ((ann, "ann"), (bob, "bob")):
            page.on("request", lambda request: urls.append(request.url))
            await page.goto(host.invite(name))
            await train(page)
        await rate(ann, "1", range(1, 4))
        await rate(bob, "0", range(1, 3))
        host.kill()
        host.start()
        # Cookies are still good: the invitation is in the study, not in the server that was killed.
        await ann.goto(f"{host.origin}/rate")
        await bob.goto(f"{host.origin}/rate")
        await rate(ann, "1", range(4, SHEETS + 1))
        await rate(bob, "0", range(3, SHEETS + 1))
        for page in (ann, bob):
            await expect(page.locator("main")).to_contain_text("All conversations are rated")
            await page.wait_for_load_state()
            await tab_to(page.locator("button.go"))
            await press(page, "Enter")
            await see(page.locator("h1"), "Handed in")
            assert await violations(page) == []
        assert urls
        assert [url for url in urls if not url.startswith(host.origin)] == []
    study = Study(host.study)
    for name, label in (("human:ann", 1), ("human:bob", 0)):
        given = load_ratings(study, name)
        assert [rating.label for rating in given.values()] == [label] * 6
        assert {rating.turns for rating in given.values()} == {(2,)}
    [sample] = load_samples(study)
    assert sample.used
    host.kill(signal.SIGINT)
    assert verify_study(Study(host.study)).findings == ()


async def test_reason_is_kept_while_it_is_typed(page: Page, host: Host) -> None:
    await page.goto(host.invite("ann"))
    await page.goto(f"{host.origin}/rate/1")
    await press(page, "r", *"Same.", "Escape")
    await expect(page.locator("#saved")).to_have_text("Saved.")
    host.kill()
    host.start()
    await page.goto(f"{host.origin}/rate/1")
    await expect(page.locator("#reason")).to_have_value("Same.")


async def test_nothing_sent_to_a_raters_browser_reveals_the_origin(
    page: Page, shared_host: Host
) -> None:
    await page.goto(shared_host.invite("blind"))
    responses: list[Response] = []

    def keep(response: Response) -> None:
        responses.append(response)

    page.on("response", keep)
    rating = ("/rate", "/rate/training/1", "/rate/overview", "/rate/99", "/study/1")
    for address in (*rating, *(f"/rate/{n}" for n in range(1, SHEETS + 1))):
        responses.clear()
        await page.goto(shared_host.origin + address)
        assert shared_host.origin + address in [response.url for response in responses]
        for response in responses:
            name = response.url.partition("/static/")[2]
            text = await response.text()
            if name:  # a file that is the same for everybody, and names our classes
                file = static_file(name)
                assert file is not None
                assert text == file.read_text(encoding="utf-8")
            else:
                sent = f"{response.url} {await response.all_headers()} {text}".lower()
                assert [word for word in TELLING if word in sent] == []


async def test_two_tabs_of_one_rater_lose_no_label(page: Page, shared_host: Host) -> None:
    address = f"{shared_host.origin}/rate/1"
    await page.goto(shared_host.invite("tabs"))
    second = await page.context.new_page()
    await second.goto(address)
    await page.bring_to_front()
    await page.goto(address)
    await press(page, "1")
    await expect(page.locator("#cited")).to_contain_text("A 1 needs the turns")
    await press(page, "j", "e", "1")
    await see(page.locator("h1"), f"Conversation 2 of {SHEETS}")
    await second.bring_to_front()
    # This tab does not know about the label; its autosave must not remove it.
    await press(second, "r", *"Later.", "Escape")
    await expect(second.locator("#saved")).to_have_text("Saved.")
    await page.goto(address)
    await expect(page.locator("[aria-pressed=true]")).to_have_attribute("value", "1")
    await expect(page.locator("#reason")).to_have_value("Later.")


async def test_two_clicks_cite_a_range(page: Page, shared_host: Host) -> None:
    await page.goto(shared_host.invite("ranges"))
    await page.goto(f"{shared_host.origin}/rate/2")
    turns = page.locator("input[name=turn]")
    await turns.nth(1).click()
    await turns.nth(3).click()
    await expect(page.locator("input[name=turn]:checked")).to_have_count(3)
    await expect(page.locator("#cited")).to_contain_text("–")
    dock = await page.locator(".dock").bounding_box()
    assert dock is not None
    assert dock["y"] + dock["height"] <= 900


async def test_key_returns_to_unsure_conversations(page: Page, shared_host: Host) -> None:
    heading = page.locator("h1")
    await page.goto(shared_host.invite("unsure"))
    await page.goto(f"{shared_host.origin}/rate/3")
    await press(page, "u")
    await see(heading, f"Conversation 4 of {SHEETS}")
    await press(page, "o")
    await expect(page.locator("main")).to_contain_text("You were unsure about 1")
    await page.wait_for_load_state()
    await press(page, "u")
    await see(heading, f"Conversation 3 of {SHEETS}")


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
async def test_raters_pages_fit_and_are_accessible(
    browser: Browser, shared_host: Host, width: int
) -> None:
    link = shared_host.invite(f"screen of {width}")
    with RatingService(Study(shared_host.study)) as service:
        rater = service.find_invitation(link.partition("token=")[2])
        assert rater is not None
        service.save(rater, DraftRating("training-2", "1"))  # so that its answer is shown
    addresses = ("/rate/training/1", "/rate/training/2", "/rate/1", "/rate/overview")
    async with new_page(browser, width) as page:
        await page.goto(link)
        for address in ("/rate", *addresses):
            await page.goto(shared_host.origin + address)
            assert await overflow(page) == 0
            assert await complaints(page) == []
            assert await low_contrast(page) == []
            assert await violations(page) == []
        # The browser itself logs the status of missing files.
        await page.goto(f"{shared_host.origin}/rate/99")
        assert await overflow(page) == 0
        assert [text for text in await complaints(page) if "404" not in text] == []
        assert await low_contrast(page) == []
        assert await violations(page) == []
