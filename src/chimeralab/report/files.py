"""The report of a study: the frame that every kind of study fills in, and its files.

The files are the page, every figure as SVG and PNG, every table as CSV, and the named numbers.
"""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from markupsafe import Markup

from chimeralab.core.errors import InputError
from chimeralab.core.files import atomic_file, make_folder
from chimeralab.core.numbers import plural
from chimeralab.core.tables import open_table
from chimeralab.embedding.encoder import MODEL, model_hash
from chimeralab.report.charts.canvas import Figure
from chimeralab.report.charts.flow import Flow, flow_figure, flow_table
from chimeralab.report.named_numbers import NamedNumber, write_numbers
from chimeralab.report.page import (
    Block,
    Fact,
    Section,
    TextBlock,
    bullets,
    definitions,
    details,
    find_blocks,
    render,
)
from chimeralab.report.table import Dash, Table, make_table
from chimeralab.study import Lock, LockError, Study
from chimeralab.study.estimates import Estimates
from chimeralab.study.steps import record_step
from chimeralab.study.subjects import load_revisions
from chimeralab.study.verify import Verification
from chimeralab.version import __version__

PAGE = "index.html"
FIGURES, TABLES = "figures", "tables"
MAX_LINES, MAX_CHARACTERS = 10, 300
PACKAGES = (
    "numpy",
    "scipy",
    "openvino",
    "openvino-genai",
    "altair",
    "vl-convert-python",
)


class Frame(NamedTuple):
    """The parts of a report that its kind of study fills in.

    The `headline` is the first sentence of the `glance` unless there is another; `verdicts` and
    `remarks` follow it, and the sections in `first` precede all others. `sheets` and `numbers` are
    written as files only.
    """

    kind: str
    study: Study
    lock: Lock | None
    verification: Verification
    glance: tuple[str, ...]
    remarks: Sequence[str]
    facts: Sequence[Fact]
    design: Sequence[Block]
    flow: Flow
    flow_note: str
    results: Sequence[Section]
    methods: TextBlock
    software: Table
    not_shown: Sequence[str]
    verdicts: Sequence[Block] = ()
    headline: str = ""
    first: Sequence[Section] = ()
    sheets: Sequence[Table] = ()
    numbers: Mapping[str, NamedNumber] = MappingProxyType({})


class Report(NamedTuple):
    """A report, and its `files` once it is written."""

    html: str
    figures: Sequence[Figure]
    tables: Sequence[Table]
    glance: tuple[str, ...]
    numbers: Mapping[str, NamedNumber]
    files: tuple[Path, ...] = ()

    @property
    def page(self) -> Path:
        """The file that holds the page."""
        return self.files[-1]


def make_page(frame: Frame) -> Report:
    """Render the page of a report, and collect its figures and tables."""
    head = [*frame.facts, *_verification_facts(frame.verification)]
    flow = flow_figure(frame.flow, frame.flow_note)
    as_table = details("The same as a table", [flow_table(frame.flow)])
    models = models_table(frame.study)
    revisions = [row["revision"] for row in models.raw if row["revision"]]
    versions = [models, TextBlock("revisions_note", lines=revisions), frame.software]
    sections = [
        *frame.first,
        Section("asked", "What was asked and locked", [definitions(head), *frame.design]),
        Section("flow", "From plan to analysis", [flow, as_table]),
        *frame.results,
        Section("methods", "Methods, ready to paste", [frame.methods]),
        Section("versions", "Software and models", versions),
        Section(
            "not-shown", "What is not shown", [bullets(frame.not_shown), TextBlock("files_note")]
        ),
    ]
    html = render(
        "report.html",
        kind=frame.kind,
        plan=frame.study.plan,
        locked=frame.lock is not None,
        findings=len(frame.verification.findings),
        deviations=len(frame.verification.deviations),
        headline=frame.headline or frame.glance[0],
        glance=frame.verdicts,
        remarks=[remark for remark in frame.remarks if remark],
        sections=sections,
        first=len(frame.first),
    )
    figures, tables = list(find_blocks(Figure, sections)), list(find_blocks(Table, sections))
    return Report(html, figures, [*tables, *frame.sheets], frame.glance, frame.numbers)


def _verification_facts(verification: Verification) -> Iterator[Fact]:
    lists: dict[str, Sequence[object]] = {
        "Findings": verification.findings,
        "Deviations": verification.deviations,
        "Notes": verification.notes,
    }
    for term, lines in lists.items():
        yield term, _list_some(lines) if lines else "none in what was checked"
    yield "Checked", "; ".join(verification.checked) or "nothing"
    if verification.unchecked:
        yield "Not checked", _list_some(verification.unchecked)
    if verification.root:
        records = plural(verification.records, "record")
        yield "Root hash", f"{verification.root}, over {records}"


def _list_some(lines: Sequence[object]) -> TextBlock:
    """List the first lines, truncated, and count the rest."""
    shown = [
        line if len(line) <= MAX_CHARACTERS else line[: MAX_CHARACTERS - 1] + "…"
        for line in map(str, lines[:MAX_LINES])
    ]
    if len(lines) > len(shown):
        more = Markup("and {:,} more; <code>chimera verify</code> lists them all")
        shown.append(more.format(len(lines) - len(shown)))
    return bullets(shown, "plain")


