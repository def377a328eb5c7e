"""The audit: how far raters agree, overall and in each stratum, in figures, words and a record."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text, write_text
from chimeralab.core.numbers import percent
from chimeralab.core.records import Record
from chimeralab.core.text import escape_markdown
from chimeralab.rating.gate import Gate, GateOutcome, judge_gate
from chimeralab.rating.labels import LabelTable
from chimeralab.rating.ratings import RaterKind
from chimeralab.rating.rubric import Label, Rubric, history_lines
from chimeralab.rating.validity import AgainstRaters
from chimeralab.stats.panel import Panel, panel
from chimeralab.stats.raters import RatersPanel, raters_panel

MARKDOWN, JSON = "gate-record.md", "gate-record.json"
COUNTS = ("n_valid", "n_total")
FIGURES = (
    "agreement", "expected_agreement", "kappa", "kappa_ci", "kappa_ci_score", "kappa_ci_bootstrap",
    "kappa_max", "pabak", "pabak_ci", "ac1", "alpha", "alpha_ci", "fleiss", "prevalence",
    "prevalence_index", "bias_index", "positive_agreement", "negative_agreement",
)  # fmt: skip

# From this share of equal labels on, a reader expects a high kappa and deserves an explanation.
HIGH_AGREEMENT = 0.8
CLOSE = 0.1
ONLY_FOR_TWO = "this compares two raters, and there are more: see pairs"


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


@dataclass(frozen=True, slots=True)
class Disagreement(Record):
    """An item on which raters differ, with what each one said."""

    item: str
    labels: Mapping[str, Label | None]
    reasons: Mapping[str, str]
    stratum: str | None = None


@dataclass(frozen=True, slots=True)
class Audit(Record):
    """Everything that is known about the agreement of the raters.

    That of a study also has the sample of its gate if one is declared, how the detector does
    against each rater, and the folder where the record of the gate was written.
    """

    overall: RatersPanel
    by_stratum: Mapping[str, RatersPanel]
    gate: GateOutcome
    disagreements: tuple[Disagreement, ...] = ()
    clustered: bool = False
    weighted: bool = False
    unrated_strata: Mapping[str, str] = field(default_factory=dict)
    sample: str | None = None
    against: AgainstRaters = field(default_factory=dict)
    record: str | None = None


def audit(
    table: LabelTable, gate: Gate | None = None, *, seed: int = 0, allow_unlabelled: bool = False
) -> Audit:
    """Compare the raters. Without a declared gate, the customary one is shown but binds nobody.

    A rater without a single label is refused, or, where a model was asked and gave none
    (`allow_unlabelled`), leaves everything undefined, and the gate is not met.
    """
    rng = np.random.default_rng(seed)
    overall = _compare(table, rng, allow_unlabelled=allow_unlabelled)
    panels, unrated = {}, {}
    for name in sorted(set(table.strata or ())):
        try:
            panels[name] = _compare(table.keep(name), rng, allow_unlabelled=allow_unlabelled)
        except InputError as error:
            unrated[name] = str(error)
    differing = []
    for n, item in enumerate(() if table.nameless else table.items):
        labels = {rater: column[n] for rater, column in table.labels.items()}
        if len({label for label in labels.values() if label is not None}) > 1:
            reasons = {rater: told[n] for rater, told in table.reasons.items() if told[n]}
            stratum = table.strata[n] if table.strata else None
            differing.append(Disagreement(item, labels, reasons, stratum))
    return Audit(
        overall=overall,
        by_stratum=panels,
        gate=judge_gate(gate or Gate(), overall, declared=gate is not None),
        disagreements=tuple(differing),
        clustered=table.clusters is not None,
        weighted=table.weights is not None,
        unrated_strata=unrated,
    )


def _compare(table: LabelTable, rng: np.random.Generator, *, allow_unlabelled: bool) -> RatersPanel:
    silent = [rater for rater, column in table.labels.items() if set(column) <= {None}]
    if not silent or not allow_unlabelled or len(table.raters) < 2:
        return raters_panel(table.labels, rng=rng, design=table.design)
    why = f"rater '{silent[0]}' gave no label"
    return RatersPanel(
        raters=table.raters,
        n_total=len(table.items),
        n_valid=0,
        n_complete=0,
        missing={rater: column.count(None) for rater, column in table.labels.items()},
        alpha=None,
        alpha_ci=None,
        fleiss=None,
        pairs={
            (one, two): panel(table.labels[one], table.labels[two], rng=rng)
            for one, two in combinations(table.raters, 2)
        },
        reasons=dict.fromkeys(("alpha", "alpha_ci", "fleiss"), why),
    )


def audit_json(result: Audit) -> dict[str, Any]:
    """The audit as one JSON object: the figures of two raters at the top, of more under `pairs`."""
    return {
        **panel_json(result.overall),
        "clustered": result.clustered,
        "weighted": result.weighted,
        "gate": result.gate.as_json(),
        "by_stratum": {name: panel_json(part) for name, part in result.by_stratum.items()},
        "unrated_strata": dict(result.unrated_strata),
        "disagreements": [each.as_dict() for each in result.disagreements],
    }


def panel_json(raters: RatersPanel) -> dict[str, Any]:
    """A panel flat: the figures of the one pair there is, or None and a reason for each."""
    figures = asdict(next(iter(raters.pairs.values())))
    why = figures.pop("reasons")
    for name in ("n_valid", "n_total", "alpha"):
        figures.pop(name)
    several = len(raters.pairs) > 1
    if several:
        figures, why = dict.fromkeys(figures), dict.fromkeys(figures, ONLY_FOR_TWO)
    return {
        "raters": list(raters.raters),
        "n": raters.n_valid,
        "n_valid": raters.n_valid,
        "n_total": raters.n_total,
        "n_complete": raters.n_complete,
        "missing": dict(raters.missing),
        **figures,
        "alpha": raters.alpha,
        "alpha_ci": raters.alpha_ci,
        "fleiss": raters.fleiss,
        "reasons": {**why, **raters.reasons},
        "pairs": [
            {"first": first, "second": second, **asdict(panel)}
            for (first, second), panel in raters.pairs.items()
            if several
        ],
    }


def explain(panel: RatersPanel) -> list[str]:
    """What the figures mean, in one or two sentences per line."""
    pairs = list(panel.pairs.values())
    return list(_of_pair(pairs[0]) if len(pairs) == 1 else _of_several(panel))


def _of_pair(panel: Panel) -> Iterator[str]:
    if panel.agreement is None or panel.expected_agreement is None:
        yield f"Nothing can be said: {panel.reasons['agreement']}."
        return
    table = panel.table
    yield (
        f"The raters gave the same label to {table.both + table.neither:g} of {table.n:g} items"
        f" ({percent(panel.agreement)})."
    )
    if panel.kappa is None:
        yield f"Kappa is undefined: {panel.reasons['kappa']}. Perfect agreement is not shown by it."
        return
    expected, earned = panel.expected_agreement, panel.agreement - panel.expected_agreement
    yield (
        f"They say 1 for {percent(panel.prevalence)} of the items on average, so labels drawn at "
        f"that rate would already be equal for {percent(expected)}. Kappa asks how much of the "
        f"remaining {100 * (1 - expected):.1f} points they earned: {100 * earned:.1f}, which is "
        f"{panel.kappa:.3f}."
    )
    if panel.agreement >= HIGH_AGREEMENT > panel.kappa:
        yield (
            "This is why kappa is low although agreement is high: one label is so common that "
            "most agreement comes for free."
        )
    positive, negative = panel.positive_agreement, panel.negative_agreement
    if positive is not None and negative is not None and abs(positive - negative) >= CLOSE:
        yield (
            f"When one rater says 1, the other does so in {percent(positive)} of the cases; for 0 "
            f"it is {percent(negative)}. They part on the rarer label."
        )
    if panel.pabak is not None and panel.kappa is not None and panel.pabak - panel.kappa >= CLOSE:
        yield (
            f"PABAK ({panel.pabak:.3f}) is the raw agreement on another scale, 2 x agreement - 1: "
            "it acts as if both labels were equally common and hides how the raters do on the "
            "rare one."
        )
    if panel.kappa_ci_score is not None:
        low, high = panel.kappa_ci_score
        yield (
            f"With {panel.n_valid} items a kappa anywhere from {low:.2f} to {high:.2f} would not "
            "surprise (95 % score interval)."
        )
    left_out = panel.n_total - panel.n_valid
    if left_out:
        yield f"{left_out} of {panel.n_total} items lack a label of one of them and are left out."


def _of_several(panel: RatersPanel) -> Iterator[str]:
    raters = f"{len(panel.raters)} raters: {', '.join(panel.raters)}"
    yield f"{raters}. {panel.n_valid} of {panel.n_total} items have two labels or more."
    if panel.alpha is None:
        yield f"Krippendorff's alpha is undefined: {panel.reasons['alpha']}."
        return
    yield f"Krippendorff's alpha over all of them is {panel.alpha:.3f}; 0 is chance, 1 perfect."
    kappas = {pair: each.kappa for pair, each in panel.pairs.items() if each.kappa is not None}
    if kappas:
        pair, low = min(kappas.items(), key=lambda entry: entry[1])
        yield f"{' and '.join(pair)} agree least: kappa {low:.3f}."


def write_record(
    folder: Path,
    result: Audit,
    rubric: Rubric | None = None,
    raters: Sequence[RaterIdentity] = (),
) -> None:
    """Write the record in Markdown and JSON; an earlier record is never written over."""
    for name in (MARKDOWN, JSON):
        if (folder / name).exists():
            raise InputError(f"{folder / name} already exists; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    known = list(raters) or [RaterIdentity(name) for name in result.overall.raters]
    gate = result.gate
    record = {
        "verdict": "passed" if gate.passed else "failed",
        "outcome": gate.name,
        "consequence": gate.scope.as_dict(),
        "validity": gate.validity.as_dict(),
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
    write_text(folder / MARKDOWN, "\n".join(_markdown(result, rubric, known)) + "\n")


def _markdown(
    result: Audit,
    rubric: Rubric | None,
    raters: Sequence[RaterIdentity],
) -> Iterator[str]:
    gate, overall = result.gate, result.overall
    yield from ("# Gate record", "")
    yield f"**Verdict: {gate.name}.** Asked: {gate.gate}. {escape_markdown(gate.reason)}."
    yield from ("", escape_markdown(gate.scope.sentence), "")
    yield f"- items: {overall.n_valid} valid of {overall.n_total}"
    yield from (f"- rater: {escape_markdown(str(rater))}" for rater in raters)
    if rubric is None:
        yield "- rubric: not stated"
    else:
        yield f"- rubric: {rubric.name} {rubric.version}, sha256 {rubric.sha256}"
    yield from ("", "## Figures", "", *_figures(result), "")
    yield from ("## In words", "", *(f"- {escape_markdown(line)}" for line in explain(overall)), "")
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
    yield "| | " + " | ".join(map(escape_markdown, columns)) + " |"
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
    yield "| item | stratum | " + " | ".join(map(escape_markdown, raters)) + " |"
    yield "|---" * (len(raters) + 2) + "|"
    for each in result.disagreements:
        labels = ("–" if each.labels[rater] is None else each.labels[rater] for rater in raters)
        reasons = (each.reasons.get(rater, "") for rater in raters)
        said = [
            escape_markdown(f"{label} {why}".strip())
            for label, why in zip(labels, reasons, strict=True)
        ]
        yield (
            f"| {escape_markdown(each.item)} | {escape_markdown(each.stratum or '')} | "
            + " | ".join(said)
            + " |"
        )
