"""The lock: the resolved plan under one hash, and the hashes that link the turns of a conversation.

The hash of a turn covers the one before it, so that editing, dropping, adding or swapping a turn
breaks every later hash. A probe reply branches off, since it is not part of the conversation.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chimeralab import version
from chimeralab.core.errors import InputError
from chimeralab.core.files import atomic_file, parse_json, read_regular
from chimeralab.core.parts import PARTS, format_value
from chimeralab.core.records import Record, plain_value
from chimeralab.core.schema import SCHEMA, check_schema
from chimeralab.runner import Prompt, TurnRecord
from chimeralab.study.plan import Plan
from chimeralab.weights import ENCODER
from chimeralab.weights import MODELS as FILES

MAX_CHANGES = 12
# Minor versions that another one continues: 0.1 was never released, and became 0.2.
CONTINUED = {"0.1": "0.2"}


class LockError(InputError):
    """The plan of a study is not the one that was locked."""


@dataclass(frozen=True, slots=True)
class Lock(Record):
    """A resolved plan, when it was locked, and the SHA-256 of both."""

    sha256: str
    resolved: Mapping[str, Any]
    locked_at: str


def resolve(plan: Plan) -> dict[str, Any]:
    """Everything that results may depend on, as plain JSON values.

    The hashes of weights and of outside code are None for files that are missing.
    """
    hashes = {
        name: {file.name: file.sha256 for file in weights.files} for name, weights in FILES.items()
    }
    values = {
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
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


def make_lock(plan: Plan) -> Lock:
    resolved, locked_at = resolve(plan), datetime.now(UTC).isoformat(timespec="seconds")
    content = {"schema": SCHEMA, "resolved": resolved, "locked_at": locked_at}
    return Lock(digest(content), resolved, locked_at)


def digest(value: Any) -> str:
    """SHA-256 of a value's canonical JSON: sorted keys, no spaces, UTF-8.

    >>> digest({"b": 1, "a": "é"}) == digest({"a": "é", "b": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def write_lock(path: Path, lock: Lock) -> None:
    values = {"schema": SCHEMA, **lock.as_dict()}
    text = json.dumps(values, sort_keys=True, indent=1, ensure_ascii=False)
    with atomic_file(path) as part:
        part.write_text(text + "\n", encoding="utf-8")


def read_lock(path: Path) -> Lock:
    """Read a lock and check its hash."""
    try:
        values = parse_json(read_regular(path))
        lock = Lock(values.pop("sha256"), values["resolved"], values.get("locked_at"))
        number = values.get("schema", SCHEMA)
        if not isinstance(lock.resolved, dict) or not isinstance(number, int):
            raise TypeError
    except OSError as error:
        raise LockError(f"{path} can't be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LockError(f"{path} is damaged; restore it from version control or a copy") from error
    check_schema(number, str(path), "lock its plan again in a new folder", LockError)
    if digest(values) != lock.sha256:
        raise LockError(f"{path} was edited: its contents do not match its hash")
    return lock


def refuse_changes(recorded: Mapping[str, Any], plan: Plan, when: str = "locked") -> None:
    """Raise if the plan, its prompts or any default differ from the recorded ones.

    Versions that differ only in the patch number accept each other's records.
    """
    present = resolve(plan)
    then, now = str(recorded.get("chimeralab")), present["chimeralab"]
    old, new = (".".join(each.split(".")[:2]) for each in (then, now))
    if new not in (old, CONTINUED.get(old)):
        raise LockError(
            f"this study was {when} with chimera-lab {then} and this is {now}; "
            f"continue with `pip install chimera-lab~={then}`, or start a new study"
        )
    changes = list_changes({**recorded, "chimeralab": now}, present)
    if changes:
        more = len(changes) - MAX_CHANGES
        shown = [*changes[:MAX_CHANGES], *([f"and {more} more"] if more > 0 else [])]
        raise LockError(
            f"the plan has changed since it was {when} ({when} → now):\n"
            + "".join(f"  {change}\n" for change in shown)
            + "undo the change, or start a new study with the new plan"
        )


def list_changes(recorded: Mapping[str, Any], present: Mapping[str, Any]) -> list[str]:
    """What differs, key by key. Descriptions of outside parts follow from their code.

    >>> list_changes({"run": {"seed": 1}}, {"run": {"seed": 2}})
    ['run.seed: 1 → 2']
    """
    old, new = (
        dict(_leaves("", {key: value for key, value in side.items() if key != PARTS}))
        for side in (recorded, present)
    )
    return [
        f"{key}: {_format(old.get(key))} → {_format(new.get(key))}"
        for key in [*old, *(key for key in new if key not in old)]
        if old.get(key) != new.get(key)
    ]


def _format(value: Any) -> str:
    return "nothing" if value is None else format_value(value)


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every plain value under its dotted key; list items with an id are named by it."""
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


def link(previous: str, turn: TurnRecord) -> str:
    """The hash of a turn, given the one before it."""
    return digest([previous, turn.turn, turn.speaker, turn.model, turn.text, turn.finish])


def branch(previous: str, turn: int, probe: str, text: str) -> str:
    """The hash of a probe reply, given that of the turn before the one it was asked at."""
    return digest([previous, turn, probe, text])
