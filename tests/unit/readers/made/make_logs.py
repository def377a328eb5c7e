"""Make the logs in this folder, each with the tool whose format it is in.

Needs an environment of its own, with the packages that `PACKAGES` names:

    python -m venv ENV
    ENV/bin/pip install $(python -m tests.unit.readers.made.make_logs --packages)
    ENV/bin/pip install --no-deps --ignore-requires-python harbor==0.25.0
    npm install --prefix NODE $(python -m tests.unit.readers.made.make_logs --commands)
    PATH=NODE/node_modules/.bin:$PATH ENV/bin/python -m tests.unit.readers.made.make_logs [NAME…]

Models are scripted and answer on the loopback: nothing else is called. What changes from run to run
(ids, times) is left as the tools write it, so a log is only made again when its tool has changed.
"""

# ruff: noqa: PLC0415 - a tool is imported where it is run, as each may be missing

import asyncio
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.unit.readers.made.scripted_model import replies, scripted
from tests.unit.readers.talks import TALKS, Step, Talk

HERE = Path(__file__).parent
PACKAGES = {
    "anthropic": "2.8.0",
    "autogen-agentchat": "0.7.5",
    "autogen-ext": "0.7.5",
    "datasets": "5.2.0",
    "google-genai": "3.1.0",
    "inspect-ai": "0.3.285",
    "langchain-core": "1.7.2",
    "langfuse": "5.0.4",
    "langgraph": "1.2.22",
    "langgraph-checkpoint-sqlite": "3.1.2",
    "langsmith": "0.14.17",
    "openai": "3.49.0",
    "openai-agents": "0.24.0",
    "openinference-instrumentation-openai": "0.1.66",
    "opentelemetry-exporter-otlp-proto-common": "1.45.1",
    "opentelemetry-instrumentation-openai": "0.62.4",
    "opentelemetry-instrumentation-openai-v2": "2.4b0",
    "opentelemetry-util-genai": "0.4b0",
    "pandas": "3.1.1",
    "pyarrow": "26.0.1",
}

COMMANDS = {"@openai/codex": "0.166.0", "@google/gemini-cli": "0.61.0", "promptfoo": "0.121.20"}

Make = Callable[[Talk], bytes]
MADE: dict[str, Make] = {}
"""How a talk is made into a log, by the file's name; `made` puts the name of the talk before it."""


def makes(name: str) -> Callable[[Make], Make]:
    def keep(make: Make) -> Make:
        MADE[name] = make
        return make

    return keep


def as_json(value: Any) -> bytes:
    return json.dumps(value, indent=1, default=str).encode() + b"\n"


def as_lines(values: list[Any]) -> bytes:
    return b"".join(json.dumps(value, default=str).encode() + b"\n" for value in values)


def openai_client(address: str) -> Any:
    import openai

    return openai.OpenAI(base_url=f"{address}/v1", api_key="none")


def chat_by(client: Any, talk: Talk) -> list[Any]:
    """The talk held with a client of OpenAI's: what a developer's own loop has in its list."""
    messages: list[Any] = []
    for step in talk:
        if step.who == "user":
            messages.append({"role": "user", "content": step.text})
            continue
        said = client.chat.completions.create(model="scripted-1", messages=messages)
        message = said.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls or ():
            messages.append({"role": "tool", "tool_call_id": call.id, "content": step.text})
    return messages


# --- Providers ------------------------------------------------------------------------------------


@makes("openai-chat.jsonl")
def openai_chat(talk: Talk) -> bytes:
    with scripted(talk) as address:
        return as_lines([{"messages": chat_by(openai_client(address), talk)}])


@makes("openai-requests.jsonl")
def openai_requests(talk: Talk) -> bytes:
    """The last request of a talk and its answer, as a proxy or a batch keeps them."""
    with scripted(talk) as address:
        client = openai_client(address)
        *before, _ = chat_by(client, talk)
        said = client.chat.completions.create(model="scripted-1", messages=before)
    request = {"custom_id": "talk-1", "method": "POST", "url": "/v1/chat/completions"}
    body = {"model": "scripted-1", "messages": before}
    answer = {"status_code": 200, "request_id": "r", "body": said.model_dump()}
    return as_lines([{"id": "batch_1"} | request | {"request": {"body": body}, "response": answer}])


