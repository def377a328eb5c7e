"""The built-in models of a plan and their settings; `settings.open()` starts one.

Models are imported when they are opened: their libraries are slow to import, and most commands use
none.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field

from chimeralab import weights
from chimeralab.core.errors import InputError
from chimeralab.core.parts import SentKey, choose, read_record
from chimeralab.core.records import Record
from chimeralab.models.seam import FailureKind

if TYPE_CHECKING:
    from chimeralab.models.embedded import EmbeddedModel
    from chimeralab.models.inspect import InspectModel
    from chimeralab.models.openai import OpenAIModel
    from chimeralab.models.phantom import PhantomModel, RecordedModel, ReplayModel

Count = Annotated[int, Field(ge=1)]
Turns = tuple[Count, ...]
Probability = Annotated[float, Field(ge=0, le=1)]
PhantomCourse = Literal[
    "novel", "verbatim", "alternation", "template", "relapse", "stuck", "script"
]
# How a server constrains replies: OpenAI's response_format, vLLM's choice, or llama.cpp's grammar.
Constraint = Literal["json_schema", "choice", "grammar", "off"]


@dataclass(frozen=True, slots=True)
class EmbeddedSettings(Record):
    """`use = "embedded"`.

    With `deterministic`, the same seed always gives the same text, since requests are neither
    batched nor cached: many times slower. `cache_gb` is the size of the prefix cache; both sides
    of each conversation should fit into it.
    """

    weights: Literal["smollm2"] = "smollm2"
    deterministic: bool = False
    cache_gb: Count = 2

    def open(self) -> "EmbeddedModel":
        from chimeralab.models.embedded import EmbeddedModel  # noqa: PLC0415

        (file,) = weights.MODELS[self.weights].files
        return EmbeddedModel(self, weights.ensure(self.weights) / file.name)


@dataclass(frozen=True, slots=True)
class OpenAISettings(Record):
    """`use = "openai"`. The key is read from the environment variable that `key_env` names.

    `timeout` is in seconds, for each try; `max_retries` and the backoff are the SDK's.
    `concurrency` is the number of requests in flight. `constrain` says how replies are constrained
    to the options of a question; by default a JSON schema is tried, and a server that rejects it
    gets the options in the prompt alone.
    """

    needs_network: ClassVar[bool] = True

    model: Annotated[str, Field(min_length=1)]
    base_url: Annotated[str, Field(pattern=r"^https?://")]
    key_env: str | None = None
    send_seed: bool = True
    length_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    timeout: Annotated[float, Field(gt=0)] = 120.0
    max_retries: Annotated[int, Field(ge=0)] = 4
    concurrency: Count = 8
    constrain: Constraint | None = None

    def __post_init__(self) -> None:
        url = urlsplit(self.base_url)
        if url.username or url.password or url.query:
            raise InputError(
                f"base_url contains a user, password or query at {url.hostname}; remove it: the "
                "key is read from the environment variable that key_env names"
            )

    @property
    def sent_key(self) -> SentKey | None:
        return SentKey(self.key_env, self.base_url) if self.key_env else None

    def open(self) -> "OpenAIModel":
        from chimeralab.models.openai import OpenAIModel  # noqa: PLC0415

        return OpenAIModel(self)


@dataclass(frozen=True, slots=True)
class InspectSettings(Record):
    """`use = "inspect"`. Keys are read from the environment, as inspect-ai documents them.

    The options of a question are sent as a JSON schema. A provider that rejects it gets them in the
    prompt alone, and replies that ignore it are noted.

    `timeout` is in seconds, for each try; retries and backoff are inspect-ai's, as is
    `concurrency`, the number of requests in flight.
    """

    needs_network: ClassVar[bool] = True

    model: Annotated[str, Field(pattern=r"^[^/]+/.+")]
    base_url: str | None = None
    send_seed: bool = True
    timeout: Count = 120
    max_retries: Annotated[int, Field(ge=0)] = 4
    concurrency: Count = 8

    @property
    def sent_key(self) -> SentKey | None:
        """The provider's key, if the plan sets the address that it is sent to."""
        provider = self.model.partition("/")[0].upper().replace("-", "_")
        return SentKey(f"{provider}_API_KEY", self.base_url) if self.base_url else None

    def open(self) -> "InspectModel":
        from chimeralab.models.inspect import open_model  # noqa: PLC0415

        return open_model(self)


