"""Judging more logs than one machine can: on Ray Data, with the verdicts of one process.

`detect_files` makes one part of each file, so that a job that was killed goes on where it stopped;
`detect` judges a Ray Dataset for people with a pipeline of their own. Each worker is an actor with
one encoder and one thread.
"""

import hashlib
import os
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from glob import glob, has_magic
from logging import ERROR, getLogger
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from chimeralab import readers
from chimeralab.core.errors import InputError, LogError
from chimeralab.core.extras import need
from chimeralab.core.records import Trajectory
from chimeralab.core.tables import Columns, arrow_table, write_parquet
from chimeralab.core.verdict_rows import CONVERSATION_COLUMNS, verdict_rows
from chimeralab.detection.detectors import LOCKED, LOOPS, Detector, Loops
from chimeralab.detection.measure import Measurer, measurer_for
from chimeralab.detection.verdict import verdicts
from chimeralab.embedding.workers import BLAS_THREADS, THREADS
from chimeralab.readers.formats import Formats
from chimeralab.readers.json_values import JsonValue
from chimeralab.readers.reading import from_values
from chimeralab.readers.seam import Place, Reader
from chimeralab.readers.tables import guessed
from chimeralab.version import __version__

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

Dataset = Any  # ray.data.Dataset; Ray is imported only where a job is run

ENDINGS = tuple(
    kind + packed
    for kind in (".jsonl", ".ndjson", ".json", ".parquet")
    for packed in ("", ".gz", ".zst")
)
ERROR_COLUMNS: Columns = {"source": str, "line": int, "reason": str}
# So many conversations of a dataset are judged together: enough to fill the encoder's batches.
ROWS_AT_ONCE = 128
ONE_THREAD = {"env_vars": dict.fromkeys((*BLAS_THREADS, THREADS), "1")}


@dataclass(frozen=True)
class WorkerSettings:
    """How every worker judges; a change of any of it makes other parts."""

    detector: Detector | None = LOCKED
    loops: Loops | None = LOOPS
    speaker: str | None = None
    format: type[Reader] | None = None

    @property
    def key(self) -> str:
        judges = [judge and judge.describe() for judge in (self.detector, self.loops)]
        columns = getattr(self.format, "columns", None)
        return repr((__version__, judges, self.speaker, self.format and self.format.name, columns))


class Worker:
    """Judges conversations with an encoder of its own, which is opened once."""

    def __init__(self, judging: WorkerSettings) -> None:
        self._judging = judging

    @cached_property
    def _measurer(self) -> Measurer:
        from chimeralab.embedding.encoder import Encoder  # noqa: PLC0415 - words alone need none

        return measurer_for(self._judging.detector, Encoder, speaker=self._judging.speaker)

    def rows(self, conversations: Iterable[Trajectory]) -> Iterator[Mapping[str, Any]]:
        judging, measurer = self._judging, self._measurer
        measured = measurer.measure(conversations)
        judged = verdicts(measured, judging.detector, measurer.encoder, loops=judging.loops)
        return (row for each in judged for row in verdict_rows(each.detection))


class Input(NamedTuple):
    """A file to judge, and the names that its parts have and will have in the folder of results.

    The first half of a name tells the file, the second its state and how it is judged, so that a
    part of a file that has changed since is recognised as such.
    """

    source: str
    part: str


def _file_key(name: str) -> str:
    """The half of a part's name that tells the file it is of, finished or not."""
    return name.removeprefix(".").split("-")[1]


