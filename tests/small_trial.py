"""A small trial for tests of whole trials: any model, any design, on ledgers."""

from pathlib import Path

from chimeralab.study import Study
from chimeralab.study.trial.rows import stored_trials

PLAN = """
[study]
name = "trial"
kind = "trial"
[models.p]
{model}
[trial]
subjects = ["p"]
{design}
[scenarios]
use = "ledger"
number = {number}
recall = 5
inference = 2
novel = 2
[layout]
beliefs = 1
tested = 1
[sampling]
max_tokens = 8
[run]
concurrency = 4
"""
PHANTOM = 'use = "subject"'
ALL = 'factorial = ["amnesia", "infallibility", "conformity"]'
SLOW = """
import asyncio
from dataclasses import dataclass, field

from chimeralab.sandbox.phantoms import PhantomSubject, PhantomSubjectSettings


@dataclass(frozen=True)
class Slow:
    wait: float = 0.003

    def open(self):
        return Subject(self.wait)


class Subject:
    backstage = True

    def __init__(self, wait):
        self.wait = wait
        self.phantom = PhantomSubject(PhantomSubjectSettings())

    async def reply(self, request):
        await asyncio.sleep(self.wait)
        return await self.phantom.reply(request)
"""


def make_trial(
    folder: Path, model: str = PHANTOM, design: str = ALL, number: int = 3, more: str = ""
) -> Study:
    folder.mkdir()
    plan = PLAN.format(model=model, design=design, number=number)
    (folder / "plan.toml").write_text(plan + more)
    (folder / "slow.py").write_text(SLOW)
    return Study(folder, allow_code=True)


def rows(study: Study) -> list:
    return list(stored_trials(study))