def responses_by(client: Any, talk: Talk) -> Any:
    items: list[Any] = []
    said = None
    for step in talk:
        if step.who == "user":
            items.append({"role": "user", "content": step.text})
            continue
        said = client.responses.create(model="scripted-1", input=items, instructions="Be brief.")
        items += [item.model_dump() for item in said.output]
        items += [
            {"type": "function_call_output", "call_id": item.call_id, "output": step.text}
            for item in said.output
            if item.type == "function_call"
        ]
    return items, said


@makes("openai-responses-items.json")
def openai_responses_items(talk: Talk) -> bytes:
    with scripted(talk) as address:
        items, _ = responses_by(openai_client(address), talk)
        return as_json(items)


@makes("openai-responses.jsonl")
def openai_responses(talk: Talk) -> bytes:
    """The last response with the input that it answers, as the interface lists them."""
    with scripted(talk) as address:
        items, said = responses_by(openai_client(address), talk)
    return as_lines([said.model_dump() | {"input": items[: -len(said.output)]}])


@makes("anthropic-messages.json")
def anthropic_messages(talk: Talk) -> bytes:
    from anthropic.types import Message, TextBlock, ToolUseBlock, Usage

    messages: list[Any] = []
    for n, step in enumerate(talk):
        if step.who == "user":
            messages.append({"role": "user", "content": step.text})
            continue
        block: Any = TextBlock(type="text", text=step.text)
        if step.who == "call":
            named = {"id": f"toolu_{n}", "name": step.tool, "input": step.arguments}
            block = ToolUseBlock(type="tool_use", **named)
        told: dict[str, Any] = {"id": f"msg_{n}", "type": "message", "role": "assistant"}
        told |= {"model": "scripted-1", "usage": Usage(input_tokens=1, output_tokens=1)}
        said = Message(**told, content=[block], stop_reason="end_turn")
        kept = [each.model_dump(exclude_none=True) for each in said.content]
        messages.append({"role": said.role, "content": kept})
        if step.who == "call":
            back = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": step.text}
            messages.append({"role": "user", "content": [back]})
    return as_json({"system": "Be brief.", "messages": messages})


def gemini_contents(talk: Talk) -> list[Any]:
    from google.genai import types

    contents: list[Any] = []
    for step in talk:
        if step.who == "call":
            call = types.Part.from_function_call(name=step.tool, args=step.arguments or {})
            back = types.Part.from_function_response(name=step.tool, response={"result": step.text})
            thought = types.Part(text="Which command would tell?", thought=True)
            contents.append(types.ModelContent(parts=[thought, call]))
            contents.append(types.UserContent(parts=[back]))
        else:
            content = types.UserContent if step.who == "user" else types.ModelContent
            contents.append(content(parts=[types.Part.from_text(text=step.text)]))
    return contents


@makes("google-genai-history.json")
def google_genai_history(talk: Talk) -> bytes:
    """The history of a chat as pydantic dumps it: names with underscores, and every empty field."""
    return as_json([each.model_dump(mode="json") for each in gemini_contents(talk)])


@makes("google-genai-request.jsonl")
def google_genai_request(talk: Talk) -> bytes:
    """A request and its response, in the spelling that goes over the wire."""
    from google.genai import types

    *before, last = gemini_contents(talk)
    said = types.GenerateContentResponse(
        candidates=[types.Candidate(content=last, finish_reason=types.FinishReason.STOP)],
        model_version="scripted-1",
        response_id="r1",
    )
    wire = {"by_alias": True, "exclude_none": True, "mode": "json"}
    request = {"contents": [each.model_dump(**wire) for each in before]}
    return as_lines([{"key": "talk-1", "request": request, "response": said.model_dump(**wire)}])


# --- Frameworks -----------------------------------------------------------------------------------


def langchain_messages(talk: Talk) -> list[Any]:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    messages: list[Any] = []
    for n, step in enumerate(talk):
        if step.who == "call":
            call = {"name": step.tool, "args": step.arguments, "id": f"call_{n}"}
            messages.append(AIMessage(content="", tool_calls=[call]))
            messages.append(
                ToolMessage(content=step.text, tool_call_id=f"call_{n}", name=step.tool)
            )
        else:
            message = HumanMessage if step.who == "user" else AIMessage
            messages.append(message(content=step.text))
    return messages


@makes("langchain-dumpd.json")
def langchain_dumpd(talk: Talk) -> bytes:
    from langchain_core.load import dumpd

    return as_json(dumpd(langchain_messages(talk)))


@makes("langchain-state.jsonl")
def langchain_state(talk: Talk) -> bytes:
    from langchain_core.load import dumpd

    return as_lines([dumpd({"messages": langchain_messages(talk)})])


