"""What is fuzzed: everything that reads what others have written, in one process.

A target makes its samples once. Its `attack` changes one of them with the given `Random`, hands it
to the product, and returns if the product accepts it or refuses it in a sentence. Anything else
that is raised, a failed assertion included, is a fault.
"""

import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, ClassVar

import chimeralab
from chimeralab import readers, weights
from chimeralab.cli import main as cli
from chimeralab.cli.claims import check as check_claims
from chimeralab.cli.hook import read_settings, with_hook
from chimeralab.core.errors import ChimeraError, LogError
from chimeralab.core.records import Trajectory
from chimeralab.core.text import neutralize
from chimeralab.detection.tools import Tools
from chimeralab.embedding.kernel import Kernel
from chimeralab.integrations import claude_code
from chimeralab.integrations.watch import Watch
from chimeralab.models.openai import read_completion
from chimeralab.models.seam import parse_answer
from chimeralab.rating.gate import ClaimScope
from chimeralab.rating.labels import read_labels
from chimeralab.rating.model_rater import read_answer
from chimeralab.rating.packets import SHEET, export_packet, import_packet, lay_out_packet
from chimeralab.rating.ratings import Item, Shuffler
from chimeralab.rating.rubric import (
    BUILT_IN,
    history_lines,
    load_rubric,
    lock_path,
    parse_rubric,
    rubric_text,
)
from chimeralab.readers.shares import NeedsWholeLog, count_lines, read_share, split_log
from chimeralab.readers.streams import ByteStream
from chimeralab.selfplay.runs import read_runs
from chimeralab.study import Study
from chimeralab.study.folder import templates
from chimeralab.study.lock import digest
from chimeralab.trial.replies import read_choice
from chimeralab.trial.replies import read_share as read_reply_share
from chimeralab.trial.scenarios.files import read_benchform, read_mt_consistency, read_scenarios
from chimeralab.trial.scoring import asserts, find_number, polarity
from chimeralab.trial.trials import TrialLog
from chimeralab.weights.tensors import read_tensors
from tests import plans
from tests.mutation import mutate, mutate_tree
from tests.sanitizers import LIBRARY_VARIABLE
from tests.studies import write_study
from tests.unit.embedding.stress_kernel import call
from tests.unit.readers.by_schema import openai_messages
from tests.unit.readers.logs_of import LOGS
from tests.unit.readers.talks import HEALTHY, LOOPING

MAX_MESSAGE = 20_000
# What a streamed text repeats besides pieces of messages.
STREAMED = (
    *("\n", "-", "word ", "1. item\n", "é", "\ud83d", "{}"),
    *("0x1f, ", "| a | 1 |\n", "a\u0301 "),
)
KEYS = "role content text messages turns id parent uuid type value tool_calls name".split()


class Target:
    """Something that takes input from outside; `shown` is the last input."""

    name: ClassVar[str]
    shown: Any = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def attack(self, number: int, rng: Random) -> None:
        raise NotImplementedError

    def write(self, name: str, content: bytes) -> Path:
        self.shown = content
        path = self.folder / name
        path.write_bytes(content)
        return path


def check_refusal(error: Exception) -> None:
    """A refusal is a sentence that can be printed as it is."""
    said = cli.describe_error(error)
    assert said.strip(), "a refusal without a reason"
    assert len(said) <= MAX_MESSAGE, f"a refusal of {len(said)} characters"
    assert neutralize(said) == said, f"a refusal with control characters: {said[:200]!r}"


@contextmanager
def refusing(*others: type[Exception]) -> Iterator[None]:
    """Whatever the product refuses in a sentence is fine."""
    try:
        yield
    except ChimeraError as error:
        check_refusal(error)
    except others:
        pass


