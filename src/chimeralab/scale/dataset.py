"""Judging a Ray Dataset, for people with a pipeline of their own."""

from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.core.extras import need
from chimeralab.detection.locked import LOCKED
from chimeralab.detection.loops import LOOPS, Loops
from chimeralab.detection.seam import Detector
from chimeralab.readers.formats import Formats
from chimeralab.readers.layouts import guessed
from chimeralab.scale.cluster import row_pool
from chimeralab.scale.workers import RowWorker, WorkerSettings

Dataset = Any  # ray.data.Dataset; Ray is imported only where a job is run

# So many conversations of a dataset are judged together: enough to fill the encoder's batches.
ROWS_AT_ONCE = 128


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
    shared = {"fn_constructor_args": (judging,), "batch_format": "pyarrow", **row_pool(workers)}
    columns = guessed(first)
    reader = Formats().recognise(first)
    if reader is None or reader.name != "rows":
        return dataset.map_batches(RowWorker, batch_size=ROWS_AT_ONCE, **shared)
    for part, name in {"id": "conversation_id", "order": "turn"}.items():
        if part not in columns:
            raise InputError(
                f"a dataset with a row for each turn needs the column {name!r}: blocks have no "
                f"order; its columns: {', '.join(first)}"
            )
    return dataset.groupby(columns["id"]).map_groups(RowWorker, **shared)
