"""Commands are killed at any moment of their course, resumed and checked: nothing is lost or done
twice, nothing is left over, and `verify` is content.

A case is a chain: several kills in one copy of a study, each of them with SIGKILL at the n-th call
of a Python function or after a while, and then a run to the end.
"""

import csv
import hashlib
import json
import multiprocessing
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from chimeralab.bundle.check import find_changed_files
from chimeralab.cli.main import COMMANDS, main
from chimeralab.rating.invitations import RatingService
from chimeralab.rating.packets import SHEET
from chimeralab.rating.raters import export_study_packet
from chimeralab.rating.rubric import BUILT_IN, load_rubric, lock_path
from chimeralab.rating.samples import load_samples
from chimeralab.study import Study
from chimeralab.study.database import MANIFEST
from chimeralab.study.lock import read_lock
from chimeralab.study.verify import verify_study
from chimeralab.weights import MODELS
from tests.plans import ALL, PEOPLE_RATED, RATED, SELFPLAY, SMALL_TRIAL, Files, changed
from tests.studies import RUN, Steps, StudyCache
from tests.tiny_model import CONTENT, TINY, write_wheel

KILLS = 5
# The forms of a sheet; a 1 needs the turns that it points at.
RATED_AS = {"0": "label=0&reason=Read", "1": "label=1&turn=1&turn=2&reason=Read"}
MAX_TRIES = 12 * KILLS
MAX_APP_CALLS = 150_000
# In seconds. Only a command that hangs takes that long, however busy the machine is.
MAX_WAIT = 1_200.0
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
QUICK = """
[detector]
use = "loops"
[outcomes]
resamples = 100
permutations = 100
"""
TALKS = changed(SELFPLAY, QUICK, ("turns = 4", "turns = 10"))
PEOPLE = changed(PEOPLE_RATED, QUICK)
JUDGED = changed(RATED, QUICK)
TRIALS = changed(SMALL_TRIAL, (ALL, 'each = ["amnesia"]'), ("number = 2", "number = 1"))
# Modules that commands import while they run: a process that is forked has them.
ALSO_IMPORTED = (
    "chimeralab.pipeline",
    "chimeralab.report.files",
    "chimeralab.rating.raters",
    "chimeralab.selfplay.kind",
    "chimeralab.trial.kind",
    "chimeralab.web.app",
    "tests.kills",
)


# In the process that is going to be killed.


def chimera(
    words: Sequence[str], environment: Mapping[str, str], last: "Moment", answers: Connection
) -> None:
    """Run a command in a session of its own; whoever outlives it is found there.

    A server sends its address; any other command sends its course to its end.
    """
    os.setsid()
    os.environ.update(environment)
    os.chdir(environment["PLACE"])
    with open(os.devnull, "r+b") as nothing, tempfile.TemporaryFile() as said:  # noqa: PTH123
        for stream, file in enumerate((nothing, nothing, said)):
            os.dup2(file.fileno(), stream)
    if words[0] == "view":
        sys.stdout = _FirstLine(answers)
    MODELS["tiny"] = TINY
    sys.argv = ["chimera", *words]
    course = _follow(last)
    try:
        main()
    finally:
        sys.setprofile(None)
        answers.send((*course(), os.pread(2, 2_000, 0).decode("utf-8", "replace")))


class _FirstLine:
    """Standard output of a server, which prints its address."""

    def __init__(self, answers: Connection) -> None:
        self._answers, self._text = answers, ""

    def write(self, text: str) -> int:
        self._text += text
        if "\n" in self._text and "http" in self._text:
            self._answers.send(self._text.partition("\n")[0])
            self._text = ""
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


# What changes files, as Python's audit hooks name it.
CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink"}


class Moment(NamedTuple):
    """A moment in the course of a command: the n-th call, or the n-th change of a file."""

    calls: int | None = None
    changes: int | None = None


