"""Attack the product in bulk and record what happened.

    make campaign                                           everything: about an hour on two cores
    make campaign CAMPAIGN="--only fuzz --cases 10000"      a hundredth of the fuzzing
    make campaign CAMPAIGN="--only readers --cases 200000"
    make campaign CAMPAIGN="--repeat readers:12345"         one case again, with its input
    make campaign CAMPAIGN=--page                           the table, of what there is so far

Each finished batch is a line of `campaign/records.jsonl` with its commit. Batches that are recorded
for the same source code are not repeated, so a campaign can take several sittings. When all parts
are complete, the table in `docs/reliability.md` is written from the records. `--page` writes it
before that: it also counts what was found at earlier commits and not repeated since, and the table
says what was wanted, and at which commits each part ran.
"""

import argparse
import gc
import hashlib
import json
import mmap
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

FOLDER = Path(os.environ.get("CAMPAIGN_FOLDER", "campaign"))
PAGE = Path("docs/reliability.md")
# Of CPU, so that other work on the machine does not matter. A case takes a millisecond; one that
# takes so much longer is a hang. The second limit ends what hangs outside of Python.
MAX_SECONDS, LAST_SECONDS = 10.0, 60.0
MAX_GROWTH = 400 << 20
MAX_ADDRESSES = 8 << 30
SHOWN_FAULTS = 20
# The product and what attacks it: a record counts as long as none of it has changed.
ATTACKED = (
    "src",
    *(f"tests/{name}.py" for name in ("campaign", "fuzzing", "mutation", "attacks", "kills")),
    *("tests/damage.py", "tests/tamper.py", "tests/sanitizers.py"),
    *("tests/unit/readers", "tests/unit/embedding"),
)
HOME = str(Path(__file__).parents[1]) + "/"


class Part(NamedTuple):
    """A part of the campaign: what is attacked how often, and in batches of which size.

    `cost` are the seconds of a case, until there are records; `limit` are those of CPU that it may
    take. `units` are what a case counts for: one that kills a command five times counts five.
    """

    what: str
    wanted: int
    batch: int
    cost: float
    place: str = "tests.fuzzing:TARGETS"
    limit: float = MAX_SECONDS
    units: int = 1


def _fuzz(what: str, wanted: int, cost: float = 0.0015, batch: int = 1_000) -> Part:
    return Part(what, wanted, batch, cost)


STUDIES = "tests.attacks:ATTACKS"
PARTS: dict[str, Part] = {
    "kills": Part("kills of every command and of the app", 1_000, 1, 6.0, STUDIES, 300.0, 5),
    "damage": Part("databases with damaged cells and pages", 100, 5, 3.0, STUDIES, 300.0),
    "tamper": Part("studies and bundles that were tampered with", 125, 5, 2.0, STUDIES, 300.0),
    "readers": _fuzz("logs in every format, from files", 470_000),
    "streams": _fuzz("the same from pipes and in shares", 200_000),
    "memory": _fuzz("conversations in memory", 50_000),
    "guard": _fuzz("messages to a guard", 80_000),
    "states": _fuzz("saved states of a guard", 30_000),
    "hooks": _fuzz("events, transcripts and settings of hooks", 40_000),
    "commands": _fuzz("logs given to whole commands", 5_000, 0.006, 100),
    "plans": _fuzz("plans and prompts", 25_000),
    "locks": _fuzz("locks of studies", 5_000, 0.01, 100),
    "rubrics": _fuzz("rubrics and their locks", 15_000),
    "tables": _fuzz("tables of labels, runs, trials and scenarios", 30_000),
    "answers": _fuzz("answers of servers, raters and subjects", 30_000),
    "packets": _fuzz("sheets filled in by raters", 10_000),
    "kernel": _fuzz("calls of the C encoder under ASan and UBSan", 10_000, 0.02, 200),
}
GROUPS = {"fuzz": tuple(name for name, part in PARTS.items() if part.place != STUDIES)}


class Attack(Protocol):
    """What a part does in a case; `shown` is the input of the last one."""

    shown: Any

    def attack(self, number: int, rng: random.Random) -> None: ...


class Fault(NamedTuple):
    """A case that went wrong: how, and where."""

    case: int
    what: str
    trace: str


class OutOfTime(BaseException):
    """A case has used too much CPU. Not an `Exception`: nobody may handle it but us."""


def open_attack(name: str, folder: Path) -> Attack:
    module, _, attribute = PARTS[name].place.partition(":")
    found: Mapping[str, Callable[[Path], Attack]] = getattr(import_module(module), attribute)
    return found[name](folder)


