"""One job: judge every unit of the sources into its own part, once."""

import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.extras import require_extra
from chimeralab.readers.shares import count_lines
from chimeralab.scale.cluster import ONE_THREAD, cluster, cores_of_cluster
from chimeralab.scale.parts import ResultFolder, WorkUnit, file_key, find_files, plan_units
from chimeralab.scale.workers import ERROR_COLUMNS, UnitWorker, WorkerSettings

MAX_NAMED = 5


class JobTotals(NamedTuple):
    """Counts over the results of a job, including earlier runs."""

    files: int
    judged_before: int
    conversations: int
    looping: int
    collapsed: int
    errors: int
    first_errors: tuple[str, ...]


def detect_files(
    sources: Sequence[str],
    out: str,
    judging: WorkerSettings = WorkerSettings(),  # noqa: B008 - frozen
    *,
    address: str | None = None,
    workers: int | None = None,
) -> JobTotals:
    """Judge every file of the sources into parts below `out`, one per file or share.

    Existing parts are kept. Unreadable input is listed in the table of errors.
    """
    require_extra("ray")
    files = [plan_units(each, judging.key, judging.format) for each in find_files(sources)]
    store = ResultFolder(out if "://" in out else str(Path(out).absolute()))
    store.make()
    there = store.names("verdicts")
    # A file that was judged whole before stays whole.
    units = [
        unit
        for whole, shares in files
        for unit in (shares if shares and whole.part not in there else [whole])
    ]
    missing = [unit for unit in units if unit.part not in there]
    if missing:
        with cluster(address):
            unmade = _make_parts(_with_lines(units, missing), store.out, judging, workers)
            if unmade:
                wholes = [whole for whole, _ in files if whole.source in unmade]
                _make_parts(wholes, store.out, judging, workers)
                units = [unit for unit in units if unit.source not in unmade] + wholes
        # Remove leftovers of killed workers, and parts of files that have changed.
        current = defaultdict(set)
        for unit in units:
            current[file_key(unit.part)].add(unit.part)
        for table in ("verdicts", "errors"):
            names = store.names(table)
            store.remove(table, [n for n in names if n not in current.get(file_key(n), {n})])
    unfinished = {unit.source for unit in missing}
    return _totals(store, units, len(files), len(files) - len(unfinished))


def _with_lines(units: Sequence[WorkUnit], missing: Sequence[WorkUnit]) -> list[WorkUnit]:
    """Return the missing units, with the first line numbers of byte ranges.

    Lines are counted by all workers, without parsing.
    """
    import ray  # noqa: PLC0415 - optional

    shares = ((unit.source, unit.share) for unit in missing if unit.share)
    uncounted = {source for source, share in shares if share.start > 0 and share.first == 1}
    files = defaultdict(list)
    for unit in units:
        if unit.source in uncounted:
            files[unit.source].append(unit)
    count = ray.remote(count_lines)
    counts = [[count.remote(u.source, u.share) for u in each[:-1]] for each in files.values()]
    numbered = {}
    for each, lines in zip(files.values(), counts, strict=True):
        for unit, first in zip(each, accumulate(ray.get(lines), initial=1), strict=True):
            share = unit.share and unit.share._replace(first=first)
            numbered[unit.part] = unit._replace(share=share)
    return [numbered.get(unit.part, unit) for unit in missing]


def _make_parts(
    units: Sequence[WorkUnit], out: str, judging: WorkerSettings, workers: int | None
) -> set[str]:
    """Make the parts of the units; returns the sources that can only be judged whole."""
    import ray  # noqa: PLC0415

    # One block per unit, so that a dying worker loses one unit.
    blocks = ray.data.from_items(
        [{"unit": json.dumps(unit)} for unit in units], override_num_blocks=len(units)
    )
    # One unit in flight each, so that no worker queues units while another is idle.
    size = min(workers or cores_of_cluster(), len(units))
    done = blocks.map_batches(
        UnitWorker,
        fn_constructor_args=(judging, out),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=1),
        num_cpus=1,
        runtime_env=ONE_THREAD,
    )
    try:
        return {str(row["source"]) for row in done.iter_rows() if not row["is_made"]}
    except ray.exceptions.RayError as error:
        reason = str(error).strip().rpartition("\n")[2]
        raise InputError(f"the job stopped ({reason}); run it again to resume") from None


def _totals(store: ResultFolder, units: Sequence[WorkUnit], files: int, before: int) -> JobTotals:
    """Count results in the parts themselves."""
    parts, damaged = (store.names(table) for table in ("verdicts", "errors"))
    conversations = looping = collapsed = errors = 0
    mine = [each.part for each in units if each.part in parts]
    for batch in store.batches("verdicts", mine, ["looping", "collapsed_turns"]):
        conversations += len(batch)
        looping += sum(1 for each in batch["looping"].to_pylist() if each)
        collapsed += sum(1 for each in batch["collapsed_turns"].to_pylist() if each)
    named: list[str] = []
    hurt = [each.part for each in units if each.part in damaged]
    for batch in store.batches("errors", hurt, list(ERROR_COLUMNS)):
        errors += len(batch)
        wanted = batch.slice(0, MAX_NAMED - len(named)).to_pylist()
        named += [str(LogError(e["source"], e["reason"], e["line"])) for e in wanted]
    return JobTotals(files, before, conversations, looping, collapsed, errors, tuple(named))