def _follow(last: Moment) -> Callable[[], Moment]:
    """Count calls and changes of files in all threads, and kill this process at the last."""
    calls, changes = 0, 0

    def called(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == last.calls:
            os.kill(os.getpid(), signal.SIGKILL)

    def audited(event: str, given: tuple[Any, ...]) -> None:
        nonlocal changes
        writes = event == "open" and isinstance(given[2], int) and given[2] & WRITING
        if event in CHANGES or writes:
            changes += 1
            if changes == last.changes:
                os.kill(os.getpid(), signal.SIGKILL)

    if last.changes is not None:
        sys.addaudithook(audited)
    if last.calls is not None:
        threading.setprofile(called)
        sys.setprofile(called)
    return lambda: Moment(calls, changes)


# In the process that kills.


def processes_of(session: int, folder: Path | None = None) -> list[int]:
    """The living processes of a session, or in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            stat = (path / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
            where = folder and (path / "cwd").readlink()
            if stat[0] != "Z" and (int(stat[3]) == session or (folder and where == folder)):
                found.append(int(path.name))
    return found


def await_end(session: int, folder: Path | None = None) -> None:
    """Wait until the last of these processes has ended; one that never does is an orphan."""
    while left := processes_of(session, folder):
        try:
            ended = os.pidfd_open(left[0])
        except ProcessLookupError:
            continue
        over, *_ = select.select([ended], [], [], MAX_WAIT)
        os.close(ended)
        assert over, f"process {left[0]} outlives the command that started it"


class Course(NamedTuple):
    """How long an undisturbed command takes, in three units."""

    calls: int
    changes: int
    seconds: float


NEVER, WHOLE = Moment(), Moment(sys.maxsize, sys.maxsize)


class Starter:
    """Starts commands in processes that are forked from one that has imported everything.

    Without a clock they are killed at a call or a change of a file only, so that a case is the
    same however busy the machine is.
    """

    def __init__(self, environment: Mapping[str, str], *, clock: bool = True) -> None:
        self.environment, self.clock = environment, clock
        self.processes = multiprocessing.get_context("forkserver")
        modules = {module.partition(":")[0] for module, *_ in COMMANDS.values()}
        named = (f"chimeralab.cli.{module}" for module in sorted(modules))
        self.processes.set_forkserver_preload([*named, *ALSO_IMPORTED])

    def start(
        self, words: Sequence[str], last: Moment = NEVER
    ) -> tuple[multiprocessing.process.BaseProcess, Connection]:
        answers, far_end = self.processes.Pipe(duplex=False)
        process = self.processes.Process(
            target=chimera, args=(words, self.environment, last, far_end)
        )
        # Else each process would begin by importing the program that started this one.
        with patch.multiple("__main__", __file__=None, __spec__=None, create=True):
            process.start()
        far_end.close()
        return process, answers

    def finish(self, words: Sequence[str], codes: Sequence[int], last: Moment = NEVER) -> Course:
        """Run a command undisturbed."""
        started = time.monotonic()
        process, answers = self.start(words, last)
        process.join(MAX_WAIT)
        with answers:
            calls, changes, said = answers.recv() if answers.poll() else (0, 0, "")
        ended = f"{' '.join(words)} ended with {process.exitcode}: {said.strip()}"
        assert process.exitcode in codes, ended
        return Course(calls, changes, time.monotonic() - started)

    def kill(self, words: Sequence[str], course: Course, rng: Random) -> bool:
        """Kill a command at a moment of its course; whether it was not over before."""
        match rng.randrange(3 if self.clock else 2):
            case 0:
                process, answers = self.start(words, Moment(calls=rng.randint(1, course.calls)))
            case 1:
                last = Moment(changes=rng.randint(1, max(1, course.changes)))
                process, answers = self.start(words, last)
            case _:
                process, answers = self.start(words)
                process.join(rng.uniform(0.0, course.seconds))
                process.kill()
        process.join(MAX_WAIT)
        answers.close()
        assert process.exitcode is not None, f"{' '.join(words)} hangs"
        await_end(process.pid or 0)
        return process.exitcode == -signal.SIGKILL


class Place:
    """Where a chain happens: a study and the other folders that commands write to."""

    def __init__(self, folder: Path, cache: StudyCache) -> None:
        self.folder, self.cache = folder, cache
        self.study, self.out = folder / "study", folder / "out"
        self.expected: dict[str, Any] = {}

    def renew(self, files: Files | None, steps: Steps, prepare: Callable[["Place"], None]) -> None:
        for path in (self.study, self.out):
            shutil.rmtree(path, ignore_errors=True)
        self.out.mkdir(parents=True)
        if files is not None:
            self.cache.copy(self.study, files, steps=steps)
        prepare(self)

    def verify(self) -> None:
        verified = verify_study(Study(self.study, allow_code=True))
        found = (*verified.findings, *verified.deviations)
        assert not found, [str(each) for each in found]

    def once(self, name: str, value: Any) -> None:
        """Something is the same each time."""
        assert self.expected.setdefault(name, value) == value, f"another {name}"

    def rows(self, query: str) -> list[Mapping[str, Any]]:
        with Study(self.study).archive() as archive:
            return list(archive.rows(query))

    def no_parts(self) -> None:
        left = [path.name for path in self.folder.rglob("*.part")]
        assert not left, f"left over: {left}"


def files_in(folder: Path) -> dict[str, str]:
    """The hash of every file in a folder, by path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-wal", "-shm", ".running"))
    }