@makes("langchain-messages_to_dict.json")
def langchain_messages_to_dict(talk: Talk) -> bytes:
    from langchain_core.messages import messages_to_dict

    return as_json(messages_to_dict(langchain_messages(talk)))


@makes("langchain-model_dump.json")
def langchain_model_dump(talk: Talk) -> bytes:
    return as_json([message.model_dump() for message in langchain_messages(talk)])


@makes("langgraph.db.gz")
def langgraph_checkpoints(talk: Talk) -> bytes:
    """A graph that adds one message a step, so that there is a checkpoint for each."""
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import START, MessagesState, StateGraph

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": messages[len(state["messages"])]}

    def goes_on(state: MessagesState) -> str:
        known = len(state["messages"])
        return "answer" if known < len(messages) and messages[known].type != "human" else "__end__"

    messages = langchain_messages(talk)
    graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    graph.add_conditional_edges("answer", goes_on)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoints.db"
        with SqliteSaver.from_conn_string(str(path)) as saver:
            run = graph.compile(checkpointer=saver)
            for message in messages:
                if message.type == "human":
                    run.invoke({"messages": [message]}, {"configurable": {"thread_id": "t-1"}})
        return gzip.compress(path.read_bytes(), mtime=0)


@makes("openai-agents-session.db")
def openai_agents_session(talk: Talk) -> bytes:
    from agents import SQLiteSession

    async def keep(path: Path) -> bytes:
        with scripted(talk) as address:
            items = responses_by(openai_client(address), talk)[0]
        session = SQLiteSession("s-1", path)
        await session.add_items(items)
        session.close()
        return path.read_bytes()

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(keep(Path(folder) / "sessions.db"))


@makes("langsmith-runs.jsonl.gz")
def langsmith_runs(talk: Talk) -> bytes:
    """Runs as the tracer keeps them and `list_runs` gives them: a chain, and a run per call."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.runnables import RunnableLambda
    from langchain_core.tracers import LangChainTracer
    from langsmith import Client
    from langsmith.schemas import Run

    traced: list[Any] = []

    class Keep(LangChainTracer):
        """LangSmith's own tracer, which sends nothing."""

        def _persist_run_single(self, run: Any) -> None:
            traced.append(run)

        def _update_run_single(self, run: Any) -> None: ...

    messages = langchain_messages(talk)
    said = [n for n, message in enumerate(messages) if message.type == "ai"]
    model = GenericFakeChatModel(messages=iter([messages[n] for n in said]))

    def agent(_: Any, config: Any) -> str:
        for n in said:
            model.invoke(messages[:n], config)
        return "done"

    tracer = Keep(client=Client(api_url="http://127.0.0.1:9", api_key="none"))
    RunnableLambda(agent).invoke({"input": talk[0].text}, {"callbacks": [tracer]})
    runs = []
    for run in traced:
        fields = run.model_dump(exclude={"child_runs", "parent_run", "client", "ls_client"})
        known = {key: value for key, value in fields.items() if key in Run.model_fields}
        runs.append(json.loads(Run(**known).model_dump_json()))
    return gzip.compress(as_lines(runs), mtime=0)


@makes("langfuse-observations.json")
def langfuse_observations(talk: Talk) -> bytes:
    """Observations as the interface lists them: one for the agent, one for each call."""
    from langfuse.api import ObservationV2

    about = {"trace_id": "t1", "project_id": "p", "environment": "default"}
    agent = ObservationV2(
        id="agent", type="AGENT", name="agent", is_root_observation=True,
        start_time="2026-01-01T00:00:00Z", input=talk[0].text, output="done", **about,
    )  # fmt: skip
    found = [agent]
    with scripted(talk) as address:
        messages = chat_by(openai_client(address), talk)
    for n, message in enumerate(messages):
        if message["role"] == "assistant":
            found.append(
                ObservationV2(
                    id=f"o{n}",
                    type="GENERATION",
                    name="OpenAI-generation",
                    model="scripted-1",
                    parent_observation_id="agent",
                    start_time=f"2026-01-01T00:00:{n + 1:02}Z",
                    input=messages[:n],
                    output=message,
                    **about,
                )
            )
    return as_json({"data": [json.loads(each.json(by_alias=True)) for each in found], "meta": {}})


