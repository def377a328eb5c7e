"""A middleware for agents of LangChain 1 and LangGraph."""

from typing import Any, Unpack

from chimeralab.core.extras import explain_missing_extra
from chimeralab.integrations.watch import Watch, WatchSettings

with explain_missing_extra():
    from langchain.agents.middleware import AgentMiddleware, hook_config
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        convert_to_openai_messages,
    )


class LoopGuard(AgentMiddleware):
    """Nudges the model with a message, then ends the agent with the reason.

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

    def _check(self, state: Any) -> dict[str, Any] | None:
        found = self._watch.follow(_to_message(message) for message in state["messages"])
        if found is None:
            return None
        if found.action == "nudge":
            return {"messages": [HumanMessage(found.message)]}
        return {"messages": [AIMessage(found.message)], "jump_to": "end"}


def _to_message(message: BaseMessage) -> dict[str, Any]:
    plain: dict[str, Any] = convert_to_openai_messages(message)
    failed = getattr(message, "status", None) == "error"
    return {**plain, "error": True} if failed else plain