# What has to hold when a command has come to its end, and after each kill.


def every_turn_once(place: Place) -> None:
    rows = place.rows("SELECT trajectory, turn, text FROM turns ORDER BY trajectory, turn")
    place.once("turns", [tuple(row.values()) for row in rows])
    assert not place.rows("SELECT id FROM trajectories WHERE outcome IS NULL")
    place.verify()


def once_in(table: str) -> Callable[[Place], None]:
    def check(place: Place) -> None:
        found = sorted(row["trajectory"] for row in place.rows(f"SELECT trajectory FROM {table}"))
        assert found == sorted(talk.id for talk in Study(place.study, allow_code=True).talks)
        place.verify()

    return check


def lock_is_whole(place: Place) -> None:
    """A lock is there as a whole, or not at all."""
    lock = place.study / "plan.lock"
    if lock.exists():
        place.once("lock", read_lock(lock).resolved)


def is_locked(place: Place) -> None:
    lock_is_whole(place)
    assert (place.study / "plan.lock").exists()


def one_sample(place: Place) -> None:
    [sample] = load_samples(Study(place.study))
    place.once("sample", sample.items)


def packet_has_its_key(place: Place) -> None:
    """A packet that can be handed out can be imported."""
    sheet = place.out / "packet" / SHEET
    if not sheet.exists():
        return
    with sheet.open(encoding="utf-8", newline="") as file:
        names = {row["sheet"].rpartition("-")[0] for row in csv.DictReader(file)}
    assert names == {row["name"] for row in place.rows("SELECT name FROM packets")}


def packet_is_whole(place: Place) -> None:
    packet_has_its_key(place)
    assert set(files_in(place.out / "packet")) == {"packet.html", SHEET}


def fill_in_packet(place: Place) -> None:
    study = Study(place.study)
    export_study_packet(study, place.out / "packet")
    sheet = place.out / "packet" / SHEET
    with sheet.open(encoding="utf-8", newline="") as file:
        rows = [{**row, "label": "1", "reason": "Read."} for row in csv.DictReader(file)]
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def all_or_none_rated(place: Place) -> None:
    given = len(place.rows("SELECT trajectory FROM ratings"))
    assert given in (0, len(Study(place.study).talks))


def all_rated(place: Place) -> None:
    all_or_none_rated(place)
    assert place.rows("SELECT trajectory FROM ratings")
    place.verify()


def gate_is_decided_once(place: Place) -> None:
    [sample] = load_samples(Study(place.study, allow_code=True))
    assert sample.used
    place.once("gate", sample.passed)
    record = json.loads((place.study / "audit" / "gate-record.json").read_text(encoding="utf-8"))
    assert record["verdict"] == ("passed" if sample.passed else "failed")
    place.verify()


def page_is_whole(name: str) -> Callable[[Place], None]:
    def check(place: Place) -> None:
        page = (place.folder / name).read_text(encoding="utf-8")
        assert page.rstrip().endswith("</html>")
        place.no_parts()

    return check


def output_is_the_same(place: Place) -> None:
    place.once("output", files_in(place.out))
    place.no_parts()


def bundle_is_whole(place: Place) -> None:
    """Every file is there and unchanged; what it says follows from the records otherwise."""
    assert (place.out / "bundle" / MANIFEST).is_file()
    found = list(find_changed_files(place.out / "bundle"))
    assert not found, found


def output_is_whole_or_absent(place: Place) -> None:
    """What is in the folder under its own name is what a whole run writes."""
    found = {name: each for name, each in files_in(place.out).items() if not is_temporary(name)}
    for name, each in found.items():
        assert place.expected.get("output", {}).get(name, each) == each, f"another {name}"


def is_temporary(name: str) -> bool:
    return any(part.startswith(".") for part in Path(name).parts)


def study_is_unchanged(place: Place) -> None:
    place.once("study", files_in(place.study))


def write_rubric(place: Place) -> None:
    text = BUILT_IN.read_text(encoding="utf-8").replace('state = "locked"', 'state = "calibrated"')
    (place.out / "rubric.toml").write_text(text, encoding="utf-8")


