"""Running a study: what is missing is asked for, what is there is left alone."""

import asyncio
import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from chimeralab import weights
from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.detection.guard import Guard
from chimeralab.detection.loops import resolve_loops
from chimeralab.detection.seam import Detector
from chimeralab.embedding.encoder import check_weights, default_encoder
from chimeralab.runner import (
    Brake,
    RetryLog,
    RunContext,
    RunStarted,
    Subscriber,
    Talk,
    converse_all,
)
from chimeralab.study.database import StoreError
from chimeralab.study.flow import ConditionFlow, flow
from chimeralab.study.folder import Study
from chimeralab.study.lock import LockError, refuse_changes, resolve
from chimeralab.study.plan import Plan, refuse_unpriced
from chimeralab.study.store import CROWD, Store
from chimeralab.study.subjects import ask_once, open_models

# What a stored turn takes on disk: its text at a generous five bytes a token, and its rows.
BYTES_A_TOKEN = 5
BYTES_A_TURN = 2_000
SPARE_BYTES = 20_000_000
# Ctrl-C, a polite kill, and a terminal that was closed; `nohup` keeps the last one ignored.
SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


@dataclass(frozen=True, slots=True)
class RunOptions(Record):
    """What may differ from run to run without touching the plan; None is as planned."""

    concurrency: int | None = None
    max_cost: float | None = None
    max_hours: float | None = None
    watch: bool = True


@dataclass(frozen=True, slots=True)
class RunSummary(Record):
    """Where a study stands after a run, and why the run stopped if it had to."""

    locked: bool
    arms: tuple[ConditionFlow, ...]
    stopped: str | None
    seconds: float

    @property
    def complete(self) -> bool:
        return not any(arm.open for arm in self.arms)