class Readers(Target):
    """Logs in every format, read from a file, found in a folder, judged by words."""

    name = "readers"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.formats = [None, None, None, *readers.READERS]
        self.logs = [
            (log.format, content)
            for log in LOGS.values()
            for content in (log.healthy, log.looping)
            if log.healthy is content or len(content) < 20_000
        ]

    def draw(self, number: int, rng: Random) -> tuple[Path, str | None]:
        """Write a log that was changed; every sample comes in turn."""
        own, content = self.logs[number % len(self.logs)]
        form = rng.choice((None, None, None, own, rng.choice(self.formats)))
        return self.write("case.jsonl", mutate(content, rng, KEYS)), form

    def attack(self, number: int, rng: Random) -> None:
        path, form = self.draw(number, rng)
        found, bad = read_whole(path, form)
        assert found or bad
        for trajectory in found:
            assert isinstance(trajectory, Trajectory)
            assert trajectory.id
            assert all(isinstance(turn.text, str) for turn in trajectory.turns)
        match number % 4:
            case 0:
                check_strictly(path, form, found, bad)
            case 1 if found:
                json.dumps(found[0].as_dict())
                json.dumps(chimeralab.detect(found[0], detector=None).as_dict())
            case 2:
                with refusing():
                    readers.find_logs([self.folder], on_skip=lambda _: None)


def read_whole(path: Path | str, form: str | None = None) -> tuple[list[Trajectory], list[str]]:
    bad: list[LogError] = []
    found = list(readers.read(path, format=form, on_bad=bad.append))
    for error in bad:
        check_refusal(error)
    return found, list(map(str, bad))


def check_strictly(path: Path, form: str | None, found: list[Trajectory], bad: list[str]) -> None:
    """Without anyone to report to, a log is read in the same way or refused."""
    again, first = None, None
    try:
        again = list(readers.read(path, format=form))
    except LogError as error:
        first = str(error)
    assert first == (bad[0] if bad else None)
    assert bad or again == found


class Streams(Readers):
    """The same logs from a pipe that gives few bytes at a time, and in shares."""

    name = "streams"

    def attack(self, number: int, rng: Random) -> None:
        path, form = self.draw(number, rng)
        found, bad = read_whole(path, form)
        if number % 2:
            self.compare_pipe(found, bad, rng, form)
        else:
            compare_shares(path, found, bad, rng.choice((9, 70, 900)), form)

    def compare_pipe(
        self, found: list[Trajectory], bad: list[str], rng: Random, form: str | None
    ) -> None:
        content, size = self.shown, rng.choice((7, 100, 5_000))
        pieces = (content[at : at + size] for at in range(0, len(content), size))
        pipe = SimpleNamespace(buffer=io.BufferedReader(ByteStream(pieces)))
        with replaced(sys, "stdin", pipe):
            piped, refused = read_whole("-", form)
        assert [each.turns for each in piped] == [each.turns for each in found]
        assert len(refused) == len(bad)


