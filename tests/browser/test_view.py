"""The web app in a browser: hostile text stays text, and the keyboard suffices."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect

from chimeralab import pipeline
from chimeralab.study import RunOptions, Study
from tests.browser.pages import (
    AXE,
    DESKTOP,
    PHONE,
    complaints,
    fetched,
    low_contrast,
    new_page,
    overflow,
    press,
    violations,
)
from tests.browser.servers import Server, serving
from tests.conftest import Ran
from tests.plans import LOOPERS, SELFPLAY
from tests.studies import MakeStudy

pytestmark = pytest.mark.anyio
HOSTILE = (
    "<script>document.title = 'owned'; fetch('https://example.org/')</script>"
    "<img src=x onerror=\"document.title = 'owned'\"></bdi></td></tr></table><h1>No heading</h1>"
    "<iframe src=https://example.org/></iframe><base href=https://example.org/>\u202e\x1b[31m"
)
LIVE = (("turns = 4", "turns = 12"), ("repeats = 4", "repeats = 1"))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A looping, a healthy and a hostile conversation."""
    folder = tmp_path_factory.mktemp("logs")
    talks: list[dict[str, Any]] = [
        {"id": "stuck", "model": "m1", "turns": ["Hello."] + ["Let me try that again."] * 8},
        {"id": "fine", "model": "m2", "turns": ["Hello.", "The train leaves at nine.", "Hurry."]},
        {
            "id": 'tools/and "quotes" %2F?#',
            "model": "m1",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "\u05e9\u05dc\u05d5\u05dd \U0001f600" * 40},
                *[
                    message
                    for n in range(16)
                    for message in (
                        {
                            "role": "assistant",
                            "content": "w" * 5_000 if n == 0 else f"Again, {n // 3}.",
                            "tool_calls": [
                                {
                                    "id": f"c{n}",
                                    "type": "function",
                                    "function": {"name": "run", "arguments": '{"a": "ls"}'},
                                }
                            ],
                        },
                        {"role": "tool", "tool_call_id": f"c{n}", "content": "error: none"},
                    )
                ],
            ],
        },
        {
            "id": HOSTILE,
            "model": HOSTILE,
            HOSTILE: HOSTILE,
            "turns": [{"speaker": HOSTILE, "text": HOSTILE}] * 8,
        },
    ]
    lines = "\n".join(map(json.dumps, talks))
    (folder / "talks.jsonl").write_text(lines, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def server(logs: Path) -> Iterator[Server]:
    with serving(logs) as server:
        yield server


async def log_in(page: Page, server: Server) -> None:
    """Open the start-up link, and wait until everything is judged."""
    await page.goto(server.url)
    await expect(page.locator("main")).to_contain_text("all judged")


@pytest.fixture(scope="module")
async def owner(browser: Browser, server: Server) -> AsyncIterator[BrowserContext]:
    """A browser context that has opened the start-up link."""
    async with new_page(browser) as page:
        await log_in(page, server)
        yield page.context


@pytest.fixture
async def tab(owner: BrowserContext) -> AsyncIterator[Page]:
    """A new page in that context."""
    async with await owner.new_page() as page:
        yield page


@pytest.mark.usefixtures("owner")  # by then all logs are read; until then the page reloads itself
async def test_token_leaves_the_address_bar(page: Page, server: Server) -> None:
    await page.goto(server.url)
    await expect(page).to_have_url(f"{server.origin}/")
    assert await page.evaluate("document.cookie") == ""


async def test_another_browser_context_has_no_access(page: Page, server: Server) -> None:
    await page.goto(f"{server.origin}/logs")
    assert "stuck" not in await page.locator("body").inner_text()


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
async def test_pages_fit_are_accessible_and_request_only_their_own_server(
    browser: Browser, server: Server, width: int
) -> None:
    async with new_page(browser, width) as page:
        await log_in(page, server)
        for address in ("/logs", "/logs/1", "/logs/3", "/logs/4", "/logs?q=zzz"):
            await page.goto(server.origin + address)
            assert await overflow(page) == 0, address
            assert await complaints(page) == [], address
            assert await low_contrast(page) == [], address
            assert await violations(page) == [], address
        await page.goto(f"{server.origin}/logs/999")
        assert await violations(page) == []
        assert all(url.startswith(server.origin) for url in await fetched(page))


@pytest.mark.parametrize("address", ["/logs", "/logs/4", "/logs?q=%3Cscript%3E&kind=%3Cb%3E"])
async def test_hostile_text_runs_nothing(tab: Page, server: Server, address: str) -> None:
    await tab.goto(server.origin + address)
    assert (await tab.title()).startswith("Conversation")
    assert await tab.locator("iframe, base, main script, img[src=x]").count() == 0
    assert await tab.locator("h1").count() == 1
    assert await complaints(tab) == []
    assert not any("example.org" in url for url in await fetched(tab))


async def test_no_script_can_turn_a_text_into_markup(tab: Page, server: Server) -> None:
    await tab.goto(f"{server.origin}/logs")
    tried = "() => { try { document.body.innerHTML = '<b>x</b>' } catch (e) { return e.name } }"
    assert await tab.evaluate(tried) == "TypeError"


async def test_table_and_conversation_can_be_navigated_by_keyboard(
    tab: Page, server: Server
) -> None:
    await tab.goto(f"{server.origin}/logs")
    focus = tab.locator(":focus")
    first = await tab.locator("[data-rows] a bdi").first.inner_text()
    await press(tab, "j")
    await expect(focus).to_have_text(first)
    await press(tab, "j", "k", "k", "k")
    await expect(focus).to_have_text(first)
    href = await focus.get_attribute("href")
    await press(tab, "Enter")
    await tab.wait_for_url(f"{server.origin}{href}")
    await expect(tab.locator("mark, .same").first).to_be_visible()
    await press(tab, "u")
    await tab.wait_for_url(re.compile("/logs$"))
    await press(tab, "/")
    await expect(focus).to_have_attribute("name", "q")
    await press(tab, *"train", "Escape")
    await expect(focus).to_have_count(0)
    await press(tab, "/", "Enter")
    await tab.wait_for_url(re.compile("q=train"))
    assert await tab.locator("[data-rows] a bdi").count() == 1


async def test_turn_has_a_link_of_its_own(tab: Page, server: Server) -> None:
    await tab.goto(f"{server.origin}/logs/1#message-7")
    await expect(tab.locator(":target")).to_contain_text("try that again")


@pytest.fixture
def shown(chimera: Callable[..., Ran], logs: Path, tmp_path: Path) -> Path:
    """The looping conversation, written by `chimera show`."""
    page = tmp_path / "stuck.html"
    assert chimera("show", logs, "--id", "stuck", "--out", page).code == 0
    return page


async def test_message_looks_the_same_in_show_and_app(
    tab: Page, server: Server, shown: Path
) -> None:
    look = """elements => elements.map(e => {
      const s = getComputedStyle(e), r = e.getBoundingClientRect();
      return [e.className, r.width, r.height, s.whiteSpace, s.backgroundColor].join(' ');
    })"""
    messages = tab.locator(".turns > li, .turns > li *, .verdict")
    await tab.goto(f"{server.origin}/logs/1")
    ours = await messages.evaluate_all(look)
    assert len(ours) > 9
    await tab.goto(shown.as_uri())
    assert ours == await messages.evaluate_all(look)


async def test_charts_are_drawn(tab: Page, server: Server) -> None:
    await tab.goto(f"{server.origin}/logs/1")
    await tab.locator("details.heat").evaluate("fold => fold.open = true")
    pictures = tab.locator("img")
    await expect(pictures).to_have_count(2)
    for picture in await pictures.all():
        await picture.scroll_into_view_if_needed()
        width = "picture => picture.decode().then(() => picture.naturalWidth)"
        assert await picture.evaluate(width) > 100


async def test_several_logs_and_studies_are_listed_with_their_state(
    browser: Browser, logs: Path, make_study: MakeStudy
) -> None:
    with serving(logs, make_study(SELFPLAY, *LIVE).path) as server:
        for width in (PHONE, DESKTOP):
            async with new_page(browser, width) as page:
                await page.goto(server.url)
                await expect(page.locator(".entries dt")).to_have_count(2)
                assert await overflow(page) == 0
                assert await low_contrast(page) == []
                assert await violations(page) == []


async def run(study: Study) -> None:
    """Run a study in another thread, because a loop is running in this one."""
    await asyncio.to_thread(pipeline.run, study, RunOptions(watch=False))


async def follow(page: Page, address: str) -> None:
    """Open an address in a new page, and wait for its snapshot."""
    session = await page.context.new_cdp_session(page)
    await session.send("Network.enable")
    told = asyncio.Event()
    session.on("Network.eventSourceMessageReceived", lambda _: told.set())
    await page.goto(address)
    await told.wait()


async def test_live_study_fills_the_grid_and_a_restarted_server_shows_the_same(
    browser: Browser, make_study: MakeStudy
) -> None:
    study = make_study(SELFPLAY, *LIVE)
    with serving(study.path) as server:
        async with new_page(browser) as page:
            cells = page.locator(".grid a")
            await follow(page, server.url)
            await expect(cells).to_have_text(["·"] * 4)
            talk = await page.context.new_page()
            await follow(talk, f"{server.origin}/study/1/talk/free/p1/1")
            await run(study)
            await page.bring_to_front()  # a hidden page has no connection
            await expect(page.locator(".grid a.done")).to_have_count(4)
            await expect(page.locator(".grid a:is(.collapsed, .looping)")).to_have_count(2)
            assert await complaints(page) == []
            filled = await cells.all_text_contents()
            assert await violations(page) == []
            await talk.bring_to_front()
            await expect(talk.locator(".turns > li")).to_have_count(12)
    with serving(study.path) as server:
        async with new_page(browser) as page:
            await page.goto(server.url)
            await expect(page.locator(".grid a")).to_have_text(filled)


async def test_hostile_text_of_a_live_study_stays_text(page: Page, make_study: MakeStudy) -> None:
    study = make_study(LOOPERS, ("repeats = 2", "repeats = 1"), ("turns = 14", "turns = 4"))
    study.freeze()
    with serving(study.path) as server:
        await page.goto(server.url)
        talk = await page.context.new_page()
        await follow(talk, f"{server.origin}/study/1/talk/loops/p1/1")
        await run(study)
        await expect(talk.locator(".turns > li")).to_have_count(4)
        await expect(talk.locator(".turns")).to_contain_text("<script>")
        assert await talk.locator("main script, main img").count() == 0
        assert await complaints(talk) == []


def test_axe_version_is_named() -> None:
    assert AXE.startswith("axe-core@")
