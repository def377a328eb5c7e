"""A study as a folder: the plan, its lock, and the database of what was run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from filelock import FileLock, Timeout

from chimeralab.core.errors import InputError
from chimeralab.core.parts import read_value
from chimeralab.core.records import Trajectory
from chimeralab.runner import Talk
from chimeralab.sandbox.course import Course
from chimeralab.sandbox.scenarios.public_sets import SetIsGone
from chimeralab.study.archive import Archive
from chimeralab.study.lock import Lock, LockError, make_lock, read_lock, refuse_changes, write_lock
from chimeralab.study.order import planned_talks
from chimeralab.study.plan import Plan, read_plan
from chimeralab.version import __version__


class Study:
    """A study folder. What it holds is read when it is asked for."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.plan_path.is_file():
            raise InputError(f"{self.path} is no study: it has no plan.toml; see `chimera new`")

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
            return read_plan(self.plan_path)
        except SetIsGone as gone:
            return self._plan_as_locked(gone)

    def _plan_as_locked(self, gone: SetIsGone) -> Plan:
        """The plan with every scenario out of its lock, which holds them word by word."""
        lock = self.lock
        if lock is None:
            raise gone
        plan = read_plan(self.plan_path, _locked_courses(lock))
        # Reading asks for no version; `checked_lock` still does before anything is run.
        refuse_changes(replace(lock, resolved={**lock.resolved, "chimeralab": __version__}), plan)
        return plan

    @cached_property
    def talks(self) -> list[Talk]:
        return planned_talks(self.plan)

    @property
    def lock(self) -> Lock | None:
        """The lock, or None for a study that is exploratory so far."""
        return read_lock(self.lock_path) if self.lock_path.exists() else None

    def checked_lock(self) -> Lock | None:
        """The lock, after making sure that the plan is still the locked one."""
        lock = self.lock
        if lock is not None:
            refuse_changes(lock, self.plan)
        return lock

    def archive(self) -> Archive:
        """What has been stored, for reading."""
        return Archive(self.store_path)

    def trajectories(self) -> Iterator[Trajectory]:
        """Every stored conversation, one at a time."""
        with self.archive() as archive:
            yield from archive.trajectories()

    def freeze(self) -> Lock:
        """Lock the plan. Doing it again changes nothing."""
        if lock := self.checked_lock():
            return lock
        self._refuse_locking_after_the_fact()
        lock = make_lock(self.plan)
        write_lock(self.lock_path, lock)
        return lock

    def _refuse_locking_after_the_fact(self) -> None:
        if not self.store_path.exists():
            return
        with self.archive() as archive:
            turns = archive.value("SELECT count(*) FROM turns")
        if turns:
            raise LockError(
                f"{self.path} already holds {turns} turns that were run without a lock; a lock "
                "after the fact registers nothing: copy the plan into a new study and lock that"
            )

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """Be the only runner. The system frees this when a runner dies, however it dies."""
        lock = FileLock(self.path / ".running", timeout=0)
        try:
            with lock:
                yield
        except Timeout:
            raise InputError(f"{self.path} is being run already{self._by_whom()}") from None
        except OSError as error:
            if lock.is_locked:
                raise
            raise InputError(f"{self.path} can't be written ({error.strerror})") from error

    def _by_whom(self) -> str:
        try:
            with self.archive() as archive:
                run = archive.last_run()
        except InputError:
            run = None
        if run is None:
            return ""
        return f", by run {run.id} (process {run.pid} on {run.host}, since {run.started})"


def _locked_courses(lock: Lock) -> tuple[Course, ...]:
    trial = lock.resolved.get("trial") or {}
    kept = trial.get("courses", [])
    courses: tuple[Course, ...] = read_value(tuple[Course, ...], kept, "plan.lock courses")
    return courses
