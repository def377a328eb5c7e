"""The record of a gate: verdict, figures, disagreements and what follows, as it is written."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text, write_text
from chimeralab.core.numbers import counted, percent
from chimeralab.core.records import Record
from chimeralab.core.text import markdown
from chimeralab.rating.audit import Audit, audit_json, explain, panel_json
from chimeralab.rating.claims import NO_AUDIT, ClaimScope, claim_scope
from chimeralab.rating.gate import NOT_ASKED, ValidityOutcome, outcome_name
from chimeralab.rating.ratings import RaterKind
from chimeralab.rating.rubric import Rubric, history_lines
from chimeralab.rating.validity import ValidityAgainst
from chimeralab.stats.intervals import wilson

MARKDOWN, JSON = "gate-record.md", "gate-record.json"
COUNTS = ("n_valid", "n_total")
FIGURES = (
    "agreement", "expected_agreement", "kappa", "kappa_ci", "kappa_ci_score", "kappa_ci_bootstrap",
    "kappa_max", "pabak", "pabak_ci", "ac1", "alpha", "alpha_ci", "fleiss", "prevalence",
    "prevalence_index", "bias_index", "positive_agreement", "negative_agreement",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RaterIdentity(Record):
    """Who rated: a name, what kind of rater it is, and for models the version and the settings."""

    name: str
    model: str | None = None
    version: str | None = None
    settings: str | None = None
    kind: RaterKind | None = None

    def __str__(self) -> str:
        kind = self.kind and f"a {self.kind}"
        known = [part for part in (kind, self.model, self.version, self.settings) if part]
        return f"{self.name} ({', '.join(known)})" if known else self.name


class Retest(NamedTuple):
    """How many items a rater was given twice, and how many got the same label again."""

    rater: str
    items: int
    same: int

    def __str__(self) -> str:
        low, high = map(percent, wilson(self.same, self.items))
        return (
            f"{self.rater} gave {self.same} of {counted(self.items, 'repeated item')} the same "
            f"label again ({percent(self.same / self.items)}, 95 % interval {low} – {high})"
        )


class Reliability(NamedTuple):
    """A decided gate, computed from the stored labels: what may be claimed, and the figures."""

    scope: ClaimScope
    verdict: str
    figures: Mapping[str, Any] | None
    by_stratum: Mapping[str, Mapping[str, Any]]
    raters: Sequence[RaterIdentity] = ()
    against: Sequence[ValidityAgainst] = ()
    retests: Sequence[Retest] = ()

    @property
    def retest_in_words(self) -> str:
        """How far each rater agrees with itself, also where nobody has asked."""
        known = {each.rater: str(each) for each in self.retests}
        unasked = [each.name for each in self.raters if each.name not in known]
        said = [*known.values(), *([f"not asked of {', '.join(unasked)}"] if unasked else [])]
        return f"Retest agreement: {'; '.join(said)}."


def scope_of(reliability: Reliability | None) -> ClaimScope:
    """What may be claimed of a study with this record, or with none."""
    return NO_AUDIT if reliability is None else reliability.scope


def write_record(
    folder: Path,
    result: Audit,
    rubric: Rubric | None = None,
    raters: Sequence[RaterIdentity] = (),
    validity: ValidityOutcome = NOT_ASKED,
) -> None:
    """Write the record in Markdown and JSON; an earlier record is never written over."""
    for name in (MARKDOWN, JSON):
        if (folder / name).exists():
            raise InputError(f"{folder / name} already exists; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    known = list(raters) or [RaterIdentity(name) for name in result.overall.raters]
    verdict = "passed" if result.gate.passed else "failed"
    record = {
        "verdict": verdict,
        "outcome": outcome_name(result.gate, validity),
        "consequence": claim_scope(result.gate, validity).as_dict(),
        "validity": validity.as_dict(),
        "rater_identities": [rater.as_dict() for rater in known],
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
    write_text(folder / JSON, json_text(record) + "\n")
    write_text(folder / MARKDOWN, "\n".join(_markdown(result, validity, rubric, known)) + "\n")


def _markdown(
    result: Audit,
    validity: ValidityOutcome,
    rubric: Rubric | None,
    raters: Sequence[RaterIdentity],
) -> Iterator[str]:
    gate, overall = result.gate, result.overall
    yield from ("# Gate record", "")
    verdict, reason = outcome_name(gate, validity), markdown(gate.reason)
    yield f"**Verdict: {verdict}.** Asked: {gate.gate}. {reason}."
    yield from ("", markdown(claim_scope(gate, validity).sentence), "")
    yield f"- items: {overall.n_valid} valid of {overall.n_total}"
    yield from (f"- rater: {markdown(str(rater))}" for rater in raters)
    if rubric is None:
        yield "- rubric: not stated"
    else:
        yield f"- rubric: {rubric.name} {rubric.version}, sha256 {rubric.sha256}"
    yield from ("", "## Figures", "", *_figures(result), "")
    yield from ("## In words", "", *(f"- {markdown(line)}" for line in explain(overall)), "")
    yield from ("## Disagreements", "", *_disagreements(result), "")
    if rubric is not None:
        yield from ("## Versions of the rubric", "", *history_lines(rubric))


def _figures(result: Audit) -> Iterator[str]:
    """A column for all items and one for each stratum."""

    def figure(value: Any) -> str:
        if value is None:
            return "–"
        if isinstance(value, tuple):
            return f"{value[0]:.4f} to {value[1]:.4f}"
        return f"{value:.4f}"

    columns = {"all": panel_json(result.overall)}
    columns |= {name: panel_json(panel) for name, panel in result.by_stratum.items()}
    yield "| | " + " | ".join(map(markdown, columns)) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    counts = ((name, [str(panel[name]) for panel in columns.values()]) for name in COUNTS)
    figures = ((name, [figure(panel[name]) for panel in columns.values()]) for name in FIGURES)
    for name, cells in (*counts, *figures):
        yield f"| {name} | " + " | ".join(cells) + " |"
    undefined = {reason for panel in columns.values() for reason in panel["reasons"].values()}
    yield from (f"\nUndefined (–): {reason}." for reason in sorted(undefined))


def _disagreements(result: Audit) -> Iterator[str]:
    if not result.disagreements:
        yield "None is listed: the raters differ on no item, or only counts were given."
        return
    raters = result.overall.raters
    yield "| item | stratum | " + " | ".join(map(markdown, raters)) + " |"
    yield "|---" * (len(raters) + 2) + "|"
    for each in result.disagreements:
        labels = ("–" if each.labels[rater] is None else each.labels[rater] for rater in raters)
        reasons = (each.reasons.get(rater, "") for rater in raters)
        said = [
            markdown(f"{label} {why}".strip()) for label, why in zip(labels, reasons, strict=True)
        ]
        yield (
            f"| {markdown(each.item)} | {markdown(each.stratum or '')} | " + " | ".join(said) + " |"
        )
