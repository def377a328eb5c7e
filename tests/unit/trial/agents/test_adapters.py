"""The adapters with real counterparts: functions, a server, a program, inspect-ai."""

import json
import re
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.agents import Serving, reading, release, serving
from tests.deadlines import Deadlines
from tests.plans import agent_trial
from tests.studies import recalled

FUNCTION = """
from tests.agents import reading


def answer(messages):
    texts = [message["content"] for message in messages]
    return reading(texts[-1], texts)


async def later(messages):
    return answer(messages)
"""
KEY = "sk-planted-0123456789-do-not-print"
PROGRAM = """
import json
import sys

from tests.agents import Reader

sessions = {}
for line in sys.stdin:
    asked = json.loads(line)
    name, do = asked["session"], asked["do"]
    reply = {"id": asked["id"]}
    if name not in sessions and (do != "observe" or asked["episode"] > 1):
        reply["lost"] = True
    elif do == "observe":
        session = sessions.setdefault(name, Reader())
        reply["answer"] = session.observe(asked["message"])
    elif do == "fork":
        sessions[asked["into"]] = sessions[name].fork(asked["into"])
    elif do == "forget":
        sessions[name].forget(asked["episodes"])
    elif do == "end":
        del sessions[name]
    print(json.dumps(reply), flush=True)
"""
TASKS = """
from inspect_ai.agent import Agent, AgentState, agent
from inspect_ai.model import ModelAPI, ModelOutput, ModelUsage, modelapi
from inspect_ai.solver import Generate, TaskState, solver

from tests.agents import reading


def output(messages):
    texts = [message.text for message in messages]
    return ModelOutput.from_content("reader", reading(texts[-1], texts))


@modelapi(name="reading")
class Served(ModelAPI):
    async def generate(self, input, tools, tool_choice, config):
        given = output(input)
        given.usage = ModelUsage(input_tokens=9, output_tokens=4, total_tokens=13)
        return given


@agent
def careful() -> Agent:
    async def execute(state: AgentState) -> AgentState:
        state.output = output(state.messages)
        state.messages.append(state.output.message)
        return state

    return execute


@solver
def solving():
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.output = output(state.messages)
        return state

    return solve


@solver
def asking():
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        return await generate(state)

    return solve
"""


def outcome_of(folder: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "study.db")) as store:
        return store.execute("SELECT DISTINCT outcome, reason FROM trajectories").fetchall()


@pytest.mark.parametrize("name", ["answer", "later"])
def test_function_is_a_subject(make_study, chimera, name):
    agent = f'use = "callable"\npath = "mine:{name}"'
    study = make_study(agent_trial(agent, number=1, mine=FUNCTION))
    for step in ("check", "lock", "run", "verify"):
        ran = chimera(step, study.path)
        assert ran.code == 0, ran.err
    assert all(recalled(study, "control"))
    assert not all(recalled(study, "amnesia"))
    lock = json.loads((study.path / "plan.lock").read_text())["resolved"]
    assert lock["outside_code"][f"mine:{name}"]


def test_finished_study_does_not_need_the_agent(make_study, chimera):
    agent = 'use = "callable"\npath = "mine:answer"'
    study = make_study(agent_trial(agent, number=1, mine=FUNCTION))
    assert chimera("run", study.path).code == 0
    (study.path / "mine.py").write_text("import nothing_like_that")
    assert chimera("analyse", study.path).code == 0


def test_server_forgets_and_gets_opaque_ids(make_study, chimera):
    held = Serving()
    with serving(held.answer) as url:
        agent = f'use = "http"\nurl = "{url}"\ncan = ["fork", "forget"]'
        study = make_study(agent_trial(agent, number=1))
        for step in ("check", "lock", "run", "verify"):
            ran = chimera(step, study.path)
            assert ran.code == 0, ran.err
    assert all(recalled(study, "control"))
    assert not all(recalled(study, "amnesia"))
    assert not held.sessions  # all were ended
    assert all(len(each["session"]) == 32 for each in held.requests)