@contextmanager
def replaced(of: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(of, name)
    setattr(of, name, value)
    try:
        yield
    finally:
        setattr(of, name, before)


def compare_shares(
    path: Path, found: list[Trajectory], bad: list[str], size: int, form: str | None
) -> None:
    """A log that can be split gives the same in shares as it gives as a whole."""
    chosen = readers.READERS[form] if form else None
    together: list[Trajectory] = []
    refused: list[LogError] = []
    first = 1
    shares = split_log(str(path), size, chosen)
    is_table = path.read_bytes()[:4] == b"PAR1"
    for share in shares if len(shares) < 200 else []:
        known = share if is_table else share._replace(first=first)
        try:
            together += read_share(str(path), known, chosen, refused.append)
        except NeedsWholeLog:
            return
        first += 0 if is_table else count_lines(str(path), share)
    if together or refused:
        assert together == found
        assert list(map(str, refused)) == bad


def sample_messages() -> list[list[Any]]:
    """Conversations as hosts hold them: of OpenAI, of Anthropic, of LangChain, of Gemini."""
    logs = ("anthropic-messages.json", "langchain-messages_to_dict.json", "openai-chat.jsonl")
    loaded = [json.loads(LOGS[name].looping) for name in logs]
    given = [talk if isinstance(talk, list) else talk.get("messages", [talk]) for talk in loaded]
    return [*given, openai_messages(HEALTHY), openai_messages(LOOPING), ["Again."] * 5]


class Memory(Target):
    """Conversations in memory: lists of messages, texts and rows."""

    name = "memory"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.samples = [json.dumps(each) for each in sample_messages()]

    def attack(self, number: int, rng: Random) -> None:
        talk = mutate_tree(json.loads(self.samples[number % len(self.samples)]), rng, KEYS)
        self.shown = talk
        with refusing():
            found = chimeralab.detect(talk, detector=None)
            json.dumps(found.as_dict())


class Guards(Target):
    """Messages to a guard, which refuses what it can't read and stays as it was."""

    name = "guard"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.samples = [json.dumps(each) for each in sample_messages()]

    def attack(self, number: int, rng: Random) -> None:
        messages = json.loads(self.samples[number % len(self.samples)])[: rng.choice((4, 8, 18))]
        if number % 5:
            messages = mutate_tree(messages, rng, KEYS)
        self.shown = messages
        tools: Tools = {"bash": "ignore"} if rng.random() < 0.5 else {}
        guard = chimeralab.Guard(vectors=False, tools=tools)
        fed = ["", ""]  # as text and as reasoning, since the guard took the last message
        for message in messages if isinstance(messages, list) else [messages]:
            if rng.random() < 0.1:
                self.stream(guard, rng, message, fed)
            before = json.dumps(guard.state()) if rng.random() < 0.1 else None
            try:
                signal = guard.update(message)
            except ChimeraError as error:
                check_refusal(error)
                if before is not None:
                    assert before == json.dumps(guard.state()), "a refusal changed the guard"
            else:
                fed = ["", ""]
                assert signal.position
                if signal.loop and rng.random() < 0.2:
                    guard.mark_nudged()
        guard.restore(json.loads(json.dumps(guard.state())))

    def stream(self, guard: chimeralab.Guard, rng: Random, message: Any, fed: list[str]) -> None:
        """Stream a text that repeats a piece of a message; what is cut, stands in the text."""
        written = json.dumps(message, ensure_ascii=False, default=str)
        start, size = rng.randrange(len(written)), rng.choice((1, 7, 90, 500))
        unit = rng.choice((written[start : start + size], *STREAMED))
        times = min(rng.choice((3, 40, 400)), MAX_MESSAGE // len(unit))
        kind = rng.choice(("same", "index", "lines", "odd"))
        ends = {"same": "", "index": "{}", "lines": "\n", "odd": rng.choice(STREAMED)}
        text = written[:start] + "".join(unit + ends[kind].format(n) for n in range(times))
        self.shown, piece = text, rng.choice((3, 30, 400, 5_000))
        reasoning = rng.random() < 0.3
        for at in range(0, len(text), piece):
            fed[reasoning] += text[at : at + piece]
            cut = guard.feed(text[at : at + piece], reasoning=reasoning)
            if cut:
                assert 0 <= cut.cut_at <= len(fed[reasoning])
                assert cut.repeated in fed[reasoning]
                assert cut.times > 1


class States(Target):
    """Saved states of guards, which a store may have damaged."""

    name = "states"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.samples = []
        for messages in sample_messages():
            guard = chimeralab.Guard(vectors=False)
            for message in messages[:7]:
                guard.update(message)
            self.samples.append((json.dumps(guard.state()), messages[7:10]))

    def attack(self, number: int, rng: Random) -> None:
        saved, after = self.samples[number % len(self.samples)]
        guard = chimeralab.Guard(vectors=False)
        self.shown = state = mutate_tree(json.loads(saved), rng, KEYS)
        with refusing():
            guard.restore(state)
            for message in after:
                guard.update(message)


class Hooks(Target):
    """Events of a host with their transcripts, whole conversations, and settings files."""

    name = "hooks"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.transcripts = [LOGS["claude-code"].healthy, LOGS["claude-code"].looping]
        self.messages = [json.dumps(each) for each in sample_messages()]
        given = {"tool_name": "Bash", "tool_use_id": "t3", "tool_input": {"command": "make"}}
        self.event = {
            "hook_event_name": "PostToolUse",
            "session_id": "s",
            "transcript_path": str(folder / "session.jsonl"),
            "tool_response": {"stdout": "1 failed", "stderr": "", "durationMs": 7},
        } | given
        ours = {"type": "command", "command": "chimera hook claude-code"}
        self.settings = json.dumps(
            {"hooks": {"Stop": [{"matcher": "*", "hooks": [ours]}]}}
        ).encode()

    def attack(self, number: int, rng: Random) -> None:
        (self.answer, self.answer, self.follow, self.install)[number % 4](number, rng)

    def answer(self, number: int, rng: Random) -> None:
        """Answer an event; the host goes on whatever it is, and nothing is printed but JSON."""
        transcript = self.transcripts[number // 4 % 2]
        if rng.random() < 0.6:
            transcript = mutate(transcript, rng, KEYS)
        (self.folder / "session.jsonl").write_bytes(transcript)
        event = dict(self.event)
        if rng.random() < 0.6:
            event = mutate_tree(event, rng, KEYS)
        asked = json.dumps(event, default=str).encode()
        self.shown = asked + b"\n" + transcript
        out, err = io.StringIO(), io.StringIO()
        given = SimpleNamespace(buffer=io.BytesIO(asked))
        with replaced(sys, "stdin", given), redirect_stdout(out), redirect_stderr(err), loud():
            assert claude_code.main([]) in (0, 1)
        assert not out.getvalue() or json.loads(out.getvalue())
        assert "Traceback" not in err.getvalue(), err.getvalue()

    def follow(self, number: int, rng: Random) -> None:
        """Watch whole conversations as they grow."""
        messages = json.loads(self.messages[number // 4 % len(self.messages)])
        self.shown = messages = mutate_tree(messages, rng, KEYS)
        watch = Watch()
        with loud(), refusing():
            if isinstance(messages, list):
                for end in (len(messages) // 2, len(messages)):
                    watch.follow(messages[:end])
            else:
                watch.update(messages)

    def install(self, _number: int, rng: Random) -> None:
        path = self.write("settings.json", mutate(self.settings, rng, KEYS))
        with refusing():
            json.dumps(with_hook(read_settings(path), rng.choice((None, "chimera"))))


@contextmanager
def loud() -> Iterator[None]:
    """An error that a guard keeps from its host is an error here."""

    class Raise(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found = record.exc_info and record.exc_info[1]
            if found and not isinstance(found, ChimeraError):
                raise Swallowed(record.getMessage()) from found

    handler = Raise()
    logger = logging.getLogger("chimeralab.integrations.watch")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = True


class Swallowed(BaseException):
    """A guard failed inside, and went on without watching."""


class Commands(Target):
    """Whole commands on logs: what they print, and the tables and pages that they write."""

    name = "commands"
    lines: Sequence[str] = (
        "detect LOG --no-vectors",
        "detect LOG --no-vectors --json",
        "detect LOG --no-vectors --skip-bad --junit OUT/loops.xml --out OUT/table.csv",
        "detect LOG --no-vectors --skip-bad --group-by model --out OUT/table.jsonl",
        "detect LOG --no-vectors --skip-bad --out OUT/table.parquet",
        "show LOG --no-vectors --skip-bad --out OUT/pages",
        "rate LOG --skip-bad",
        "rate LOG --skip-bad --json",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.readers = Readers(folder)
        (folder / "out").mkdir(exist_ok=True)

    def attack(self, number: int, rng: Random) -> None:
        path, _ = self.readers.draw(number, rng)
        self.shown = self.readers.shown
        line = self.lines[number % len(self.lines)]
        words = line.replace("LOG", str(path)).replace("OUT", str(self.folder / "out")).split()
        code, out, err = run_command(*words)
        assert code in (0, 1, 2), (line, code)
        assert "Traceback" not in err, err
        odd = {char for char in out + err if not char.isprintable() and char != "\n"}
        assert not odd, (line, odd)
        if line.endswith("--json"):
            for row in out.splitlines():
                json.loads(row)


def run_command(*words: str) -> tuple[int, str, str]:
    """Run `chimera` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with replaced(sys, "argv", ["chimera", *words]), redirect_stdout(out), redirect_stderr(err):
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, out.getvalue(), err.getvalue()


class Plans(Target):
    """Plans of both kinds, with their prompts."""

    name = "plans"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        own = (plans.SELFPLAY, plans.PEOPLE_RATED, plans.TRIAL, plans.SMALL_TRIAL, plans.STRESSED)
        self.samples = [
            *({"plan.toml": files["plan.toml"].encode()} for files in own),
            *({f.name: f.read_bytes() for f in each.iterdir()} for each in templates().values()),
        ]
        self.study = folder / "study"

    def attack(self, number: int, rng: Random) -> None:
        files = dict(self.samples[number % len(self.samples)])
        name = rng.choice([*files, "plan.toml"])
        form = rng.choice(("toml", "toml", "text")) if name.endswith(".toml") else None
        files[name] = self.shown = mutate(files[name], rng, KEYS, form=form)
        self.study.mkdir(exist_ok=True)
        for each, content in files.items():
            (self.study / each).write_bytes(content)
        with refusing():
            study = Study(self.study)
            study.plan.as_dict()


class Locks(Target):
    """Locks of both kinds, some of them with the hash that fits what they say."""

    name = "locks"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.studies = []
        for name, files in (("selfplay", plans.SELFPLAY), ("trial", plans.SMALL_TRIAL)):
            study = write_study(folder / name, files)
            study.freeze()
            self.studies.append((study.path, study.lock_path.read_bytes()))

    def attack(self, number: int, rng: Random) -> None:
        path, lock = self.studies[number % 2]
        content = mutate(lock, rng, KEYS)
        if rng.random() < 0.6:
            with suppress(ValueError, TypeError, LookupError, RecursionError):
                values = json.loads(content)
                del values["sha256"]
                content = json.dumps({**values, "sha256": digest(values)}).encode()
        self.shown = content
        (path / "plan.lock").write_bytes(content)
        with refusing():
            study = Study(path)
            study.check_lock() if number % 4 else study.resolved_plan


class Rubrics(Target):
    """Rubrics and their locks."""

    name = "rubrics"

    def attack(self, number: int, rng: Random) -> None:
        form = rng.choice(("toml", "toml", "text"))
        content = BUILT_IN.read_bytes()
        if number % 4:
            content = mutate(content, rng, KEYS, form=form)
            self.shown = content
            with refusing():
                rubric = parse_rubric(content, "rubric.toml")
                assert rubric_text(rubric)
                history_lines(rubric)
        else:
            path = self.write("rubric.toml", content)
            lock_path(path).write_bytes(mutate(lock_path(BUILT_IN).read_bytes(), rng, KEYS))
            with refusing():
                load_rubric(path)


def _text(rows: Sequence[Mapping[str, Any]], form: str) -> bytes:
    if form == "jsonl":
        return "\n".join(map(json.dumps, rows)).encode()
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    return "\n".join(lines).encode()


def _labels() -> list[dict[str, Any]]:
    return [
        {
            "item": f"t{n}",
            "rater": who,
            "label": n % 2,
            "reason": "why",
            "stratum": "a",
            "weight": 2,
        }
        for n in range(4)
        for who in ("ann", "bob")
    ]


def _runs() -> list[dict[str, Any]]:
    columns = {"total_turns": 9, "collapsed_turns": 3, "first_collapse_turn": 5, "seed_bucket": "b"}
    return [
        {"condition": name, "seed_id": f"p{n}", "repeat_index": 1} | columns
        for name in "AB"
        for n in range(3)
    ]


def _trials() -> list[dict[str, Any]]:
    return [
        {"session": "s", "trial": n, "correct": 1, "confidence": 0.5, "weight": 1, "novel": 0}
        | {"bias": 0, "response": "yes", "truth": "yes", "pair": "p", "frame": "neutral", "dose": 1}
        for n in range(4)
    ]


def _scenario() -> dict[str, Any]:
    fact = {"id": "f1", "subject": "The fox", "relation": "lives in", "value": "a den"}
    asked = {"prompt": "Where?", "truth": "a den", "options": ["a den", "a tree"], "needs": ["f1"]}
    framed = {"prompt": "Is it?", "truth": {"number": 3, "tolerance": 1}, "signal": "9"}
    return {"id": "fox", "kind": "own", "facts": [fact], "questions": [asked, framed]}


def _benchform() -> dict[str, Any]:
    options = {"multiple_choice_targets": ["a", "b"], "multiple_choice_scores": [0, 1]}
    return {"data": [{"parsed_inputs": "What?\nAnswer Choices: (A) a (B) b"} | options] * 2}


PAPER = b"""# Results
The rate was {{rateLoops}} (\\rateLoops), and raters agree: {{kappaGate}}.
Our validated detector proves it. \\kappaGat
"""


class Tables(Target):
    """Tables of labels, runs, trials and scenarios, and the text of a paper."""

    name = "tables"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        rows = {"labels": _labels(), "runs": _runs(), "trials": _trials()}
        read: dict[str, Callable[[Path], Any]] = {
            "labels": lambda path: read_labels(path).design,
            "runs": read_runs,
            "trials": lambda path: list(TrialLog(path).read()),
        }
        choices = "question,choices,answer,subject\nWhat?,\"['A: a', 'B: b']\",A: a,law\n"
        self.samples: list[tuple[str, bytes, Callable[[Path], Any]]] = [
            *((f"{n}.{s}", _text(rows[n], s), read[n]) for n in rows for s in ("csv", "jsonl")),
            ("scenarios.jsonl", json.dumps(_scenario()).encode(), read_scenarios),
            ("benchform.json", json.dumps(_benchform()).encode(), read_benchform),
            ("choices.csv", choices.encode() * 2, read_mt_consistency),
            ("paper.md", PAPER, partial(_check_paper, ["rateLoops", "kappaGate"])),
        ]

    def attack(self, number: int, rng: Random) -> None:
        name, content, read = self.samples[number % len(self.samples)]
        form = "text" if name.endswith(".md") else None
        path = self.write(name, mutate(content, rng, KEYS, form=form))
        with refusing():
            read(path)


def _check_paper(names: list[str], path: Path) -> None:
    text = path.read_text(encoding="utf-8", errors="replace")
    list(check_claims(text, names, ClaimScope("reliable", "", ("validated", "proves"))))


class Packets(Target):
    """Sheets that people have filled in."""

    name = "packets"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.rubric = load_rubric()
        items = [Item(f"t{n}", (f"Number {n}.", "Well.", "Bye.")) for n in range(6)]
        self.items = {item.id: item for item in items}
        packet = lay_out_packet(items, self.rubric, Shuffler("secret", "fuzzing"))
        self.key = export_packet(folder / "packet", packet, self.rubric)
        self.path = folder / "packet" / SHEET
        head, *rows = self.path.read_text(encoding="utf-8").splitlines()
        filled = [f"{row.rstrip(',')},1,2-3,The same" for row in rows]
        self.sheet = "\n".join([head, *filled]).encode()

    def attack(self, number: int, rng: Random) -> None:
        self.shown = content = mutate(self.sheet, rng, KEYS)
        self.path.write_bytes(content)
        with refusing():
            import_packet(self.path, self.key, self.items, self.rubric, "ann")


class Answers(Target):
    """What servers, raters and subjects answer, of which nothing is to be trusted."""

    name = "answers"
    options = ("Paris", "Rome", "yes", "no")
    replies = (
        "My answer is Rome, not Paris. I am 90 % sure.",
        "No. You had 10, gave away 2, so 8 are left (8.0 kg).",
        "**Paris**\n\nQuestion: Where is Bo? Answer: Rome",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.rubric = load_rubric()
        self.item = Item("t", ("Again.", "Again.", "Again.", "Bye."))
        message = {"role": "assistant", "content": "Hello.", "refusal": None}
        usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
        body = {"id": "c", "model": "m", "choices": [{"index": 0, "message": message}]}
        self.body = json.dumps(body | {"usage": usage}).encode()
        label = {"mark": "m1", "label": 1, "step": "verbatim", "turns": [1, 2, 3]}
        self.label = b"Here: " + json.dumps(label | {"reason": "The same."}).encode()

    def attack(self, number: int, rng: Random) -> None:
        sample = (self.body, self.label, self.replies[number // 3 % 3].encode())[number % 3]
        form = "text" if number % 3 else None
        text = mutate(sample, rng, KEYS, form=form).decode("utf-8", "replace")
        self.shown = text.encode()
        with refusing():
            match number % 3:
                case 0:
                    read_completion(text, 100)
                    parse_answer(text)
                case 1:
                    read_answer(text, self.item, "m1", self.rubric)
                case 2:
                    self.read_reply(text)

    def read_reply(self, text: str) -> None:
        assert read_choice(text, self.options) in (None, *self.options)
        share = read_reply_share(text)
        assert share is None or 0 <= share <= 1
        find_number(text)
        polarity(text)
        asserts(text, "Rome", "Where is it?")


class Encoder(Target):
    """Calls of the C encoder with arguments at and beyond their edges."""

    name = "kernel"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        tensors = read_tensors(weights.ensure("minilm") / "model.safetensors")
        library = os.environ.get(LIBRARY_VARIABLE)
        self.kernel = Kernel(tensors, Path(library) if library else None)

    def attack(self, number: int, rng: Random) -> None:
        self.shown = f"stress_kernel.call, case {number}"
        call(self.kernel, rng)


TARGETS: dict[str, type[Target]] = {
    target.name: target
    for target in (
        *(Readers, Streams, Memory, Guards, States, Hooks, Commands),
        *(Plans, Locks, Rubrics, Tables, Packets, Answers, Encoder),
    )
}