def read_lock(study: Study) -> Lock | None:
    """Read the lock of a study; None if there is none or it is damaged."""
    try:
        return study.lock
    except LockError:
        return None  # the verification reports what is wrong


def require_run(study: Study) -> None:
    """Raise an error for a study that has no records yet."""
    if not study.store_path.exists():
        raise InputError(
            f"{study.path} has not been run yet, so there is nothing to report; "
            f"start with `chimera run {study.path}`"
        )


def common_facts(study: Study, lock: Lock | None, design: str, group: str) -> Iterator[Fact]:
    """The lock, the design and the order of the runs."""
    if lock is None:
        yield "Locked", "no: everything here is exploratory"
    else:
        yield "Locked", f"before the first run, SHA-256 {lock.sha256}"
    yield "Design", design
    run = study.plan.run
    order = f"random, {group}s interleaved" if run.interleave else f"one {group} after another"
    yield "Order", f"{order}, seed {run.seed}"


def software_table(study: Study, precisions: Iterable[str | None] = ()) -> Table:
    """List the versions of all software behind the numbers, and the precision of the vectors."""
    with study.archive() as archive:
        ran = [row["version"] for row in archive.rows("SELECT DISTINCT version FROM runs")]
    rows = [
        ["chimera-lab, runs", ", ".join(ran)],
        ["chimera-lab, this report", __version__],
    ]
    if study.plan.detector.settings.needs.lags:
        rows.append(["encoder", f"{MODEL}, sha256 {model_hash()}"])
    known = sorted({each for each in precisions if each})
    if known:
        rows.append(["vectors", f"in {', '.join(known)}"])
    rows.append(["Python", platform.python_version()])
    for package in PACKAGES:
        try:
            rows.append([package, version(package)])
        except PackageNotFoundError:
            continue
    raw = [{"what": what, "version": shown} for what, shown in rows]
    return make_table("software", ("what", "version"), rows, raw, words=(0, 1))


def models_table(study: Study) -> Table:
    """List the models of the plan with their revisions and the names they reported."""
    with study.archive() as archive:
        revisions = load_revisions(study.plan, archive)
        answered = {row["model"]: row for row in archive.rows(_ANSWERED)}
    raw: list[dict[str, Any]] = []
    for name, subject in study.plan.models.items():
        settings, found = subject.part.settings, answered.get(name, {})
        what = getattr(settings, "model", None) or getattr(settings, "weights", None)
        raw.append(
            {
                "model": name,
                "is": f"{subject.part.use}: {what}" if what else subject.part.use,
                "declared_revision": subject.revision,
                "told_revision": revisions[name].told or None,
                "revision": revisions[name].sentence or None,
                "answered_as": found.get("names"),
                "answers": found.get("n", 0),
            }
        )
    rows = [
        [
            row["model"],
            row["is"],
            row["declared_revision"] or Dash("not declared"),
            row["told_revision"] or Dash("the model does not tell its revision"),
            row["answered_as"] or Dash("the model gives no name"),
            f"{row['answers']:,}",
        ]
        for row in raw
    ]
    headings = ("name", "is", "declared revision", "told by the model", "answered as", "answers")
    return make_table("models", headings, rows, raw, words=(0, 1, 2, 3, 4))


_ANSWERED = """
    SELECT model, group_concat(DISTINCT reported_model) AS names, count(*) AS n
    FROM attempts WHERE outcome = 'answered' GROUP BY model
"""


def write_report(
    study: Study,
    on_progress: Callable[[str], None] = lambda text: None,
    folder: Path | None = None,
    estimates: Estimates | None = None,
) -> Report:
    """Make the report of a study and write it, the page last; by default into `STUDY/report`.

    The records are not changed. Stored estimates are used if they are current; new ones are stored.
    """
    estimates = estimates or Estimates(study, renew=True)
    report: Report = study.plan.kind.report(study, on_progress, estimates)
    place = folder or study.path / "report"
    # Render every picture before writing the first file, so that a report is written whole.
    pictures = {
        place / FIGURES / f"{figure.name}.{suffix}": content
        for figure in report.figures
        for suffix, content in (("svg", str(figure.wide).encode()), ("png", figure.png))
    }
    with nullcontext() if folder else record_step(study, "report"):
        files = _write_files(report, pictures, place)
    return report._replace(files=files)


def _write_files(report: Report, pictures: Mapping[Path, bytes], folder: Path) -> tuple[Path, ...]:
    for name in (FIGURES, TABLES):
        make_folder(folder / name)
    sheets = {folder / TABLES / f"{sheet.name}.csv": sheet for sheet in report.tables}
    for path, sheet in sheets.items():
        columns = dict.fromkeys((key for row in sheet.raw for key in row), str)
        with open_table(path, columns) as write:
            for row in sheet.raw:
                write(row)
    numbers = write_numbers(folder, report.numbers)
    for path, content in {**pictures, folder / PAGE: report.html.encode()}.items():
        with atomic_file(path) as part:
            part.write_bytes(content)
    files = (*pictures, *sheets, *numbers, folder / PAGE)
    # Remove figures and tables of an earlier report.
    for name in (FIGURES, TABLES):
        for path in (folder / name).iterdir():
            if path.suffix in (".svg", ".png", ".csv") and path not in files:
                path.unlink()
    return files
