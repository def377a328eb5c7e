"""A study folder: the plan, its lock and the store, started from a template."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from chimeralab.core.errors import InputError
from chimeralab.core.files import remove_stale_parts, write_text
from chimeralab.core.parts import Consent, PartLoader, allow_all, choose
from chimeralab.core.records import Trajectory
from chimeralab.runner import Talk
from chimeralab.study.database import decode, is_empty, refuse_damage
from chimeralab.study.kind import MissingSourceError
from chimeralab.study.lock import (
    Lock,
    LockError,
    make_lock,
    read_lock,
    refuse_changes,
    write_lock,
)
from chimeralab.study.plan import Plan, read_plan
from chimeralab.study.store import Archive
from chimeralab.version import __version__

# Folders that commands write to.
WRITTEN_TO = (".", "audit", "steps", "report", "report/figures", "report/tables")


class Study:
    """A study folder; its contents are read lazily.

    Code that the plan names is run only if the caller allows it, for all files or one by one.
    Otherwise custom parts are taken as the lock or the first run describes them.
    """

    def __init__(self, path: str | Path, allow_code: bool | Consent = False) -> None:
        if not isinstance(path, str | Path):
            raise InputError(f"path is {path!r:.60}; expected the folder of a study")
        self.path = Path(path)
        self.consent = allow_code if callable(allow_code) else allow_all if allow_code else None
        if not self.plan_path.is_file():
            lacks = "it has no plan.toml" if self.path.is_dir() else "there is no such folder"
            raise InputError(f"{self.path} is not a study: {lacks}; see `chimera new`")
        # Damaged cells by table, as place and problem; None before the first look.
        self.damage: dict[str, list[tuple[str, str]]] | None = None
        self._tolerates_damage = False

    @property
    def plan_path(self) -> Path:
        return self.path / "plan.toml"

    @property
    def lock_path(self) -> Path:
        return self.path / "plan.lock"

    @property
    def store_path(self) -> Path:
        return self.path / "study.db"

    @cached_property
    def plan(self) -> Plan:
        try:
            return read_plan(self.plan_path, self._new_loader())
        except MissingSourceError as gone:
            return self._plan_as_locked(gone)

    def _new_loader(self) -> PartLoader:
        return PartLoader(self.path, self.consent, lambda: self.resolved_plan or {})

    @property
    def resolved_plan(self) -> Mapping[str, Any] | None:
        """The plan as locked or, without a valid lock, as first run."""
        with suppress(LockError):
            if lock := self.lock:
                return lock.resolved
        if not self.has_begun:
            return None
        with self.archive() as archive:
            for row in archive.rows("SELECT key, value FROM study WHERE key = 'resolved'"):
                found: Mapping[str, Any] = decode(dict[str, Any], "study", row, "value")
                return found
        return None

    def _plan_as_locked(self, gone: MissingSourceError) -> Plan:
        """Read the plan, taking from its lock what can't be rebuilt."""
        lock, resolved = self.lock, self.resolved_plan
        if resolved is None:
            raise gone
        plan = read_plan(self.plan_path, self._new_loader(), resolved)
        # Reading accepts any version; `check_lock` does not.
        if lock is not None and not plan.code:
            refuse_changes({**resolved, "chimeralab": __version__}, plan)
        return plan

    @cached_property
    def talks(self) -> list[Talk]:
        return plan_talks(self.plan)

    @property
    def lock(self) -> Lock | None:
        """The lock; None for an exploratory study."""
        return read_lock(self.lock_path) if self.lock_path.exists() else None

    def check_lock(self) -> Lock | None:
        """Check that the plan is still the locked one, and return its lock."""
        lock = self.lock
        if lock is not None:
            refuse_changes(lock.resolved, self.plan)
        return lock

    @property
    def root(self) -> str | None:
        """The root hash: the head of the chain, or the lock before anything is recorded."""
        if self.has_begun:
            with self.archive() as archive:
                if head := archive.head:
                    return head
        with suppress(LockError):
            return self.lock.sha256 if self.lock else None
        return None

    @property
    def has_begun(self) -> bool:
        """Whether anything may be stored; a run that is killed at once leaves an empty database."""
        return self.store_path.exists() and not is_empty(self.store_path)

    def archive(self) -> Archive:
        """Open the store for reading; the first time, check all of its cells."""
        if self.damage is None:
            with Archive(self.store_path) as archive:
                self.damage = archive.damage()
        if not self._tolerates_damage:
            refuse_damage(self.damage, self.store_path)
        return Archive(self.store_path, self.damage)

    @contextmanager
    def tolerate_damage(self) -> Iterator[None]:
        """Read the sound rows of a damaged store, to verify them."""
        self._tolerates_damage = True
        try:
            yield
        finally:
            self._tolerates_damage = False

    def trajectories(self) -> Iterator[Trajectory]:
        """Iterate over the stored conversations."""
        with self.archive() as archive:
            yield from archive.trajectories()

    def freeze(self) -> Lock:
        """Lock the plan; idempotent."""
        if lock := self.check_lock():
            return lock
        turns = 0
        if self.has_begun:
            with self.archive() as archive:
                turns = archive.value("SELECT count(*) FROM turns")
        if turns:
            raise LockError(
                f"{self.path} already holds {turns} turns that were run without a lock; locking "
                "afterwards registers nothing: copy the plan into a new study and lock that"
            )
        lock = make_lock(self.plan)
        write_lock(self.lock_path, lock)
        return lock

    @contextmanager
    def run_lock(self) -> Iterator[None]:
        """Exclude other runners; the system releases the lock if this process dies."""
        lock = FileLock(self.path / ".running", timeout=0)
        try:
            with lock:
                for place in WRITTEN_TO:
                    remove_stale_parts(self.path / place)
                yield
        except Timeout:
            raise InputError(f"{self.path} is being run already{self._describe_runner()}") from None
        except OSError as error:
            if lock.is_locked:
                raise
            raise InputError(f"{self.path} can't be written ({error.strerror})") from error

    def _describe_runner(self) -> str:
        try:
            with self.archive() as archive:
                run = archive.last_run()
        except InputError:
            run = None
        if run is None:
            return ""
        return f", by run {run.id} (process {run.pid} on {run.host}, since {run.started})"


