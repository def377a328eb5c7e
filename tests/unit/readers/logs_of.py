"""Every kind of log, with a healthy and a looping conversation.

Where the tool can be run, it made them (`made/make_logs.py`); the others follow its schema.
"""

from pathlib import Path
from typing import NamedTuple

from tests.unit.readers.by_schema import WRITTEN
from tests.unit.readers.talks import HEALTHY, LOOPING

MADE = Path(__file__).parent / "made"
FORMAT_OF_MADE = {
    "anthropic-messages.json": "openai",
    "autogen-result.json": "autogen",
    "codex-exec.jsonl": "codex",
    "codex-rollout.jsonl": "codex",
    "datasets-messages.parquet": "openai",
    "datasets-preferences.parquet": "preferences",
    "gemini-cli-session.jsonl": "gemini-cli",
    "google-genai-history.json": "gemini",
    "google-genai-request.jsonl": "gemini",
    "harbor-atif.json": "atif",
    "inspect.eval": "inspect",
    "inspect.json.gz": "inspect",
    "langchain-dumpd.json": "langchain",
    "langchain-messages_to_dict.json": "langchain",
    "langchain-model_dump.json": "langchain",
    "langchain-state.jsonl": "langchain",
    "langfuse-observations.json": "langfuse",
    "langgraph.db.gz": "langgraph",
    "langsmith-runs.jsonl.gz": "langsmith",
    "openai-agents-session.db": "openai-sessions",
    "openai-agents-trace.jsonl": "openai-traces",
    "openai-chat.jsonl": "openai",
    "openai-requests.jsonl": "openai",
    "openai-responses-items.json": "responses",
    "openai-responses.jsonl": "responses",
    "openhands-events.json": "openhands",
    "otel-genai-console.json": "opentelemetry",
    "otlp-genai.jsonl": "opentelemetry",
    "otlp-openinference.json.gz": "opentelemetry",
    "otlp-openllmetry.json": "opentelemetry",
    "pandas.csv": "rows",
    "pandas.jsonl": "rows",
    "pandas.parquet": "rows",
    "promptfoo.json": "promptfoo",
    "tau2-results.json": "tau2",
}
REFUSED = "openai-agents-trace-of-ids.jsonl"
"""A trace of OpenAI's agents that only names its responses, so that nothing of them can be read."""

WITHOUT_CALLS = {
    "pandas.csv", "pandas.jsonl", "pandas.parquet", "promptfoo.json", "preference texts",
    "transcript", "aider", "chatdev", "metagpt", "ag2",
    "who and when", "agentrx", "agentrx steps",
}  # fmt: skip
"""Logs that know no tools."""
WITHOUT_QUESTIONS = {"codex-exec.jsonl", "hyperagent", "chatdev"}
"""Logs that hold nothing of the user."""


class Log(NamedTuple):
    """The expected format of a kind of log, and two logs of that kind."""

    format: str
    healthy: bytes
    looping: bytes


LOGS: dict[str, Log] = {
    name: Log(form, *((MADE / f"{talk}-{name}").read_bytes() for talk in ("healthy", "looping")))
    for name, form in FORMAT_OF_MADE.items()
} | {name: Log(form, write(HEALTHY), write(LOOPING)) for name, (form, write) in WRITTEN.items()}
