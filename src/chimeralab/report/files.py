"""The report of a study: its frame, which a kind of study fills, and its files.

The frame is what was locked, the flow, the results, methods, software and models. The files are the
page, every figure as SVG and PNG, every table as CSV, and the numbers.
"""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from markupsafe import Markup

from chimeralab.core.errors import InputError
from chimeralab.core.files import make_folder, replacing
from chimeralab.core.numbers import counted
from chimeralab.core.tables import open_table
from chimeralab.embedding.encoder import MODEL, model_hash
from chimeralab.report.charts.canvas import Figure
from chimeralab.report.charts.flow import Flow, flow_figure, flow_table
from chimeralab.report.named_numbers import NamedNumber, write_numbers
from chimeralab.report.page import (
    Block,
    Fact,
    Methods,
    Section,
    bullets,
    definitions,
    details,
    find_blocks,
    paragraph,
    render,
)
from chimeralab.report.table import Dash, Table, make_table
from chimeralab.study import Lock, LockError, Study
from chimeralab.study.estimates import Estimates
from chimeralab.study.verify import Verification
from chimeralab.version import __version__

PAGE = "index.html"
FIGURES, TABLES = "figures", "tables"
DEVIATIONS_NAMED, FINDING_CHARACTERS = 10, 300
PACKAGES = (
    "numpy",
    "scipy",
    "openvino",
    "openvino-genai",
    "altair",
    "vl-convert-python",
)
FILES_NOTE = Markup(
    "Beside this page, <code>figures/</code> holds every figure as SVG and PNG, and "
    "<code>tables/</code> every table as CSV, with all digits; <code>numbers.tex</code> and "
    "<code>numbers.json</code> hold every number under a name, for a text to take."
)