@pytest.mark.parametrize("ability", ["history", "recall"])
def test_server_with_history_gets_the_whole_conversation(make_study, chimera, ability):
    memories: dict[str, list[str]] = {}

    def answer(asked):
        if asked["do"] == "recall":
            memories[asked["session"]] = [each["content"] for each in asked["memory"]]
            return 200, {}
        if asked["do"] == "end":
            return 200, {}
        if "messages" in asked:
            texts = [each["content"] for each in asked["messages"]]
        else:
            texts = [*memories[asked["session"]], asked["message"]]
        return 200, {"answer": reading(texts[-1], texts)}

    with serving(answer) as url:
        agent = f'use = "http"\nurl = "{url}"\ncan = ["{ability}"]'
        study = make_study(agent_trial(agent, number=1))
        plan = (study.path / "plan.toml").read_text()
        corrupt = plan.replace("scope = 0.9", 'scope = 0.9\nmode = "corrupt"')
        (study.path / "plan.toml").write_text(corrupt)
        for step in ("check", "run", "verify"):
            assert chimera(step, study.path).code == 0
    assert all(recalled(study, "control"))
    assert not all(recalled(study, "amnesia"))


def test_program_on_standard_input_is_a_subject(make_study, chimera, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))
    command = json.dumps([sys.executable, "program.py"])
    agent = f'use = "command"\ncommand = {command}\ncan = ["fork", "forget"]'
    study = make_study(agent_trial(agent, number=1, program=PROGRAM))
    for step in ("check", "lock", "run", "verify"):
        ran = chimera(step, study.path)
        assert ran.code == 0, ran.err
    assert all(recalled(study, "control"))
    assert not all(recalled(study, "amnesia"))
    lock = json.loads((study.path / "plan.lock").read_text())["resolved"]
    assert [bool(sha) for use, sha in lock["outside_code"].items() if "program.py" in use] == [True]


@pytest.mark.parametrize("name", ["careful", "solving"])
def test_agents_and_solvers_of_inspect_are_subjects(make_study, chimera, name):
    pytest.importorskip("inspect_ai")
    agent = f'use = "inspect"\npath = "tasks:{name}"\nmodel = "mockllm/model"'
    study = make_study(agent_trial(agent, number=1, tasks=TASKS))
    for step in ("check", "run", "verify"):
        ran = chimera(step, study.path)
        assert ran.code == 0, ran.err
    assert all(recalled(study, "control"))
    assert not all(recalled(study, "amnesia"))


def test_solver_generates_with_the_model_of_the_plan(make_study, chimera):
    pytest.importorskip("inspect_ai")
    agent = 'use = "inspect"\npath = "tasks:asking"\nmodel = "reading/one"'
    study = make_study(agent_trial(agent, number=1, tasks=TASKS))
    assert chimera("run", study.path).code == 0
    with closing(sqlite3.connect(study.path / "study.db")) as store:
        counted = store.execute("SELECT DISTINCT completion_tokens FROM attempts").fetchall()
    assert counted == [(4,)]
    assert all(recalled(study, "control"))


@pytest.mark.parametrize("can", ["", 'can = ["fork"]'])
def test_amnesia_is_rejected_for_an_agent_that_cannot_forget(make_study, chimera, can):
    agent = f'use = "http"\nurl = "http://127.0.0.1:9/agent"\n{can}'
    ran = chimera("check", make_study(agent_trial(agent)).path, "--offline")
    assert ran.code == 2
    assert (
        "[stressors.amnesia] can't act on [agents.a], which keeps its own memory and has no "
        "forget(); leave it out, or see `can` in docs/agents.md"
    ) in ran.err


