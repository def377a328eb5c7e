"""What a light install leaves out, and which extra brings it, as the package's metadata has it."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec

from chimeralab.core.errors import InputError

# The modules of distributions that are not called like them.
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
    "langchain": "agents of LangChain and LangGraph",
    "claude-agent-sdk": "agents of the Claude Agent SDK",
    "openai-agents": "agents of the OpenAI Agents SDK",
    "litellm": "calls through LiteLLM",
    "pydantic-ai": "agents of Pydantic AI",
    "opentelemetry": "spans of OpenTelemetry",
    "adk": "agents of Google's ADK",
    "smolagents": "agents of smolagents",
    "autogen": "teams of AutoGen",
    "ray": "jobs on Ray",
}


@cache
def extras() -> Mapping[str, tuple[str, ...]]:
    """The modules that each extra brings; none where the package runs without being installed."""
    found: dict[str, tuple[str, ...]] = {}
    try:
        declared = requires("chimera-lab") or []
    except PackageNotFoundError:
        declared = []
    for line in declared:
        if asked := re.match(r"([\w.-]+).*; *extra *== *['\"]([\w-]+)", line):
            name, extra = asked.groups()
            found[extra] = found.get(extra, ()) + MODULES.get(name, (name.replace("-", "_"),))
    return found


class MissingExtra(InputError, ImportError):
    """Something was asked for that this install leaves out."""

    def __init__(self, extra: str, module: str) -> None:
        super().__init__(
            f"{PURPOSES[extra]} need more than the light install ({module} is missing);"
            f' get it with: pip install "chimera-lab[{extra}]"'
        )


def require_extra(extra: str) -> None:
    """Refuse to begin what would fail later for lack of an extra; nothing is imported."""
    for module in extras().get(extra, ()):
        if find_spec(module) is None:
            raise MissingExtra(extra, module)


def missing_extra(error: ModuleNotFoundError) -> MissingExtra | None:
    """What to tell the user about a module that is not there; None where no extra brings it.

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
    """Around the imports of a module that needs an extra: where it is missing, its name is said."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None