def kept_trace() -> tuple[list[Any], Any]:
    """What a trace exports, and the processor that collects it."""
    from agents import tracing

    exported: list[Any] = []

    class Keep(tracing.TracingProcessor):
        def on_trace_start(self, trace: Any) -> None:
            exported.append(trace.export())

        def on_trace_end(self, trace: Any) -> None: ...
        def on_span_start(self, span: Any) -> None: ...
        def on_span_end(self, span: Any) -> None:
            exported.append(span.export())

        def shutdown(self) -> None: ...
        def force_flush(self) -> None: ...

    return exported, Keep()


def agents_trace(talk: Talk, by_responses: bool) -> bytes:
    import agents
    from agents import tracing

    exported, keep = kept_trace()
    results = iter([step.text for step in talk if step.who == "call"])

    @agents.function_tool
    def bash(command: str) -> str:
        return next(results)

    async def hold() -> None:
        import openai

        tracing.set_trace_processors([keep])
        with scripted(talk) as address:
            client = openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none")
            kind = (
                agents.OpenAIResponsesModel if by_responses else agents.OpenAIChatCompletionsModel
            )
            model = kind("scripted-1", openai_client=client)
            agent = agents.Agent("helper", instructions="Be brief.", model=model, tools=[bash])
            items: list[Any] = []
            with tracing.trace("Files", group_id="chat-1"):
                for step in talk:
                    if step.who == "user":
                        items.append({"role": "user", "content": step.text})
                        items = (await agents.Runner.run(agent, items)).to_input_list()

    asyncio.run(hold())
    return as_lines(exported)


@makes("openai-agents-trace.jsonl")
def openai_agents_trace(talk: Talk) -> bytes:
    return agents_trace(talk, by_responses=False)


@makes("openai-agents-trace-of-ids.jsonl")
def openai_agents_trace_of_ids(talk: Talk) -> bytes:
    return agents_trace(talk, by_responses=True)


@makes("autogen-result.json")
def autogen_result(talk: Talk) -> bytes:
    from autogen_agentchat.agents import AssistantAgent, UserProxyAgent
    from autogen_agentchat.teams import RoundRobinGroupChat
    from autogen_core import FunctionCall
    from autogen_core.models import CreateResult, ModelFamily, RequestUsage
    from autogen_ext.models.replay import ReplayChatCompletionClient

    results = iter([step.text for step in talk if step.who == "call"])
    asked = iter([step.text for step in talk if step.who == "user"])

    def bash(command: str) -> str:
        """Runs a command."""
        return next(results)

    outputs: list[Any] = []
    for n, step in enumerate(replies(talk)):
        content: Any = step.text
        if step.who == "call":
            arguments = json.dumps(step.arguments)
            content = [FunctionCall(id=f"call_{n}", name=step.tool, arguments=arguments)]
        usage = RequestUsage(prompt_tokens=1, completion_tokens=1)
        reason: Any = "stop" if step.who == "assistant" else "function_calls"
        outputs.append(
            CreateResult(finish_reason=reason, content=content, usage=usage, cached=False)
        )
    about: Any = {"vision": False, "function_calling": True, "json_output": False}
    about |= {"family": ModelFamily.UNKNOWN, "structured_output": False}
    client = ReplayChatCompletionClient(outputs, model_info=about)
    coder = AssistantAgent("coder", client, tools=[bash], reflect_on_tool_use=True)
    user = UserProxyAgent("user", input_func=lambda _: next(asked))
    turns = sum(step.who != "call" for step in talk)
    team = RoundRobinGroupChat([user, coder], max_turns=turns)
    result = asyncio.run(team.run())
    return result.model_dump_json(indent=1).encode() + b"\n"


# --- Assistants on the command line ---------------------------------------------------------------


@contextmanager
def workplace(talk: Talk, tool: str, argument: str) -> Iterator[tuple[Path, Talk]]:
    """A folder in which the commands of the talk give what it says, and the talk with the tool's
    own name for running them."""
    with tempfile.TemporaryDirectory() as folder:
        steps = []
        for step in talk:
            if step.who == "call":
                command = (step.arguments or {})["command"]
                program = Path(folder) / command.split()[0]
                program.write_text(f"#!/bin/sh\ncat <<'END'\n{step.text}\nEND\n")
                program.chmod(0o755)
                steps.append(Step("call", step.text, tool, {argument: f"./{command}"}))
            else:
                steps.append(step)
        yield Path(folder), steps


