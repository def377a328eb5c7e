"""The planned conversations in the order in which they are held."""

import hashlib
from typing import Any

from chimeralab.runner import Talk
from chimeralab.sandbox.script import Script
from chimeralab.study.plan import Plan


def planned_talks(plan: Plan) -> list[Talk]:
    """Every condition x prompt x repeat.

    Interleaved, the conditions of one prompt and repeat stand next to each other in random order,
    so that whatever changes during a run changes for all of them alike.
    """
    talks = [
        Talk(
            condition=name,
            prompt=prompt,
            repeat=repeat,
            speakers=condition.speakers,
            rules=plan.conversation,
            seed=plan.run.seed,
            countermeasure=condition.countermeasure.settings if condition.countermeasure else None,
            script=_script(plan, name, prompt.id, repeat),
        )
        for name, condition in plan.conditions.items()
        for prompt in plan.prompts
        for repeat in range(1, plan.conversation.repeats + 1)
    ]
    if plan.run.interleave:
        return sorted(talks, key=lambda talk: (_block(talk), _shuffled(talk.seed, talk.id)))
    ranks = {name: rank for rank, name in enumerate(plan.conditions)}
    return sorted(talks, key=lambda talk: (ranks[talk.condition], _block(talk)))


def _script(plan: Plan, condition: str, scenario: str, repeat: int) -> Script | None:
    """The script of a trial session. Its seed is the same under every arm."""
    if plan.trial is None:
        return None
    seed = int(_shuffled(plan.run.seed, "script", repeat)[:12], 16)
    return plan.trial.script(condition, scenario, seed)


def _block(talk: Talk) -> str:
    return _shuffled(talk.seed, talk.prompt.id, talk.repeat)


def _shuffled(*parts: Any) -> str:
    """A hash to sort by: random order that no version of Python changes."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()
