"""Run a study: only the missing turns are requested."""

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
    LimitReached,
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
from chimeralab.study.steps import record_step
from chimeralab.study.store import MANY_TALKS, Store
from chimeralab.study.subjects import (
    MeteredModel,
    RevisionLog,
    ask_once,
    keep_needed,
    open_models,
)

# The size of a stored turn: its text, generously, and its rows.
BYTES_PER_TOKEN = 5
BYTES_PER_TURN = 2_000
SPARE_BYTES = 20_000_000
# Ctrl-C, `kill`, and a closed terminal; `nohup` keeps the last one ignored.
SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


@dataclass(frozen=True, slots=True)
class RunOptions(Record):
    """Options of one run; None takes the value of the plan."""

    concurrency: int | None = None
    max_cost: float | None = None
    max_hours: float | None = None
    watch: bool = True


@dataclass(frozen=True, slots=True)
class RunSummary(Record):
    """The state of a study after a run, and why the run stopped early, if it did."""

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
    """Run every planned conversation that has not ended."""
    if not isinstance(study, Study):
        raise InputError(f"study is {study!r:.60}; expected chimeralab.Study(folder)")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:  # in a notebook, an event loop is already running
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(run_study, study, options, publish).result()
    started = time.monotonic()
    run = StudyRun(study, options or RunOptions(), publish)
    with (
        study.run_lock(),
        closing(Store(study.store_path)) as store,
        record_step(study, "run"),
    ):
        stopped = run.execute(store)
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

    def execute(self, store: Store) -> str | None:
        """Run what is missing; returns why it stopped early, if it did."""
        self._refuse_another_plan(store)
        store.enter_talks(self.study.talks)
        open_talks = store.open_talks()
        missing = [talk for talk in self.study.talks if talk.id in open_talks]
        if not missing:
            return None
        refuse_full_disk(self.study, missing)
        store.tune(self.concurrency)
        store.begin_run(self.lock.sha256 if self.lock else None, self.options.as_dict())
        stopped: str | None = "broken off by an error"
        try:
            stopped = asyncio.run(self._converse(store, missing))
        finally:
            with suppress(StoreError):  # the error that ended the run comes first
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
        self._publish_start(store, len(missing))
        if brake.reason is not None:  # the budget is used up: not even the first question is asked
            return brake.reason
        async with open_models(keep_needed(self.plan, missing), self.study.path) as models:
            with ThreadPoolExecutor(1) as judges, stop_on_signals(brake):
                prices = {n: s.price for n, s in self.plan.models.items() if s.price}
                asked = {
                    name: MeteredModel(name, model, prices.get(name), brake, store)
                    for name, model in models.items()
                }
                try:
                    answers = await ask_once(asked, self.plan.kind.agents(self.plan))
                except LimitReached:
                    return brake.reason
                revisions = RevisionLog(self.plan, store, self.publish)
                for answer in answers:
                    revisions.add(answer.model, answer.told)
                if not store.turns_stored():  # later it is a deviation
                    revisions.refuse()
                log = RetryLog(store, missing, brake)
                for model in models.values():
                    log.attach(model)
                context = RunContext(
                    models=models,
                    journal=store,
                    brake=brake,
                    prices=prices,
                    # A guard takes 30 ms of CPU per turn, too much for many conversations.
                    watch=guard_factory(
                        self.plan, options.watch and self.concurrency <= MANY_TALKS
                    ),
                    judges=judges,
                    retry_wait=run.retry_wait,
                    publish=self.publish,
                    on_identity=revisions.add,
                )
                await converse_all(missing, context, self.concurrency)
                for name in models:  # weights may be replaced during a run
                    if identify := getattr(models[name], "identify", None):
                        revisions.add(name, await identify())
        return brake.reason

    def _publish_start(self, store: Store, missing: int) -> None:
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
                f"{self.study.store_path} was run under a different lock than "
                "the present plan.lock; restore that lock, or start a new study"
            )
        else:
            refuse_changes(json.loads(recorded), self.plan, "first run")


def guard_factory(plan: Plan, wanted: bool) -> Callable[[], Guard] | None:
    """Return a function that makes live guards; None if no conversation is watched.

    Watching that changes nothing must not trigger the download of an encoder.
    """
    if not plan.kind.judged:
        return None
    detector: Detector = plan.acting.settings
    needs = detector.needs
    available = not needs.lags or weights.locate(weights.ENCODER) is not None
    if not (plan.needs_guard or (wanted and available and not needs.why_not_live)):
        return None
    encoder = None
    if needs.lags:
        check_weights()
        encoder = default_encoder()
    loops = resolve_loops(detector)
    return lambda: Guard(detector, encoder, vectors=bool(needs.lags), loops=loops, project=False)


def refuse_full_disk(study: Study, talks: Sequence[Talk]) -> None:
    """Raise if the missing turns may not fit on the disk."""
    tokens = max(speaker.sampling.max_tokens for talk in talks for speaker in talk.speakers)
    turns = len(talks) * study.plan.conversation.turns
    needed = turns * (tokens * BYTES_PER_TOKEN + BYTES_PER_TURN) + SPARE_BYTES
    free = shutil.disk_usage(study.path).free
    if free < needed:
        raise InputError(
            f"the disk of {study.path} has {free / 1e6:.0f} MB left and this study may need "
            f"{needed / 1e6:.0f} MB; free some space first"
        )


@contextmanager
def stop_on_signals(brake: Brake) -> Iterator[None]:
    """On Ctrl-C, let the requests in flight finish; on a second one, cancel them."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def stop(name: str) -> None:
        if brake.reason is None:
            brake.stop(f"stopped by {name}")
        else:
            task.cancel()

    # Some systems, and threads other than the main one, can't handle signals in a loop.
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
