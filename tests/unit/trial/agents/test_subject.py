"""Agents with their own memory: stressors change it, probes do not."""

import asyncio
import re
import sys
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimeralab.core.errors import InputError
from chimeralab.models.seam import ModelFailure, Reply, Sampling
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
from chimeralab.study.subjects import HELLO
from chimeralab.trial.agents import SessionLost
from chimeralab.trial.agents.seam import AgentSubject
from chimeralab.trial.course import Layout
from chimeralab.trial.probes import PROBES
from chimeralab.trial.scenarios import Ledger
from chimeralab.trial.script import Arm, Script
from chimeralab.trial.stressors import Amnesia, Conformity, Infallibility
from tests.agents import Reader, reading
from tests.deadlines import Deadlines

LAYOUT = Layout(lag=1, beliefs=1, tested=1, recall_every=1)
COURSES = [LAYOUT.lay_out(Ledger(recall=4, inference=0, novel=0).make(n), 2, 3) for n in range(3)]
STRESSORS = {
    "amnesia": Amnesia(frequency=0.5),
    "infallibility": Infallibility(rounds=2),
    "conformity": Conformity(),
}
RULES = "retry 1 then stop"


@dataclass
class Agent:
    """Starts readers and keeps a list of them."""

    reader: type = Reader
    timeout: float | None = None
    sessions: dict[str, Any] = field(default_factory=dict)

    def start(self, session):
        self.sessions[session] = self.reader()
        return self.sessions[session]


class WholeHistory:
    """The same reader as a model, which gets its whole memory with the request."""

    async def reply(self, request):
        *before, last = [message.content for message in request.messages]
        return Reply(reading(last, [*before, last]))


def examine(model, course=COURSES[0], *stressors, own_memory=True, journal=None, **rules):
    arm = Arm({name: STRESSORS[name] for name in STRESSORS if name in stressors})
    script = Script(course, arm, 11, PROBES, own_memory=own_memory)
    speaker = Speaker("s", "m", Sampling(), "Reply with the answer alone.")
    rule = Rules(turns=len(course.steps), **({"on_failure": RULES} | rules))
    talk = Talk("arm", Prompt(course.id, ""), 1, (speaker,), rule, 7, script=script)
    journal = journal or MemoryJournal()
    run = RunContext({"m": model}, journal, Brake(), retry_wait=0.0)
    ended = asyncio.run(converse(talk, run))
    return ended, journal.rows[talk.id], [turn.text for turn in journal.history(talk.id)]


@settings(max_examples=25)
@given(st.sampled_from(COURSES), st.sets(st.sampled_from(sorted(STRESSORS))))
def test_forgetting_agent_scores_like_a_model_with_a_cut_history(course, stressors):
    ours = examine(AgentSubject(Agent(), ("fork", "forget")), course, *stressors)
    theirs = examine(WholeHistory(), course, *stressors, own_memory=False)
    assert ours == theirs


@pytest.mark.parametrize("can", [("fork", "forget"), ("forget",)])
def test_probes_never_reach_the_main_session(can):
    agent = Agent()
    _, rows, answers = examine(AgentSubject(agent, can), COURSES[0], "amnesia", "conformity")
    sessions = sorted(agent.sessions.values(), key=lambda each: len(each.memory))
    assert len(sessions) == (1 if "fork" in can else 2)
    main = sessions[0]
    assert [answer for _, answer in main.memory] == answers
    assert not any("Reply with one number" in message for message, _ in main.memory)
    assert all(row.confidence == 0.9 for row in rows)


@pytest.mark.parametrize("can", [("fork", "forget"), ("forget",)])
def test_removed_facts_are_unknown_to_probes(can):
    for course in COURSES:
        _, rows, _ = examine(AgentSubject(Agent(), can), course, "amnesia")
        _, same, _ = examine(AgentSubject(Agent(), ("fork", "forget")), course, "amnesia")
        assert [row.cells() for row in rows] == [row.cells() for row in same]
        assert not all(row.recall_correct for row in rows if row.recall_truth)


class Recalling(Reader):
    """Gets its memory from the lab."""

    def recall(self, memory):
        self.memory = [[message.content] for message in memory]


@pytest.mark.parametrize("mode", ["deprive", "corrupt"])
def test_agent_with_recall_is_disturbed_through_its_memory(mode):
    STRESSORS["amnesia"] = Amnesia(mode=mode, frequency=0.5)
    try:
        ours = examine(
            AgentSubject(Agent(Recalling), ("recall",)), COURSES[1], "amnesia", own_memory=False
        )
        assert ours == examine(WholeHistory(), COURSES[1], "amnesia", own_memory=False)
    finally:
        STRESSORS["amnesia"] = Amnesia(frequency=0.5)


class Forgetful(Reader):
    """Loses its first session after three messages."""

    lost = 0

    def observe(self, message):
        if len(self.memory) == 3 and not Forgetful.lost and not self.is_fork:
            Forgetful.lost = 1
            raise SessionLost("restarted")
        return super().observe(message)


