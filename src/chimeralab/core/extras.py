"""Optional dependencies: which extra provides a module, read from the package's metadata."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec

from chimeralab.core.errors import InputError

# Modules of distributions with another name.
MODULES = {
    "autogen-agentchat": ("autogen_agentchat", "autogen_core"),
    "google-adk": ("google.adk",),
    "langchain": ("langchain", "langchain_core", "langgraph"),
    "openai-agents": ("agents",),
    "opentelemetry-sdk": ("opentelemetry.sdk",),
    "pydantic-ai-slim": ("pydantic_ai",),
    "vl-convert-python": ("vl_convert",),
}
PURPOSES = {
    "lab": "studies, analyses, reports and pages",
    "parquet": "Parquet files",
    "pandas": "pandas frames",
    "inspect": "Inspect and Scout",
    "langchain": "LangChain and LangGraph agents",
    "claude-agent-sdk": "Claude Agent SDK agents",
    "openai-agents": "OpenAI Agents SDK agents",
    "litellm": "LiteLLM calls",
    "pydantic-ai": "Pydantic AI agents",
    "opentelemetry": "OpenTelemetry spans",
    "adk": "Google ADK agents",
    "smolagents": "smolagents",
    "autogen": "AutoGen teams",
    "mcp": "MCP servers",
    "ag2": "AG2 agents",
    "ray": "Ray jobs",
}


@cache
def extras() -> Mapping[str, tuple[str, ...]]:
    """List the modules of each extra; empty if the package is not installed."""
    found: dict[str, tuple[str, ...]] = {}
    try:
        declared = requires("chimera-lab") or []
    except PackageNotFoundError:
        declared = []
    for line in declared:
        if match := re.match(r"([\w.-]+).*; *extra *== *['\"]([\w-]+)", line):
            name, extra = match.groups()
            found[extra] = found.get(extra, ()) + MODULES.get(name, (name.replace("-", "_"),))
    return found


class MissingExtra(InputError, ImportError):
    """A feature needs an extra that is not installed."""

    def __init__(self, extra: str, module: str) -> None:
        super().__init__(
            f"{PURPOSES[extra]} need an extra ({module} is missing);"
            f' install it with: pip install "chimera-lab[{extra}]"'
        )


def require_extra(extra: str) -> None:
    """Raise `MissingExtra` unless all modules of an extra are installed; imports nothing."""
    for module in extras().get(extra, ()):
        if find_spec(module) is None:
            raise MissingExtra(extra, module)


def missing_extra(error: ModuleNotFoundError) -> MissingExtra | None:
    """Return the error for a missing module; None if no extra provides it.

    >>> str(missing_extra(ModuleNotFoundError("gone", name="scipy.special"))).rpartition(": ")[2]
    'pip install "chimera-lab[lab]"'
    """
    missing = f"{error.name}."
    found = (
        MissingExtra(extra, module)
        for extra, modules in extras().items()
        for module in modules
        if missing.startswith(f"{module}.") or module.startswith(missing)
    )
    return next(found, None)


@contextmanager
def explain_missing_extra() -> Iterator[None]:
    """Wrap the imports of an optional dependency to raise `MissingExtra` if it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None
