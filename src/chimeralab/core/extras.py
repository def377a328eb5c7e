"""What a light install leaves out, and which extra brings it."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from chimeralab.core.errors import InputError

EXTRAS = {
    "lab": (
        "altair",
        "httpx",
        "jinja2",
        "markupsafe",
        "openai",
        "openvino",
        "openvino_genai",
        "scipy",
        "starlette",
        "uvicorn",
        "vl_convert",
    ),
    "parquet": ("pyarrow",),
    "pandas": ("pandas",),
    "inspect": ("inspect_ai", "inspect_scout"),
    "langchain": ("langchain", "langchain_core", "langgraph"),
    "claude-agent-sdk": ("claude_agent_sdk",),
    "openai-agents": ("agents",),
    "litellm": ("litellm",),
    "pydantic-ai": ("pydantic_ai",),
    "opentelemetry": ("opentelemetry.sdk",),
    "adk": ("google.adk",),
    "smolagents": ("smolagents",),
    "autogen": ("autogen_agentchat", "autogen_core"),
    "ray": ("ray",),
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


class MissingExtra(InputError, ImportError):
    """Something was asked for that this install leaves out."""

    def __init__(self, extra: str, module: str) -> None:
        super().__init__(
            f"{PURPOSES[extra]} need more than the light install ({module} is missing);"
            f' get it with: pip install "chimera-lab[{extra}]"'
        )


def need(extra: str) -> None:
    """Refuse to begin what would fail later for lack of an extra; nothing is imported."""
    for module in EXTRAS[extra]:
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
        for extra, modules in EXTRAS.items()
        for module in modules
        if missing.startswith(f"{module}.") or module.startswith(missing)
    )
    return next(found, None)


@contextmanager
def extra_named() -> Iterator[None]:
    """Around the imports of a module that needs an extra: where it is missing, its name is said."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None