def test_lost_session_is_replayed_and_continues():
    Forgetful.lost = 0
    agent = Agent(Forgetful)
    ended, rows, _ = examine(AgentSubject(agent, ("fork", "forget")))
    assert Forgetful.lost
    assert len(agent.sessions) == 2
    assert ended.outcome == "completed"
    assert rows == examine(AgentSubject(Agent(), ("fork", "forget")))[1]


@pytest.mark.parametrize("can", [("fork", "forget"), ("forget",)])
def test_interrupted_session_resumes_in_the_next_run(can):
    whole = examine(AgentSubject(Agent(), can), COURSES[2], "amnesia", "conformity")
    journal, left = MemoryJournal(), iter(range(17))

    class Cut(AgentSubject):
        async def reply(self, request):
            if next(left, None) is None:
                raise ModelFailure("connection", "cut")
            return await super().reply(request)

    for model in (Cut(Agent(), can), AgentSubject(Agent(), can)):
        stressors = ("amnesia", "conformity")
        found = examine(model, COURSES[2], *stressors, journal=journal, on_failure="pause")
    assert found == whole


class Fickle(Forgetful):
    """Also gives a different answer the second time."""

    def observe(self, message):
        answer = super().observe(message)
        if Forgetful.lost and "Options" in message:
            answer = self.memory[-1][1] = "something else"
        return answer


def test_replay_with_different_answers_ends_the_session():
    Forgetful.lost = 0
    ended, rows, _ = examine(AgentSubject(Agent(Fickle), ("fork", "forget")))
    assert (ended.outcome, len(rows)) == ("failed", 3)
    assert ended.reason.startswith("lost: its session was lost and replayed, but it answered")
    assert "with 'something else' where it had said" in ended.reason


@pytest.fixture
def deadlines(monkeypatch):
    deadlines = Deadlines()
    monkeypatch.setattr("chimeralab.trial.agents.seam.time_limit", deadlines)
    return deadlines


def broken(how):
    class Broken(Reader):
        def observe(self, message):
            if len(self.memory) == 2 and not self.is_fork:
                return how()
            return super().observe(message)

    return Broken


def raises():
    raise KeyError("boom")


def late():
    raise TimeoutError("upstream")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (raises, r"server: observe\(\) raised KeyError\('boom'\) \(test_subject.py, line \d+\)"),
        (None, r"timeout: observe\(\) gave no answer within 0.2 s"),
        (lambda: {"answer": "Rome"}, r"bad_answer: observe\(\) returned a dict, not"),
        (sys.exit, r"server: observe\(\) raised RuntimeError\('SystemExit\(\)'\)"),
        (late, r"server: observe\(\) raised TimeoutError\('upstream'\)"),
        (lambda: None, r"bad_answer: observe\(\) returned a NoneType, not a text"),
    ],
)
def test_agent_failure_ends_its_session_with_a_reason(how, said, deadlines):
    async def hang():
        deadlines.pass_now()
        await asyncio.Event().wait()

    agent = Agent(broken(how or hang), timeout=0.2)
    ended, rows, _ = examine(AgentSubject(agent, ("fork", "forget")))
    assert (ended.outcome, len(rows)) == ("failed", 2)
    assert re.match(said, ended.reason)


def test_hanging_method_does_not_block_the_exit(deadlines):
    release = threading.Event()

    def hang():
        deadlines.pass_now()
        release.wait()

    agent = Agent(broken(hang), timeout=0.1)
    assert examine(AgentSubject(agent, ("fork", "forget")))[0].outcome == "failed"
    release.set()


def test_agent_must_have_its_declared_abilities():
    class Plain:
        def observe(self, message):
            return "Hello."

    subject = AgentSubject(Agent(Plain), ("fork",))
    with pytest.raises(InputError, match=r"its session has no fork\(\), which `can` promises"):
        asyncio.run(subject.reply(HELLO))


def test_sibling_with_a_different_answer_is_noted(monkeypatch):
    class Changing(Reader):
        number = 0

        def __init__(self):
            super().__init__()
            Changing.number += 1
            self.mine = Changing.number

        def observe(self, message):
            answer = super().observe(message)
            return f"{answer} " if self.mine == 1 or "number" in message else "other"

    subject = AgentSubject(Agent(Changing), ("forget",))
    notes = []
    reply = subject.reply

    async def noting(request):
        answer = await reply(request)
        notes.append(answer.note)
        return answer

    monkeypatch.setattr(subject, "reply", noting)
    ended, *_ = examine(subject)
    assert ended.outcome == "completed"
    assert any(
        note and note.startswith("in a sibling session, it answered turn 1 with 'other'")
        for note in notes
    )


def test_stressor_without_declared_ability_is_named():
    with pytest.raises(InputError, match="a stressor removes episodes, but the agent can't"):
        examine(AgentSubject(Agent(), ("fork",)), COURSES[0], "amnesia")
