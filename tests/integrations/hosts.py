"""The hosts of live guards, each with its real package and a scripted model: what was said last.

Each function sets up an agent with a script under the guard of that host, and returns a function
for what the user says next in one conversation; it returns the last words of the agent, or raises.
"""

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any, ClassVar

from chimeralab import LoopDetected
from tests.integrations.scripted import Script

DONE = "All done."
Say = Callable[[str], str]


def langchain(script: Script, **settings: Any) -> Say:
    from langchain.agents import create_agent
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, ToolCall
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool
    from langgraph.checkpoint.memory import InMemorySaver

    from chimeralab.integrations.langchain import LoopGuard

    class Scripted(BaseChatModel):
        def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
            page = script.ask(messages)
            calls = [
                ToolCall(name=script.name, args=page, id=f"c{script.asked}_{n}")
                for n in range(script.twins)
            ]
            said = AIMessage(DONE) if page is None else AIMessage("", tool_calls=calls)
            return ChatResult(generations=[ChatGeneration(message=said)])

        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

        @property
        def _llm_type(self) -> str:
            return "scripted"

    agent = create_agent(
        Scripted(),
        [tool(script.tool)],
        middleware=[LoopGuard(**settings)],
        checkpointer=InMemorySaver(),
    )

    def say(text: str) -> str:
        messages = [{"role": "user", "content": text}]
        config = {"recursion_limit": 400, "configurable": {"thread_id": "t"}}
        return agent.invoke({"messages": messages}, config)["messages"][-1].content

    return say


