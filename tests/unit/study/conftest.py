"""Study folders with a scripted model of their own, as a user would write one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from chimeralab.study import Study

PLAN = """
[study]
name = "scripted"

[models.echo]
use = "scripted:Script"

[conditions.solo]
speakers = ["echo", "echo"]

[conditions.trio]
speakers = ["echo", { model = "echo", name = "critic", system = "Doubt it." }, "echo"]

[sampling]
max_tokens = 20

[conversation]
turns = 6
repeats = 2

[prompts]
items = [{ id = "p1", text = "Begin." }, { id = "p2", text = "Start.", bucket = "x" }]

[run]
seed = 3
retry_wait = 0.0
"""

SCRIPT = '''
"""A model that says where it is asked, after an optional wait or failure."""

import asyncio
from dataclasses import dataclass

from chimeralab.models.seam import ModelFailure, Reply


@dataclass(frozen=True)
class Script:
    word: str = "turn"
    fails: str = ""
    same_after: int = 1000

    def open(self):
        return Talker(self)


class Talker:
    def __init__(self, settings):
        self.settings = settings

    async def reply(self, request):
        await asyncio.sleep(0)
        if self.settings.fails and request.turn == 3:
            raise ModelFailure(self.settings.fails, "scripted")
        turn = min(request.turn, self.settings.same_after)
        text = f"{self.settings.word} {turn} of {request.conversation}"
        asked = sum(len(message.content.encode()) for message in request.messages)
        return Reply(text, prompt_tokens=asked, completion_tokens=5, reported_model="script-1")
'''


@pytest.fixture(autouse=True)
def _nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without the encoder: these studies hang on no detector."""
    monkeypatch.setattr("chimeralab.study.run.weights.locate", lambda name: None)


MakeStudy = Callable[..., Study]


@pytest.fixture
def make_study(tmp_path: Path) -> MakeStudy:
    """Write a study; each pair of texts is replaced in the plan."""

    def make(*changes: tuple[str, str], name: str = "study") -> Study:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        plan = PLAN
        for old, new in changes:
            assert old in plan, old
            plan = plan.replace(old, new)
        (folder / "plan.toml").write_text(plan)
        (folder / "scripted.py").write_text(SCRIPT)
        return Study(folder, allow_code=True)

    return make