def rubric_is_locked(place: Place) -> None:
    assert load_rubric(place.out / "rubric.toml").state == "locked"
    assert lock_path(place.out / "rubric.toml").exists()


def study_is_new(place: Place) -> None:
    assert (place.out / "new" / "plan.toml").is_file()
    _ = Study(place.out / "new").plan


def write_settings(place: Place) -> None:
    (place.out / "settings.json").write_text('{"permissions": {}}', encoding="utf-8")


def settings_are_whole(place: Place) -> None:
    assert "permissions" in json.loads((place.out / "settings.json").read_text(encoding="utf-8"))


def hook_is_installed(place: Place) -> None:
    settings_are_whole(place)
    settings = json.loads((place.out / "settings.json").read_text(encoding="utf-8"))
    assert [len(entries) for entries in settings["hooks"].values()] == [1, 1, 1]


def model_is_whole(place: Place) -> None:
    for name, content in CONTENT.items():
        assert [path.read_bytes() for path in place.out.rglob(name)] == [content]
    place.no_parts()


def write_paper(place: Place) -> None:
    text = "# Results\n\nWe planned {{countPlanned}} conversations.\n"
    (place.folder / "paper.md").write_text(text, encoding="utf-8")


def nothing(_: Place) -> None:
    pass


class Command(NamedTuple):
    """A command to kill: its words, the study that it is given, and what must hold."""

    words: str
    files: Files | None
    steps: Steps
    whole: Callable[[Place], None]
    held: Callable[[Place], None] = nothing
    codes: tuple[int, ...] = (0,)
    prepare: Callable[[Place], None] = nothing
    weight: int = 1


DONE = (0, 2)  # what is done already may be refused
DETECTED = (*RUN, "detect")
LABELLED = (*RUN, "draw", "rate rules", "rate judge")
KILLED: dict[str, Command] = {
    "lock": Command("lock STUDY", TALKS, (), is_locked, lock_is_whole, weight=3),
    "run": Command("run STUDY --no-watch", TALKS, ("lock",), every_turn_once, weight=8),
    "run a trial": Command("run STUDY", TRIALS, ("lock",), every_turn_once, weight=6),
    "detect": Command("detect STUDY", TALKS, RUN, once_in("detections"), weight=4),
    "rate": Command("rate STUDY", TALKS, RUN, once_in("ratings"), weight=4),
    "rate by a model": Command(
        "rate run STUDY --rater judge --allow-code", JUDGED, RUN, once_in("ratings"), weight=4
    ),
    "rate sample": Command("rate sample STUDY", PEOPLE, RUN, one_sample),
    "rate packet": Command(
        "rate packet STUDY OUT/packet", PEOPLE, RUN, packet_is_whole, packet_has_its_key, DONE
    ),
    "rate import": Command(
        "rate import STUDY OUT/packet/ratings.csv --rater human:ann",
        *(PEOPLE, RUN, all_rated, all_or_none_rated, DONE),
        prepare=fill_in_packet,
        weight=2,
    ),
    "rate attack": Command("rate attack STUDY", TALKS, RUN, Place.verify),
    "audit": Command("audit STUDY", JUDGED, LABELLED, gate_is_decided_once, codes=(0, 1), weight=3),
    "analyse": Command("analyse STUDY", TALKS, DETECTED, Place.verify),
    "report": Command("report STUDY", TALKS, DETECTED, page_is_whole("study/report/index.html")),
    "export": Command(
        "export STUDY --format csv --out OUT",
        *(TALKS, DETECTED, output_is_the_same, output_is_whole_or_absent),
        weight=2,
    ),
    "export a bundle": Command(
        "export STUDY --format bundle --out OUT/bundle", TALKS, DETECTED, bundle_is_whole
    ),
    "show": Command(
        "show STUDY --id free/p1/1 --no-vectors --out OUT/page.html",
        *(TALKS, DETECTED, page_is_whole("out/page.html")),
    ),
    "detect a log": Command(
        "detect ../examples --no-vectors --out OUT/table.csv",
        *(None, (), output_is_the_same, output_is_whole_or_absent),
        weight=2,
    ),
    "claims": Command(
        "claims paper.md --study STUDY --fill OUT/filled.md",
        *(TALKS, DETECTED, output_is_the_same, output_is_whole_or_absent),
        prepare=write_paper,
    ),
    "verify": Command("verify STUDY", TALKS, DETECTED, study_is_unchanged, study_is_unchanged),
    "check": Command("check STUDY --offline", TALKS, (), study_is_unchanged, study_is_unchanged),
    "measure": Command("measure STUDY", TRIALS, RUN, study_is_unchanged, study_is_unchanged),
    "rubric lock": Command(
        "rubric lock OUT/rubric.toml", None, (), rubric_is_locked, codes=DONE, prepare=write_rubric
    ),
    "new": Command("new OUT/new", None, (), study_is_new, codes=DONE),
    "hook": Command(
        "hook claude-code --install --settings OUT/settings.json",
        *(None, (), hook_is_installed, settings_are_whole),
        prepare=write_settings,
    ),
    "models pull": Command("models pull tiny", None, (), model_is_whole, weight=2),
}


