"""Formats of evaluation tools: Inspect, tau2 and promptfoo."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any
from zipfile import ZipFile

from chimeralab.core.records import Trajectory, Turn
from chimeralab.readers.chat import (
    ChatMessage,
    Content,
    add_tokens,
    annotate,
    join_turns,
    make_message,
    make_result,
    make_trajectory,
    mark_unspoken,
    parse_call,
    parse_message,
    parse_messages,
    parse_tokens,
    result_text,
)
from chimeralab.readers.seam import (
    WRAPS,
    Place,
    Reader,
    Unreadable,
    as_object,
    bool_or_none,
    get_id,
    get_list,
    get_path,
    items,
    json_type,
    other_scalars,
    str_or_none,
    try_json,
    with_places,
)
from chimeralab.readers.streams import parse_value, read_member

HEADERS = ("header.json", "_journal/start.json")  # an unfinished log has only the second
RUN_FIELDS = {"samples", "plan", "status"}
CHUNKED = "/sample.json"
MEMBER = re.compile(rf"samples/.+_epoch_\d+(\.json|{CHUNKED})", re.DOTALL)
UNFINISHED = ("started", "cancelled")
ATTACHMENT = "attachment://"
METADATA_KEY = "chimeralab"


@dataclass(frozen=True, slots=True)
class InspectSample:
    """A logged sample with the metadata of its run."""

    fields: Any
    run: Mapping[str, Any]
    unfinished: bool = False


class Inspect(Reader):
    """Samples of an Inspect evaluation, in an archive or one JSON object."""

    name = "inspect"
    keys = frozenset({"eval"})
    recognised = "a zip archive with header.json, or an object with eval and samples"
    turns = "a message of a sample; each sample and epoch is a conversation"
    left_out = (
        "events, scores, prompts that the user repeats verbatim, unreferenced attachments, the "
        "chunked layout"
    )
    zipped = True

    def __init__(self) -> None:
        self._run: Mapping[str, Any] = {}
        self._open = False

    def matches(self, value: Any) -> bool:
        is_log = isinstance(value, dict) and isinstance(value.get("eval"), dict)
        return isinstance(value, InspectSample) or (is_log and RUN_FIELDS & value.keys() != set())

    def inner(self, value: Any) -> list[Any]:
        """List the samples of a log in JSON form."""
        if not isinstance(value, dict) or not self.matches(value):
            return []
        run, unfinished = value["eval"], value.get("status") in UNFINISHED
        return [InspectSample(sample, run, unfinished) for sample in items(value.get("samples"))]

    def members(self, archive: ZipFile) -> list[str]:
        """List the samples of an archive in natural order, and keep its header."""
        names = set(archive.namelist())
        header = next((name for name in HEADERS if name in names), None)
        if header is None:
            raise Unreadable("a zip archive, but not an Inspect log: it has no header.json")
        fields = as_object(parse_value(read_member(archive, header)), header)
        self._run = as_object(fields.get("eval"), f"{header}: eval")
        self._open = fields.get("status") in UNFINISHED or header != HEADERS[0]
        return sorted(
            filter(MEMBER.fullmatch, names),
            key=lambda name: [p.zfill(20) if p.isdigit() else p for p in re.split(r"(\d+)", name)],
        )

    def load(self, archive: ZipFile, name: str) -> Any:
        if name.endswith(CHUNKED):
            raise Unreadable("stored in chunks, an experimental layout that is not supported")
        return InspectSample(parse_value(read_member(archive, name)), self._run, self._open)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        if not isinstance(value, InspectSample):
            raise Unreadable("not an Inspect log with samples")
        fields = as_object(value.fields, "the sample")
        attachments = as_object(fields.get("attachments") or {}, "attachments")
        messages = get_list(fields, "messages")
        turns = inspect_turns(_restore_attachments(message, attachments) for message in messages)
        metadata = {
            "model": get_id(value.run, "model"),
            "task": get_id(value.run, "task"),
            "sample": get_id(fields, "id"),
            "epoch": fields["epoch"] if get_id(fields, "epoch") else None,
        }
        # Scout identifies samples by uuid; the task's own metadata is for grouping.
        metadata |= {"uuid": fields["uuid"]} if get_id(fields, "uuid") else {}
        metadata |= other_scalars(
            as_object(fields.get("metadata") or {}, "metadata"), exclude=metadata
        )
        metadata |= {"unfinished": True} if value.unfinished else {}
        name = place.default_id()
        if metadata["sample"] is not None and metadata["epoch"] is not None:
            task = f"{metadata['task']}/" if metadata["task"] else ""
            name = f"{task}{metadata['sample']}_epoch_{metadata['epoch']}"
        spent = fields.get("model_usage")
        usage = [parse_tokens(each) for each in spent.values()] if isinstance(spent, dict) else []
        yield Trajectory(name, turns, metadata, str(place), add_tokens(usage))


def inspect_turns(messages: Iterable[Any]) -> tuple[Turn, ...]:
    """Convert the logged messages of a sample to turns.

    A user message that is repeated verbatim is a prompt of the solver ("please go on"). It is not
    spoken, since an agent that does something new after each is not looping.
    """
    seen: set[str] = set()
    found = []
    for message, place in with_places(messages, "messages"):
        # Inspect has roles but no names, so self-play keeps speakers and seed prompts in metadata.
        ours = get_path(message, "metadata", METADATA_KEY)
        named = {"name": ours.get("speaker")} if isinstance(ours, dict) else {}
        read = parse_message(message | named if named else message, place)
        aside = bool(get_path(ours, "seed"))
        if read.turn.role == "user" and read.turn.spoken and not aside:
            aside = read.turn.text in seen
            seen.add(read.turn.text)
        found.append(mark_unspoken(read) if aside else read)
    return join_turns(found)


def _restore_attachments(message: Any, attachments: Mapping[str, Any]) -> Any:
    """Replace references to attachments with their text."""
    if not attachments or not isinstance(message, dict):
        return message

    def back(text: Any) -> Any:
        named = isinstance(text, str) and text.startswith(ATTACHMENT)
        return attachments.get(text.removeprefix(ATTACHMENT), text) if named else text

    content = message.get("content")
    if not isinstance(content, list):
        return message | {"content": back(content)}
    parts = [
        part | {"text": back(part["text"])} if isinstance(part, dict) and "text" in part else part
        for part in content
    ]
    return message | {"content": parts}


class Tau2(Reader):
    """Simulations of tau2: an agent, a simulated user, and their tools."""

    name = "tau2"
    keys = frozenset({"simulations", "task_id"})
    recognised = "an object with simulations, or one simulation with task_id and its ending"
    turns = "a message of a simulation; tool_calls, with the tool message of the same id"
    left_out = "tasks, rewards"

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        ended = "termination_reason" in value or "reward_info" in value
        return isinstance(value.get("simulations"), list) or ("task_id" in value and ended)

    def sureness(self, value: Any) -> float:
        return WRAPS if self.matches(value) else 0.0

    def inner(self, value: Any) -> list[Any]:
        model = get_path(value, "info", "agent_info", "llm")
        about: dict[str, Any] = {"model": model} if isinstance(model, str) else {}
        about |= {"task_id": None, "termination_reason": None}
        simulations = items(get_path(value, "simulations"))
        return [about | each if isinstance(each, dict) else each for each in simulations]

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the simulation")
        messages = parse_messages(_tau_messages, get_list(fields, "messages"), "messages")
        metadata, ended = (
            other_scalars(fields, exclude={"id"}),
            bool(fields.get("termination_reason")),
        )
        name = get_id(fields, "id")
        yield make_trajectory(place, name, messages, metadata, unfinished=not ended)


def _tau_messages(message: Any, place: str) -> Iterator[ChatMessage]:
    fields = as_object(message, place)
    inner = fields.get("tool_messages")
    for each in inner if isinstance(inner, list) else [fields]:
        given = as_object(each, place)
        if given.get("role") == "tool":
            failed = bool_or_none(given.get("error"))
            yield make_result(given.get("content"), get_id(given, "id"), failed)
        else:
            yield parse_message(given, place)


@dataclass(frozen=True, slots=True)
class PromptfooResult:
    """A promptfoo result with the id of its evaluation."""

    fields: Any
    evaluation: str | None


class Promptfoo(Reader):
    """Results of promptfoo: for each test, a prompt and a provider's answer."""

    name = "promptfoo"
    keys = frozenset({"results", "prompt"})
    recognised = "an object with results.results, or lines with a prompt that has raw"
    turns = "the messages of the prompt, then the answer; tests of one conversationId are joined"
    left_out = "assertions, scores, settings, errors of providers"

    def __init__(self) -> None:
        self._waiting: dict[str, Trajectory] = {}

    def matches(self, value: Any) -> bool:
        if isinstance(value, PromptfooResult) or isinstance(self._results(value), list):
            return True
        prompt, marks = get_path(value, "prompt"), ("testCase", "vars", "testIdx", "promptIdx")
        return isinstance(prompt, dict) and "raw" in prompt and any(key in value for key in marks)

    def inner(self, value: Any) -> list[Any]:
        named = str_or_none(get_path(value, "evalId"))
        return [PromptfooResult(each, named) for each in items(self._results(value))]

    def _results(self, value: Any) -> Any:
        return get_path(value, "results", "results")

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        result = value if isinstance(value, PromptfooResult) else PromptfooResult(value, None)
        fields = as_object(result.fields, "the result")
        if isinstance(self._results(fields), list):
            raise Unreadable("no results")
        messages = list(_promptfoo_messages(fields))
        provider = fields.get("provider")
        provider = provider.get("id") if isinstance(provider, dict) else provider
        metadata = other_scalars(fields, exclude={"id", "prompt", "response"}) | {
            "model": str_or_none(provider),
            "evaluation": result.evaluation,
        }
        trajectory = make_trajectory(place, get_id(fields, "id"), messages, metadata)
        paths = (("metadata", "conversationId"), ("testCase", "metadata", "conversationId"))
        names = (get_path(fields, *path) for path in paths)
        named = (n for n in names if isinstance(n, str | int) and not isinstance(n, bool))
        joined = next(named, None)
        if joined is None:
            yield trajectory
            return
        key = f"{joined}/{metadata['model']}/{fields.get('promptIdx')}"
        before = self._waiting.get(key)
        if before is not None:
            # A prompt may already include the conversation so far.
            shown = trajectory.turns[: len(before.turns)]
            repeated = shown == before.turns and len(shown) < len(trajectory.turns)
            turns = trajectory.turns if repeated else before.turns + trajectory.turns
            trajectory = replace(before, turns=turns)
        self._waiting[key] = trajectory

    def finish(self, place: Place) -> Iterator[Trajectory]:
        yield from self._waiting.values()


def _promptfoo_messages(fields: Mapping[str, Any]) -> Iterator[ChatMessage]:
    listed = items(get_path(fields, "metadata", "messages"))
    if listed:
        yield from starmap(parse_message, with_places(listed, "metadata.messages"))
        return
    prompt = fields.get("prompt")
    raw = prompt.get("raw") if isinstance(prompt, dict) else prompt
    if not isinstance(raw, str):
        raise Unreadable(f"prompt.raw is {json_type(raw)}, not text")
    asked = try_json(raw)
    if isinstance(asked, list) and asked and isinstance(asked[0], dict) and "role" in asked[0]:
        yield from starmap(parse_message, with_places(asked, "prompt.raw"))
    else:
        yield make_message(raw, "user")
    output = get_path(fields, "response", "output")
    if output is None:
        return
    calls = items(output)
    body = (
        Content("", True, tuple(map(parse_call, calls)))
        if calls and all(isinstance(each, dict) and "function" in each for each in calls)
        else result_text(output)
    )
    yield annotate(make_message(body, "assistant"), fields["response"])
