"""Runs that stop answering after a while and are killed then, whatever time it is."""

import asyncio
import multiprocessing
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from chimeralab.models.seam import Model, Reply, Request
from chimeralab.study import RunOptions, Study, run, run_study
from chimeralab.study.plan import Plan
from chimeralab.study.subjects import open_models


class FallsSilent:
    """A model that gives `answers` replies, and then only reports each question."""

    def __init__(self, model: Model, answers: Iterator[int], silences: Connection) -> None:
        self._model = model
        self._answers = answers
        self._silences = silences

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def reply(self, request: Request) -> Reply:
        if request.conversation and next(self._answers, None) is None:
            self._silences.send(request.turn)
            await asyncio.Event().wait()
        return await self._model.reply(request)


def run_until_silent(study: Study, options: RunOptions, answers: int, silences: Connection) -> None:
    """Run a study whose models fall silent; this never ends, unless nothing is left to be asked."""
    left = iter(range(answers))

    @asynccontextmanager
    async def opened(plan: Plan, folder: Path) -> AsyncIterator[dict[str, Model]]:
        async with open_models(plan, folder) as models:
            yield {name: FallsSilent(model, left, silences) for name, model in models.items()}

    run.open_models = opened  # type: ignore[attr-defined]
    run_study(study, options)


def run_and_kill(
    study: Study, processes: ForkServerContext, *, answers: int, waiting: int, watch: bool = False
) -> None:
    """Kill a run after a number of answers, with a number of questions in flight.

    Conversations that still go on are hit wherever they are.
    """
    silences, far_end = processes.Pipe(duplex=False)
    process = processes.Process(
        target=run_until_silent, args=(study, RunOptions(watch=watch), answers, far_end)
    )
    process.start()
    far_end.close()  # so that a run which ends by itself is an EOFError here
    with silences:
        for _ in range(waiting):
            silences.recv()
        process.kill()
        process.join()


def quick_processes() -> ForkServerContext:
    """Processes that start quickly: imports are done once, and each run is forked from there."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["chimeralab.study"])
    return processes
