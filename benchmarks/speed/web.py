"""The web app: the address at once, 10,000 conversations quickly, an event on the page at once.

The table is asked in this process, without a network; events travel through a real server, and the
first paint is that of a real browser.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import httpx
from playwright.sync_api import sync_playwright
from starlette.testclient import TestClient

from benchmarks.table import Result, keep
from chimeralab.models.phantom import line
from chimeralab.models.seam import Reply, Request
from chimeralab.runner import Answer, Talk, TurnRecord
from chimeralab.study import Store, Study
from chimeralab.web.app import Site, application
from chimeralab.web.safety import AllowedHosts, SecurityMiddleware, owner_auth

COMMAND = "python -m benchmarks.speed.web"
CONVERSATIONS, TURNS, EVENTS, ASKED = 10_000, 10, 40, 5
MESSAGES, MAX_ELEMENTS = 2_000, 5_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TOKEN = "bench"
ADDRESSES = {
    "first page": "/logs",
    "last page": "/logs?page=200",
    "sort": "/logs?sort=share&order=down",
    "filter": "/logs?kind=verbatim&field.model=m3",
    "search": "/logs?q=lantern",
    "all at once": "/logs?q=the&kind=loop&field.model=m1&sort=since&order=down&page=3",
}
PLAN = """
[study]
name = "events"
[models.m]
use = "phantom"
[conditions.c]
speakers = ["m", "m"]
[conversation]
turns = 100
[prompts]
items = [{ id = "p", bucket = "b", text = "Talk." }]
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "logs"
        logs.mkdir()
        with (logs / "talks.jsonl").open("w") as file:
            file.writelines(json.dumps(talk(n)) + "\n" for n in range(CONVERSATIONS))
        told = time_to_address(logs)
        keep(Result("web, address", f"{told:.2f} s", "2 s", told < 2, COMMAND, "10,000 talks"))
        slowest = answers(logs)
        worst = max(took.seconds for took in slowest.values()) * 1000
        cpu = (f"{name} {1000 * took.cpu:.0f}" for name, took in slowest.items())
        note = f"10,000 conversations; of the processor: {', '.join(cpu)} ms"
        keep(Result("web, table", f"{worst:.0f} ms", "200 ms", worst < 200, COMMAND, note))
        first_paint(logs)
        long_conversation(Path(folder) / "long")
        delays = [1000 * delay for delay in event_delays(Path(folder) / "study")]
        note = f"{EVENTS} turns, median {median(delays):.0f} ms, from the commit to the page"
        most = max(delays)
        keep(Result("web, event", f"{most:.0f} ms", "300 ms", most < 300, COMMAND, note))


def talk(n: int) -> dict[str, object]:
    """A made conversation; every third one repeats itself from its middle on."""
    last = TURNS // 2 if n % 3 == 0 else TURNS
    turns = [line(0, f"talk-{n}", min(turn, last)) for turn in range(1, TURNS + 1)]
    return {"id": f"talk-{n:05}", "model": f"m{n % 5}", "turns": turns}


