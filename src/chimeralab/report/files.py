"""The files of a report: the page, every figure as SVG and PNG, every table as CSV."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.files import replacing
from chimeralab.core.tables import open_table
from chimeralab.report.selfplay.material import gather
from chimeralab.report.selfplay.page import Report, make_report
from chimeralab.report.table import Table
from chimeralab.report.trial.material import gather_trial
from chimeralab.report.trial.page import make_trial_report
from chimeralab.study import Study

PAGE = "index.html"
FIGURES, TABLES = "figures", "tables"


class Written(NamedTuple):
    """Where a report is, and all of its files."""

    page: Path
    files: tuple[Path, ...]
    glance: tuple[str, ...]


def write_report(study: Study, tell: Callable[[str], None] = lambda doing: None) -> Written:
    """Make the report of a study and write it, the page last; the study's data stay as they are."""
    report = _made(study, tell)
    folder = study.path / "report"
    files = tuple(_write(folder, report))
    for path in _stale(folder, set(files)):
        path.unlink()
    return Written(folder / PAGE, files, report.glance)


def _made(study: Study, tell: Callable[[str], None]) -> Report:
    if study.plan.study.kind == "trial":
        trial = gather_trial(study, tell)
        tell("drawing")
        return make_trial_report(trial)
    material = gather(study, tell)
    tell("drawing")
    return make_report(material)


def _write(folder: Path, report: Report) -> Iterator[Path]:
    _make_folders(folder)
    for figure in report.figures:
        yield _put(folder / FIGURES / f"{figure.name}.svg", str(figure.wide).encode())
        yield _put(folder / FIGURES / f"{figure.name}.png", figure.png)
    for table in report.tables:
        yield _put_table(folder / TABLES / f"{table.name}.csv", table)
    yield _put(folder / PAGE, report.page.encode())


def _make_folders(folder: Path) -> None:
    try:
        for name in (FIGURES, TABLES):
            (folder / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} can't be made ({error.strerror})") from error


def _put(path: Path, content: bytes) -> Path:
    with replacing(path) as part:
        part.write_bytes(content)
    return path


def _put_table(path: Path, table: Table) -> Path:
    columns = dict.fromkeys((key for row in table.raw for key in row), str)
    with open_table(path, columns) as write:
        for row in table.raw:
            write(row)
    return path


def _stale(folder: Path, written: set[Path]) -> Iterator[Path]:
    """Figures and tables that an earlier report had and this one has not."""
    for name in (FIGURES, TABLES):
        for path in (folder / name).iterdir():
            ours = path.suffix in (".svg", ".png", ".csv")
            if ours and path not in written:
                yield path
