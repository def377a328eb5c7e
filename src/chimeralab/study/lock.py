"""The lock: the fully resolved plan under one hash, so that nothing changes after the fact."""

import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from chimeralab import version
from chimeralab.core.errors import InputError
from chimeralab.core.files import replacing
from chimeralab.core.parts import shown
from chimeralab.core.records import Record
from chimeralab.study.plan import Plan, Subject
from chimeralab.weights.catalogue import MODELS as FILES

DIFFERENCES_SHOWN = 12


class LockError(InputError):
    """The plan of a study is not the one that was locked."""


@dataclass(frozen=True, slots=True)
class Lock(Record):
    """A resolved plan and its SHA-256."""

    sha256: str
    resolved: Mapping[str, Any]


class Difference(NamedTuple):
    """One key that is not as it was locked; None stands where it is absent."""

    key: str
    locked: Any
    present: Any

    def __str__(self) -> str:
        return f"{self.key}: {_side(self.locked)} → {_side(self.present)}"


def resolve(plan: Plan) -> dict[str, Any]:
    """Everything that the results may hang on, as plain values."""
    return {
        "chimeralab": version.__version__,
        "encoder": _file_hashes("minilm"),
        "weights": {name: _weights(subject) for name, subject in plan.models.items()},
        "outside_code": {use: _source_hash(cls) for use, cls in plan.outside_code.items()},
        **plan.as_dict(),
    }


def _weights(subject: Subject) -> dict[str, str] | None:
    """The hashes of the files that a model runs on; None where they are out of our sight."""
    name = getattr(subject.part.settings, "weights", None)
    return _file_hashes(name) if name in FILES else None


def _file_hashes(name: str) -> dict[str, str]:
    return {file.name: file.sha256 for file in FILES[name].files}


def _source_hash(cls: type) -> str | None:
    """The hash of the file that a class stands in; None when it stands in none."""
    try:
        return hashlib.sha256(Path(inspect.getfile(cls)).read_bytes()).hexdigest()
    except (OSError, TypeError):
        return None


def make_lock(plan: Plan) -> Lock:
    resolved = resolve(plan)
    return Lock(digest(resolved), resolved)


def digest(value: Any) -> str:
    """SHA-256 of a value's canonical JSON: sorted keys, no spaces, UTF-8.

    >>> digest({"b": 1, "a": "é"}) == digest({"a": "é", "b": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def write_lock(path: Path, lock: Lock) -> None:
    with replacing(path) as part:
        text = json.dumps(lock.as_dict(), sort_keys=True, indent=1, ensure_ascii=False)
        part.write_text(text + "\n", encoding="utf-8")


def read_lock(path: Path) -> Lock:
    """Read a lock and make sure that it is whole."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        lock = Lock(values["sha256"], values["resolved"])
    except OSError as error:
        raise LockError(f"{path} can't be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise LockError(
            f"{path} is damaged; take it from your version control or a copy"
        ) from error
    if digest(lock.resolved) != lock.sha256:
        raise LockError(f"{path} was edited: its contents do not give the hash that it names")
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


def summary(changes: list[Difference]) -> str:
    lines = [f"  {change}" for change in changes[:DIFFERENCES_SHOWN]]
    more = len(changes) - len(lines)
    return "\n".join([*lines, *([f"  and {more} more"] if more else [])])


def differences(locked: Any, present: Any) -> list[Difference]:
    """What differs, key by key.

    >>> [str(change) for change in differences({"run": {"seed": 1}}, {"run": {"seed": 2}})]
    ['run.seed: 1 → 2']
    """
    old, new = dict(_leaves("", locked)), dict(_leaves("", present))
    keys = [*old, *(key for key in new if key not in old)]
    return [Difference(k, old.get(k), new.get(k)) for k in keys if old.get(k) != new.get(k)]


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


def _side(value: Any) -> str:
    return "nothing" if value is None else shown(value)
