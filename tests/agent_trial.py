"""Agents with a memory of their own for tests, and a trial to put them through."""

import re
from collections.abc import Sequence
from pathlib import Path

from chimeralab.study import Study
from chimeralab.study.trial.rows import stored_trials

PLAN = """
[study]
name = "agents"
kind = "trial"
[agents.a]
{agent}
[trial]
subjects = ["a"]
{design}
[scenarios]
use = "ledger"
number = {number}
recall = 5
inference = 0
novel = 1
[layout]
beliefs = 1
tested = 1
lag = 1
recall_every = 1
[stressors.amnesia]
frequency = 0.5
scope = 0.9
[conversation]
on_failure = "retry 1 then stop"
[run]
retry_wait = 0.0
"""
AMNESIA = 'each = ["amnesia"]'
_ASKED = re.compile(r"Question: (.+)\nOptions: (.+)\n")


class Reader:
    """Answers a question from the texts that it can see, as a careful reader would.

    It knows the four relations of the ledgers. Of what it can't find it names the first option.
    """

    def __init__(self) -> None:
        self.memory: list[list[str]] = []
        self.hidden: set[int] = set()
        self.is_fork = False

    def observe(self, message: str) -> str:
        seen = [
            text for n, pair in enumerate(self.memory, 1) if n not in self.hidden for text in pair
        ]
        answer = reading(message, [*seen, message])
        self.memory.append([message, answer])
        return answer

    def fork(self, session: str) -> "Reader":
        copy = type(self)()
        copy.memory, copy.hidden = [list(pair) for pair in self.memory], set(self.hidden)
        copy.is_fork = True
        return copy

    def forget(self, episodes: Sequence[int]) -> None:
        self.hidden = set(episodes)


def reading(message: str, seen: Sequence[str]) -> str:
    """The answer to the last question of a message, by what was seen."""
    if "Reply with one number" in message:
        return "0.9"
    asked = _ASKED.findall(message)
    if not asked:
        return "Hello."
    question, options = asked[-1][0], asked[-1][1].split(", ")
    lines = [line for text in seen for line in text.split("\n") if line.endswith(".")]
    person = next((word for word in re.findall(r"[A-Z]\w+", question)[1:]), "")
    relation = {"live": "lives in", "own": "owns", "join": "joined in", "report": "reports to"}
    verb = next((said for word, said in relation.items() if f" {word}" in question), "?")
    told = [line for line in lines if line.startswith(person) and verb in line]
    named = [option for option in options if told and told[-1].rstrip(".").endswith(option)]
    return named[0] if named else options[0]


def make_agent_trial(
    folder: Path, agent: str, design: str = AMNESIA, number: int = 2, **files: str
) -> Study:
    folder.mkdir(exist_ok=True)
    plan = PLAN.format(agent=agent, design=design, number=number)
    if "amnesia" not in design:
        plan = plan.replace("[stressors.amnesia]\nfrequency = 0.5\nscope = 0.9\n", "")
    (folder / "plan.toml").write_text(plan, encoding="utf-8")
    for name, code in files.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    return Study(folder, allow_code=True)


def recalled(study: Study, arm: str) -> list[bool]:
    """Whether each earlier fact that was asked for was known, in one arm."""
    return [
        bool(row.recalled.correct)
        for place, row in stored_trials(study)
        if place.arm == arm and row.recalled
    ]
