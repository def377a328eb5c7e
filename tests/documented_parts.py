"""The parts that the page about extending shows, and the plans that they are tried in."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.+?)(?=^## |\Z)", PAGE, re.M | re.S))
SELFPLAY = """
[study]
name = "extended"
[models.loops]
use = "phantom"
course = "verbatim"
onset = 2
[models.free]
use = "phantom"
[conditions.plain]
speakers = ["loops", "loops"]
[conditions.fresh]
speakers = ["free", "free"]
[conversation]
turns = 8
[prompts]
items = [{ id = "p1", text = "Plan a trip." }, { id = "p2", text = "Tell a tale." }]
"""
TRIAL = """
[study]
name = "extended"
kind = "trial"
[models.phantom]
use = "subject"
[trial]
subjects = ["phantom"]
each = ["conformity"]
[scenarios]
use = "consensus"
items = 4
number = 3
[layout]
beliefs = 0
consensus = 1.0
"""


def block(title: str, language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.+?)^```", SECTIONS[title], re.M | re.S)
    return str(found)
