"""Whole sessions in memory, through the code that runs a study: what simulations are made of."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from chimeralab.models.seam import Reply, Request, Sampling
from chimeralab.runner import Brake, MemoryJournal, Prompt, Room, Rules, Speaker, Talk, converse
from chimeralab.sandbox.scored import Scored
from chimeralab.sandbox.script import Script

Answering = Callable[[Request], str]
SUBJECT = (Speaker("subject", "subject", Sampling()),)


@dataclass(frozen=True)
class Answerer:
    """A model that answers at once with what a function says."""

    answer: Answering
    backstage = True

    async def reply(self, request: Request) -> Reply:
        return Reply(self.answer(request), cost=0.0)


def play(script: Script, answer: Answering, arm: str = "arm", repeat: int = 1) -> list[Scored]:
    """Put a script to a subject, probes included; the rows that a study would have stored."""
    prompt = Prompt(script.course.id, script.course.opening)
    rules = Rules(turns=len(script.course.steps))
    talk = Talk(arm, prompt, repeat, SUBJECT, rules, seed=0, script=script)
    journal = MemoryJournal()
    room = Room({"subject": Answerer(answer)}, journal, Brake())
    ended = asyncio.run(converse(talk, room))
    assert ended.outcome == "completed", ended
    return journal.rows[talk.id]
