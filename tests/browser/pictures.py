"""Makes the pictures of the web app in docs/images: `python -m tests.browser.pictures`.

A real server shows the examples and a small study that is run meanwhile, to a real Chromium.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.browser.conftest import NAMES, Browser
from tests.browser.test_view import serving

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
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


def main() -> None:
    program = next(filter(None, map(shutil.which, NAMES)))
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "two-phantoms"
        study.mkdir()
        (study / "plan.toml").write_text(PLAN, encoding="utf-8")
        browser = Browser(program, Path(folder) / "profile")
        for server in serving(os.path.relpath(ROOT / "examples"), str(study)):
            context = browser.context()
            browser.visit(server.url, context=context)
            visit = browser.visit(f"{server.origin}/logs", context=context)
            visit.until("document.body.innerText.includes('all judged')")
            visit.until(
                "[...document.querySelectorAll('.strip')].every(e => e.querySelector('[d^=M]'))"
            )
            keep(visit.picture(), "web-logs.png")
            live = browser.visit(f"{server.origin}/study/1", context=context)
            run = subprocess.Popen(
                [sys.executable, "-m", "chimeralab", "run", str(study)], stderr=subprocess.DEVNULL
            )
            live.until("document.querySelectorAll('.grid a.done').length >= 8")
            keep(live.picture(), "web-study.png")
            run.wait()
        browser.close()


def keep(picture: bytes, name: str) -> None:
    (IMAGES / name).write_bytes(picture)
    print(IMAGES / name)


if __name__ == "__main__":
    main()
