"""Export ratings as a validation set for Scout scanners."""

from collections import Counter
from pathlib import Path

from chimeralab import readers
from chimeralab.core.errors import InputError
from chimeralab.core.parts import choose
from chimeralab.rating.labels import read_labels, write_targets


def write_validation_set(
    ratings: str | Path, logs: str | Path, out: str | Path, rater: str | None = None
) -> int:
    """Write `id,target` for every labelled sample of the logs; returns their number.

    `ratings` is a file of `chimera rate --out`, by conversation ids; Scout identifies samples by
    uuid. With several raters, name one.
    """
    table = read_labels(Path(ratings))
    if rater is None and len(table.raters) > 1:
        raise InputError(f"{ratings} has several raters; name one: {', '.join(table.raters)}")
    rater = rater or table.raters[0]
    choose(rater, table.raters, f"rater {rater!r} of {ratings}")
    labelled = dict(zip(table.items, table.labels[rater], strict=True))
    found = [
        (talk.id, talk.metadata.get("uuid"), label)
        for talk in readers.read_all([logs], format="inspect")
        if (label := labelled.get(talk.id)) is not None
    ]
    if not found:
        raise InputError(f"no sample in {logs} has a label in {ratings}; ids must be the same")
    for name, times in Counter(name for name, _, _ in found).items():
        if times > 1:
            raise InputError(
                f"{times} samples in {logs} are called {name!r}, so its label could belong to "
                "any of them; name the one log that was rated"
            )
    nameless = next((name for name, uuid, _ in found if uuid is None), None)
    if nameless is not None:
        raise InputError(
            f"sample {nameless!r} has no uuid, which Scout needs to find it; "
            "convert the log with `inspect log convert`"
        )
    write_targets(Path(out), {str(uuid): label for _, uuid, label in found})
    return len(found)
