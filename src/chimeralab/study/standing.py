"""The label that stands for a conversation: what was settled, or else what all its raters said."""

from pathlib import Path

from chimeralab.core.errors import InputError
from chimeralab.rating.plan import GateTable
from chimeralab.rating.rubric import Label
from chimeralab.rating.validation_set import write_targets
from chimeralab.study.folder import Study
from chimeralab.study.raters import stored_raters, stored_ratings
from chimeralab.study.samples import sealed_items
from chimeralab.study.store import Archive


def settled_labels(archive: Archive) -> dict[str, Label | None]:
    """What a third person settled, by conversation; a store of an early version has none."""
    known = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'adjudications'"
    if not archive.value(known):
        return {}
    rows = archive.rows("SELECT trajectory, label FROM adjudications ORDER BY at")
    return {row["trajectory"]: row["label"] for row in rows}


def standing_labels(study: Study) -> dict[str, Label]:
    """The labels that can be relied on, without those on which a gate may still be decided.

    A declared gate names the raters; otherwise all who rated count. Where they differ and nobody
    has settled it, and where one of them gave no label, there is none.
    """
    gate: GateTable = study.plan.extras["gate"]
    raters = gate.raters if gate.declared else stored_raters(study)
    given = [stored_ratings(study, name) for name in raters]
    with study.archive() as archive:
        found = settled_labels(archive)
    sealed = sealed_items(study)
    standing: dict[str, Label] = {}
    for item in dict.fromkeys(item for rated in given for item in rated):
        said = {rated[item].label for rated in given if item in rated}
        label = found[item] if item in found else said.pop() if len(said) == 1 else None
        if label is not None and item not in sealed:
            standing[item] = label
    return standing


def write_validation_set(study: Study, folder: Path) -> Path:
    """Write the standing labels as a validation set of Scout, by the ids of the conversations."""
    labels = standing_labels(study)
    if not labels:
        raise InputError(
            f"no label of {study.path} stands yet: raters have to agree, or a third person to "
            "settle what they differ on, and a gate has to be decided"
        )
    path = folder / "validation.csv"
    write_targets(path, labels)
    return path
