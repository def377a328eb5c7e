"""Software and models of a study: which versions ran it, and which wrote the report."""

import platform
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from chimeralab.embedding.encoder import MODEL, model_hash
from chimeralab.report.table import Dash, Shown, Table, table
from chimeralab.study import Study
from chimeralab.study.plan import Subject
from chimeralab.version import __version__

PACKAGES = (
    "numpy",
    "scipy",
    "openvino",
    "openvino-genai",
    "altair",
    "vl-convert-python",
)


def software(study: Study, precisions: Iterable[str | None] = ()) -> Table:
    """Versions of everything that had a hand in the numbers, and how exact its vectors are."""
    rows = list(_software(study, sorted({each for each in precisions if each})))
    raw = [{"what": what, "version": shown} for what, shown in rows]
    return table("software", ("what", "version"), rows, raw, words=(0, 1))


def _software(study: Study, precisions: list[str]) -> Iterator[list[str]]:
    with study.archive() as archive:
        ran = [row["version"] for row in archive.rows("SELECT DISTINCT version FROM runs")]
    yield ["chimera-lab, runs", ", ".join(ran)]
    yield ["chimera-lab, this report", __version__]
    if study.plan.detector.settings.needs.lags:
        yield ["encoder", f"{MODEL}, sha256 {model_hash()}"]
    if precisions:
        yield ["vectors", f"in {', '.join(precisions)}"]
    yield ["Python", platform.python_version()]
    for package in PACKAGES:
        try:
            yield [package, version(package)]
        except PackageNotFoundError:
            continue


def models(study: Study) -> Table:
    """The models of the plan: what they are, as what they were declared, what they answered as."""
    with study.archive() as archive:
        answered = {row["model"]: row for row in archive.rows(_ANSWERED)}
    subjects = study.plan.models.items()
    raw = [_model(name, subject, answered.get(name, {})) for name, subject in subjects]
    headings = ("name", "is", "declared revision", "answered as", "answers")
    return table("models", headings, [_cells(row) for row in raw], raw, words=(0, 1, 2, 3))


_ANSWERED = """
    SELECT model, group_concat(DISTINCT reported_model) AS names, count(*) AS n
    FROM attempts WHERE outcome = 'answered' GROUP BY model
"""


def _model(name: str, subject: Subject, answered: Mapping[str, Any]) -> dict[str, Any]:
    settings = subject.part.settings
    what = getattr(settings, "model", None) or getattr(settings, "weights", None)
    return {
        "model": name,
        "is": f"{subject.part.use}: {what}" if what else subject.part.use,
        "declared_revision": subject.revision,
        "answered_as": answered.get("names"),
        "answers": answered.get("n", 0),
    }


def _cells(row: Mapping[str, Any]) -> list[Shown]:
    return [
        row["model"],
        row["is"],
        row["declared_revision"] or Dash("not declared"),
        row["answered_as"] or Dash("the model gives no name"),
        f"{row['answers']:,}",
    ]