class ResultFolder:
    """The folder of results, on this machine or not: `verdicts` and, beside them, `errors`."""

    def __init__(self, out: str) -> None:
        self.out = out
        place = located(out)
        self._files, self._root = place.files, place.path.rstrip("/")

    def path(self, table: str, name: str = "") -> str:
        return f"{self._root}/{table}/{name}".rstrip("/")

    def make(self) -> None:
        try:
            for table in ("verdicts", "errors"):
                self._files.create_dir(self.path(table), recursive=True)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"{self.out}: the folder can't be made ({reason})") from None

    def has(self, table: str, name: str) -> bool:
        return bool(self._files.get_file_info(self.path(table, name)).is_file)

    def names(self, table: str) -> set[str]:
        from pyarrow.fs import FileSelector  # noqa: PLC0415

        chosen = FileSelector(self.path(table), allow_not_found=True)
        return {each.base_name for each in self._files.get_file_info(chosen)}

    def write(
        self, table: str, name: str, columns: Columns, rows: Iterable[Mapping[str, Any]]
    ) -> int:
        """Write a part whole or not at all; how many rows it has."""
        number = 0
        unfinished = self.path(table, f".{name}.{os.getpid()}.{uuid4().hex}")
        try:
            with (
                self._files.open_output_stream(unfinished) as stream,
                write_parquet(stream, columns) as write,
            ):
                for row in rows:
                    write(row)
                    number += 1
            if number:
                self._files.move(unfinished, self.path(table, name))
        finally:
            with suppress(OSError):
                self._files.delete_file(unfinished)
        return number

    def remove(self, table: str, names: Iterable[str]) -> None:
        for name in names:
            with suppress(FileNotFoundError):
                self._files.delete_file(self.path(table, name))

    def batches(self, table: str, names: Sequence[str], columns: list[str]) -> Iterator[Any]:
        """Some columns of some parts, a few thousand rows at a time."""
        import pyarrow.dataset as ds  # noqa: PLC0415

        if names:
            paths = [self.path(table, name) for name in names]
            parts = ds.dataset(paths, filesystem=self._files, format="parquet")
            yield from parts.to_batches(columns=columns)


class FileWorker:
    """The actor: makes the part of one file after another, unless it is there."""

    def __init__(self, judging: WorkerSettings, out: str) -> None:
        self._worker = Worker(judging)
        self._format = judging.format
        self._store = ResultFolder(out)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        inputs = [
            Input(str(s), str(p)) for s, p in zip(batch["source"], batch["part"], strict=True)
        ]
        for each in inputs:
            # A task that is run again, because its worker died, finds what was finished before.
            if not self._store.has("verdicts", each.part):
                self._judge(each)
        return {"source": [each.source for each in inputs]}

    def _judge(self, each: Input) -> None:
        bad: list[LogError] = []
        read = readers.read(each.source, format=self._format, on_bad=bad.append)

        def rows() -> Iterator[Mapping[str, Any]]:
            yield from self._worker.rows(read)
            # Before the part takes its name: a part that is there has its errors beside it.
            self._write_errors(each, bad)

        try:
            if not self._store.write("verdicts", each.part, CONVERSATION_COLUMNS, rows()):
                self._write_errors(each, bad)
        except Exception as error:  # the job goes on, and names what it left out
            told = f"can't be judged ({type(error).__name__}: {error})"
            self._write_errors(each, [*bad, LogError(each.source, told)])

    def _write_errors(self, each: Input, bad: Sequence[LogError]) -> None:
        told = ({"source": e.source, "line": e.line, "reason": e.reason} for e in bad)
        if not self._store.write("errors", each.part, ERROR_COLUMNS, told):
            self._store.remove("errors", [each.part])  # of an earlier run, which fared worse


class JobTotals(NamedTuple):
    """What a job has made of its files, those of earlier runs included."""

    files: int
    judged_before: int
    conversations: int
    looping: int
    collapsed: int
    errors: int
    first_errors: tuple[str, ...]


MOST_NAMED = 5


def detect_files(
    sources: Sequence[str],
    out: str,
    judging: WorkerSettings = WorkerSettings(),  # noqa: B008 - frozen
    *,
    address: str | None = None,
    workers: int | None = None,
) -> JobTotals:
    """Judge every file of the sources into a part of its own below `out`.

    Parts that are there are not made again. What can't be read is named in the table of errors.
    """
    need("ray")
    inputs = [_input(each, judging) for each in find_files(sources)]
    store = ResultFolder(out if "://" in out else str(Path(out).absolute()))
    store.make()
    there = store.names("verdicts")
    missing = [each for each in inputs if each.part not in there]
    if missing:
        _run(missing, store.out, judging, address, workers)
        current = {_file_key(each.part): each.part for each in inputs}
        for table in ("verdicts", "errors"):
            # What killed workers have left, and parts of files as they were before.
            names = store.names(table)
            store.remove(table, [n for n in names if current.get(_file_key(n), n) != n])
    return _totals(store, inputs, len(inputs) - len(missing))


