"""Ray itself: the cluster that a job runs on, and what an actor on it has."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from logging import ERROR, getLogger

from chimeralab.core.errors import InputError
from chimeralab.embedding.workers import BLAS_THREADS, THREADS

# The environment of an actor, which has one core.
ONE_THREAD = {"env_vars": dict.fromkeys((*BLAS_THREADS, THREADS), "1")}


def cores_of_cluster() -> int:
    import ray  # noqa: PLC0415

    return max(1, int(ray.cluster_resources().get("CPU", 1)))


@contextmanager
def cluster(address: str | None) -> Iterator[None]:
    """Ray as this process has it; or else, for one job, the cluster at the address or one here."""
    import ray  # noqa: PLC0415

    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent home unasked
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    ray.data.DataContext.get_current().enable_progress_bars = sys.stderr.isatty()
    getLogger("ray.data").setLevel(ERROR)  # Ray sets it when the line above imports its data
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    try:
        # Ray itself takes minutes to find that nobody is there.
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if port.isdecimal():
            socket.create_connection((host, int(port)), timeout=10).close()
        with _quiet():
            ray.init(
                address=address,
                include_dashboard=False,
                log_to_driver=False,
                logging_level="ERROR",
            )
    except Exception as error:  # Ray raises no less when a node is slow to start
        reason = str(error).partition("\n")[0]
        where = "can be started here" if address == "local" else f"at {address}"
        raise InputError(f"no Ray cluster {where} ({reason})") from None
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the notes that Ray's core writes past Python; what goes wrong is raised."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