def openai_agents(script: Script, **settings: Any) -> Say:
    import agents
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage

    from chimeralab.integrations.openai_agents import LoopGuard

    class Scripted(agents.Model):
        async def get_response(self, *args: Any, **named: Any) -> agents.ModelResponse:
            items = named["input"] if "input" in named else args[1]
            page = script.ask(items)
            if page is None:
                text = {"type": "output_text", "text": DONE, "annotations": []}
                said = {"type": "message", "role": "assistant", "status": "completed"}
                said |= {"id": "m", "content": [text]}
                output: list[Any] = [ResponseOutputMessage.model_validate(said)]
            else:
                output = [  # with the two ids that the Responses API gives
                    ResponseFunctionToolCall(
                        arguments=json.dumps(page),
                        id=f"fc_{script.asked}_{n}",
                        call_id=f"call_{script.asked}_{n}",
                        name=script.name,
                        type="function_call",
                        status="completed",
                    )
                    for n in range(script.twins)
                ]
            return agents.ModelResponse(output, agents.Usage(), None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    agents.set_tracing_disabled(True)
    look = agents.function_tool(script.tool)
    agent = agents.Agent("scripted", model=Scripted(), tools=[look])
    guard, items = LoopGuard(**settings), list[Any]()

    def keep(data: Any) -> Any:
        items[:] = data.model_data.input
        return data.model_data

    def say(text: str) -> str:
        given = [*items, {"role": "user", "content": text}]
        config = agents.RunConfig(call_model_input_filter=keep)
        run = agents.Runner.run(agent, given, hooks=guard, max_turns=200, run_config=config)
        return asyncio.run(run).final_output

    return say


def litellm(script: Script, **settings: Any) -> Say:
    """An agent that calls `acompletion` in a loop; what the model says is LiteLLM's mock."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")  # asks nobody for prices
    import litellm as host
    from litellm import CustomLLM
    from litellm.types.utils import Choices, Message, ModelResponse

    from chimeralab.integrations.litellm import LoopGuard

    class Scripted(CustomLLM):
        async def acompletion(self, *_: Any, messages: Any, **__: Any) -> ModelResponse:
            page = script.ask(messages)
            call = {"function": {"name": script.name, "arguments": json.dumps(page)}}
            calls = [
                {"id": f"c{script.asked}_{n}", "type": "function", **call}
                for n in range(script.twins)
            ]
            said = (
                Message(content=DONE) if page is None else Message(content=None, tool_calls=calls)
            )
            return ModelResponse(choices=[Choices(message=said)])

    messages: list[Any] = []

    async def run() -> str:
        while True:
            answer = await host.acompletion("scripted/model", messages=messages)
            said = answer.choices[0].message
            messages.append(said.model_dump())
            if not said.tool_calls:
                return said.content
            for call in said.tool_calls:
                result = script.tool(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    host.custom_provider_map = [{"provider": "scripted", "custom_handler": Scripted()}]
    guard = LoopGuard(**settings)

    def say(text: str) -> str:
        messages.append({"role": "user", "content": text})
        host.callbacks = [guard]
        try:
            return asyncio.run(run())
        finally:
            host.callbacks = []

    return say


def pydantic_ai(script: Script, **settings: Any) -> Say:
    from pydantic_ai import Agent, UsageLimits, capture_run_messages
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from chimeralab.integrations.pydantic_ai import LoopGuard

    def model(messages: Any, info: Any) -> ModelResponse:
        page = script.ask(messages)
        calls = [ToolCallPart(script.name, page) for _ in range(script.twins)]
        return ModelResponse(parts=[TextPart(DONE)] if page is None else calls)

    agent = Agent(FunctionModel(model), tools=[script.tool], capabilities=[LoopGuard(**settings)])
    history: list[Any] = []

    def say(text: str) -> str:
        with capture_run_messages() as messages:
            try:
                limits = UsageLimits(request_limit=None)
                return agent.run_sync(text, message_history=history[:], usage_limits=limits).output
            finally:
                history[:] = messages

    return say


def adk(script: Script, **settings: Any) -> Say:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai.types import Content, FunctionCall, Part

    from chimeralab.integrations.adk import LoopGuard

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            page = script.ask(llm_request.contents)
            call = FunctionCall(name=script.name, args=page)
            calls = [Part(function_call=call.model_copy()) for _ in range(script.twins)]
            said = [Part(text=DONE)] if page is None else calls
            yield LlmResponse(content=Content(role="model", parts=said))

    guard = LoopGuard(**settings)
    agent = LlmAgent(
        name="scripted",
        model=Scripted(model="scripted"),
        tools=[script.tool],
        before_model_callback=guard,
        before_tool_callback=guard.before_tool,
    )
    runner = InMemoryRunner(agent, app_name="test")
    sessions = runner.session_service
    asyncio.run(sessions.create_session(app_name="test", user_id="u", session_id="s"))

    async def run(text: str) -> str:
        asked = Content(role="user", parts=[Part(text=text)])
        said = ""
        async for event in runner.run_async(user_id="u", session_id="s", new_message=asked):
            parts = event.content.parts if event.content else []
            said = "".join(part.text or "" for part in parts) or said
        return said

    return lambda text: asyncio.run(run(text))


def smolagents(script: Script, **settings: Any) -> Say:
    from smolagents import Model, ToolCallingAgent, tool
    from smolagents.models import (
        ChatMessage,
        ChatMessageToolCall,
        ChatMessageToolCallFunction,
        MessageRole,
    )

    from chimeralab.integrations.smolagents import LoopGuard

    class Scripted(Model):
        def generate(self, messages: Any, **_: Any) -> ChatMessage:
            page = script.ask(messages)
            name, arguments = (script.name, page) if page else ("final_answer", {"answer": DONE})
            function = ChatMessageToolCallFunction(arguments, name)
            calls = [
                ChatMessageToolCall(function, f"c{script.asked}_{n}", "function")
                for n in range(script.twins if page else 1)
            ]
            return ChatMessage(MessageRole.ASSISTANT, None, calls)

    look = tool(script.tool)
    agent = ToolCallingAgent(
        [look], Scripted(), step_callbacks=[LoopGuard(**settings)], max_steps=99, verbosity_level=0
    )
    return lambda text: str(agent.run(text, reset=False))


def autogen(script: Script, **settings: Any) -> Say:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_core import FunctionCall
    from autogen_core.models import ChatCompletionClient, CreateResult, RequestUsage

    from chimeralab.integrations.autogen import LoopGuard

    usage = RequestUsage(0, 0)

    class Scripted(ChatCompletionClient):
        model_info: ClassVar = {
            "function_calling": True, "vision": False, "json_output": False,
            "structured_output": False, "family": "unknown", "multiple_system_messages": True,
        }  # fmt: skip
        capabilities: ClassVar = model_info

        async def create(self, messages: Any, **_: Any) -> CreateResult:
            page = script.ask(messages)
            given = json.dumps(page)
            calls = [
                FunctionCall(f"c{script.asked}_{n}", given, script.name)
                for n in range(script.twins)
            ]
            content, reason = (DONE, "stop") if page is None else (calls, "function_calls")
            return CreateResult(content=content, finish_reason=reason, usage=usage, cached=False)

        def create_stream(self, *_: Any, **__: Any) -> Any: ...
        async def close(self) -> None: ...
        def actual_usage(self) -> RequestUsage:
            return usage

        def total_usage(self) -> RequestUsage:
            return usage

        def count_tokens(self, *_: Any, **__: Any) -> int:
            return 0

        def remaining_tokens(self, *_: Any, **__: Any) -> int:
            return 9999

    agent = AssistantAgent(
        "scripted",
        Scripted(),
        tools=[script.tool],
        model_context=LoopGuard(**settings),
        max_tool_iterations=99,
    )
    return lambda text: asyncio.run(agent.run(task=text)).messages[-1].content


def ag2(script: Script, **settings: Any) -> Say:
    from ag2 import Agent, MemoryStream
    from ag2.config import LLMClient
    from ag2.events import ModelMessage, ModelResponse, ToolCallEvent, ToolCallsEvent
    from ag2.testing import TestConfig

    from chimeralab.integrations.ag2 import LoopGuard

    class Scripted(LLMClient):
        async def __call__(self, messages: Any, context: Any, **_: Any) -> ModelResponse:
            # The texts of events are shortened when they are printed.
            parts = [part for each in messages for part in getattr(each, "parts", ())]
            page = script.ask([part.content for part in parts])
            if page is None:
                return ModelResponse(ModelMessage(DONE))
            given = json.dumps(page)
            calls = [
                ToolCallEvent(script.name, arguments=given, id=f"c{script.asked}_{n}")
                for n in range(script.twins)
            ]
            return ModelResponse(tool_calls=ToolCallsEvent(calls))

    class Config(TestConfig):
        def create(self) -> LLMClient:
            return Scripted()

    guard = LoopGuard(**settings)
    agent = Agent("scripted", config=Config(), tools=[script.tool], middleware=[guard])
    stream = MemoryStream()

    async def run(text: str) -> str:
        return str((await agent.ask(text, stream=stream)).body)

    return lambda text: asyncio.run(run(text))


HOSTS: dict[str, tuple[str, Callable[..., Say]]] = {
    "langchain": ("langchain", langchain),
    "openai-agents": ("agents", openai_agents),
    "litellm": ("litellm", litellm),
    "pydantic-ai": ("pydantic_ai", pydantic_ai),
    "adk": ("google.adk", adk),
    "smolagents": ("smolagents", smolagents),
    "autogen": ("autogen_agentchat", autogen),
    "ag2": ("ag2", ag2),
}
REFUSING = ("langchain", "pydantic-ai", "adk", "ag2")


def talk(host: str, script: Script, *said: str, **settings: Any) -> list[str]:
    """What the agent says last after each message of the user, or why it was stopped."""
    say = HOSTS[host][1](script, **settings)
    heard = []
    for text in said:
        try:
            heard.append(say(text))
        except LoopDetected as stop:
            heard.append(str(stop))
    return heard


def ran(host: str, script: Script, **settings: Any) -> str:
    """The last words of the agent, or the reason why it was stopped."""
    return talk(host, script, "Find the row.", **settings)[0]
