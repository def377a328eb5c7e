"""A progress bar for work that turns out to be long; silent wherever nobody is watching."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

_LONG = 1.0  # seconds


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with the bytes done so far; draws on a terminal's stderr only."""
    columns = (
        TextColumn(label, markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    bar = Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task(label, total=total, visible=False)
        started = time.monotonic()

        def show(done: int) -> None:
            bar.update(task, completed=done, visible=time.monotonic() - started > _LONG)

        yield show
