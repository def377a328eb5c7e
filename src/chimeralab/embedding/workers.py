"""A pool of threads for work that releases the GIL."""

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import islice
from typing import TypeVar

from chimeralab.core.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = "CHIMERA_THREADS"
MAX_THREADS = 1_024
# With these set to "1" before numpy is imported, BLAS does not start threads. The command sets
# them; a library must not, since BLAS belongs to the process.
BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@cache
def cores() -> int:
    """The number of cores to use: CHIMERA_THREADS, or all that the process may use."""
    if asked := os.environ.get(THREADS):
        threads = int(asked) if re.fullmatch("[0-9]{1,4}", asked) else 0
        if not 1 <= threads <= MAX_THREADS:
            raise InputError(f"{THREADS}={asked[:20]}: give a whole number from 1 to {MAX_THREADS}")
        return threads
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def pool() -> ThreadPoolExecutor:
    """Helper threads, one fewer than cores, since the caller works too."""
    return ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix="chimera-encoder")


if hasattr(os, "register_at_fork"):  # a forked process has none of them
    os.register_at_fork(after_in_child=pool.cache_clear)


def on_all_cores(work: Callable[[Item], None], items: Iterable[Item]) -> None:
    """Do the work for every item, in this thread and in idle ones of the pool.

    It does not wait for threads that are busy for another caller.
    """
    waiting = deque(items)

    def drain() -> None:
        while True:
            try:
                item = waiting.popleft()
            except IndexError:
                return
            try:
                work(item)
            except BaseException:
                waiting.clear()  # the others finish their current item
                raise

    helpers = [pool().submit(drain) for _ in range(min(cores(), len(waiting)) - 1)]
    try:
        drain()
    finally:
        for helper in helpers:
            if not helper.cancel():
                helper.result()


def blas_is_single_threaded() -> bool:
    """Whether each product uses one core, so that running several in parallel is faster."""
    return any(os.environ.get(name) == "1" for name in BLAS_THREADS)


def one_ahead(
    work: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[tuple[Item, Result]]:
    """Yield each item with its result, computing the next one while the caller uses it.

    The first is yielded at once, without waiting for a second item.

    >>> list(one_ahead(abs, [-1, 2, -3]))
    [(-1, 1), (2, 2), (-3, 3)]
    """
    coming = iter(items)
    for first in islice(coming, 1):
        yield first, work(first)
    last: list[tuple[Item, Future[Result]]] = []
    with ThreadPoolExecutor(1, thread_name_prefix="chimera-ahead") as thread:
        for item in coming:
            begun = thread.submit(work, item)
            for before, done in last:
                yield before, done.result()
            last = [(item, begun)]
        for before, done in last:
            yield before, done.result()
