"""Hooks for the Claude Agent SDK."""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Any, Unpack

from chimeralab.core.extras import explain_missing_extra
from chimeralab.integrations.claude_code import ClaudeCodeHook
from chimeralab.integrations.streaming import StreamGuard, raise_cut
from chimeralab.integrations.watch import Watch, WatchSettings

with explain_missing_extra():
    from claude_agent_sdk import HookMatcher


async def guard_messages(
    messages: AsyncIterable[Any],
    *,
    interrupt: Callable[[], Awaitable[Any]] | None = None,
    **settings: Unpack[WatchSettings],
) -> AsyncIterator[Any]:
    """Pass on the messages of Claude up to where a partial message is to be cut.

    It needs `ClaudeAgentOptions(include_partial_messages=True)`. At the cut, `LoopDetected` is
    raised; with `interrupt=client.interrupt`, Claude is interrupted instead, and what follows is
    passed on.
    """
    guard = StreamGuard(Watch(**settings))
    async for message in messages:
        if cut := guard.judge(message):
            if interrupt is None:
                raise_cut(cut)
            else:
                await interrupt()
        yield message


def loop_guard(**settings: Unpack[WatchSettings]) -> dict[str, list[HookMatcher]]:
    """Make hooks for `ClaudeAgentOptions(hooks=...)` that nudge Claude, then stop it."""
    hook = ClaudeCodeHook(**settings)

    async def answer(event: Any, tool_use_id: str | None, context: Any) -> Any:
        reply = hook.answer(event)
        # The SDK spells it with an underscore, since `continue` is a keyword.
        return {"continue_" if key == "continue" else key: each for key, each in reply.items()}

    return {name: [HookMatcher(hooks=[answer])] for name in ("PreToolUse", "PostToolUse", "Stop")}