def asked_one_by_one(talk: Talk, command: Callable[[str, bool], list[str]], **where: Any) -> bytes:
    """What an assistant prints when it is asked, and asked again in the same session."""
    said = b""
    for n, step in enumerate(step for step in talk if step.who == "user"):
        ran = command(step.text, n > 0)
        said += subprocess.run(
            ran, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=120, **where
        ).stdout
    return said


def codex(talk: Talk) -> tuple[bytes, bytes]:
    """The rollout of a session, without its long instructions, and what `exec --json` printed."""
    with workplace(talk, "exec_command", "cmd") as (folder, steps), scripted(steps) as address:
        home = folder / ".codex"
        home.mkdir()
        (home / "config.toml").write_text(
            'model = "scripted-1"\nmodel_provider = "scripted"\n[model_providers.scripted]\n'
            f'name = "scripted"\nbase_url = "{address}/v1"\nwire_api = "responses"\n'
            'env_key = "NO_KEY"\n'
        )

        def command(text: str, again: bool) -> list[str]:
            flags = ["--json", "--skip-git-repo-check"]
            flags.append("--dangerously-bypass-approvals-and-sandbox")
            return ["codex", "exec", *(["resume", "--last"] if again else []), *flags, text]

        env = os.environ | {"CODEX_HOME": str(home), "NO_KEY": "none"}
        printed = asked_one_by_one(steps, command, cwd=folder, env=env)
        (rollout,) = home.glob("sessions/*/*/*/rollout-*.jsonl")
        told = rollout.read_text().replace(str(folder), "/project")
        lines = [json.loads(line) for line in told.splitlines()]
    for line in lines:
        if line["payload"].get("base_instructions"):
            line["payload"]["base_instructions"] = {"text": "You are Codex."}
    kept = [line for line in lines if line["payload"].get("role") != "developer"]
    return as_lines(kept), printed


@makes("codex-rollout.jsonl")
def codex_rollout(talk: Talk) -> bytes:
    return codex(talk)[0]


@makes("codex-exec.jsonl")
def codex_exec(talk: Talk) -> bytes:
    return codex(talk)[1]


@makes("gemini-cli-session.jsonl")
def gemini_cli_session(talk: Talk) -> bytes:
    made = workplace(talk, "run_shell_command", "command")
    with made as (folder, steps), scripted(steps) as address:
        home = folder / "home" / ".gemini"
        home.mkdir(parents=True)
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
        settings |= {"privacy": {"usageStatisticsEnabled": False}}
        (home / "settings.json").write_text(json.dumps(settings))

        def command(text: str, again: bool) -> list[str]:
            resumed = ["--resume", "latest"] if again else []
            return [
                "gemini",
                "--skip-trust",
                "--yolo",
                "-m",
                "gemini-2.5-flash",
                *resumed,
                "-p",
                text,
            ]

        env = os.environ | {"HOME": str(home.parent), "GEMINI_API_KEY": "none"}
        env |= {"GOOGLE_GEMINI_BASE_URL": address}
        asked_one_by_one(steps, command, cwd=folder, env=env)
        # Every start leaves a session of its own, and the one that is resumed grows.
        sessions = home.glob("tmp/*/chats/session-*.jsonl")
        session = max(sessions, key=lambda file: file.stat().st_size).read_text()
        return session.replace(str(folder), "/project").replace(folder.name, "project").encode()


@makes("harbor-atif.json")
def harbor_atif(talk: Talk) -> bytes:
    """By Harbor's own models, from its wheel alone: `pip install --no-deps harbor`."""
    from harbor.models import trajectories as atif

    steps: list[Any] = []
    for step in talk:
        told: dict[str, Any] = {"step_id": len(steps) + 1, "source": "user", "message": step.text}
        if step.who == "assistant":
            told |= {"source": "agent", "model_name": "scripted-1"}
        elif step.who == "call":
            number = f"call_{len(steps)}"
            call = {"tool_call_id": number, "function_name": step.tool, "arguments": step.arguments}
            back = {"results": [{"source_call_id": number, "content": step.text}]}
            told |= {"source": "agent", "message": "", "tool_calls": [call], "observation": back}
        steps.append(told)
    agent = {"name": "terminus-2", "version": "2.0.0", "model_name": "scripted-1"}
    talk_of = atif.Trajectory(session_id="s1", agent=agent, steps=steps)
    return as_json(talk_of.to_json_dict())


# --- Evaluations ----------------------------------------------------------------------------------