@dataclass(frozen=True, slots=True)
class PhantomSettings(Record):
    """`use = "phantom"`. Its replies depend only on `seed`, the conversation and the turn.

    It says something new at every turn until `onset`, then follows `course`. `relapse` loops from
    `onset` to `escape`, recovers, and loops again from `back` on. `stuck` goes by chance: a loop
    ends at a turn with the probability `leave`, or `heed` if the last message says `heeds`, and
    begins again with the probability `recur`. Turns in `fail_turns` fail
    `fail_times` times before they are answered.
    """

    course: PhantomCourse = "novel"
    onset: Count = 10
    escape: Count = 20
    back: Count = 30
    leave: Probability = 0.0
    heeds: str = ""
    heed: Probability = 0.0
    recur: Probability = 0.0
    script: tuple[str, ...] = ()
    seed: int = 0
    latency: Annotated[float, Field(ge=0)] = 0.0
    fail_turns: Turns = ()
    fail_times: Count = 1
    fail_kind: FailureKind = "server"
    refuse_turns: Turns = ()

    def __post_init__(self) -> None:
        if self.course == "script" and not self.script:
            raise InputError("course = 'script' needs a script of one line or more")
        if self.course == "relapse" and not self.onset < self.escape < self.back:
            raise InputError(
                f"course = 'relapse' needs onset < escape < back; these are {self.onset}, "
                f"{self.escape} and {self.back}"
            )

    def open(self) -> "PhantomModel":
        from chimeralab.models.phantom import PhantomModel  # noqa: PLC0415

        return PhantomModel(self)


@dataclass(frozen=True, slots=True)
class ReplaySettings(Record):
    """`use = "replay"`. `study` is a folder, relative to the study that replays it.

    Both need the same conditions, prompts and turns.
    """

    study: str

    def within(self, folder: Path) -> "ReplaySettings":
        return replace(self, study=str(folder / self.study))

    def open(self) -> "ReplayModel":
        from chimeralab.models.phantom import ReplayModel  # noqa: PLC0415

        return ReplayModel(Path(self.study) / "study.db")


@dataclass(frozen=True, slots=True)
class RecordedSettings(Record):
    """`use = "recorded"`. Its first turns are those that were `said` in a log; `then` goes on.

    `then` is the table of another model of this package.
    """

    said: tuple[str, ...]
    then: dict[str, Any]

    def __post_init__(self) -> None:
        _ = self.model

    @property
    def model(self) -> Any:
        """The settings of the model that goes on."""
        use = self.then.get("use")
        known = {name: part for name, part in MODELS.items() if part is not RecordedSettings}
        choose(use, known, f"use = {use!r} in `then`")
        settings = {key: value for key, value in self.then.items() if key != "use"}
        return read_record(known[str(use)], settings, "`then`")

    @property
    def weights(self) -> str:
        return str(getattr(self.model, "weights", ""))

    @property
    def sent_key(self) -> Any:
        return getattr(self.model, "sent_key", None)

    def open(self) -> "RecordedModel":
        from chimeralab.models.phantom import RecordedModel  # noqa: PLC0415

        return RecordedModel(self.said, self.model.open())


MODELS: dict[str, type] = {
    "embedded": EmbeddedSettings,
    "openai": OpenAISettings,
    "inspect": InspectSettings,
    "phantom": PhantomSettings,
    "replay": ReplaySettings,
    "recorded": RecordedSettings,
}
