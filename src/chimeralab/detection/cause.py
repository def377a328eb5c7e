"""Why a loop began: what happened in the few messages before it, by rules that show it."""

from collections.abc import Sequence
from dataclasses import replace

from chimeralab.core.records import Cause, Loop, Turn


def attach_causes(loops: Sequence[Loop], turns: Sequence[Turn]) -> tuple[Loop, ...]:
    """Add to each loop its cause, if one is found."""
    return tuple(replace(loop, cause=find_cause(turns, loop)) for loop in loops)


def find_cause(turns: Sequence[Turn], loop: Loop) -> Cause | None:
    return None