def inspect_log(talk: Talk, ending: str, **asked: Any) -> bytes:
    from inspect_ai import Task, task_with
    from inspect_ai import eval as run
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ChatMessageUser, ModelOutput, ModelUsage, get_model
    from inspect_ai.solver import TaskState, solver
    from inspect_ai.tool import tool

    results = iter([step.text for step in talk if step.who == "call"])

    @tool
    def bash() -> Any:
        async def execute(command: str) -> str:
            """Runs a command.

            Args:
                command: What to run.
            """
            return next(results)

        return execute

    @solver
    def conversation() -> Any:
        async def solve(state: TaskState, generate: Any) -> TaskState:
            state.tools = [bash()]
            for n, step in enumerate(talk):
                if step.who == "user":
                    if n:
                        state.messages.append(ChatMessageUser(content=step.text))
                    state = await generate(state, tool_calls="loop")
            return state

        return solve

    outputs = []
    for step in replies(talk):
        if step.who == "assistant":
            output = ModelOutput.from_content("mockllm/model", step.text)
        else:
            called = {"tool_name": step.tool, "tool_arguments": step.arguments or {}}
            output = ModelOutput.for_tool_call("mockllm/model", **called, content="")
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        outputs.append(output)
    with tempfile.TemporaryDirectory() as folder:
        task = Task(dataset=[Sample(input=talk[0].text, id="files")], solver=conversation())
        task = task_with(task, name="talk")
        model = get_model("mockllm/model", custom_outputs=outputs)
        run(task, model=model, log_dir=folder, log_format=ending, display="none", **asked)
        (log,) = Path(folder).glob(f"*.{ending}")
        return log.read_bytes()


def checkout(variable: str, package: str, unused: tuple[str, ...] = ()) -> None:
    """Lets the data models of a project be imported from its checkout, whose folder a variable
    names, without what its package imports first and without modules that they only mention."""
    import types
    from unittest.mock import MagicMock

    folder = os.environ.get(variable) or sys.exit(f"{variable} must name a checkout of {package}")
    sys.path.insert(0, folder)
    sys.modules |= {name: MagicMock() for name in unused}
    bare = types.ModuleType(package)
    bare.__path__ = [f"{folder}/{package.replace('.', '/')}"]
    sys.modules[package] = bare


@makes("tau2-results.json")
def tau2_results(talk: Talk) -> bytes:
    """By the models of tau2-bench a2c0247; TAU2_SOURCE names its folder `src`."""
    checkout("TAU2_SOURCE", "tau2")
    from tau2.data_model import message as tau
    from tau2.data_model.simulation import SimulationRun

    messages: list[Any] = []
    for n, step in enumerate(talk):
        if step.who == "call":
            call = tau.ToolCall(id=f"call_{n}", name=step.tool, arguments=step.arguments)
            messages.append(tau.AssistantMessage(role="assistant", tool_calls=[call]))
            back = {"role": "tool", "content": step.text, "requestor": "assistant"}
            messages.append(tau.ToolMessage(id=f"call_{n}", **back))
        elif step.who == "user":
            messages.append(tau.UserMessage(role="user", content=step.text))
        else:
            messages.append(tau.AssistantMessage(role="assistant", content=step.text))
    run = SimulationRun(
        id="s1",
        task_id="files",
        start_time="2026-01-01T00:00:00",
        end_time="2026-01-01T00:01:00",
        duration=60.0,
        termination_reason="user_stop",
        messages=messages,
    )
    agent = {"implementation": "llm_agent", "llm": "scripted-1"}
    told = json.loads(run.model_dump_json())
    return as_json({"info": {"agent_info": agent}, "tasks": [], "simulations": [told]})


@makes("openhands-events.json")
def openhands_events(talk: Talk) -> bytes:
    """By the serialiser of OpenHands 156d068; OPENHANDS_SOURCE names its checkout."""
    names = "", ".exceptions", ".types", ".types.utils", ".llms", ".llms.custom_llm", ".utils"
    clouds = "openhands.storage.google_cloud", "openhands.storage.s3"
    checkout("OPENHANDS_SOURCE", "openhands.llm", (*(f"litellm{n}" for n in names), *clouds))
    sys.modules["litellm"].ModelResponse = dict  # type: ignore[attr-defined]
    from openhands.events import EventSource, action, observation
    from openhands.events.serialization.event import event_to_dict

    events: list[Any] = []

    def add(event: Any, source: Any, cause: int | None = None) -> None:
        event._id, event._source, event._cause = len(events), source, cause
        events.append(event_to_dict(event))

    agent, user, around = EventSource.AGENT, EventSource.USER, EventSource.ENVIRONMENT
    for step in talk:
        if step.who == "call":
            command = (step.arguments or {})["command"]
            add(action.CmdRunAction(command=command), agent)
            about = {"command": command, "exit_code": 0}
            seen = observation.CmdOutputObservation(content=step.text, **about)
            add(seen, agent, len(events) - 1)
        else:
            said = action.MessageAction(content=step.text, wait_for_response=True)
            add(said, user if step.who == "user" else agent)
    ended = observation.AgentStateChangedObservation(content="", agent_state="finished")
    add(ended, around)
    return as_json(events)