def _run(
    missing: Sequence[Input],
    out: str,
    judging: WorkerSettings,
    address: str | None,
    workers: int | None,
) -> None:
    import ray  # noqa: PLC0415 - only where it is asked for

    with _cluster(address):
        # Each file is a block, so that a worker which dies takes one file with it.
        units = ray.data.from_items(
            [each._asdict() for each in missing], override_num_blocks=len(missing)
        )
        done = units.map_batches(
            FileWorker,
            fn_constructor_args=(judging, out),
            batch_size=1,
            **_file_pool(workers, len(missing)),
        )
        try:
            for _ in done.iter_batches(batch_size=None):
                pass
        except ray.exceptions.RayError as error:
            reason = str(error).strip().rpartition("\n")[2]
            raise InputError(
                f"the job stopped ({reason}); run it again, and it goes on where it was"
            ) from None


def _file_pool(workers: int | None, files: int) -> dict[str, Any]:
    """The arguments for a pool of actors with one core each: all of the cluster's, or as asked."""
    import ray  # noqa: PLC0415

    # One file in flight each, lest one worker has a queue while another has nothing left to do.
    pool = ray.data.ActorPoolStrategy(
        size=min(workers or _cores_of_cluster(), files), max_tasks_in_flight_per_actor=1
    )
    return {"compute": pool, "num_cpus": 1, "runtime_env": ONE_THREAD}


def _row_pool(workers: int | None) -> dict[str, Any]:
    """The same for a dataset, which has steps before ours that need cores: the pool grows."""
    import ray  # noqa: PLC0415

    cores = _cores_of_cluster()
    pool = ray.data.ActorPoolStrategy(min_size=1, max_size=workers or cores)
    return {"compute": pool, "num_cpus": min(1, cores / 2), "runtime_env": ONE_THREAD}


def _cores_of_cluster() -> int:
    import ray  # noqa: PLC0415

    return max(1, int(ray.cluster_resources().get("CPU", 1)))


@contextmanager
def _cluster(address: str | None) -> Iterator[None]:
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


def _totals(store: ResultFolder, inputs: Sequence[Input], before: int) -> JobTotals:
    """Counted in the parts themselves: what is there is what was done."""
    parts, damaged = (store.names(table) for table in ("verdicts", "errors"))
    conversations = looping = collapsed = errors = 0
    mine = [each.part for each in inputs if each.part in parts]
    for batch in store.batches("verdicts", mine, ["looping", "collapsed_turns"]):
        conversations += len(batch)
        looping += sum(1 for each in batch["looping"].to_pylist() if each)
        collapsed += sum(1 for each in batch["collapsed_turns"].to_pylist() if each)
    named: list[str] = []
    hurt = [each.part for each in inputs if each.part in damaged]
    for batch in store.batches("errors", hurt, list(ERROR_COLUMNS)):
        errors += len(batch)
        wanted = batch.slice(0, MOST_NAMED - len(named)).to_pylist()
        named += [str(LogError(e["source"], e["reason"], e["line"])) for e in wanted]
    return JobTotals(len(inputs), before, conversations, looping, collapsed, errors, tuple(named))


class Located(NamedTuple):
    """A path in the file system it belongs to."""

    files: "FileSystem"
    path: str


