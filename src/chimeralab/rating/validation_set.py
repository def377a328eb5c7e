"""Labels as a validation set of Scout: what a scanner should say of each transcript."""

from collections.abc import Mapping
from pathlib import Path

from chimeralab.core.tables import open_table
from chimeralab.rating.rubric import Label


def write_targets(path: Path, labels: Mapping[str, Label]) -> None:
    """Write a row `id,target` for each transcript; the target of a label of 1 is true."""
    with open_table(path, {"id": str, "target": str}) as write:
        for name, label in labels.items():
            write({"id": name, "target": "true" if label else "false"})