def plan_talks(plan: Plan) -> list[Talk]:
    """Every condition x prompt x repeat, in the order of the run.

    Interleaved, the conditions of one prompt and repeat follow each other in random order, so that
    drift during a run affects all of them alike.
    """
    talks = [
        Talk(
            condition=name,
            prompt=prompt,
            repeat=repeat,
            speakers=condition.speakers,
            rules=plan.conversation,
            seed=plan.run.seed,
            countermeasure=condition.countermeasure.settings if condition.countermeasure else None,
            # All arms of a trial share their seeds.
            script=plan.kind.script(
                plan, name, prompt.id, int(_sort_key(plan.run.seed, "script", repeat)[:12], 16)
            ),
        )
        for name, condition in plan.conditions.items()
        for prompt in plan.prompts
        for repeat in range(1, plan.conversation.repeats + 1)
    ]

    def block(talk: Talk) -> str:
        return _sort_key(talk.seed, talk.prompt.id, talk.repeat)

    if plan.run.interleave:
        return sorted(talks, key=lambda talk: (block(talk), _sort_key(talk.seed, talk.id)))
    ranks = {name: rank for rank, name in enumerate(plan.conditions)}
    return sorted(talks, key=lambda talk: (ranks[talk.condition], block(talk)))


def _sort_key(*parts: Any) -> str:
    """A hash to sort by: a random order that does not depend on the version of Python."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def templates() -> dict[str, Traversable]:
    """The study templates, by name."""
    root = files("chimeralab.study") / "templates"
    return {item.name: item for item in sorted(root.iterdir(), key=lambda item: item.name)}


def new_study(path: Path, template: str) -> tuple[Path, ...]:
    """Write the files of a template; existing ones are never overwritten.

    If some of them exist as they would be written, a process was killed, and the rest is added.
    """
    choose(template, templates(), f"template {template!r}")
    name = json.dumps(path.resolve().name, ensure_ascii=False)
    texts = {
        path / source.name: source.read_text("utf-8").replace("@NAME@", name)
        for source in templates()[template].iterdir()
    }
    found = [file for file in texts if file.exists()]
    ours = [file for file in found if file.read_bytes() == texts[file].encode()]
    if found and (ours != found or len(found) == len(texts)):
        raise InputError(f"{found[0]} already exists; choose another folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} can't be created ({error.strerror})") from error
    for file, text in texts.items():
        write_text(file, text)
    return tuple(texts)
