"""A middleware for agents of LangChain 1 and LangGraph."""

from collections.abc import Iterator
from typing import Any, Unpack

from chimeralab.core.extras import explain_missing_extra
from chimeralab.detection.streams import MessageStreams
from chimeralab.integrations.streaming import MAX_STREAMS, raise_cut
from chimeralab.integrations.watch import GuardAction, LoopAllowance, Watch, WatchSettings

with explain_missing_extra():
    from langchain.agents.middleware import AgentMiddleware, hook_config
    from langchain_core.callbacks import BaseCallbackHandler
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


class StreamingGuard(BaseCallbackHandler):
    """A callback that ends a call of a model, by `LoopDetected`, where its stream repeats itself.

    It may be in `callbacks` of the model or of the agent's `config`.
    """

    raise_error = True  # or LangChain would only log it
    run_inline = True  # in order, and before the model goes on

    def __init__(self, **settings: Unpack[WatchSettings]) -> None:
        self._watch = Watch(**settings)
        self._streams: dict[Any, MessageStreams] = {}

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: Any, **_: Any) -> None:
        cut = None
        with self._watch.contain_errors():
            if self._watch.enabled:
                if len(self._streams) >= MAX_STREAMS:
                    del self._streams[next(iter(self._streams))]
                streams = self._streams.setdefault(run_id, MessageStreams())
                for text, reasoning in _read_token(token, getattr(chunk, "message", None)):
                    cut = cut or streams.feed(text, reasoning=reasoning)
        if cut:
            self._streams.pop(run_id, None)
            raise_cut(cut)

    def on_llm_end(self, response: Any, *, run_id: Any, **_: Any) -> None:
        self._streams.pop(run_id, None)

    def on_llm_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        self._streams.pop(run_id, None)


def _read_token(token: Any, message: Any) -> Iterator[tuple[str, bool]]:
    """Read the text of a token, or of its blocks, and whether it is reasoning."""
    thought = getattr(message, "additional_kwargs", {}).get("reasoning_content")
    if isinstance(thought, str):
        yield thought, True
    content = getattr(message, "content", None) or token
    for block in [content] if isinstance(content, str) else content:
        if isinstance(block, str):
            yield block, False
            continue
        for name, reasoning in (("text", False), ("thinking", True), ("reasoning", True)):
            if isinstance(block.get(name), str):
                yield block[name], reasoning


def _to_message(message: BaseMessage) -> dict[str, Any]:
    plain: dict[str, Any] = convert_to_openai_messages(message)
    failed = getattr(message, "status", None) == "error"
    usage = getattr(message, "usage_metadata", None)
    plain |= {"usage": dict(usage)} if usage else {}
    return {**plain, "error": True} if failed else plain
