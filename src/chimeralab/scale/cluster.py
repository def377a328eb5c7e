"""Connect to a Ray cluster, or start one."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from logging import ERROR, getLogger

from chimeralab.core.errors import InputError
from chimeralab.embedding.workers import BLAS_THREADS, THREADS

# The environment of an actor, which gets one core.
ONE_THREAD = {"env_vars": dict.fromkeys((*BLAS_THREADS, THREADS), "1")}


def cores_of_cluster() -> int:
    import ray  # noqa: PLC0415

    return max(1, int(ray.cluster_resources().get("CPU", 1)))


@contextmanager
def cluster(address: str | None) -> Iterator[None]:
    """Use the running Ray, or for one job the cluster at the address, or a new local one."""
    import ray  # noqa: PLC0415

    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    ray.data.DataContext.get_current().enable_progress_bars = sys.stderr.isatty()
    getLogger("ray.data").setLevel(ERROR)  # after ray.data was imported, which sets the level
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    try:
        # Ray takes minutes to notice that nothing listens there.
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if port.isdecimal():
            socket.create_connection((host, int(port)), timeout=10).close()
        with _silence_ray():
            ray.init(
                address=address,
                include_dashboard=False,
                log_to_driver=False,
                logging_level="ERROR",
            )
    except Exception as error:  # Ray raises bare exceptions, e.g. when a node starts slowly
        reason = str(error).partition("\n")[0]
        where = "can be started here" if address == "local" else f"at {address}"
        raise InputError(f"no Ray cluster {where} ({reason})") from None
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _silence_ray() -> Iterator[None]:
    """Silence messages that Ray's core writes to file descriptor 2; errors are still raised."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