class Kills:
    """The attack of the campaign: each case is a chain of kills of one command or of the app."""

    shown: Any = None

    def __init__(self, folder: Path, studies: StudyCache, *, clock: bool = True) -> None:
        self.place = Place(folder / "place", studies)
        self.place.folder.mkdir()
        (folder / "examples").symlink_to(Path(__file__).parents[1] / "examples")
        self.starter = Starter(
            {
                "PLACE": str(self.place.folder),
                "CHIMERA_CACHE": str(self.place.out / "cache"),
                "HF_HUB_OFFLINE": "1",
                "PIP_CONFIG_FILE": os.devnull,
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": str(write_wheel(folder / "index").parent),
            },
            clock=clock,
        )
        self.starter.finish(("--version",), (0,))  # imports everything, once
        self.courses: dict[str, Course] = {}
        self.deck = [name for name, each in KILLED.items() for _ in range(each.weight)]
        self.apps = {"view": kill_app_that_is_rated_in, "view a run": kill_app_that_runs}
        self.deck += ["view"] * 8 + ["view a run"] * 2

    def attack(self, number: int, rng: Random) -> None:
        # Neighbours are different, so that a few cases hit much.
        self.kill(self.deck[number * 17 % len(self.deck)], rng)

    def kill(self, name: str, rng: Random) -> None:
        self.shown = f"kills of {name!r}"
        if name in self.apps:
            self.apps[name](self.place, self.starter, rng)
        else:
            self.kill_command(name, rng)

    def kill_command(self, name: str, rng: Random) -> None:
        command = KILLED[name]
        place, starter = self.place, self.starter
        words = command.words.replace("STUDY", "study").replace("OUT", "out").split()
        place.expected = {}

        def renew() -> None:
            place.renew(command.files, command.steps, command.prepare)

        renew()
        if command.whole is study_is_unchanged:
            command.whole(place)
        if name not in self.courses:
            calls, changes, _ = starter.finish(words, command.codes, WHOLE)
            command.whole(place)
            renew()
            seconds = starter.finish(words, command.codes).seconds
            self.courses[name] = Course(calls, changes, seconds)
        else:
            starter.finish(words, command.codes)
        command.whole(place)
        renew()
        done = 0
        for _ in range(MAX_TRIES):
            killed = starter.kill(words, self.courses[name], rng)
            command.held(place)
            done += killed
            if done == KILLS:
                break
            if not killed:
                starter.finish(words, command.codes)
                command.whole(place)
                renew()
        assert done == KILLS, f"only {done} of {MAX_TRIES} kills hit {name}"
        starter.finish(words, command.codes)
        command.whole(place)


# The web app.


class App:
    """`chimera view`, which can be killed and started again at the same address."""

    def __init__(self, starter: Starter, *options: str) -> None:
        self._starter = starter
        # The port stays bound here, so that nobody else gets it while the server is down.
        self._kept = socket.socket()
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._kept.bind(("127.0.0.1", 0))
        self.port: int = self._kept.getsockname()[1]
        self._words = ("view", "study", "--no-open", "--port", str(self.port), *options)

    def close(self) -> None:
        self._kept.close()

    def serve(self, use: Callable[[str], None], rng: Random | None = None) -> bool:
        """Start it, use it, and kill it; with `rng` meanwhile, at a call or after a while."""
        at_a_call = rng and not (self._starter.clock and rng.random() < 0.5)
        calls = rng.randint(1, MAX_APP_CALLS) if rng and at_a_call else None
        process, answers = self._starter.start(self._words, Moment(calls=calls))
        killer = threading.Timer(rng.uniform(0.0, 0.5) if rng else 600.0, process.kill)
        try:
            address = answers.recv()
            if calls is None:
                killer.start()
            use(address)
            assert rng is None or calls is not None or not process.is_alive()
        except (EOFError, OSError, HTTPException):
            assert rng is not None, "the server has ended"
        finally:
            killer.cancel()
            was_killed = not process.is_alive() or calls is None
            process.kill()
            process.join()
            answers.close()
            await_end(process.pid or 0)
        return was_killed


