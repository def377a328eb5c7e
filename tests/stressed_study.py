"""A small trial for tests of reports: a phantom, and a subject whose replies nobody can read."""

from pathlib import Path

from chimeralab import pipeline
from chimeralab.study import Study

HOSTILE = "<script>document.title = 'owned'</script><img src=x onerror=alert(1)>"
PLAN = """
[study]
name = "stress <i>and</i> sham"
kind = "trial"
question = "Do <script>alert(1)</script> subjects bend?"

[models.phantom]
use = "subject"

[models.mumbler]
use = "mumbler:Mumbler"

[trial]
subjects = ["phantom", "mumbler"]
factorial = ["amnesia", "conformity"]
each = ["infallibility"]
dose = { conformity.size = [0, 8], amnesia.frequency = [0.2, 1.0], amnesia.scope = [0.3, 1.0] }
countermeasures = ["ledger"]

[stressors.infallibility]
rounds = 2

[[outcomes.primary]]
measure = "dfs"
arm = "conformity"

[[outcomes.primary]]
measure = "mci"
arm = "amnesia-with-ledger"
against = "amnesia"

[layout]
beliefs = 2
tested = 2
consensus = 0.6

[scenarios]
use = "ledger"
number = 4
recall = 4
inference = 2
novel = 1

[run]
seed = 5
"""
MUMBLER = f'''
"""A subject that never names an option, but tries to do something to the page."""

from dataclasses import dataclass

from chimeralab.models.seam import Reply


@dataclass(frozen=True)
class Mumbler:
    def open(self):
        return self

    async def reply(self, request):
        return Reply({HOSTILE!r}, "stop", 1, 1, "mumbler", 0.0)
'''


def finished_trial(folder: Path) -> Study:
    """Run it from the lock to the last trial."""
    folder.mkdir(parents=True)
    (folder / "plan.toml").write_text(PLAN)
    (folder / "mumbler.py").write_text(MUMBLER)
    study = Study(folder, allow_code=True)
    pipeline.lock(study)
    pipeline.run(study)
    return study