def run_study(
    study: Study,
    options: RunOptions | None = None,
    publish: Subscriber = lambda news: None,
) -> RunSummary:
    """Run every planned conversation that has not come to its end yet."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:  # as in a notebook, where an event loop is running already
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(run_study, study, options, publish).result()
    started = time.monotonic()
    run = StudyRun(study, options or RunOptions(), publish)
    with study.run_lock(), closing(Store(study.store_path)) as store:
        stopped = run.go_on(store)
        study.plan.kind.finish_run(study)
    with study.archive() as archive:
        arms = flow(archive)
    return RunSummary(run.lock is not None, arms, stopped, time.monotonic() - started)


class StudyRun:
    """One run of a study, from the check of its lock to the last stored turn."""

    def __init__(self, study: Study, options: RunOptions, publish: Subscriber) -> None:
        self.study = study
        self.plan = study.plan
        self.lock = study.check_lock()
        self.options = options
        self.publish = publish
        if options.max_cost is not None:
            refuse_unpriced(self.plan)
        self.concurrency = options.concurrency or self.plan.run.concurrency

    def go_on(self, store: Store) -> str | None:
        """Run what is missing; returns why it stopped before the end, if it did."""
        self._refuse_another_plan(store)
        store.enter_talks(self.study.talks)
        open_talks = store.open_talks()
        missing = [talk for talk in self.study.talks if talk.id in open_talks]
        if not missing:
            return None
        refuse_full_disk(self.study, missing)
        store.share_among(self.concurrency)
        store.begin_run(self.lock.sha256 if self.lock else None, self.options.as_dict())
        stopped: str | None = "broken off by an error"
        try:
            stopped = asyncio.run(self._converse(store, missing))
        finally:
            with suppress(StoreError):  # what broke the run off is what has to be told
                store.end_run(stopped)
        return stopped

    async def _converse(self, store: Store, missing: Sequence[Talk]) -> str | None:
        run, options = self.plan.run, self.options
        brake = Brake(
            max_cost=run.max_cost if options.max_cost is None else options.max_cost,
            max_hours=run.max_hours if options.max_hours is None else options.max_hours,
            spent=store.total_cost(),
            patience=max(3, self.concurrency),
        )
        self._tell_start(store, len(missing))
        async with open_models(self.plan, self.study.path) as models:
            with ThreadPoolExecutor(1) as judges, stopped_by_signals(brake):
                await ask_once(models, self.plan.kind.agents(self.plan))
                log = RetryLog(store, missing)
                for model in models.values():
                    log.attach(model)
                room = RunContext(
                    models=models,
                    journal=store,
                    brake=brake,
                    prices={n: s.price for n, s in self.plan.models.items() if s.price},
                    # A guard takes some 30 ms of a core for a turn, which would hold up a crowd.
                    watch=watcher(self.plan, options.watch and self.concurrency <= CROWD),
                    judges=judges,
                    retry_wait=run.retry_wait,
                    publish=self.publish,
                )
                await converse_all(missing, room, self.concurrency)
        return brake.reason

    def _tell_start(self, store: Store, missing: int) -> None:
        talks, turns = len(self.study.talks), self.plan.conversation.turns
        self.publish(
            RunStarted(
                talks=talks,
                talks_ended=talks - missing,
                turns_each=turns,
                turns_stored=store.turns_stored(),
                turns_missing=missing * turns - store.turns_stored(in_open_talks=True),
                spent=store.total_cost(),
            )
        )

    def _refuse_another_plan(self, store: Store) -> None:
        """Raise if earlier runs of this study followed another plan."""
        lock = self.lock.sha256 if self.lock else ""
        recorded = store.read_note("resolved")
        if recorded is None:
            text = json.dumps(resolve(self.plan), sort_keys=True)
            store.write_notes(resolved=text, lock=lock)
        elif store.read_note("lock") != lock:
            raise LockError(
                f"{self.study.store_path} was run under another lock than the present plan.lock; "
                "restore that lock, or start a new study"
            )
        else:
            refuse_changes(json.loads(recorded), self.plan, "first run")


def watcher(plan: Plan, wanted: bool) -> Callable[[], Guard] | None:
    """What starts a guard, which listens to the detector that acts while a conversation runs.

    Watching for its own sake must not make anyone download an encoder, and a detector that compares
    no vectors never needs one.
    """
    if not plan.kind.judged:
        return None
    detector: Detector = plan.acting.settings
    needs = detector.needs
    at_hand = not needs.lags or weights.locate(weights.ENCODER) is not None
    if not (plan.needs_guard or (wanted and at_hand and not needs.why_not_live)):
        return None
    encoder = None
    if needs.lags:
        check_weights()
        encoder = default_encoder()
    loops = resolve_loops(detector)
    return lambda: Guard(detector, encoder, vectors=bool(needs.lags), loops=loops)


def refuse_full_disk(study: Study, talks: Sequence[Talk]) -> None:
    """Raise when what is still to come may not fit."""
    tokens = max(speaker.sampling.max_tokens for talk in talks for speaker in talk.speakers)
    turns = len(talks) * study.plan.conversation.turns
    needed = turns * (tokens * BYTES_A_TOKEN + BYTES_A_TURN) + SPARE_BYTES
    free = shutil.disk_usage(study.path).free
    if free < needed:
        raise InputError(
            f"the disk of {study.path} has {free / 1e6:.0f} MB left and this study may need "
            f"{needed / 1e6:.0f} MB; free some space first"
        )


@contextmanager
def stopped_by_signals(brake: Brake) -> Iterator[None]:
    """Inside, Ctrl-C lets the requests in flight finish, and a second one cancels them."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def stop(name: str) -> None:
        if brake.reason is None:
            brake.pull(f"stopped by {name}")
        else:
            task.cancel()

    # Not every system and no other thread can handle signals in a loop: there they act as ever.
    with suppress(NotImplementedError, RuntimeError, ValueError):
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, stop, number.name)
    try:
        yield
    except asyncio.CancelledError:
        if brake.reason is None:
            raise
    finally:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            for number in SIGNALS:
                loop.remove_signal_handler(number)
