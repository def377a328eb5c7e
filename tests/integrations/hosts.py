"""The hosts of live guards, each with its real package and a scripted model: what was said last.

Each function runs a script under the guard of that host and returns the reason why it was stopped,
or the last words of the agent.
"""

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any, ClassVar

from chimeralab import LoopDetected
from tests.integrations.scripted import Script

DONE = "All done."


def langchain(script: Script, **settings: Any) -> str:
    from langchain.agents import create_agent
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, ToolCall
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool

    from chimeralab.integrations.langchain import LoopGuard

    class Scripted(BaseChatModel):
        def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
            page = script.next(messages)
            calls = [ToolCall(name="look", args={"page": page}, id=f"c{len(messages)}")]
            said = AIMessage(DONE) if page is None else AIMessage("", tool_calls=calls)
            return ChatResult(generations=[ChatGeneration(message=said)])

        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

        @property
        def _llm_type(self) -> str:
            return "scripted"

    agent = create_agent(Scripted(), [tool(script.look)], middleware=[LoopGuard(**settings)])
    messages = [{"role": "user", "content": "Find the row."}]
    return agent.invoke({"messages": messages}, {"recursion_limit": 99})["messages"][-1].content


def openai_agents(script: Script, **settings: Any) -> str:
    import agents
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage

    from chimeralab.integrations.openai_agents import LoopGuard

    class Scripted(agents.Model):
        async def get_response(self, *args: Any, **named: Any) -> agents.ModelResponse:
            items = named["input"] if "input" in named else args[1]
            page = script.next(items)
            if page is None:
                text = {"type": "output_text", "text": DONE, "annotations": []}
                said = {"type": "message", "role": "assistant", "status": "completed"}
                output = ResponseOutputMessage.model_validate(said | {"id": "m", "content": [text]})
            else:
                output = ResponseFunctionToolCall(
                    arguments=json.dumps({"page": page}),
                    call_id=f"c{len(items)}",
                    name="look",
                    type="function_call",
                )
            return agents.ModelResponse([output], agents.Usage(), None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    agents.set_tracing_disabled(True)
    look = agents.function_tool(script.look)
    agent = agents.Agent("scripted", model=Scripted(), tools=[look])
    run = agents.Runner.run(agent, "Find the row.", hooks=LoopGuard(**settings), max_turns=99)
    return asyncio.run(run).final_output


def litellm(script: Script, **settings: Any) -> str:
    """An agent that calls `acompletion` in a loop; what the model says is LiteLLM's mock."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")  # asks nobody for prices
    import litellm as host
    from litellm import CustomLLM
    from litellm.types.utils import Choices, Message, ModelResponse

    from chimeralab.integrations.litellm import LoopGuard

    class Scripted(CustomLLM):
        async def acompletion(self, *_: Any, messages: Any, **__: Any) -> ModelResponse:
            page = script.next(messages)
            call = {"function": {"name": "look", "arguments": json.dumps({"page": page})}}
            calls = [{"id": f"c{len(script.calls)}", "type": "function", **call}]
            said = (
                Message(content=DONE) if page is None else Message(content=None, tool_calls=calls)
            )
            return ModelResponse(choices=[Choices(message=said)])

    async def run() -> str:
        messages: list[Any] = [{"role": "user", "content": "Find the row."}]
        while True:
            answer = await host.acompletion("scripted/model", messages=messages)
            said = answer.choices[0].message
            messages.append(said.model_dump())
            if not said.tool_calls:
                return said.content
            for call in said.tool_calls:
                result = script.look(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    host.custom_provider_map = [{"provider": "scripted", "custom_handler": Scripted()}]
    host.callbacks = [LoopGuard(**settings)]
    try:
        return asyncio.run(run())
    finally:
        host.callbacks = []


def pydantic_ai(script: Script, **settings: Any) -> str:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from chimeralab.integrations.pydantic_ai import LoopGuard

    def model(messages: Any, info: Any) -> ModelResponse:
        page = script.next(messages)
        said = TextPart(DONE) if page is None else ToolCallPart("look", {"page": page})
        return ModelResponse(parts=[said])

    agent = Agent(FunctionModel(model), tools=[script.look], capabilities=[LoopGuard(**settings)])
    return agent.run_sync("Find the row.").output


def adk(script: Script, **settings: Any) -> str:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai.types import Content, FunctionCall, Part

    from chimeralab.integrations.adk import LoopGuard

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            page = script.next(llm_request.contents)
            call = FunctionCall(name="look", args={"page": page})
            said = Part(text=DONE) if page is None else Part(function_call=call)
            yield LlmResponse(content=Content(role="model", parts=[said]))

    agent = LlmAgent(
        name="scripted",
        model=Scripted(model="scripted"),
        tools=[script.look],
        before_model_callback=LoopGuard(**settings),
    )

    async def run() -> str:
        runner = InMemoryRunner(agent, app_name="test")
        session = await runner.session_service.create_session(app_name="test", user_id="u")
        asked = Content(role="user", parts=[Part(text="Find the row.")])
        said = ""
        async for event in runner.run_async(user_id="u", session_id=session.id, new_message=asked):
            parts = event.content.parts if event.content else []
            said = "".join(part.text or "" for part in parts) or said
        return said

    return asyncio.run(run())


def smolagents(script: Script, **settings: Any) -> str:
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
            page = script.next(messages)
            name, arguments = (
                ("look", {"page": page}) if page else ("final_answer", {"answer": DONE})
            )
            function = ChatMessageToolCallFunction(arguments, name)
            call = ChatMessageToolCall(function, f"c{len(messages)}", "function")
            return ChatMessage(MessageRole.ASSISTANT, None, [call])

    @tool
    def look(page: int) -> str:
        """Look at a page.

        Args:
            page: which one
        """
        return script.look(page)

    agent = ToolCallingAgent(
        [look], Scripted(), step_callbacks=[LoopGuard(**settings)], max_steps=20, verbosity_level=0
    )
    return str(agent.run("Find the row."))


def autogen(script: Script, **settings: Any) -> str:
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
            page = script.next(messages)
            call = FunctionCall(f"c{len(messages)}", json.dumps({"page": page}), "look")
            content, reason = (DONE, "stop") if page is None else ([call], "function_calls")
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
        tools=[script.look],
        model_context=LoopGuard(**settings),
        max_tool_iterations=20,
    )
    return asyncio.run(agent.run(task="Find the row.")).messages[-1].content


HOSTS: dict[str, tuple[str, Callable[..., str]]] = {
    "langchain": ("langchain", langchain),
    "openai-agents": ("agents", openai_agents),
    "litellm": ("litellm", litellm),
    "pydantic-ai": ("pydantic_ai", pydantic_ai),
    "adk": ("google.adk", adk),
    "smolagents": ("smolagents", smolagents),
    "autogen": ("autogen_agentchat", autogen),
}


def ran(host: str, script: Script, **settings: Any) -> str:
    """The last words of the agent, or the reason why it was stopped."""
    try:
        return HOSTS[host][1](script, **settings)
    except LoopDetected as stop:
        return str(stop)
