"""The system's Chromium, driven by Playwright.

The tests use Playwright's async API, and AnyIO's plugin runs them: no event loop is running between
tests, so fixtures and the tests of other folders can run studies, which start a loop of their own.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.browser.pages import TIMEOUT, launch_options, new_page

expect.set_options(timeout=TIMEOUT)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker("browser")


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="package")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    options = launch_options()
    if options is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    async with (
        async_playwright() as playwright,
        await playwright.chromium.launch(timeout=TIMEOUT, **options) as browser,
    ):
        yield browser


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    async with new_page(browser) as page:
        yield page
