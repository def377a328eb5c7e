"""Who is who in a chat: the usual names of its two sides, and of what nobody says."""

from chimeralab.core.records import Turn

ROLES = dict.fromkeys(("user", "human", "customer", "client", "guest"), "user") | dict.fromkeys(
    ("assistant", "ai", "bot", "chatbot", "chatgpt", "gpt", "model", "agent"), "assistant"
)
"""What logs call the two sides of a chat."""

RESULTS = frozenset(
    {"tool", "function", "function_response", "tool_response", "tool_result", "observation"}
)
"""Roles whose messages are what a tool gave back."""

CALLS = frozenset({"function_call", "tool_call"})
"""Roles whose messages are calls of a tool."""

SILENT = RESULTS | CALLS | {"system", "developer"}
"""Roles whose messages nobody says."""


def role_of(name: str) -> str:
    """The role in one spelling.

    >>> role_of("Human"), role_of("gpt"), role_of("critic")
    ('user', 'assistant', 'critic')
    """
    folded = name.strip().lower()
    return ROLES.get(folded, folded)


def side_of(turn: Turn) -> str:
    """The role of a turn; where it has none, that of the name of its speaker."""
    return role_of(turn.role or turn.speaker or "")
