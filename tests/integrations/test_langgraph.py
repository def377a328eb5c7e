"""LangGraph graphs and LangChain runnables as subjects, with the real packages."""

import sys

import pytest

from chimeralab import pipeline
from chimeralab.study import Study
from tests.plans import agent_trial
from tests.studies import recalled, write_study

pytestmark = pytest.mark.integrations
langgraph = pytest.importorskip(
    "langgraph", reason="langgraph is not installed; `make test-integrations` brings it"
)

HEAD = """
import operator
from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from tests.agents import reading


def answer(state):
    texts = [message.content for message in state["messages"]]
    return {"messages": [AIMessage(reading(texts[-1], texts))]}


def compiled(schema=MessagesState, node=answer, saver=True):
    graph = StateGraph(schema)
    graph.add_node("answer", node)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=SAVER if saver else None)


SAVER = InMemorySaver()
"""
ONE = 'use = "ainvoke"\npath = "app:graph"'


def app(folder, code, **more) -> Study:
    return write_study(folder / "study", agent_trial(ONE, app=HEAD + code, **more))


def test_graph_with_a_checkpointer_is_disturbed_and_forks_are_isolated(tmp_path, chimera):
    code = """
LONGEST = {}


def watched(state):
    LONGEST[len(LONGEST)] = [message.content for message in state["messages"]]
    return answer(state)


graph = compiled(node=watched)
"""
    study = app(tmp_path, code)
    assert study.plan.own.agents == {"a": ("fork", "forget")}
    for step in ("check", "lock", "run", "verify"):
        ran = chimera(step, study.path)
        assert ran.code == 0, ran.err
    assert all(recalled(study, "control"))
    assert not all(recalled(study, "amnesia"))
    checks = {
        (check.name, check.arm): check.passed
        for check in pipeline.analyse_trial(study).subjects[0].checks
    }
    assert checks["memory gone", "amnesia"] is True
    # What was asked in a fork stands in no prompt but its own.
    module = next(found for name, found in sys.modules.items() if name.startswith(str(study.path)))
    assert module.LONGEST
    for texts in module.LONGEST.values():
        assert not any("Reply with one number" in text for text in texts[:-1])


def test_a_graph_whose_state_can_t_be_edited_is_refused(tmp_path, chimera):
    code = """
class Piled(TypedDict):
    messages: Annotated[list, operator.add]


def plain(state):
    said = state["messages"][-1]
    return {"messages": [AIMessage("Hello.", id="x")]}


graph = compiled(Piled, plain)
"""
    ran = chimera("check", app(tmp_path, code).path)
    assert ran.code == 2
    assert "[agents.a] can't be used: " in ran.err
    assert len(ran.err.strip().splitlines()) <= 2


def test_graph_with_a_second_memory_is_not_informative(tmp_path, chimera):
    code = """
ELSEWHERE = []


def hoarding(state):
    ELSEWHERE.extend(message.content for message in state["messages"])
    return {"messages": [AIMessage(reading(state["messages"][-1].content, ELSEWHERE))]}


graph = compiled(node=hoarding)
"""
    study = app(tmp_path, code, number=4)
    assert chimera("run", study.path).code == 0
    ran = chimera("analyse", study.path, "--json")
    [subject] = ran.json["subjects"]
    checks = {(check["name"], check["arm"]): check for check in subject["checks"]}
    assert checks["memory disturbed", "amnesia"]["passed"] is True
    assert checks["memory gone", "amnesia"]["passed"] is False
    assert any("facts that were taken away are still known" in why for why in subject["reasons"])


@pytest.mark.parametrize(
    "code",
    [
        "graph = compiled(saver=False)",
        """
def read(messages):
    texts = [message["content"] for message in messages]
    return AIMessage(reading(texts[-1], texts))


graph = RunnableLambda(read)
""",
    ],
)
def test_without_a_checkpointer_the_whole_conversation_goes_in(tmp_path, chimera, code):
    study = app(tmp_path, code)
    assert study.plan.own.agents == {"a": ("history",)}
    assert chimera("run", study.path).code == 0
    assert all(recalled(study, "control"))
    assert not all(recalled(study, "amnesia"))


def test_corrupted_memories_need_an_agent_that_reads_through_the_lab(tmp_path, chimera):
    study = app(tmp_path, "graph = compiled()")
    plan = study.path / "plan.toml"
    text = plan.read_text().replace("frequency = 0.5", 'frequency = 0.5\nmode = "corrupt"')
    plan.write_text(text)
    ran = chimera("check", study.path)
    assert ran.code == 2
    assert "[stressors.amnesia] can't act on [agents.a]" in ran.err
    assert "has no recall()" in ran.err
