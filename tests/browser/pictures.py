"""Take the screenshots in docs/images: `python -m tests.browser.pictures`.

A server shows the examples, and a small study while it runs.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Page, async_playwright, expect

from tests.browser.pages import launch_options, new_page
from tests.browser.servers import serving

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
TALKS = {"template-loop": "conversation.png", "looping-agent": "tool-calls.png"}
PLAN = """
[study]
name = "two phantoms"
question = "Does a model that loops take one that does not with it?"

[models.looper]
use = "phantom"
course = "verbatim"
onset = 4
latency = 0.1

[models.talker]
use = "phantom"
latency = 0.1

[conditions.two-loopers]
speakers = ["looper", "looper"]

[conditions.mixed]
speakers = ["looper", "talker"]

[conditions.two-talkers]
speakers = ["talker", "talker"]

[conversation]
turns = 12
repeats = 2

[prompts]
items = [
  { id = "trip", bucket = "plan", text = "Plan a trip." },
  { id = "poem", bucket = "write", text = "Write a poem." },
  { id = "reading-room", bucket = "plan", text = "What should the new reading room be for?" },
]
"""


async def main() -> None:
    options = launch_options()
    assert options is not None, "Chromium is not installed"
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "two-phantoms"
        study.mkdir()
        (study / "plan.toml").write_text(PLAN, encoding="utf-8")
        async with (
            async_playwright() as playwright,
            await playwright.chromium.launch(**options) as browser,
            new_page(browser) as page,
        ):
            with serving(os.path.relpath(ROOT / "examples"), study) as server:
                await page.goto(server.url)
                await page.goto(f"{server.origin}/logs")
                await page.get_by_text("all judged").wait_for()
                await keep(page, "web-logs.png")
                for talk, name in TALKS.items():
                    await page.goto(f"{server.origin}/logs")
                    await page.get_by_role("link", name=talk).click()
                    await page.wait_for_load_state("networkidle")
                    await keep(page, name)
                await page.goto(f"{server.origin}/study/1")
                command = [sys.executable, "-m", "chimeralab", "run", str(study)]
                run = subprocess.Popen(command, stderr=subprocess.DEVNULL)
                await page.locator(".grid a.done").nth(7).wait_for()
                await expect(page.locator("dd[data-live=marked]")).not_to_have_text("0")
                await keep(page, "web-study.png")
                run.wait()
            for step in ("detect", "analyse", "report"):
                command = [sys.executable, "-m", "chimeralab", step, str(study)]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            await page.goto((study / "report" / "index.html").as_uri())
            await keep(page, "report.png", full_page=False)


async def keep(page: Page, name: str, *, full_page: bool = True) -> None:
    await page.screenshot(path=IMAGES / name, full_page=full_page)
    print(IMAGES / name)


if __name__ == "__main__":
    asyncio.run(main())