def run_case(name: str, attack: Attack, number: int) -> Fault | None:
    """Run one case, and say what went wrong."""
    before = peak_memory()
    try:
        with limit_time(PARTS[name].limit):
            attack.attack(number, random.Random(f"{name} {number}"))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return describe_fault(number, error)
    growth = peak_memory() - before
    if growth > MAX_GROWTH:
        return Fault(number, f"took {growth >> 20} MB of memory", "")
    return None


def peak_memory() -> int:
    """The most memory that this process has had, in bytes.

    What `getrusage` says includes the process that it was forked from.
    """
    try:
        with open("/proc/self/status", "rb") as file:  # noqa: PTH123 - asked after every case
            return int(file.read().partition(b"VmHWM:")[2].split(None, 1)[0]) << 10
    except (OSError, ValueError, IndexError):  # another system
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` after so much CPU time of this process."""

    def stop(*_: Any) -> None:
        raise OutOfTime(f"more than {seconds:g} s of CPU")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    signal.setitimer(signal.ITIMER_PROF, seconds * LAST_SECONDS / MAX_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGVTALRM, before)


def describe_fault(number: int, error: BaseException) -> Fault:
    root = error
    while type(root).__name__ == "Swallowed" and root.__cause__ is not None:
        root = root.__cause__
    frames = traceback.extract_tb(root.__traceback__)
    own = [frame for frame in frames if "/chimeralab/" in frame.filename] or frames
    where = own[-1].filename.removeprefix(HOME)
    what = f"{type(root).__name__} in {where}:{own[-1].lineno} ({own[-1].name}): {root}"
    return Fault(number, what[:300], "".join(traceback.format_exception(error))[-4_000:])


# The worker: a long-lived process that runs batches of one part.


def work(name: str) -> None:
    """Run the batches named on standard input.

    Each fault is a JSON line on standard output as soon as it is found, and each batch at its end.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    log = os.open(FOLDER / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    # A sanitizer and the renderer of charts reserve far more addresses than they use.
    if name not in ("kernel", "commands") and name in GROUPS["fuzz"]:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESSES, MAX_ADDRESSES))
    at = progress_of(os.getpid())
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        tempfile.tempdir = folder
        attack = open_attack(name, Path(folder))
        # What is there by now stays: the collector need not look at it again for each case.
        gc.collect()
        gc.freeze()
        for line in sys.stdin:
            first, count = map(int, line.split())
            slowest, started = 0.0, time.monotonic()
            for number in range(first, first + count):
                at[:8] = number.to_bytes(8, "little")
                before = time.process_time()
                fault = run_case(name, attack, number)
                slowest = max(slowest, time.process_time() - before)
                if fault:
                    print(json.dumps(fault._asdict()), file=answers, flush=True)
            seconds = time.monotonic() - started
            answer = {"seconds": seconds, "slowest": slowest, "memory": peak_memory()}
            print(json.dumps(answer), file=answers, flush=True)


def memory_folder() -> str | None:
    """A place for files that need not outlive a case, without a disk if there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def progress_of(pid: int) -> mmap.mmap:
    """The number of the case that a worker is at, which outlives it."""
    path = FOLDER / f"{pid}.at"
    if not path.exists():
        path.write_bytes(bytes(8))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 8)


class Worker:
    """A worker as its parent sees it; one that dies is replaced, and its death is a fault."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process: subprocess.Popen[str] | None = None

    def run(self, first: int, count: int) -> dict[str, Any]:
        """Run a batch to its end."""
        total: dict[str, Any] = {"faults": [], "seconds": 0.0, "slowest": 0.0, "memory": 0}
        number, end = first, first + count
        while number < end:
            number = self._ask(number, end - number, total)
        return total

    def _ask(self, first: int, count: int, total: dict[str, Any]) -> int:
        """Run cases up to the last or to one that ends the process; returns the next."""
        started = time.monotonic()
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            print(first, count, file=process.stdin, flush=True)
        for answer in map(json.loads, process.stdout):
            if "case" in answer:
                total["faults"].append(answer)
                continue
            total["seconds"] += answer["seconds"]
            for key in ("slowest", "memory"):
                total[key] = max(total[key], answer[key])
            return first + count
        self._process = None
        code = process.wait()
        at = int.from_bytes(progress_of(process.pid)[:8], "little")
        died = at if first <= at < first + count else first
        reason = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        log = (FOLDER / f"{self.name}.log").read_text(encoding="utf-8", errors="replace")
        total["faults"].append(Fault(died, f"died: {reason}", log[-4_000:])._asdict())
        total["seconds"] += time.monotonic() - started
        return died + 1

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.campaign", "--work", self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment_of(self.name),
            # Ctrl-C is for us: a batch that has begun is not recorded, and begins again.
            start_new_session=True,
        )

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def environment_of(name: str) -> dict[str, str]:
    """A worker's environment: sets have the same order each time, and BLAS one thread."""
    fixed = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "CHIMERA_GUARD": ""}
    if PARTS[name].place == STUDIES:
        fixed["CAMPAIGN_STUDIES"] = str((FOLDER / f"studies-{source_hash()}").resolve())
    if name == "kernel":
        fixed |= _with_sanitizers()
    return {**os.environ, **fixed}


@cache
def _with_sanitizers() -> dict[str, str]:
    from tests.sanitizers import sanitized  # noqa: PLC0415 - needs pytest

    return sanitized(FOLDER)


# The parent: what is left to do, who does it, and what comes of it.


class Records:
    """The finished batches, of which those of the same source code count, or of any without one."""

    def __init__(self, folder: Path, commit: str, source: str | None) -> None:
        self.path, self.commit, self.source = folder / "records.jsonl", commit, source
        self._lock = threading.Lock()
        self.all: list[dict[str, Any]] = []
        if self.path.is_file():
            lines = self.path.read_text(encoding="utf-8").splitlines()
            found = map(json.loads, lines)
            self.all = [row for row in found if source in (None, row["source"])]

    def add(self, name: str, first: int, count: int, answer: Mapping[str, Any]) -> None:
        faults = list(answer["faults"])
        row = {
            "part": name,
            "first": first,
            "cases": count,
            "commit": self.commit,
            "source": self.source,
            **answer,
            "failed": len(faults),
            "faults": faults[:SHOWN_FAULTS],
        }
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            self.all.append(row)
            print(json.dumps(row), file=file)

    def of(self, name: str) -> list[dict[str, Any]]:
        """The batches of a part, each once."""
        with self._lock:
            rows = {(row["part"], row["first"]): row for row in self.all if row["part"] == name}
        return list(rows.values())

    def left(self, name: str, units: int) -> Iterator[tuple[str, int, int]]:
        """The batches of a part that are missing."""
        part = PARTS[name]
        done = {row["first"]: row["cases"] for row in self.of(name)}
        cases = -(-units // part.units)
        for first in range(0, cases, part.batch):
            count = min(part.batch, cases - first)
            if done.get(first, 0) < count:
                yield name, first, count


def share(names: Sequence[str], cases: int | None) -> dict[str, int]:
    """How often each part is attacked: as often as wanted, or `cases` divided in proportion."""
    if cases is None:
        return {name: PARTS[name].wanted for name in names}
    whole = sum(PARTS[name].wanted for name in names)
    return {name: max(1, round(cases * PARTS[name].wanted / whole)) for name in names}


class Campaign:
    """Hands the missing batches to workers, and prints how far it is."""

    def __init__(self, records: Records, planned: Mapping[str, int], workers: int) -> None:
        self.records, self.planned, self.workers = records, planned, workers
        self._todo = deque(
            batch for name, units in planned.items() for batch in records.left(name, units)
        )
        self._busy: dict[int, tuple[str, int, int]] = {}
        self._stop = threading.Event()

        for name in planned:
            environment_of(name)  # what has to be compiled is compiled once

    def run(self, say: Callable[[str], None], seconds_between: float = 10.0) -> None:
        threads = [threading.Thread(target=self._work, args=(n,)) for n in range(self.workers)]
        for thread in threads:
            thread.start()
        try:
            last = ""
            while any(thread.is_alive() for thread in threads):
                threads[0].join(seconds_between)
                for thread in threads[1:]:
                    thread.join(0 if threads[0].is_alive() else seconds_between)
                if (line := self.progress()) != last:
                    say(line)
                    last = line
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _work(self, slot: int) -> None:
        worker: Worker | None = None
        try:
            while not self._stop.is_set():
                try:
                    batch = self._todo.popleft()
                except IndexError:
                    return
                name, first, count = self._busy[slot] = batch
                if worker is None or worker.name != name:
                    if worker:
                        worker.close()
                    worker = Worker(name)
                self.records.add(name, first, count, worker.run(first, count))
                self._busy.pop(slot)
        finally:
            if worker:
                worker.close()

    def progress(self) -> str:
        """What is being done, how fast, and how long all of it will take."""
        busy = list(self._busy.values())
        left = [*self._todo, *busy]
        seconds = sum(count * self._cost(name) for name, _, count in left) / self.workers
        costs = {name: self._cost(name) for name in sorted({name for name, *_ in busy})}
        rates = (
            f"{name} {1 / cost:,.0f} cases/s" if cost < 0.1 else f"{name} {60 / cost:.1f} cases/min"
            for name, cost in costs.items()
        )
        rows = [row for name in self.planned for row in self.records.of(name)]
        return (
            f"{', '.join(rates) or 'done'}: {sum(row['cases'] for row in rows):,} cases so far, "
            f"{sum(row['failed'] for row in rows)} faults, about {seconds / 60:.0f} min left"
        )

    def _cost(self, name: str) -> float:
        rows = self.records.of(name)
        cases = sum(row["cases"] for row in rows)
        spent = sum(row["seconds"] for row in rows)
        return spent / cases if cases and spent else PARTS[name].cost


# The result.

HEADER = ("attack", "what", "wanted", "cases", "faults", "slowest case", "peak memory", "commits")
BEGIN, END = "<!-- campaign: written by `make campaign` -->", "<!-- campaign: end -->"


def table(records: Records, planned: Mapping[str, int]) -> list[tuple[str, ...]]:
    """A row per part, from the records."""
    rows: list[tuple[str, ...]] = []
    for name in planned:
        part, found = PARTS[name], records.of(name)
        units = part.units * sum(row["cases"] for row in found)
        slowest = max((row["slowest"] for row in found), default=0.0)
        memory = max((row["memory"] for row in found), default=0)
        failed = sum(row["failed"] for row in found)
        commits = ", ".join(dict.fromkeys(row["commit"] for row in found)) or "-"
        numbers = (f"{part.wanted:,}", f"{units:,}", f"{failed:,}")
        rows.append((name, part.what, *numbers, f"{slowest:.1f} s", f"{memory >> 20} MB", commits))
    return rows


def page_block(records: Records, planned: Mapping[str, int], page: str = "") -> str:
    """The table of the page in docs, with the time that it took and whether it is complete.

    A part of which the page has more cases than are recorded keeps its row.
    """
    known = {row[0]: tuple(row) for row in _cells(page)}
    recorded = ((row, known.get(row[0], row)) for row in table(records, planned))
    kept = (before if _count(before[3]) > _count(row[3]) else row for row, before in recorded)
    rows = [HEADER, tuple("---" for _ in HEADER), *kept]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    minutes = sum(row["seconds"] for name in planned for row in records.of(name)) / 60
    short = any(_count(row[3]) < PARTS[row[0]].wanted for row in rows[2:])
    about = f"{PARTLY if short else COMPLETE} {minutes:.0f} process minutes."
    return "\n".join([BEGIN, about, "", *lines, END])


def _count(cell: str) -> int:
    return int(cell.replace(",", ""))


def _cells(text: str) -> list[list[str]]:
    lines = text.partition(BEGIN)[2].partition(END)[0].strip().partition("\n\n")[2].splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def read_page(text: str) -> dict[str, tuple[int, int]] | None:
    """Cases and faults by part, as the page has them; None before the first campaign.

    A page that `page_block` has not written like this is an error.
    """
    block = text.partition(BEGIN)[2].partition(END)[0].strip()
    if block == NOT_YET:
        return None
    about = block.partition("\n\n")[0]
    if not re.fullmatch(f"({PARTLY}|{COMPLETE}) [0-9]+ process minutes\\.", about):
        raise ValueError(f"it does not say whether it is complete: {about!r}")
    head, rule, *rows = _cells(text)
    if head != list(HEADER) or set(rule) != {"---"}:
        raise ValueError(f"columns {head}")
    found = {}
    for name, what, wanted, cases, faults, slowest, memory, commits in rows:
        rest = f"{slowest} {memory} {commits}"
        if what != PARTS[name].what or wanted != f"{PARTS[name].wanted:,}":
            raise ValueError(f"row {name}")
        if not re.fullmatch(r"[\d.]+ s \d+ MB (-|[0-9a-f]{7,40}(, [0-9a-f]{7,40})*)", rest):
            raise ValueError(f"row {name}: {rest}")
        found[name] = _count(cases), _count(faults)
    if list(found) != list(PARTS):
        raise ValueError(f"parts {list(found)}")
    if about.startswith(COMPLETE) != all(found[name][0] >= PARTS[name].wanted for name in found):
        raise ValueError(f"cases are missing, or not: {about!r}")
    return found


PARTLY, COMPLETE = "Not complete: see the column of what is wanted.", "Complete."
NOT_YET = "No campaign has been recorded yet."


def write_page(page: Path, block: str) -> None:
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"{page} has no place for the table"
    assert end, f"{page} has no place for the table"
    page.write_text(before + block + after, encoding="utf-8")


def list_faults(records: Records, planned: Mapping[str, int]) -> list[str]:
    """Each kind of fault once, with the number of cases and the first of them."""
    kinds = Counter[str]()
    first: dict[str, str] = {}
    for name in planned:
        for fault in (fault for row in records.of(name) for fault in row["faults"]):
            kind = f"{name}: " + fault["what"].partition("): ")[0]
            kinds[kind] += 1
            first.setdefault(kind, f"{fault['what']}\n    --repeat {name}:{fault['case']}")
    return [f"{count} × {name}: {first[name]}" for name, count in kinds.most_common()]


def repeat(case: str) -> int:
    """Run a single case here, and show its input and what went wrong."""
    name, _, number = case.partition(":")
    if os.environ.get("PYTHONHASHSEED") != "0" or (
        name == "kernel" and "LD_PRELOAD" not in os.environ
    ):
        command = [sys.executable, "-m", "tests.campaign", "--repeat", case]
        return subprocess.run(command, env=environment_of(name), check=False).returncode
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        attack = open_attack(name, Path(folder))
        fault = run_case(name, attack, int(number))
    shown = attack.shown
    kept = FOLDER / f"{name}-{number}"
    kept.write_bytes(shown if isinstance(shown, bytes) else repr(shown).encode("utf-8", "replace"))
    print(f"input: {kept}, {kept.stat().st_size:,} bytes")
    print(f"{fault.what}\n{fault.trace}" if fault else "no fault")
    return 1 if fault else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make campaign", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    known = ", ".join([*GROUPS, *PARTS])
    parser.add_argument("--only", metavar="PART,…", help=f"some parts: {known}")
    parser.add_argument("--cases", type=int, metavar="N", help="cases in all, shared by the parts")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes at once")
    parser.add_argument(
        "--repeat", metavar="PART:CASE", help="run one case again and show its input"
    )
    parser.add_argument("--page", action="store_true", help="write the table of what is recorded")
    parser.add_argument("--work", choices=PARTS, help=argparse.SUPPRESS)
    return parser.parse_args()


def _names(only: str | None) -> list[str]:
    chosen = [
        each for name in (only or ",".join(PARTS)).split(",") for each in GROUPS.get(name, [name])
    ]
    for name in chosen:
        if name not in PARTS:
            sys.exit(f"campaign: no part {name!r}; known: {', '.join([*GROUPS, *PARTS])}")
    return chosen


def main() -> int:
    options = _options()
    FOLDER.mkdir(exist_ok=True)
    if options.work:
        work(options.work)
        return 0
    if options.repeat:
        return repeat(options.repeat)
    if options.page:
        recorded, page = Records(FOLDER, "", None), PAGE.read_text(encoding="utf-8")
        write_page(PAGE, page_block(recorded, share(list(PARTS), None), page))
        return 0
    planned = share(_names(options.only), options.cases)
    return attack_all(planned, options)


def attack_all(planned: Mapping[str, int], options: argparse.Namespace) -> int:
    """Attack every part as often as planned, and show what came of it."""
    whole = options.only is None and options.cases is None
    if whole and _git("status", "--porcelain", "--", *ATTACKED):
        print("campaign: commit first; changes without a commit can't be recorded", file=sys.stderr)
        return 2
    records = Records(FOLDER, _git("rev-parse", "--short", "HEAD"), source_hash())
    for path in set(FOLDER.glob("studies-*")) - {FOLDER / f"studies-{source_hash()}"}:
        shutil.rmtree(path)
    started = time.monotonic()
    campaign = Campaign(records, planned, options.workers)
    try:
        campaign.run(lambda line: print(line, flush=True))
    except KeyboardInterrupt:
        print("stopped; the same command continues")
        return 130
    finally:
        for path in FOLDER.glob("*.at"):
            path.unlink()
    print(f"{(time.monotonic() - started) / 60:.1f} min")
    for row in table(records, planned):
        print("  ".join(row))
    faults = list_faults(records, planned)
    print(*faults, sep="\n")
    if whole:
        write_page(PAGE, page_block(records, planned))
        print(f"written to {PAGE}")
    return 1 if faults else 0


def source_hash() -> str:
    """A hash of the product and of what attacks it, as the files are now."""
    total = hashlib.sha256()
    for name in _git("ls-files", "-co", "--exclude-standard", "--", *ATTACKED).splitlines():
        if not Path(name).exists():  # deleted, but not committed yet
            continue
        total.update(name.encode() + b"\0" + Path(name).read_bytes() + b"\0")
    return total.hexdigest()[:12]


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
