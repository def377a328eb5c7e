"""The documentation site: built without a network, and searched in the browser."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.pages import PHONE, complaints, new_page, overflow

pytest.importorskip("material", reason="`make site` brings it")
pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
# mkdocs, in a process that can't connect to anything.
BUILD = """
import socket
def refuse(*_, **__): raise OSError("no network here")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from mkdocs.__main__ import cli
cli()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run(
        [sys.executable, "-c", BUILD, "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={"NO_MKDOCS_2_WARNING": "1", "PATH": "", "HOME": str(folder.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def origin(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=site)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_search_leads_to_the_page_that_answers(page: Page, origin: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(f"{origin}/index.html")
    await page.get_by_role("textbox", name="Search").first.click()
    await page.keyboard.type("recent_sessions")
    result = page.locator("a.md-search-result__link[href*='command-line.html']")
    await result.last.click()
    await page.wait_for_url("**/command-line.html*")
    await expect(page.get_by_text("recent_sessions").first).to_be_in_viewport()
    assert [url for url in asked if not url.startswith((origin, "blob:", "data:"))] == []
    assert await complaints(page) == []


@pytest.mark.parametrize("name", ["index", "loops", "command-line", "reference"])
async def test_page_fits_a_phone(browser: Browser, origin: str, name: str) -> None:
    async with new_page(browser, PHONE) as page:
        await page.goto(f"{origin}/{name}.html")
        assert await overflow(page) == 0
        assert await complaints(page) == []


async def test_reference_describes_what_is_public(page: Page, origin: str) -> None:
    await page.goto(f"{origin}/reference.html")
    for name in ("detect", "guard", "trialmeasure"):
        await expect(page.locator(f"h3#{name}")).to_be_attached()


def test_what_agents_read_leads_to_pages_of_the_site(site: Path) -> None:
    text = (site / "llms.txt").read_text(encoding="utf-8")
    assert "](loops.html)" in text
    assert "](docs/" not in text
