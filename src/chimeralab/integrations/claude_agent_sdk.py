"""Hooks for the Claude Agent SDK."""

from typing import Any, Unpack

from chimeralab.core.extras import explain_missing_extra
from chimeralab.integrations.claude_code import ClaudeCodeHook
from chimeralab.integrations.watch import WatchSettings

with explain_missing_extra():
    from claude_agent_sdk import HookMatcher


def loop_guard(**settings: Unpack[WatchSettings]) -> dict[str, list[HookMatcher]]:
    """Make hooks for `ClaudeAgentOptions(hooks=...)` that nudge Claude, then stop it."""
    hook = ClaudeCodeHook(**settings)

    async def answer(event: Any, tool_use_id: str | None, context: Any) -> Any:
        reply = hook.answer(event)
        # The SDK spells it with an underscore, since `continue` is a keyword.
        return {"continue_" if key == "continue" else key: each for key, each in reply.items()}

    return {name: [HookMatcher(hooks=[answer])] for name in ("PreToolUse", "PostToolUse", "Stop")}
