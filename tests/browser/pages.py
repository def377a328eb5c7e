"""Browser pages: opening, keyboard use, and checks that every page must pass."""

import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-first-run",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
)
# pytest-timeout ends hanging tests; this only improves the message.
TIMEOUT = 240_000
PHONE, DESKTOP = 390, 1280
MAX_TABS = 80
# Number of requests per page that Playwright keeps.
MAX_REQUESTS = 100
# `make browser` downloads it from npm; its licence keeps it out of the repository.
AXE = "axe-core@4.10.3"
AXE_FILE = Path(sys.prefix) / "axe.min.js"


def launch_options() -> dict[str, Any] | None:
    """Get the launch options for the system's Chromium; None if it is not installed."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        return None
    return {
        "executable_path": program,
        "chromium_sandbox": False,
        "args": FLAGS,
        # Scrollbars take up width, as on a desktop.
        "ignore_default_args": ["--hide-scrollbars"],
    }


@asynccontextmanager
async def new_page(browser: Browser, width: int = DESKTOP, **options: Any) -> AsyncIterator[Page]:
    """Open an empty page with cookies of its own."""
    context = await browser.new_context(
        viewport={"width": width, "height": 900}, is_mobile=width < 500, **options
    )
    context.set_default_timeout(TIMEOUT)
    async with context:
        yield await context.new_page()


class Screens:
    """Open a file on a phone and on a desktop, for read-only tests."""

    def __init__(self, phone: Page, desktop: Page) -> None:
        self._phone, self._desktop = phone, desktop

    async def at(self, width: int = DESKTOP, *, dark: bool = False) -> Page:
        page = self._phone if width < 500 else self._desktop
        await page.set_viewport_size({"width": width, "height": 900})
        await page.emulate_media(media="screen", color_scheme="dark" if dark else "light")
        return page


@asynccontextmanager
async def show_on_screens(browser: Browser, file: Path) -> AsyncIterator[Screens]:
    async with new_page(browser, PHONE) as phone, new_page(browser) as desktop:
        for page in (phone, desktop):
            await page.goto(file.as_uri())
        yield Screens(phone, desktop)


async def press(page: Page, *keys: str) -> None:
    """Press keys one after the other."""
    for key in keys:
        await page.keyboard.press(key)


async def tab_to(target: Locator) -> None:
    """Press Tab until the target has the focus."""
    for _ in range(MAX_TABS):
        await target.page.keyboard.press("Tab")
        if await target.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"Tab never led to {target}")


async def complaints(page: Page) -> list[str]:
    """Collect console messages, uncaught errors and browser warnings."""
    messages = await page.console_messages(filter="all")
    errors = await page.page_errors(filter="all")
    return [message.text for message in messages] + [error.message for error in errors]


async def fetched(page: Page) -> list[str]:
    """List all requests except those for the page itself and inline data."""
    urls = [request.url for request in await page.requests()]
    assert len(urls) < MAX_REQUESTS
    own = page.url.partition("#")[0]
    return [url for url in urls if url != own and not url.startswith("data:")]


async def overflow(page: Page) -> int:
    """Measure by how many pixels the page is wider than the screen."""
    root = page.locator(":root")
    return int(await root.evaluate("root => root.scrollWidth - root.clientWidth"))


async def broken_links(page: Page) -> list[str]:
    """Find links to missing anchors of the page."""
    links = page.locator("a[href^='#']")
    hrefs = await links.evaluate_all("links => links.map(a => a.getAttribute('href'))")
    ids = await page.locator("[id]").evaluate_all("elements => elements.map(e => '#' + e.id)")
    return [href for href in hrefs if href not in ids]


async def low_contrast(page: Page, least: float = 4.5) -> list[str]:
    """Find texts below the contrast of WCAG AA."""
    return list(await page.evaluate(CONTRAST, least))


async def violations(page: Page) -> list[str]:
    """List accessibility violations of any level found by axe-core, if its script is installed.

    Its rule on contrast takes most of the time. Colours do not depend on the width, so that rule
    is for wide pages; `low_contrast` is for all.
    """
    if not AXE_FILE.is_file():
        pytest.skip(f"{AXE} is not here (`make browser` fetches it from npm)")
    await page.evaluate(AXE_FILE.read_text(encoding="utf-8"))
    size = page.viewport_size
    is_wide = size is not None and size["width"] >= DESKTOP
    found = await page.evaluate(RUN_AXE, {"color-contrast": {"enabled": is_wide}})
    return [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in found]


RUN_AXE = "rules => axe.run({resultTypes: ['violations'], rules}).then(run => run.violations)"
# Relative luminance and contrast of WCAG 2, over every element with its own text.
# Charts have their own white background and are not checked.
CONTRAST = """least => {
  const numbers = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = colour => numbers(colour).slice(0, 3)
    .map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const paper = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (numbers(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const low = [];
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || element.closest("svg")) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(paper(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least) low.push(`${element.className}: ${element.textContent.slice(0, 40)}`);
  }
  return low;
}"""