def located(path: str) -> Located:
    """Where a path or an address such as s3://bucket/logs leads."""
    need("parquet")
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow.fs import FileSystem, LocalFileSystem  # noqa: PLC0415

    if "://" not in path:
        return Located(LocalFileSystem(), str(Path(path).absolute()))
    try:
        return Located(*FileSystem.from_uri(path))
    except (pa.ArrowException, ImportError, ValueError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{path}: this address can't be used ({reason})") from None


def find_files(sources: Iterable[str]) -> list[str]:
    """The JSONL and Parquet files at the sources, each once; in a folder, at any depth.

    Unlike `readers.find_logs` this opens none of them: a broken one is to be named by the job.
    """
    found: dict[str, None] = {}
    for source in sources:
        files = list(_files_at(source))
        if not files:
            endings = ", ".join(ENDINGS[::3])
            raise InputError(f"{source}: there is no file that ends in {endings} (or .gz, .zst)")
        found |= dict.fromkeys(files)
    return list(found)


def _files_at(source: str) -> Iterator[str]:
    from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415

    if "://" not in source and has_magic(source) and not Path(source).exists():
        for each in sorted(glob(source, recursive=True)):  # noqa: PTH207 - may be absolute
            yield from _files_at(each)
        return
    files, path = located(source)
    try:
        kind = files.get_file_info(path).type
        if kind == FileType.NotFound:
            raise InputError(f"{source}: no such file or folder")
        if kind == FileType.File:
            yield source if "://" in source else path
            return
        inside = files.get_file_info(FileSelector(path, recursive=True))
    except OSError as error:
        raise InputError(f"{source}: can't be read ({error.strerror or error})") from None
    start = source.rstrip("/") if "://" in source else path
    for each in sorted(inside, key=lambda info: info.path):
        below = each.path[len(path.rstrip("/")) :]
        hidden = any(name.startswith((".", "_")) for name in below.split("/"))
        if each.type == FileType.File and not hidden and below.lower().endswith(ENDINGS):
            yield start + below


def _input(source: str, judging: WorkerSettings) -> Input:
    files, path = located(source)
    state = files.get_file_info(path)
    keys = source, repr((state.size, state.mtime_ns, judging.key))
    return Input(source, "part-" + "-".join(map(_short_hash, keys)) + ".parquet")


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def detect(
    dataset: Dataset,
    *,
    detector: Detector | None = LOCKED,
    loops: Loops | None = LOOPS,
    speaker: str | None = None,
    workers: int | None = None,
) -> Dataset:
    """The verdicts on a Ray Dataset, as one: a row for each conversation.

    A row of the dataset is a conversation, in any format that logs may have; or it is a turn, with
    the columns of `chimera detect` (conversation_id, speaker, text, turn), and the turns of a
    conversation are brought together wherever they are. The columns are those of `--out`, and
    `error`, which says of a row that can't be read why; a conversation without an id has None.
    """
    need("ray")
    first = next(iter(dataset.take(1)), None)
    if first is None:
        raise InputError("the dataset has no rows")
    judging = WorkerSettings(detector, loops, speaker)
    shared = {"fn_constructor_args": (judging,), "batch_format": "pyarrow", **_row_pool(workers)}
    columns = guessed(first)
    reader = next((each for each in Formats().readers if each.matches(first)), None)
    if reader is None or reader.name != "rows":
        return dataset.map_batches(RowWorker, batch_size=ROWS_AT_ONCE, **shared)
    for part, name in {"id": "conversation_id", "order": "turn"}.items():
        if part not in columns:
            raise InputError(
                f"a dataset with a row for each turn needs the column {name!r}: blocks have no "
                f"order; its columns: {', '.join(first)}"
            )
    return dataset.groupby(columns["id"]).map_groups(RowWorker, **shared)


class RowWorker:
    """The actor that judges rows of a dataset: whole conversations, or the turns of one."""

    def __init__(self, judging: WorkerSettings) -> None:
        self._worker = Worker(judging)

    def __call__(self, batch: Any) -> Any:
        bad: list[dict[str, Any]] = []
        place = Place("dataset", "dataset")
        values = (JsonValue(row, n) for n, row in enumerate(batch.to_pylist(), 1))
        read = from_values(
            values, Formats(), place, lambda reason, where: bad.append({"error": reason})
        )
        unnamed = {place.at(n).default_id() for n in range(1, len(batch) + 1)}
        rows = [
            {**row, "id": None if row["id"] in unnamed else row["id"], "source": None}
            for row in self._worker.rows(read)
        ]
        return arrow_table([*rows, *bad], {**CONVERSATION_COLUMNS, "error": str})