@pytest.mark.parametrize(
    ("agent", "complaint"),
    [
        ('use = "callable"\npath = "mine"', "path"),
        ('use = "callable"\npath = "mine:nobody"', "path = 'mine:nobody' can't be loaded"),
        ('use = "callable"\npath = "mine:FACT"', "is not a function"),
        ('use = "ainvoke"\npath = "mine:answer"', r"has no ainvoke\(\)"),
        ('use = "http"\nurl = "http://u:p@127.0.0.1/"', "url has more than an address"),
        ('use = "http"\nurl = "http://127.0.0.1/"\ncan = ["fly"]', "can"),
        ('use = "command"\ncommand = ["no-such-program"]', r"no-such-program can't be started"),
        ('use = "mine:Nothing"', r"is not an agent; it needs a method start\(session\)"),
        ('use = "calable"\npath = "mine:answer"', "did you mean 'callable'"),
        ('use = "mine:Boastful"', "ability 'fly' in .*known: forget, fork, history, recall"),
    ],
)
def test_check_rejects_an_invalid_agent(make_study, chimera, agent, complaint):
    code = FUNCTION + (
        "\nfrom dataclasses import dataclass\nFACT = 7\n\n@dataclass(frozen=True)\nclass Nothing:\n"
        "    pass\n\n@dataclass(frozen=True)\nclass Boastful:\n    can = ('fly',)\n"
        "    def start(self, session):\n        return self\n"
    )
    study = make_study(agent_trial(agent, 'each = ["conformity"]', mine=code))
    ran = chimera("check", study.path)
    assert ran.code == 2, ran.out
    assert re.search(complaint, ran.err), ran.err


def faulty(fault: Callable[[dict[str, Any]], tuple[int, Any] | None]):
    """A server that fails at the third message of a session that is not a fork."""
    held = Serving()

    def answer(asked: dict[str, Any]) -> tuple[int, Any]:
        main = not getattr(held.sessions.get(asked["session"]), "is_fork", False)
        if asked["do"] == "observe" and asked["episode"] == 3 and main:
            given = fault(asked)
            if given is not None:
                return given
        return held.answer(asked)

    return held, answer


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda asked: (500, {"error": "boom"}), 'answered 500: {"error": "boom"}'),
        (lambda asked: (200, {"answer": {"city": "Rome"}}), "it returned dict, where"),
        (lambda asked: (200, b"<html>"), "did not answer with JSON"),
        (lambda asked: (404, {}), "it lost its session: "),
        (None, "gave no answer within 0.5 s"),
    ],
)
def test_server_failure_is_recorded_and_the_run_continues(
    make_study, chimera, monkeypatch, fault, said
):
    deadlines = Deadlines()
    monkeypatch.setattr("chimeralab.trial.agents.remote.timeout", deadlines)

    def stall(_: dict[str, Any]) -> None:
        deadlines.pass_now()
        release.wait()

    _, answer = faulty(fault or stall)
    with serving(answer) as url:
        agent = f'use = "http"\nurl = "{url}"\ncan = ["fork", "forget"]\ntimeout = 0.5'
        study = make_study(agent_trial(agent, number=1))
        ran = chimera("run", study.path, "--concurrency", 1)
    assert ran.code == 0
    [(outcome, reason)] = outcome_of(study.path)
    assert (outcome, said in reason) == ("failed", True), reason
    assert chimera("verify", study.path).code == 0


def test_busy_server_gets_the_same_request_again(make_study, chimera):
    refused = []

    def busy_once(asked):
        if asked["session"] in refused:
            return None
        refused.append(asked["session"])
        return 503, {"error": "busy"}

    held, answer = faulty(busy_once)
    with serving(answer) as url:
        agent = f'use = "http"\nurl = "{url}"\ncan = ["fork", "forget"]'
        study = make_study(agent_trial(agent, number=1))
        assert chimera("run", study.path).code == 0
    assert [outcome for outcome, _ in outcome_of(study.path)] == ["completed"]
    places = [(each["session"], each["episode"]) for each in held.requests if "episode" in each]
    assert len(places) == len(set(places))


def test_crashed_program_is_restarted_and_its_sessions_replayed(make_study, chimera, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))
    dying = PROGRAM.replace(
        "for line in sys.stdin:",
        "from pathlib import Path\nfor number, line in enumerate(sys.stdin):\n"
        "    if number == 20 and not Path('died').exists():\n"
        "        Path('died').touch()\n        sys.exit('out of memory')",
    )
    command = json.dumps([sys.executable, "program.py"])
    agent = f'use = "command"\ncommand = {command}\ncan = ["fork", "forget"]'
    study = make_study(agent_trial(agent, number=1, program=dying))
    assert chimera("run", study.path, "--concurrency", 1).code == 0
    assert (study.path / "died").exists()
    assert [outcome for outcome, _ in outcome_of(study.path)] == ["completed"]
    with closing(sqlite3.connect(study.path / "study.db")) as store:
        query = "SELECT reason FROM attempts WHERE outcome != 'answered'"
        reasons = store.execute(query).fetchall()
    assert len(reasons) == 1
    assert "it lost its session: " in reasons[0][0]
    assert "ended with code 1: out of memory" in reasons[0][0]