class Browser:
    """The cookie of a link, and forms that are posted with it."""

    def __init__(self, link: str) -> None:
        address, _, path = link.removeprefix("http://").partition("/")
        self._connection = HTTPConnection(address)
        self._connection.request("GET", f"/{path}")
        answer = self._connection.getresponse()
        answer.read()
        cookies = answer.headers.get_all("set-cookie") or []
        self._headers = {
            "origin": f"http://{address}",
            "cookie": "; ".join(each.partition(";")[0] for each in cookies),
            "content-type": "application/x-www-form-urlencoded",
        }

    def send(self, method: str, path: str, body: str = "") -> None:
        self._connection.request(method, path, body, self._headers)
        answer = self._connection.getresponse()
        answer.read()
        assert answer.status < 400, f"{path}: {answer.status}"


class RatingPerson:
    """Somebody who rates in the browser, and remembers what the server has acknowledged."""

    def __init__(self, place: Place, rng: Random) -> None:
        self.place, self.rng = place, rng
        with RatingService(Study(place.study)) as service:
            self.token = service.invite("ann")
        self.sheets = len(self.stored())
        self.acknowledged: dict[int, str] = {}
        self.sent: tuple[int, str] | None = None

    def stored(self) -> dict[int, str]:
        """The labels in the store, by the number of their sheets."""
        with RatingService(Study(self.place.study)) as service:
            invitation = service.find_invitation(self.token)
            assert invitation is not None
            session = service.session(invitation)
        return {n: session.draft(name).label for n, name in enumerate(session.sheets, 1)}

    def rate(self, address: str) -> None:
        """Label sheets until the server is gone."""
        browser = Browser(address.partition("/?")[0] + f"/rate?token={self.token}")
        for _ in range(400):
            number, label = self.sent = self.rng.randint(1, self.sheets), self.rng.choice("01")
            browser.send("POST", f"/rate/{number}", RATED_AS[label])
            self.acknowledged[number], self.sent = label, None

    def hand_in(self, address: str) -> None:
        browser = Browser(address.partition("/?")[0] + f"/rate?token={self.token}")
        for number in range(1, self.sheets + 1):
            self.acknowledged.setdefault(number, "1")
            browser.send("POST", f"/rate/{number}", RATED_AS[self.acknowledged[number]])
        browser.send("POST", "/rate/hand-in")

    def check(self) -> None:
        """What was acknowledged is stored; what was sent last may be."""
        found = self.stored()
        for number, label in self.acknowledged.items():
            allowed = {label, self.sent[1]} if self.sent and self.sent[0] == number else {label}
            assert found[number] in allowed, f"sheet {number}: {found[number]!r}, not {allowed}"
            self.acknowledged[number] = found[number]
        self.sent = None


def kill_app_that_is_rated_in(place: Place, starter: Starter, rng: Random) -> None:
    place.renew(PEOPLE, (*RUN, "draw"), nothing)
    person = RatingPerson(place, rng)
    with closing(App(starter)) as app:
        done = 0
        for _ in range(MAX_TRIES):
            done += app.serve(person.rate, rng)
            person.check()
            if done == KILLS:
                break
        assert done == KILLS
        app.serve(person.hand_in)
    rated = place.rows("SELECT trajectory FROM ratings")
    assert len({row["trajectory"] for row in rated}) == len(rated) > 0
    place.verify()


def kill_app_that_runs(place: Place, starter: Starter, rng: Random) -> None:
    """Kill the server that has started a run, which goes on or is resumed."""
    place.expected = {}
    place.renew(TALKS, ("lock",), nothing)

    def start(address: str) -> None:
        browser = Browser(address)
        with suppress(AssertionError):  # it is running already
            browser.send("POST", "/study/1/run")
        while True:
            browser.send("GET", "/study/1")

    with closing(App(starter, "--allow-run")) as app:
        for _ in range(KILLS):
            app.serve(start, rng)
    await_end(-1, place.folder.resolve())  # the run that the server started is not its own process
    starter.finish(("run", "study"), (0,))
    every_turn_once(place)