@contextmanager
def served(*paths: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "chimeralab", "view", *map(str, paths)]
    process = subprocess.Popen(
        [*command, "--no-open", "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def time_to_address(logs: Path) -> float:
    """Seconds from the command to its first line."""
    started = time.perf_counter()
    with served(logs):
        return time.perf_counter() - started


class Took(NamedTuple):
    """How long an answer took, and how much of that the processor worked on it."""

    seconds: float
    cpu: float


@contextmanager
def asked(logs: Path) -> Iterator[Callable[[str], tuple[Took, str]]]:
    """A function that asks for a page in this process, once words have judged all."""
    site = Site([str(logs)])
    scanner = site.scanner
    assert scanner is not None
    scanner.read_all()
    scanner.state = "done"
    app = SecurityMiddleware(application(site), AllowedHosts("127.0.0.1", 80), [owner_auth(TOKEN)])
    client = TestClient(app, base_url="http://127.0.0.1")
    client.cookies.set("chimera-80", TOKEN)

    def once(address: str) -> tuple[Took, str]:
        started, worked = time.perf_counter(), time.process_time()
        answer = client.get(address)
        assert answer.status_code == 200
        took = Took(time.perf_counter() - started, time.process_time() - worked)
        return took, answer.text

    try:
        once("/logs")
        yield once
    finally:
        scanner.close()


def answers(logs: Path) -> dict[str, Took]:
    """The slowest of a few answers to each kind of question."""
    with asked(logs) as once:
        return {
            name: max(once(address)[0] for _ in range(ASKED)) for name, address in ADDRESSES.items()
        }


def long_conversation(logs: Path) -> None:
    """Processor time and elements of a page about 2,000 messages, the second half a loop."""
    logs.mkdir()
    said = [line(0, "long", min(turn, MESSAGES // 2)) for turn in range(1, MESSAGES + 1)]
    (logs / "long.jsonl").write_text(json.dumps({"id": "long", "turns": said}))
    with asked(logs) as once:
        pages = [once(f"/logs/1{at}") for at in ("", "?at=1", f"?at={MESSAGES - 199}") * 2][1:]
    cpu = max(took.cpu for took, _ in pages)
    note = f"{MESSAGES:,} messages; of the processor"
    keep(Result("web, long talk", f"{1000 * cpu:.0f} ms", "1,000 ms", cpu < 1, COMMAND, note))
    elements = max(len(re.findall(r"<[a-z]", page)) for _, page in pages)
    least = elements < MAX_ELEMENTS
    keep(Result("web, elements", f"{elements:,}", f"{MAX_ELEMENTS:,}", least, COMMAND, note))


def first_paint(logs: Path) -> None:
    """How soon a real browser shows the table once all is read; judging goes on meanwhile."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        print("no Chromium here: the first paint is not measured")
        return
    painted = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    paints = []
    with served(logs) as url, sync_playwright() as playwright:
        origin, _, token = url.partition("/?token=")
        cookies = {f"chimera-{origin.rpartition(':')[2]}": token}
        while "reading: " in httpx.get(f"{origin}/logs", cookies=cookies, timeout=60).text:
            time.sleep(1)
        browser = playwright.chromium.launch(executable_path=program, chromium_sandbox=False)
        context = browser.new_context()
        for _ in range(ASKED):
            page = context.new_page()
            page.goto(url)
            paints.append(page.wait_for_function(painted).json_value())
            page.close()
        browser.close()
    note = f"{CONVERSATIONS:,} conversations, while they are judged; median {median(paints):.0f} ms"
    most = max(paints)
    keep(Result("web, first paint", f"{most:.0f} ms", "1,000 ms", most < 1000, COMMAND, note))


def event_delays(folder: Path) -> list[float]:
    """Seconds from the moment a turn is on disk to its arrival in the stream of the page."""
    folder.mkdir()
    (folder / "plan.toml").write_text(PLAN)
    study = Study(folder)
    talk = study.talks[0]
    seen: dict[str, float] = {}
    with closing(Store(study.store_path)) as store:
        store.enter_talks(study.talks)
        store.begin_run(None, {})
        with served(folder) as url:
            origin, _, token = url.partition("/?token=")
            port = origin.rpartition(":")[2]
            heard = threading.Event()

            def listen() -> None:
                cookie = {"cookie": f"chimera-{port}={token}"}
                stream = httpx.stream("GET", f"{origin}/study/1/events", headers=cookie, timeout=60)
                with stream as answer:
                    for text in answer.iter_lines():
                        heard.set()
                        for patch in json.loads(text[6:]) if text.startswith("data: ") else ():
                            if patch["place"].startswith("cell-"):
                                seen.setdefault(patch["text"], time.perf_counter())

            threading.Thread(target=listen, daemon=True).start()
            heard.wait(60)
            return [_delay(store, talk, turn, seen) for turn in range(1, EVENTS + 1)]


def _delay(store: Store, talk: Talk, turn: int, seen: dict[str, float]) -> float:
    said = TurnRecord(turn, "m", "m", line(0, "x", turn), "stop")
    attempt = store.open_attempt("m", Request((), conversation=talk.id, turn=turn))
    store.add_turn(attempt, talk, said, Answer("answered", None, Reply(said.text), 0.0, 0.1))
    written = time.perf_counter()
    until(lambda: any(text.startswith(f"{turn}…") for text in list(seen)))
    return next(at for text, at in seen.items() if text.startswith(f"{turn}…")) - written


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true() and time.monotonic() < end:
        time.sleep(0.002)


if __name__ == "__main__":
    main()
