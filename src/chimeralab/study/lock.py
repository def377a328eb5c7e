"""The lock: the fully resolved plan under one hash, and a chain of hashes through what is said.

Each turn's hash covers the one before it: a turn that is edited, dropped, added or swapped breaks
the chain from there on. A reply to a probe branches off the chain, as it is not a part of the
conversation.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from chimeralab import version
from chimeralab.core.errors import InputError
from chimeralab.core.files import atomic_file
from chimeralab.core.parts import PARTS, format_value
from chimeralab.core.records import Record, plain_value
from chimeralab.runner import Prompt, TurnRecord
from chimeralab.study.plan import Plan
from chimeralab.weights import ENCODER
from chimeralab.weights import MODELS as FILES

DIFFERENCES_SHOWN = 12


class LockError(InputError):
    """The plan of a study is not the one that was locked."""


@dataclass(frozen=True, slots=True)
class Lock(Record):
    """A resolved plan, its SHA-256, and when it was locked."""

    sha256: str
    resolved: Mapping[str, Any]
    locked_at: str | None = None


class ChangedKey(NamedTuple):
    """One key that is not as it was locked; None stands where it is absent."""

    key: str
    locked: Any
    present: Any

    def __str__(self) -> str:
        sides = ("nothing" if side is None else format_value(side) for side in self[1:])
        return f"{self.key}: {' → '.join(sides)}"


def resolve(plan: Plan) -> dict[str, Any]:
    """Everything that the results may depend on, as plain values.

    The hashes of weights and of outside code are None where the files are out of our sight.
    """
    hashes = {
        name: {file.name: file.sha256 for file in weights.files} for name, weights in FILES.items()
    }
    return {
        "chimeralab": version.__version__,
        "records": "chained",
        "encoder": hashes[ENCODER],
        "weights": {
            name: hashes.get(getattr(subject.part.settings, "weights", ""))
            for name, subject in plan.models.items()
        },
        "outside_code": {use: file.sha256 for use, file in plan.code.items()},
        **({PARTS: plain_value(plan.outside_parts)} if plan.outside_parts else {}),
        **plan.as_dict(),
    }


def make_lock(plan: Plan) -> Lock:
    resolved = resolve(plan)
    return Lock(digest(resolved), resolved, datetime.now(UTC).isoformat(timespec="seconds"))


def digest(value: Any) -> str:
    """SHA-256 of a value's canonical JSON: sorted keys, no spaces, UTF-8.

    >>> digest({"b": 1, "a": "é"}) == digest({"a": "é", "b": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def write_lock(path: Path, lock: Lock) -> None:
    text = json.dumps(lock.as_dict(), sort_keys=True, indent=1, ensure_ascii=False)
    with atomic_file(path) as part:
        part.write_text(text + "\n", encoding="utf-8")


def read_lock(path: Path) -> Lock:
    """Read a lock and make sure that it is whole."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        lock = Lock(values["sha256"], values["resolved"], values.get("locked_at"))
    except OSError as error:
        raise LockError(f"{path} can't be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise LockError(f"{path} is damaged; restore it from version control or a copy") from error
    if digest(lock.resolved) != lock.sha256:
        raise LockError(f"{path} was edited: its contents do not match the hash that it names")
    return lock


def refuse_changes(lock: Lock, plan: Plan) -> None:
    """Raise when the plan, its prompts or any default is not as locked."""
    present = resolve(plan)
    then, now = lock.resolved.get("chimeralab"), present["chimeralab"]
    if then != now:
        raise LockError(
            f"this study was locked with chimera-lab {then} and this is {now}; "
            f"go on with `pip install chimera-lab=={then}`, or start a new study"
        )
    changes = differences(lock.resolved, present)
    if changes:
        raise LockError(
            "the plan is not the one that was locked (locked → present):\n"
            + summary(changes)
            + "\nundo the change, or start a new study with the new plan"
        )


def summary(changes: list[ChangedKey]) -> str:
    lines = [f"  {change}" for change in changes[:DIFFERENCES_SHOWN]]
    more = len(changes) - len(lines)
    return "\n".join([*lines, *([f"  and {more} more"] if more else [])])


def differences(locked: Mapping[str, Any], present: Mapping[str, Any]) -> list[ChangedKey]:
    """What differs, key by key. What parts tell of themselves follows from their code.

    >>> [str(change) for change in differences({"run": {"seed": 1}}, {"run": {"seed": 2}})]
    ['run.seed: 1 → 2']
    """
    old, new = (
        dict(_leaves("", {key: value for key, value in side.items() if key != PARTS}))
        for side in (locked, present)
    )
    keys = [*old, *(key for key in new if key not in old)]
    return [ChangedKey(k, old.get(k), new.get(k)) for k in keys if old.get(k) != new.get(k)]


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every plain value with its dotted key; list items that have an id go by it."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(f"{key}.{name}" if key else str(name), item)
    elif isinstance(value, list) and value:
        for n, item in enumerate(value, start=1):
            label = item.get("id", n) if isinstance(item, Mapping) else n
            yield from _leaves(f"{key}[{label}]", item)
    else:
        yield key, value


def opening(talk: str, prompt: Prompt) -> str:
    """The hash that a conversation starts from."""
    return digest([talk, prompt.id, prompt.bucket, prompt.text])


def link(previous: str, said: TurnRecord) -> str:
    """The hash of a turn, given the one before it."""
    return digest([previous, said.turn, said.speaker, said.model, said.text, said.finish])


def branch(previous: str, turn: int, probe: str, text: str) -> str:
    """The hash of a reply to a probe, given that of the turn before the one it was asked at."""
    return digest([previous, turn, probe, text])
