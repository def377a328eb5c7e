"""A thousand conversations at once on a server that takes 20 seconds for each of their turns.

The server is a process of its own, spoken to over HTTP by the model that studies use. What the
turns cost this side is split into the SDK (the same questions without a study), the store (its
methods, timed) and the runner (the rest).
"""

import asyncio
import json
import multiprocessing
import random
import resource
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.table import Result, keep
from benchmarks.transcripts import WORDS
from chimeralab import Study, run
from chimeralab.models.catalogue import OpenAISettings
from chimeralab.models.seam import Message, Request, Sampling
from chimeralab.study import RunOptions
from chimeralab.study.store import Store

COMMAND = "python -m benchmarks.speed.thousand"
AT_ONCE, TURNS, SECONDS = 1000, 8, 20.0
# Memory is measured on a quicker server, which still takes longer than all need to start.
SIZES, QUICK = (250, 500, 1000), 8.0
WORDS_PER_TURN = 60
SHARE = 0.95

PLAN = """
[study]
name = "thousand"

[models.subject]
use = "openai"
model = "loopback"
base_url = "{address}"
concurrency = {at_once}

[conditions.alone]
speakers = ["subject", "subject"]

[conversation]
turns = {turns}
repeats = {at_once}

[prompts]
items = [{{ id = "p", bucket = "planning", text = "Plan a trip." }}]

[run]
concurrency = {at_once}
"""


class Ran(NamedTuple):
    """What a study took: of the clock from its first question to its last answer, and of a core."""

    wall: float
    cpu: float
    store: float
    memory: float


def main() -> None:
    with loopback(QUICK) as address:
        memory = [_alone(ran, address, size, 2).memory for size in SIZES]
    with loopback(1.0) as address:
        sdk = _alone(asked, address, AT_ONCE, TURNS).cpu
    with loopback(SECONDS) as address:
        whole = _alone(ran, address, AT_ONCE, TURNS)
    turns = AT_ONCE * TURNS
    share = TURNS * SECONDS / whole.wall
    each = {"SDK": sdk, "store": whole.store, "runner": whole.cpu - whole.store - sdk}
    total = 1000 * whole.cpu / turns
    spent = ", ".join(f"{name} {1000 * cpu / turns:.1f}" for name, cpu in each.items())
    note = (
        f"{turns:,} turns in {whole.wall:.0f} s, {turns / whole.wall:.1f} per second of "
        f"{AT_ONCE / SECONDS:.0f}; {total:.1f} CPU-ms per turn ({spent}): one core is full at "
        f"{1000 / total:.0f} turns per second"
    )
    name, value = "a thousand conversations at once", f"{100 * share:.1f} % of the ideal"
    keep(Result(name, value, f"{100 * SHARE:.0f} %", share >= SHARE, COMMAND, note))
    slopes = [1000 * (memory[n + 1] - memory[n]) / (SIZES[n + 1] - SIZES[n]) for n in range(2)]
    sizes = ", ".join(f"{m:.0f} MB with {s}" for s, m in zip(SIZES, memory, strict=True))
    value = f"{1000 * (memory[-1] - memory[0]) / (SIZES[-1] - SIZES[0]):.0f} kB each"
    met = max(slopes) <= 1.5 * min(slopes)
    name = "a thousand conversations, memory"
    keep(Result(name, value, "linear: slopes within 1.5 x", met, COMMAND, sizes))


def ran(address: str, at_once: int, turns: int) -> Ran:
    """A study with this many conversations in parallel, every turn of which must be stored."""
    spent = _timed(Store)
    _studied(address, 1, 1)  # what is imported and opened once counts for no turn
    before, spent[0] = time.process_time(), 0.0
    wall = _studied(address, at_once, turns)
    return Ran(wall, time.process_time() - before, spent[0], _peak())


def _studied(address: str, at_once: int, turns: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        plan = PLAN.format(address=address, at_once=at_once, turns=turns)
        (Path(folder) / "plan.toml").write_text(plan, encoding="utf-8")
        study = Study(folder)
        assert run(study, RunOptions(watch=False)).complete
        with sqlite3.connect(study.store_path) as db:
            stored, first, last = db.execute(
                "SELECT count(*), min(started), max(ended) FROM turns JOIN attempts ON id = attempt"
            ).fetchone()
    assert stored == at_once * turns
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()


def asked(address: str, at_once: int, turns: int) -> Ran:
    """The same questions without a study: what the SDK alone takes."""

    async def ask_all(at_once: int, turns: int) -> None:
        settings = OpenAISettings(model="loopback", base_url=address, concurrency=at_once)
        model = settings.open()

        async def converse(number: int) -> None:
            said: list[Message] = [Message("user", "Plan a trip.")]
            for turn in range(turns):
                request = Request(tuple(said), Sampling(), number, f"alone/p/{number}", turn)
                reply = await model.reply(request)
                said.append(Message(("assistant", "user")[turn % 2], reply.text))

        await asyncio.gather(*(converse(n) for n in range(at_once)))
        await model.close()

    asyncio.run(ask_all(1, 1))
    started, before = time.perf_counter(), time.process_time()
    asyncio.run(ask_all(at_once, turns))
    return Ran(time.perf_counter() - started, time.process_time() - before, 0.0, _peak())


def _timed(cls: type[Any]) -> list[float]:
    """Have all methods of a class timed by the thread's CPU; the list has the sum."""
    spent, depth = [0.0], [0]

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **options: Any) -> Any:
            depth[0] += 1
            started = time.thread_time()
            try:
                return method(*args, **options)
            finally:
                depth[0] -= 1
                if not depth[0]:
                    spent[0] += time.thread_time() - started

        return call

    for name, method in vars(cls).copy().items():
        if callable(method) and not name.startswith("__"):
            setattr(cls, name, timed(method))
    return spent


def _alone(measure: Callable[..., Ran], *given: Any) -> Ran:
    """Measure in a process that has done nothing else, so that memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as process:
        return process.apply(measure, given)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def loopback(seconds: float) -> Iterator[str]:
    """The address of a server in a process of its own, which takes so long for every answer."""
    mine, its = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(seconds, its))
    process.start()
    try:
        yield f"http://127.0.0.1:{mine.recv()}/v1"
    finally:
        process.terminate()
        process.join()


def _serve(seconds: float, told: Connection) -> None:
    rng = random.Random(7)

    def completion() -> bytes:
        message = {"role": "assistant", "content": " ".join(rng.choices(WORDS, k=WORDS_PER_TURN))}
        usage = {"prompt_tokens": 100, "completion_tokens": WORDS_PER_TURN}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = json.dumps({"id": "x", "model": "loopback", "choices": [choice], "usage": usage})
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        return f"{head}\r\n\r\n{body}".encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
                question = json.loads(await reader.readexactly(int(length)))
                # A study sends its model a request before it starts.
                await asyncio.sleep(0 if question["max_tokens"] == 16 else seconds)
                writer.write(completion())
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=2 * AT_ONCE)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
