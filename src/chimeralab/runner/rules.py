"""What happens when a reply is empty, refused, too long for the model, or does not come at all.

A rule reads `record`, `stop`, or `retry 2 then stop`: ask again so often, then do the last thing.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record

SeedVisible = Literal["all", "first"]
Lapse = Literal["empty", "refusal", "overflow", "failure"]

# What may stand at the end of each rule; the first is what a bare `retry N` falls back on.
# A turn can be recorded only where there is a reply, and a conversation that is paused is taken up
# again by the next run.
ENDINGS: dict[Lapse, tuple[str, ...]] = {
    "empty": ("record", "stop"),
    "refusal": ("record", "stop"),
    "overflow": ("stop", "trim N"),
    "failure": ("pause", "stop"),
}

_RULE = re.compile(r"(?:retry (?P<retries>\d+)(?: then |$))?(?P<then>[a-z]*)(?: (?P<keep>\d+))?")


class Rule(NamedTuple):
    """Ask again `retries` times, then do `then`; `keep` is the N of `trim N`."""

    retries: int
    then: str
    keep: int | None = None


@dataclass(frozen=True, slots=True)
class Rules(Record):
    """How every conversation of a study is held."""

    turns: Annotated[int, Field(ge=1)] = 40
    repeats: Annotated[int, Field(ge=1)] = 1
    seed_visible: SeedVisible = "all"
    on_empty: str = "record"
    on_refusal: str = "record"
    on_overflow: str = "stop"
    on_failure: str = "retry 5 then pause"
    stop_early: bool = False

    def __post_init__(self) -> None:
        for lapse in ENDINGS:
            self.rule(lapse)

    def rule(self, lapse: Lapse) -> Rule:
        return read_rule(f"on_{lapse}", getattr(self, f"on_{lapse}"), ENDINGS[lapse])


def read_rule(key: str, text: str, endings: tuple[str, ...]) -> Rule:
    """Take a rule apart.

    >>> read_rule("on_empty", "retry 2 then stop", ("record", "stop"))
    Rule(retries=2, then='stop', keep=None)
    """
    match = _RULE.fullmatch(text)
    if match:
        retries, then, keep = match["retries"], match["then"], match["keep"]
        then = then or (endings[0] if retries else "")
        if then + (" N" if keep else "") in endings and keep != "0":
            return Rule(int(retries or 0), then, int(keep) if keep else None)
    choices = ", ".join((*endings, f"retry N then {endings[0]}"))
    raise InputError(f"{key} = {text!r} is no rule for this; known: {choices}")
