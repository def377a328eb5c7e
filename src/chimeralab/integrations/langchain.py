"""A middleware for agents of LangChain 1 and LangGraph."""

from typing import Any, Unpack

from chimeralab.core.extras import explain_missing_extra
from chimeralab.integrations.watch import GuardAction, LoopAllowance, Watch, WatchSettings

with explain_missing_extra():
    from langchain.agents.middleware import AgentMiddleware, hook_config
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        ToolMessage,
        convert_to_openai_messages,
    )


class LoopGuard(LoopAllowance, AgentMiddleware):
    """Nudges the model with a message, then ends the agent, or refuses the call, with the reason.

    It runs before each model call, when all tool results are known. After the call, a nudge would
    separate tool calls from their results.
    """

    def __init__(self, **settings: Unpack[WatchSettings]) -> None:
        super().__init__()
        self._watch = Watch(**settings)

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return self._check(state)

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return self._check(state)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        refusal = self._refuse(request)
        return handler(request) if refusal is None else refusal

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        refusal = self._refuse(request)
        return await handler(request) if refusal is None else refusal

    def _refuse(self, request: Any) -> ToolMessage | None:
        found: GuardAction | None = None
        with self._watch.contain_errors():
            call, said = request.tool_call, map(_to_message, request.state["messages"])
            found = self._watch.check_call(said, call["name"], call["args"])
        if found is None:
            return None
        return ToolMessage(
            found.message, tool_call_id=call["id"], name=call["name"], status="error"
        )

    def _check(self, state: Any) -> dict[str, Any] | None:
        found = self._watch.follow_safely(map(_to_message, state["messages"]))
        if found is None:
            return None
        if found.action == "nudge":
            return {"messages": [HumanMessage(found.message)]}
        return {"messages": [AIMessage(found.message)], "jump_to": "end"}


def _to_message(message: BaseMessage) -> dict[str, Any]:
    plain: dict[str, Any] = convert_to_openai_messages(message)
    failed = getattr(message, "status", None) == "error"
    return {**plain, "error": True} if failed else plain
