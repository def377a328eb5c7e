"""The files of a report: the page, every figure as SVG and PNG, every table as CSV, the numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from chimeralab.core.files import make_folder, replacing
from chimeralab.core.tables import open_table
from chimeralab.report.frame import Report
from chimeralab.report.named_numbers import write_numbers
from chimeralab.study import Study
from chimeralab.study.estimates import Estimates

PAGE = "index.html"
FIGURES, TABLES = "figures", "tables"


class Written(NamedTuple):
    """Where a report is, and all of its files."""

    page: Path
    files: tuple[Path, ...]
    glance: tuple[str, ...]


def write_report(
    study: Study,
    tell: Callable[[str], None] = lambda doing: None,
    folder: Path | None = None,
    estimates: Estimates | None = None,
) -> Written:
    """Make the report of a study and write it, the page last; the study's data stay as they are.

    Without a folder it goes into that of the study. Estimates that are stored are read, others are
    stored.
    """
    known = estimates or Estimates(study, renew=True)
    report: Report = study.plan.kind.report(study, tell, known)
    folder = folder or study.path / "report"
    # All pictures are made before the first file is written: a report is whole or not there.
    pictures = {
        folder / FIGURES / f"{figure.name}.{suffix}": content
        for figure in report.figures
        for suffix, content in (("svg", str(figure.wide).encode()), ("png", figure.png))
    }
    for name in (FIGURES, TABLES):
        make_folder(folder / name)
    sheets = {folder / TABLES / f"{table.name}.csv": table for table in report.tables}
    for path, table in sheets.items():
        columns = dict.fromkeys((key for row in table.raw for key in row), str)
        with open_table(path, columns) as write:
            for row in table.raw:
                write(row)
    numbers = write_numbers(folder, report.numbers)
    for path, content in {**pictures, folder / PAGE: report.page.encode()}.items():
        with replacing(path) as part:
            part.write_bytes(content)
    files = (*pictures, *sheets, *numbers, folder / PAGE)
    # Figures and tables that an earlier report had and this one has not.
    for name in (FIGURES, TABLES):
        for path in (folder / name).iterdir():
            if path.suffix in (".svg", ".png", ".csv") and path not in files:
                path.unlink()
    return Written(folder / PAGE, files, report.glance)