class Frame(NamedTuple):
    """What a report is made of: the parts that its kind of study fills in.

    `verdicts` show the sentences of the `glance` where these are more than plain ones, `remarks`
    stand beside the result, and `first` comes before all other sections. `sheets` are tables that
    are written as files alone, and so are the `numbers` for a text.
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
    methods: Methods
    software: Table
    not_shown: Sequence[str]
    verdicts: Sequence[Block] = ()
    first: Sequence[Section] = ()
    sheets: Sequence[Table] = ()
    numbers: Mapping[str, NamedNumber] = MappingProxyType({})


class Report(NamedTuple):
    """A report that is made but not yet written."""

    page: str
    figures: Sequence[Figure]
    tables: Sequence[Table]
    glance: tuple[str, ...]
    numbers: Mapping[str, NamedNumber]


def make_page(frame: Frame) -> Report:
    """Put the parts of a report on one page, and gather its figures and tables."""
    head = [*frame.facts, *_verified(frame.verification)]
    flow = flow_figure(frame.flow, frame.flow_note)
    as_table = details("The same as a table", [flow_table(frame.flow)])
    revisions = "A declared revision is what the plan's author states; no server lets us check it."
    versions = [models_table(frame.study), frame.software, paragraph(revisions, "note")]
    sections = [
        *frame.first,
        Section("asked", "What was asked and locked", [definitions(head), *frame.design]),
        Section("flow", "From plan to analysis", [flow, as_table]),
        *frame.results,
        Section("methods", "Methods, ready to paste", [frame.methods]),
        Section("versions", "Software and models", versions),
        Section(
            "not-shown",
            "What is not shown",
            [bullets(frame.not_shown), paragraph(FILES_NOTE, "files")],
        ),
    ]
    page = render(
        "report.html",
        kind=frame.kind,
        plan=frame.study.plan,
        locked=frame.lock is not None,
        findings=len(frame.verification.findings),
        deviations=len(frame.verification.deviations),
        glance=frame.verdicts or [paragraph(sentence, "lead") for sentence in frame.glance],
        remarks=[remark for remark in frame.remarks if remark],
        sections=sections,
        first=len(frame.first),
    )
    figures, tables = list(find_blocks(Figure, sections)), list(find_blocks(Table, sections))
    return Report(page, figures, [*tables, *frame.sheets], frame.glance, frame.numbers)


def _verified(verification: Verification) -> Iterator[Fact]:
    """What does not fit, what a reader has to know, how it went, and what all this rests on."""
    lists: dict[str, Sequence[object]] = {
        "Findings": verification.findings,
        "Deviations": verification.deviations,
        "Notes": verification.notes,
    }
    for term, lines in lists.items():
        if lines:
            yield term, bullets(_named(lines), "plain")
        else:
            yield term, "none in what was checked"
    yield "Checked", "; ".join(verification.checked) or "nothing"
    if verification.unchecked:
        yield "Not checked", bullets(_named(verification.unchecked), "plain")
    if verification.root:
        records = counted(verification.records, "record")
        yield "Root hash", f"{verification.root}, over {records}"


def _named(lines: Sequence[object]) -> list[str]:
    """Some of the lines, cut where they are long, and how many there are in all."""
    named = [
        line if len(line) <= FINDING_CHARACTERS else line[: FINDING_CHARACTERS - 1] + "…"
        for line in map(str, lines[:DEVIATIONS_NAMED])
    ]
    if len(lines) > len(named):
        more = Markup("and {:,} more; <code>chimera verify</code> lists them all")
        named.append(more.format(len(lines) - len(named)))
    return named


def read_lock(study: Study) -> Lock | None:
    """The lock of a study, where there is one that can be read."""
    try:
        return study.lock
    except LockError:
        return None  # the verification says what is wrong with it


def require_run(study: Study) -> None:
    """There is nothing to report of a study without a store."""
    if not study.store_path.exists():
        raise InputError(
            f"{study.path} has not been run yet, so there is nothing to report; "
            f"start with `chimera run {study.path}`"
        )


def common_facts(study: Study, lock: Lock | None, design: str, group: str) -> Iterator[Fact]:
    """Whether the plan was frozen and under which hash, the design, and the order of the runs."""
    if lock is None:
        yield "Locked", "no: everything here is exploratory"
    else:
        yield "Locked", f"before the first run, SHA-256 {lock.sha256}"
    yield "Design", design
    run = study.plan.run
    mixed = f"random, {group}s interleaved" if run.interleave else f"one {group} after another"
    yield "Order", f"{mixed}, seed {run.seed}"


def locked_in_words(lock: Lock | None, what: str) -> str:
    """A sentence on the lock for the methods."""
    if lock is None:
        return "The plan was not locked in advance, so all results are exploratory."
    return f"{what} locked before the first run (SHA-256 {lock.sha256})."


def verified_in_words(verification: Verification) -> str:
    """What was checked and found, as sentences for the methods; "no" only of what was checked."""
    said = [f"We verified {_series(verification.checked)}."] if verification.checked else []
    kinds = dict.fromkeys(each.kind for each in verification.deviations)
    about = {
        "finding": (verification.findings, ""),
        "deviation": (verification.deviations, f" ({_series(kinds)})"),
        "note": (verification.notes, f" ({'; '.join(verification.notes)})"),
    }
    counts = [
        f"{counted(len(lines), kind)}{more if lines else ''}" if lines else f"no {kind}"
        for kind, (lines, more) in about.items()
    ]
    said.append(f"There {'were' if said else 'are'} {_series(counts)}.")
    if verification.unchecked:
        said.append(f"Not checked: {'; '.join(verification.unchecked)}.")
    if verification.root:
        said.append(f"The root hash of the records is {verification.root}.")
    return " ".join(said)


def _series(words: Iterable[str]) -> str:
    *first, last = list(words) or ["nothing"]
    return f"{', '.join(first)} and {last}" if first else last


def computed_with() -> str:
    """The last sentence of all methods."""
    return f"All computations were made with Chimera Lab {__version__}."


def software_table(study: Study, precisions: Iterable[str | None] = ()) -> Table:
    """Versions of everything that had a hand in the numbers, and how exact its vectors are."""
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
    """The models of the plan: what they are, as what they were declared, what they answered as."""
    with study.archive() as archive:
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
                "answered_as": found.get("names"),
                "answers": found.get("n", 0),
            }
        )
    rows = [
        [
            row["model"],
            row["is"],
            row["declared_revision"] or Dash("not declared"),
            row["answered_as"] or Dash("the model gives no name"),
            f"{row['answers']:,}",
        ]
        for row in raw
    ]
    headings = ("name", "is", "declared revision", "answered as", "answers")
    return make_table("models", headings, rows, raw, words=(0, 1, 2, 3))


_ANSWERED = """
    SELECT model, group_concat(DISTINCT reported_model) AS names, count(*) AS n
    FROM attempts WHERE outcome = 'answered' GROUP BY model
"""


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
    sheets = {folder / TABLES / f"{sheet.name}.csv": sheet for sheet in report.tables}
    for path, sheet in sheets.items():
        columns = dict.fromkeys((key for row in sheet.raw for key in row), str)
        with open_table(path, columns) as write:
            for row in sheet.raw:
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
