"""Ray actors that judge files or rows of a Dataset, with one encoder and one thread each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chimeralab import readers
from chimeralab.core.errors import InputError, LogError
from chimeralab.core.extras import require_extra
from chimeralab.core.records import Trajectory
from chimeralab.core.tables import Columns, arrow_table
from chimeralab.core.verdict_rows import CONVERSATION_COLUMNS, verdict_rows
from chimeralab.detection.judging import Judge
from chimeralab.detection.locked import LOCKED
from chimeralab.detection.loops import LOOPS, Loops
from chimeralab.detection.seam import Detector
from chimeralab.readers.formats import Formats
from chimeralab.readers.logs import read_conversations
from chimeralab.readers.seam import Place, Reader
from chimeralab.readers.shares import NeedsWholeLog, read_share
from chimeralab.readers.tables import guess_columns
from chimeralab.scale.cluster import ONE_THREAD, cores_of_cluster
from chimeralab.scale.parts import ResultFolder, WorkUnit
from chimeralab.version import __version__

Dataset = Any  # ray.data.Dataset; Ray is imported only to run a job

# Conversations of a dataset that are judged together: enough to fill the encoder's batches.
ROWS_AT_ONCE = 128
ERROR_COLUMNS: Columns = {"source": str, "line": int, "reason": str}


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of every worker; changing any of them invalidates existing parts."""

    detector: Detector | None = LOCKED
    loops: Loops | None = LOOPS
    speaker: str | None = None
    format: type[Reader] | None = None
    tools: Mapping[str, Any] | None = None

    @property
    def key(self) -> str:
        judges = [judge and judge.describe() for judge in (self.detector, self.loops)]
        columns = getattr(self.format, "columns", None)
        tools = sorted((self.tools or {}).items())
        name = self.format and self.format.name
        return repr((__version__, judges, self.speaker, name, columns, tools))


class Worker:
    """Judges conversations with its own encoder."""

    def __init__(self, judging: WorkerSettings) -> None:
        self._judging = judging

    @cached_property
    def _judge(self) -> Judge:
        from chimeralab.embedding.encoder import open_encoder  # noqa: PLC0415 - words alone need none

        own = self._judging
        return Judge(own.detector, own.loops, open_encoder, speaker=own.speaker, tools=own.tools)

    def rows(self, conversations: Iterable[Trajectory]) -> Iterator[Mapping[str, Any]]:
        judged = self._judge.judge(conversations)
        return (row for _, detection in judged for row in verdict_rows(detection))


class UnitWorker(Worker):
    """The actor that judges work units and writes their parts."""

    def __init__(self, judging: WorkerSettings, out: str) -> None:
        super().__init__(judging)
        self._store = ResultFolder(out)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Judge units; `is_made` is False for those whose file has to be judged whole."""
        units = [WorkUnit.of(str(text)) for text in batch["unit"]]
        return {
            "source": [unit.source for unit in units],
            "is_made": [self.make(unit) for unit in units],
        }

    def make(self, unit: WorkUnit) -> bool:
        """Make the part of a unit unless it exists; False if its file has to be judged whole."""
        # Ray retries a task whose worker died.
        if self._store.has("verdicts", unit.part):
            return True
        bad: list[LogError] = []

        def rows() -> Iterator[Mapping[str, Any]]:
            chosen = self._judging.format
            if unit.share is None:
                read = readers.read(unit.source, format=chosen, on_bad=bad.append)
            else:
                read = read_share(unit.source, unit.share, chosen, bad.append)
            yield from self.rows(read)
            # Before the part is moved into place, so that a part always has its errors.
            self._write_errors(unit, bad)

        try:
            if not self._store.write("verdicts", unit.part, CONVERSATION_COLUMNS, rows()):
                self._write_errors(unit, bad)
        except NeedsWholeLog:
            return False
        except Exception as error:  # report it, and continue with the job
            reason = f"can't be judged ({type(error).__name__}: {error})"
            self._write_errors(unit, [*bad, LogError(unit.source, reason)])
        return True

    def _write_errors(self, unit: WorkUnit, bad: Sequence[LogError]) -> None:
        rows = ({"source": e.source, "line": e.line, "reason": e.reason} for e in bad)
        if not self._store.write("errors", unit.part, ERROR_COLUMNS, rows):
            self._store.remove("errors", [unit.part])  # of an earlier run


class RowWorker(Worker):
    """The actor that judges rows of a Dataset: conversations, or the turns of one."""

    def __call__(self, batch: Any) -> Any:
        bad: list[dict[str, Any]] = []
        place = Place("dataset", "dataset")
        values = ((row, place.at(n)) for n, row in enumerate(batch.to_pylist(), 1))
        read = read_conversations(
            values, Formats(), place, lambda reason, where: bad.append({"error": reason})
        )
        unnamed = {place.stem, *(place.at(n).default_id() for n in range(1, len(batch) + 1))}
        rows = [
            {**row, "id": None if row["id"] in unnamed else row["id"], "source": None}
            for row in self.rows(read)
        ]
        return arrow_table([*rows, *bad], {**CONVERSATION_COLUMNS, "error": str})


def detect(
    dataset: Dataset,
    *,
    detector: Detector | None = LOCKED,
    loops: Loops | None = LOOPS,
    speaker: str | None = None,
    workers: int | None = None,
) -> Dataset:
    """Judge a Ray Dataset; the result has a row per conversation.

    A row is a conversation in any log format, or a turn with the columns of `chimera detect`
    (conversation_id, speaker, text, turn); turns are grouped by conversation. The columns are those
    of `--out`, and `error` with the reason for an unreadable row; a missing id is None.
    """
    require_extra("ray")
    first = next(iter(dataset.take(1)), None)
    if first is None:
        raise InputError("the dataset has no rows")
    import ray  # noqa: PLC0415 - optional

    cores = cores_of_cluster()
    shared = {
        "fn_constructor_args": (WorkerSettings(detector, loops, speaker),),
        "batch_format": "pyarrow",
        # The pool grows, since earlier steps of the dataset need cores, too.
        "compute": ray.data.ActorPoolStrategy(min_size=1, max_size=workers or cores),
        "num_cpus": min(1, cores / 2),
        "runtime_env": ONE_THREAD,
    }
    columns = guess_columns(first)
    reader = Formats().recognise(first)
    if reader is None or reader.name != "rows":
        return dataset.map_batches(RowWorker, batch_size=ROWS_AT_ONCE, **shared)
    for part, name in {"id": "conversation_id", "order": "turn"}.items():
        if part not in columns:
            raise InputError(
                f"a dataset with a row per turn needs the column {name!r}, since blocks have no "
                f"order; columns: {', '.join(first)}"
            )
    return dataset.groupby(columns["id"]).map_groups(RowWorker, **shared)
