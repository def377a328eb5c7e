"""Run trial sessions in memory, with the code that runs a study, for simulations."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from chimeralab.models.seam import Reply, Request, Sampling
from chimeralab.runner import (
    Brake,
    MemoryJournal,
    Prompt,
    Rules,
    RunContext,
    Speaker,
    Talk,
    converse,
)
from chimeralab.trial.script import Script
from chimeralab.trial.trials import TrialRow


@dataclass(frozen=True)
class FunctionModel:
    """A model whose replies are what a function returns."""

    answer: Callable[[Request], str]
    backstage = True

    async def reply(self, request: Request) -> Reply:
        return Reply(self.answer(request), cost=0.0)


def play(
    script: Script, answer: Callable[[Request], str], arm: str = "arm", repeat: int = 1
) -> list[TrialRow]:
    """Run a script with a subject, probes included; returns the rows that a study would store."""
    prompt = Prompt(script.course.id, script.course.opening)
    speakers = (Speaker("subject", "subject", Sampling()),)
    rules = Rules(turns=len(script.course.steps))
    talk = Talk(arm, prompt, repeat, speakers, rules, seed=0, script=script)
    journal = MemoryJournal()
    ended = asyncio.run(
        converse(talk, RunContext({"subject": FunctionModel(answer)}, journal, Brake()))
    )
    assert ended.outcome == "completed", ended
    return journal.rows[talk.id]