KILLED = """
import os, signal, sys
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import solver

@solver
def talk():
    async def solve(state, generate):
        if state.sample_id == "failing":
            raise RuntimeError("the tool broke")
        if state.sample_id == "endless":
            os.kill(os.getpid(), signal.SIGKILL)
        return await generate(state)
    return solve

said = ModelOutput.from_content("mockllm/model", "The largest file is b.bin.")
said.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
model = get_model("mockllm/model", custom_outputs=[said])
samples = [Sample(input="Which of our files is the largest?", id=name) for name in sys.argv[2:]]
eval(Task(dataset=samples, solver=talk(), name="talk"), model=model, log_dir=sys.argv[1],
     max_samples=1, log_buffer=1, fail_on_error=False, display="none")
"""


def inspect_run(*samples: str) -> bytes:
    """A log of samples by name, some of which end badly, and perhaps the whole run with them."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", KILLED, folder, *samples]
        subprocess.run(command, capture_output=True, timeout=240, check=False)
        (log,) = Path(folder).glob("*.eval")
        return log.read_bytes()


FAILED = {
    "errored-inspect.eval": lambda: inspect_run("failing", "working"),
    "killed-inspect.eval": lambda: inspect_run("working", "endless"),
}
"""Logs of runs that did not go well, which hold no talk of ours."""


@makes("inspect.eval")
def inspect_eval(talk: Talk) -> bytes:
    return inspect_log(talk, "eval")


@makes("inspect.json.gz")
def inspect_json(talk: Talk) -> bytes:
    return gzip.compress(inspect_log(talk, "json"), mtime=0)


@makes("promptfoo.json")
def promptfoo(talk: Talk) -> bytes:
    """A test for each question of one conversation, which promptfoo plays on."""
    asked = [step.text for step in talk if step.who == "user"]
    said = [step.text for step in talk if step.who == "assistant"]
    prompt = (
        "[{% for each in _conversation %}"
        '{"role": "user", "content": {{ each.input | dump }}},'
        '{"role": "assistant", "content": {{ each.output | dump }}},'
        '{% endfor %}{"role": "user", "content": {{ question | dump }}}]'
    )
    provider = (
        "module.exports = class { id() { return 'scripted-1' } async callApi(prompt) {"
        f" const said = {json.dumps(said)}; const asked = JSON.parse(prompt);"
        " return { output: said[(asked.length - 1) / 2] } } }"
    )
    tests = [
        {"vars": {"question": each}, "metadata": {"conversationId": "files"}} for each in asked
    ]
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        (where / "provider.js").write_text(provider)
        (where / "prompt.json").write_text(prompt)
        config = {"prompts": ["file://prompt.json"], "providers": ["file://provider.js"]}
        (where / "config.json").write_text(json.dumps(config | {"tests": tests}))
        env = os.environ | {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1"}
        env |= {"PROMPTFOO_CONFIG_DIR": folder, "PROMPTFOO_SELF_HOSTED": "1"}
        command = [
            "promptfoo",
            "eval",
            "-c",
            "config.json",
            "-o",
            "out.json",
            "--no-cache",
            "-j",
            "1",
        ]
        subprocess.run(command, cwd=folder, env=env, check=True, timeout=240, capture_output=True)
        return (where / "out.json").read_bytes().replace(folder.encode(), b"/project")


# --- Traces ---------------------------------------------------------------------------------------


def spans_of(talk: Talk, instrumentor: str, **settings: str) -> list[Any]:
    """The spans of a talk under an instrumentation, made in a process of its own, as each patches
    the package that it watches."""
    import importlib

    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    os.environ |= settings
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    module, _, name = instrumentor.partition(":")
    patch = getattr(importlib.import_module(module), name)()
    patch.instrument(tracer_provider=provider)
    try:
        with scripted(talk) as address, provider.get_tracer("app").start_as_current_span("agent"):
            chat_by(openai_client(address), talk)
    finally:
        patch.uninstrument()
    return list(kept.get_finished_spans())


def otlp_json(spans: list[Any]) -> dict[str, Any]:
    """A batch of spans as JSON by OTLP's rules: protobuf's, but with ids in hexadecimal."""
    import base64

    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    batch: dict[str, Any] = MessageToDict(encode_spans(spans))
    for resource in batch["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for key in ("traceId", "spanId", "parentSpanId"):
                    if key in span:
                        span[key] = base64.b64decode(span[key]).hex()
    return batch


CAPTURE = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_only"}
LATEST = CAPTURE | {"OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental"}
V2 = "opentelemetry.instrumentation.openai_v2:OpenAIInstrumentor"
OPENINFERENCE = "openinference.instrumentation.openai:OpenAIInstrumentor"
OPENLLMETRY = "opentelemetry.instrumentation.openai:OpenAIInstrumentor"


@makes("otlp-genai.jsonl")
def otlp_genai(talk: Talk) -> bytes:
    """A line for each batch, as the collector's file exporter writes them."""
    spans = spans_of(talk, V2, **LATEST)
    half = len(spans) // 2
    return as_lines([otlp_json(spans[:half]), otlp_json(spans[half:])])


