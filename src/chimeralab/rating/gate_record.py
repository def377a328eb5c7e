"""The record of a gate: verdict, figures, disagreements, and what follows from them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text, replacing
from chimeralab.core.records import Record
from chimeralab.rating.audit import Audit, audit_json, panel_json
from chimeralab.rating.explain import explain
from chimeralab.rating.gate import claim_scope
from chimeralab.rating.rubric import Rubric
from chimeralab.rating.rubric_text import history_lines

MARKDOWN, JSON = "gate-record.md", "gate-record.json"
FIGURES = (
    "agreement", "expected_agreement", "kappa", "kappa_ci", "kappa_ci_score", "kappa_ci_bootstrap",
    "kappa_max", "pabak", "pabak_ci", "ac1", "alpha", "alpha_ci", "fleiss", "prevalence",
    "prevalence_index", "bias_index", "positive_agreement", "negative_agreement",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RaterIdentity(Record):
    """Who rated: a name, and for models the version and the settings."""

    name: str
    model: str | None = None
    version: str | None = None
    settings: str | None = None

    def __str__(self) -> str:
        known = [part for part in (self.model, self.version, self.settings) if part]
        return f"{self.name} ({', '.join(known)})" if known else self.name


def write_record(
    folder: Path,
    result: Audit,
    rubric: Rubric | None = None,
    raters: Sequence[RaterIdentity] = (),
) -> None:
    """Write the record in Markdown and JSON; an earlier record is never written over."""
    for name in (MARKDOWN, JSON):
        if (folder / name).exists():
            raise InputError(f"{folder / name} is there already; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / JSON) as part:
        part.write_text(json_text(record_json(result, rubric, raters)) + "\n", encoding="utf-8")
    with replacing(folder / MARKDOWN) as part:
        text = "\n".join(_markdown(result, rubric, raters)) + "\n"
        part.write_text(text, encoding="utf-8", errors="replace")


def record_json(
    result: Audit, rubric: Rubric | None, raters: Sequence[RaterIdentity]
) -> dict[str, Any]:
    """Everything in the record as plain values."""
    return {
        "verdict": _verdict(result),
        "consequence": claim_scope(result.gate).as_dict(),
        "rater_identities": [rater.as_dict() for rater in _identities(result, raters)],
        "rubric": None
        if rubric is None
        else {
            "name": rubric.name,
            "version": rubric.version,
            "sha256": rubric.sha256,
            "history": [entry.as_dict() for entry in rubric.history],
        },
        "audit": audit_json(result),
    }


def _identities(result: Audit, raters: Sequence[RaterIdentity]) -> list[RaterIdentity]:
    return list(raters) or [RaterIdentity(name) for name in result.overall.raters]


def _markdown(
    result: Audit, rubric: Rubric | None, raters: Sequence[RaterIdentity]
) -> Iterator[str]:
    gate, overall = result.gate, result.overall
    yield from ("# Gate record", "")
    yield f"**Verdict: {_verdict(result)}.** Asked: {gate.gate}. {_cell(gate.reason)}."
    yield from ("", claim_scope(gate).sentence, "")
    yield f"- items: {overall.n_valid} valid of {overall.n_total}"
    yield from (f"- rater: {_cell(str(rater))}" for rater in _identities(result, raters))
    yield _rubric_line(rubric)
    yield from ("", "## Figures", "", *_figures(result), "")
    yield from ("## In words", "", *(f"- {_cell(line)}" for line in explain(overall)), "")
    yield from ("## Disagreements", "", *_disagreements(result), "")
    if rubric is not None:
        yield from ("## Versions of the rubric", "", *history_lines(rubric))


def _verdict(result: Audit) -> str:
    return "passed" if result.gate.passed else "failed"


def _rubric_line(rubric: Rubric | None) -> str:
    if rubric is None:
        return "- rubric: not stated"
    return f"- rubric: {rubric.name} {rubric.version}, sha256 {rubric.sha256}"


def _figures(result: Audit) -> Iterator[str]:
    """A column for all items and one for each stratum."""
    columns = {"all": panel_json(result.overall)}
    columns |= {name: panel_json(panel) for name, panel in result.by_stratum.items()}
    yield "| | " + " | ".join(map(_cell, columns)) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    counts = ((name, [str(panel[name]) for panel in columns.values()]) for name in COUNTS)
    figures = ((name, [_figure(panel[name]) for panel in columns.values()]) for name in FIGURES)
    for name, cells in (*counts, *figures):
        yield f"| {name} | " + " | ".join(cells) + " |"
    undefined = {reason for panel in columns.values() for reason in panel["reasons"].values()}
    yield from (f"\nUndefined (–): {reason}." for reason in sorted(undefined))


COUNTS = ("n_valid", "n_total")


def _figure(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, tuple):
        return f"{value[0]:.4f} to {value[1]:.4f}"
    return f"{value:.4f}"


def _disagreements(result: Audit) -> Iterator[str]:
    if not result.disagreements:
        yield "None is listed: the raters differ on no item, or only counts were given."
        return
    raters = result.overall.raters
    yield "| item | stratum | " + " | ".join(map(_cell, raters)) + " |"
    yield "|---" * (len(raters) + 2) + "|"
    for each in result.disagreements:
        said = [_said(each.labels[rater], each.reasons.get(rater, "")) for rater in raters]
        yield f"| {_cell(each.item)} | {_cell(each.stratum or '')} | " + " | ".join(said) + " |"


def _said(label: int | None, reason: str) -> str:
    return _cell(f"{'–' if label is None else label} {reason}".strip())


def _cell(text: str) -> str:
    """Text of others inside a Markdown table: one line, no markup, no new cells."""
    flat = " ".join(text.split())
    return "".join(f"\\{char}" if char in "\\|<>`*_[]#!" else char for char in flat)