def test_key_is_sent_to_its_server_and_nowhere_else(make_study, chimera, monkeypatch):
    monkeypatch.delenv("AGENT_KEY", raising=False)
    received: list[str] = []
    with serving(lambda asked: (200, {"answer": f"Your key is {KEY}."}), received) as url:
        agent = f'use = "http"\nurl = "{url}"\nkey_env = "AGENT_KEY"\ncan = ["fork", "forget"]'
        study = make_study(agent_trial(agent, number=1))
        ran = chimera("check", study.path)
        assert (ran.code, "AGENT_KEY is not set" in ran.err) == (2, True)
        monkeypatch.setenv("AGENT_KEY", KEY)
        assert chimera("run", study.path).code == 0
    assert all(f"Bearer {KEY}" in request for request in received)
    written = b"".join(file.read_bytes() for file in study.path.iterdir() if file.is_file())
    assert KEY.encode() not in written
    assert b"Your key is <AGENT_KEY>." in written


def test_failed_session_does_not_stop_the_others(make_study, chimera):
    """The first session to get its third message is lost, and then answers differently."""
    held, unlucky = Serving(), []

    def answer(asked: dict[str, Any]) -> tuple[int, Any]:
        third = asked["do"] == "observe" and asked["episode"] == 3
        if third and not unlucky and not getattr(held.sessions[asked["session"]], "is_fork", False):
            unlucky.append(held.sessions[asked["session"]].memory[0][0])
            return 410, {}
        status, given = held.answer(asked)
        if unlucky and asked["do"] == "observe" and asked["message"] == unlucky[0]:
            given = {"answer": "something else"} if asked["episode"] == 1 else given
        return status, given

    with serving(answer) as url:
        agent = f'use = "http"\nurl = "{url}"\ncan = ["fork", "forget"]'
        study = make_study(agent_trial(agent, number=2))
        ran = chimera("run", study.path, "--concurrency", 1)
    assert ran.code == 0
    found = outcome_of(study.path)
    assert {outcome for outcome, _ in found} == {"failed", "completed"}
    [reason] = [reason for outcome, reason in found if outcome == "failed"]
    assert "replayed, but it answered" in reason
    assert "with 'something else' where it had said" in reason
    analysed = chimera("analyse", study.path)
    assert analysed.code == 0
    assert "left out as incomplete" in analysed.err
    assert chimera("verify", study.path).code == 0


def test_sibling_with_a_different_answer_is_recorded_and_the_session_continues(make_study, chimera):
    held = Serving()
    order: list[str] = []

    def answer(asked: dict[str, Any]) -> tuple[int, Any]:
        if asked["session"] not in order:
            order.append(asked["session"])
        status, given = held.answer(asked)
        # The second session of each pair is the sibling.
        if asked["do"] == "observe" and order.index(asked["session"]) % 2:
            given = {**given, "answer": f"{given['answer']}?"}
        return status, given

    with serving(answer) as url:
        agent = f'use = "http"\nurl = "{url}"\ncan = ["forget"]'
        study = make_study(agent_trial(agent, number=1))
        assert chimera("run", study.path, "--concurrency", 1).code == 0
    assert [outcome for outcome, _ in outcome_of(study.path)] == ["completed"]
    with closing(sqlite3.connect(study.path / "study.db")) as store:
        query = "SELECT reason FROM attempts WHERE outcome = 'answered' AND reason IS NOT NULL"
        noted = {reason for (reason,) in store.execute(query)}
    assert any(reason.startswith("in a sibling session, it answered turn") for reason in noted)
