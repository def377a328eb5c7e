"""A study that two people rate: phantoms have talked, and its gate asks Ann and Bob."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from chimeralab.study import Study, run_study
from chimeralab.study.samples import Draw, draw
from tests.two_phantoms import TWO_PHANTOMS

PLAN = (
    TWO_PHANTOMS
    + """
[study]
name = "rated by people"

[conversation]
turns = 4
repeats = 4

[prompts]
items = [
  { id = "p1", bucket = "wanderlust", text = "Plan a trip." },
  { id = "p2", bucket = "storytelling", text = "Tell a tale." },
]

[gate]
raters = ["human:ann", "human:bob"]
rule = "point"
sample = 6
seed = 1
"""
)
# What would tell a rater where a conversation comes from.
TELLING = ("looping", "phantom", "wanderlust", "storytelling", "p1", "p2")


@cache
def _run_once() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="people-rate-"))
    atexit.register(shutil.rmtree, folder)
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    study = Study(folder)
    run_study(study)
    draw(study, Draw("gate", 6, seed=1))
    return folder


def people_rate(folder: Path) -> Study:
    """The study in a folder, run, with the sample of its gate drawn."""
    shutil.copytree(_run_once(), folder, dirs_exist_ok=True)
    return Study(folder)
