"""Software and models of a study: which versions ran it, and which wrote the report."""

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from chimeralab.embedding.encoder import MODEL, model_hash
from chimeralab.report.study_material import Material
from chimeralab.report.table import Dash, Shown, Table, table
from chimeralab.study.plan import Subject
from chimeralab.version import __version__

PACKAGES = (
    "numpy",
    "scipy",
    "statsmodels",
    "openvino",
    "openvino-genai",
    "altair",
    "vl-convert-python",
)


def software(material: Material) -> Table:
    """Versions of everything that had a hand in the numbers."""
    rows = list(_software(material))
    raw = [{"what": what, "version": shown} for what, shown in rows]
    return table("software", ("what", "version"), rows, raw, words=(0, 1))


def _software(material: Material) -> Iterator[list[str]]:
    with material.study.archive() as archive:
        ran = [row["version"] for row in archive.rows("SELECT DISTINCT version FROM runs")]
    yield ["chimera-lab, runs", ", ".join(ran)]
    yield ["chimera-lab, this report", __version__]
    yield ["encoder", f"{MODEL}, sha256 {model_hash()}"]
    precisions = sorted({found.encoder["precision"] for found in material.detections})
    if precisions:
        yield ["vectors", f"in {', '.join(precisions)}"]
    yield ["Python", platform.python_version()]
    for package in PACKAGES:
        try:
            yield [package, version(package)]
        except PackageNotFoundError:
            continue


def models(material: Material) -> Table:
    """The models of the plan: what they are, as what they were declared, what they answered as."""
    with material.study.archive() as archive:
        answered = list(
            archive.rows(
                "SELECT model, group_concat(DISTINCT reported_model) AS names, count(*) AS n "
                "FROM attempts WHERE outcome = 'answered' GROUP BY model"
            )
        )
    by_model = {row["model"]: row for row in answered}
    rows = [
        _model(name, subject, by_model.get(name, {}))
        for name, subject in material.study.plan.models.items()
    ]
    headings = ("name", "is", "declared revision", "answered as", "answers")
    keys = ("model", "is", "declared_revision", "answered_as", "answers")
    raw = [
        {key: None if isinstance(cell, Dash) else cell for key, cell in zip(keys, row, strict=True)}
        for row in rows
    ]
    return table("models", headings, rows, raw, words=(0, 1, 2, 3))


def _model(name: str, subject: Subject, answered: dict[str, Any]) -> list[Shown]:
    settings = subject.part.settings
    what = getattr(settings, "model", None) or getattr(settings, "weights", None)
    return [
        name,
        f"{subject.part.use}: {what}" if what else subject.part.use,
        subject.revision or Dash("not declared"),
        answered.get("names") or Dash("the model gives no name"),
        f"{answered.get('n', 0):,}",
    ]
