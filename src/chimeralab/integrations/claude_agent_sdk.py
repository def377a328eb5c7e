"""Hooks for the Claude Agent SDK."""

from typing import Any, Unpack

from chimeralab.core.extras import explain_missing_extra
from chimeralab.integrations.claude_code import ClaudeCodeHook
from chimeralab.integrations.watch import WatchSettings

with explain_missing_extra():
    from claude_agent_sdk import HookMatcher


def loop_guard(**settings: Unpack[WatchSettings]) -> dict[str, list[HookMatcher]]:
    """What `ClaudeAgentOptions(hooks=...)` takes: Claude is told that it repeats, then stopped."""
    hook = ClaudeCodeHook(**settings)

    async def answer(event: Any, tool_use_id: str | None, context: Any) -> Any:
        given = hook.answer(event)
        # The SDK writes the word with a line below, since it means something in Python.
        return {"continue_" if key == "continue" else key: each for key, each in given.items()}

    return {name: [HookMatcher(hooks=[answer])] for name in ("PreToolUse", "PostToolUse", "Stop")}
