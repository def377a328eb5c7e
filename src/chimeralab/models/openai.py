"""Settings for models behind any OpenAI-compatible server: vLLM, Ollama, llama.cpp, hosted ones."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.parts import SentKey
from chimeralab.core.records import Record

if TYPE_CHECKING:
    from chimeralab.models.openai_model import OpenAIModel


# How a server is told that only some replies will do: by OpenAI's response_format, vLLM's choice,
# or llama.cpp's grammar.
Constraint = Literal["json_schema", "choice", "grammar", "off"]


@dataclass(frozen=True, slots=True)
class OpenAISettings(Record):
    """`use = "openai"`. The key is read from the environment variable that `key_env` names.

    `timeout` is in seconds and applies to every try; `max_retries` and the waiting between tries
    are the SDK's. `concurrency` is how many questions are on their way at once. `constrain` says
    how the server is held to the options of a question; without it, a JSON schema is tried, and a
    server that refuses one is asked in words alone.
    """

    needs_network: ClassVar[bool] = True

    model: Annotated[str, Field(min_length=1)]
    base_url: Annotated[str, Field(pattern=r"^https?://")]
    key_env: str | None = None
    send_seed: bool = True
    length_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    timeout: Annotated[float, Field(gt=0)] = 120.0
    max_retries: Annotated[int, Field(ge=0)] = 4
    concurrency: Annotated[int, Field(ge=1)] = 8
    constrain: Constraint | None = None

    def __post_init__(self) -> None:
        url = urlsplit(self.base_url)
        if url.username or url.password or url.query:
            raise InputError(
                f"base_url holds more than an address at {url.hostname}; take users, passwords and "
                "queries out: the key is read from the environment variable that key_env names"
            )

    @property
    def sent_key(self) -> SentKey | None:
        return SentKey(self.key_env, self.base_url) if self.key_env else None

    def open(self) -> "OpenAIModel":
        # The SDK takes half a second to import, and most commands ask no server.
        from chimeralab.models.openai_model import OpenAIModel  # noqa: PLC0415

        return OpenAIModel(self)
