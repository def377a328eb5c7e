"""A small study for tests of reports: its models loop sooner or later, each talk in its own way."""

from pathlib import Path

from chimeralab import pipeline
from chimeralab.study import RunOptions, Study

PLAN = """
[study]
name = "loops <i>and</i> others"
question = "Do <script>alert(1)</script> loops differ?"

[models.looper]
use = "looper:Looper"
soonest = 2

[models.drifter]
use = "looper:Looper"
soonest = 8
revision = "abc123"

[conditions.loops]
speakers = ["looper", "looper"]

[conditions.drifts]
speakers = ["drifter", "drifter"]

[conditions.collapsed_ones]
speakers = ["looper", "drifter", "looper"]

[conversation]
turns = 14
repeats = 2

[prompts]
items = [
  { id = "p1", bucket = "plain", text = "Plan a trip." },
  { id = "p2", bucket = "plain", text = "Write <b>a poem</b>." },
  { id = "p3", bucket = "<u>odd</u>", text = "Count." },
  { id = "p4", bucket = "<u>odd</u>", text = "=1+1" },
]

[outcomes]
resamples = 200
permutations = 200

[run]
seed = 3
retry_wait = 0.0
"""

LOOPER = '''
"""A model that says something new until a turn that hangs on the conversation, and then repeats."""

from dataclasses import dataclass
from zlib import crc32

from chimeralab.models.phantom import line
from chimeralab.models.seam import Reply

PLANTED = "<script>document.title = 'owned'</script><img src=x onerror=alert(1)> "


@dataclass(frozen=True)
class Looper:
    soonest: int = 2

    def open(self):
        return Talker(self.soonest)


class Talker:
    def __init__(self, soonest):
        self.soonest = soonest

    async def reply(self, request):
        onset = self.soonest + crc32(request.conversation.encode()) % 9
        text = PLANTED + line(0, request.conversation, min(request.turn, onset))
        return Reply(text, prompt_tokens=1, completion_tokens=1, reported_model="loop-1")
'''


def write_study(folder: Path, *changes: tuple[str, str]) -> Study:
    """Write the plan and its model; each pair of texts is replaced in the plan."""
    folder.mkdir()
    plan = PLAN
    for old, new in changes:
        assert old in plan, old
        plan = plan.replace(old, new)
    (folder / "plan.toml").write_text(plan, encoding="utf-8")
    (folder / "looper.py").write_text(LOOPER, encoding="utf-8")
    return Study(folder, allow_code=True)


def finished_study(folder: Path, *changes: tuple[str, str], lock: bool = True) -> Study:
    """The same, locked and run."""
    study = write_study(folder, *changes)
    if lock:
        study.freeze()
    pipeline.run(study, RunOptions(watch=False))
    return study