@makes("otel-genai-console.json")
def otel_genai_console(talk: Talk) -> bytes:
    """As the SDK's console exporter prints spans, one after the other."""
    return b"\n".join(span.to_json().encode() for span in spans_of(talk, V2, **LATEST))


@makes("otlp-openinference.json.gz")
def otlp_openinference(talk: Talk) -> bytes:
    return gzip.compress(as_json(otlp_json(spans_of(talk, OPENINFERENCE))), mtime=0)


@makes("otlp-openllmetry.json")
def otlp_openllmetry(talk: Talk) -> bytes:
    return as_json(otlp_json(spans_of(talk, OPENLLMETRY, TRACELOOP_TRACE_CONTENT="true")))


# --- Tables ---------------------------------------------------------------------------------------


def table_rows(talk: Talk) -> list[Any]:
    return [
        {"conversation_id": "c1", "turn": n, "role": "tool" if s.who == "call" else s.who}
        | {"content": s.text}
        for n, s in enumerate(talk)
    ]


@makes("pandas.csv")
def pandas_csv(talk: Talk) -> bytes:
    import pandas as pd

    text: str = pd.DataFrame(table_rows(talk)).to_csv(index=False)
    return text.encode()


@makes("pandas.parquet")
def pandas_parquet(talk: Talk) -> bytes:
    import pandas as pd

    data: bytes = pd.DataFrame(table_rows(talk)).to_parquet(index=False)
    return data


@makes("pandas.jsonl")
def pandas_jsonl(talk: Talk) -> bytes:
    import pandas as pd

    text: str = pd.DataFrame(table_rows(talk)).to_json(orient="records", lines=True)
    return text.encode()


def saved_dataset(rows: list[Any]) -> bytes:
    import datasets

    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        datasets.Dataset.from_list(rows).to_parquet(file.name)
        return Path(file.name).read_bytes()


@makes("datasets-messages.parquet")
def datasets_messages(talk: Talk) -> bytes:
    with scripted(talk) as address:
        return saved_dataset([{"id": "c1", "messages": chat_by(openai_client(address), talk)}])


@makes("datasets-preferences.parquet")
def datasets_preferences(talk: Talk) -> bytes:
    """Pairs as preference training takes them: the talk was chosen, its opening alone rejected."""
    with scripted(talk) as address:
        messages = chat_by(openai_client(address), talk)
    poor = {"role": "assistant", "content": "I would rather not."}
    return saved_dataset(
        [{"prompt": messages[:1], "chosen": messages[1:], "rejected": [poor], "score": 0.5}]
    )


def main(asked: list[str]) -> None:
    if asked == ["--packages"]:
        print(*(f"{name}=={number}" for name, number in PACKAGES.items()))
        return
    if asked == ["--commands"]:
        print(*(f"{name}@{number}" for name, number in COMMANDS.items()))
        return
    for name, number in PACKAGES.items():
        if version(name) != number:
            sys.exit(f"{name} {version(name)} is installed, and these logs are made with {number}")
    for name in asked or (*MADE, *FAILED):
        if name in FAILED:
            (HERE / name).write_bytes(FAILED[name]())
            continue
        for talk, steps in TALKS.items():
            (HERE / f"{talk}-{name}").write_bytes(MADE[name](steps))
        print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
