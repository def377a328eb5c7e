"""Calls of a model, and the conversations rebuilt from them.

Each call repeats what was said before it, so that the last call of a chain holds the conversation.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from chimeralab.core.records import Trajectory
from chimeralab.readers.agents import is_langchain, langchain_message
from chimeralab.readers.chat import ChatMessage, Content, message_of, spoken, turns_of
from chimeralab.readers.evaluations import json_inside
from chimeralab.readers.fields import Unreadable
from chimeralab.readers.providers import item_message
from chimeralab.readers.seam import Place, Reader

HOLDERS = (
    "messages", "prompts", "input", "output", "choices", "generations", "message", "content",
    "prompt", "text",
)  # fmt: skip
MOST_LEVELS = 8


class Generation(NamedTuple):
    """One call of a model: what it was shown and what it gave.

    Calls of one `trace` belong together; in a `session`, even those that repeat no history.
    """

    trace: str
    session: bool
    time: str
    asked: list[ChatMessage]
    given: list[ChatMessage]
    model: str | None = None
    outer: bool = False
    """Whether it spans a whole run: then it counts only where none of the run's calls is known."""
    unfinished: bool = False


def rebuilt(generations: Iterable[Generation], place: Place) -> Iterator[Trajectory]:
    """The conversations of a trace, each from the last call that goes on from the ones before."""
    traces: dict[str, list[Generation]] = {}
    for each in generations:
        if each.asked or each.given:
            traces.setdefault(each.trace, []).append(each)
    for trace, found in traces.items():
        calls = [call for call in found if not call.outer] or found
        chains: list[list[Generation]] = []
        ends: dict[int, int] = {}
        for call in sorted(calls, key=lambda each: each.time):
            marks = _marks(call.asked)
            at = next((ends[m] for m in reversed(marks[:-1]) if m in ends), None)
            if at is not None:
                chains[at] = [call]
            elif call.session and (at := _chain_of_session(call, chains)) is not None:
                chains[at].append(call)
            else:
                at = len(chains)
                chains.append([call])
            if marks:
                ends[marks[-1]] = at
        models = [call.model for call in calls if call.model]
        for number, chain in enumerate(chains, 1):
            metadata: dict[str, Any] = {"trace": trace, "model": models[-1] if models else None}
            metadata |= {"unfinished": True} if chain[-1].unfinished else {}
            name = trace if number == 1 else f"{trace}#{number}"
            messages = [message for call in chain for message in call.asked + call.given]
            yield Trajectory(name, turns_of(messages), metadata, str(place))


def _chain_of_session(call: Generation, chains: list[list[Generation]]) -> int | None:
    """The chain that a call without history belongs to: the one of the same instructions."""
    told = _instructions(call)
    return next((n for n, chain in enumerate(chains) if _instructions(chain[0]) == told), None)


def _instructions(call: Generation) -> str | None:
    first = call.asked[0].turn if call.asked else None
    return first.text if first and first.role in ("system", "developer") else None


def _marks(messages: list[ChatMessage]) -> list[int]:
    """A number for every beginning of a list of messages, the same for the same beginning."""
    marks, mark = [], 0
    for turn, content in messages:
        calls = tuple((call.name, str(call.arguments)) for _, call in content.calls)
        mark = hash((mark, turn.role, turn.text, calls))
        marks.append(mark)
    return marks


def messages_in(value: Any, role: str, place: str, level: int = 0) -> Iterator[ChatMessage]:
    """The messages that an input or output of a call holds, however it wraps them."""
    if level > MOST_LEVELS or value is None:
        return
    if isinstance(value, str):
        inner = json_inside(value)
        if isinstance(inner, dict | list):
            yield from messages_in(inner, role, place, level + 1)
        else:
            yield spoken(Content(value), role)
    elif isinstance(value, list):
        for n, each in enumerate(value):
            yield from messages_in(each, role, f"{place}[{n}]", level + 1)
    elif isinstance(value, dict):
        message = _one_message(value, role, place)
        holder = next((key for key in HOLDERS if value.get(key) is not None), None)
        if message is not None:
            yield message
        elif holder is not None:
            yield from messages_in(value[holder], role, f"{place}.{holder}", level + 1)


def _one_message(fields: Mapping[str, Any], role: str, place: str) -> ChatMessage | None:
    """What is one message in any dialect; None where it only holds some."""
    if is_langchain(fields):
        return langchain_message(fields, place)
    if isinstance(fields.get("parts"), list):
        return parts_message(fields, place, role)
    if "role" in fields:
        return message_of(fields, place)
    is_call = isinstance(fields.get("type"), str) and "call" in fields["type"]
    return item_message(fields, place) if is_call else None


def parts_message(fields: Mapping[str, Any], place: str, role: str = "user") -> ChatMessage:
    """A message of OpenTelemetry's conventions, whose parts have a type and content."""
    parts = [
        {"type": "tool_result", "tool_use_id": part.get("id")}
        | {"content": part.get("response", part.get("result"))}
        if isinstance(part, dict) and part.get("type") == "tool_call_response"
        else part
        for part in fields["parts"]
    ]
    named = fields.get("role", role)
    return message_of({"role": named, "content": parts, "name": fields.get("name")}, place)


class SpanReader(Reader):
    """A format of spans: those that hold messages are rebuilt into conversations at the end."""

    whole = False
    no_messages: ClassVar[str]
    """What to say of a trace in which no span holds any."""

    def __init__(self) -> None:
        self._found: list[Generation] = []
        self._silent = 0

    def keep(self, call: Generation) -> None:
        if call.asked or call.given:
            self._found.append(call)
        else:
            self._silent += 1

    def finish(self, place: Place) -> Iterator[Trajectory]:
        if self._silent and not self._found:
            raise Unreadable(self.no_messages)
        yield from rebuilt(self._found, place)
