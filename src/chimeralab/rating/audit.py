"""Audit of raters: agreement overall and by stratum, explained, and recorded for the gate."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.files import write_text
from chimeralab.core.numbers import percent
from chimeralab.core.records import Record
from chimeralab.core.schema import json_text
from chimeralab.core.text import escape_markdown
from chimeralab.rating.gate import Gate, GateOutcome, judge_gate
from chimeralab.rating.labels import LabelTable
from chimeralab.rating.ratings import RaterKind
from chimeralab.rating.rubric import Label, Rubric, history_lines
from chimeralab.rating.validity import AgainstRaters
from chimeralab.stats.panel import Panel, panel
from chimeralab.stats.raters import RatersPanel, raters_panel

MARKDOWN, JSON = "gate-record.md", "gate-record.json"
COUNTS = ("n_valid", "n_total", "n_complete")
FIGURES = (
    "agreement", "expected_agreement", "kappa", "kappa_ci", "kappa_ci_score", "kappa_ci_bootstrap",
    "kappa_max", "pabak", "pabak_ci", "ac1", "ac1_ci", "alpha", "alpha_ci", "fleiss",
    "prevalence", "prevalence_index", "bias_index", "positive_agreement", "negative_agreement",
)  # fmt: skip
# Of all raters together, however many.
JOINT = ("alpha", "alpha_ci", "ac1", "ac1_ci", "fleiss")

# At this agreement or above, readers expect a high kappa; explain one that is low.
HIGH_AGREEMENT = 0.8
CLOSE = 0.1
# Part of stored gate records, which `verify` compares: keep the wording.
ONLY_FOR_TWO = "this compares two raters, and there are more: see pairs"


@dataclass(frozen=True, slots=True)
class RaterIdentity(Record):
    """A rater in a gate record; version and settings are those of a model."""

    name: str
    model: str | None = None
    version: str | None = None
    settings: str | None = None
    kind: RaterKind | None = None

    def __str__(self) -> str:
        kind = self.kind and f"a {self.kind}"
        details = [part for part in (kind, self.model, self.version, self.settings) if part]
        return f"{self.name} ({', '.join(details)})" if details else self.name


@dataclass(frozen=True, slots=True)
class Disagreement(Record):
    """An item that raters label differently, with their labels and reasons."""

    item: str
    labels: Mapping[str, Label | None]
    reasons: Mapping[str, str]
    stratum: str | None = None


@dataclass(frozen=True, slots=True)
class Audit(Record):
    """The agreement of raters, and whether it meets the gate.

    The audit of a study also has the sample of its declared gate, the detector's validity against
    each rater, and the folder of the gate record.
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
    """Compare the raters; without a declared gate, the customary one is only shown.

    A rater without any label is an error. With `allow_unlabelled` (for a model that gave none),
    all figures are undefined and the gate is not met.
    """
    rng = np.random.default_rng(seed)
    overall = _compare(table, rng, allow_unlabelled=allow_unlabelled)
    panels, unrated = {}, {}
    for name in sorted(set(table.strata or ())):
        try:
            panels[name] = _compare(table.keep(name), rng, allow_unlabelled=allow_unlabelled)
        except InputError as error:
            unrated[name] = str(error)
    disagreements = []
    for n, item in enumerate(() if table.nameless else table.items):
        labels = {rater: column[n] for rater, column in table.labels.items()}
        if len({label for label in labels.values() if label is not None}) > 1:
            reasons = {rater: given[n] for rater, given in table.reasons.items() if given[n]}
            stratum = table.strata[n] if table.strata else None
            disagreements.append(Disagreement(item, labels, reasons, stratum))
    outcome = judge_gate(gate or Gate(), overall, declared=gate is not None)
    # The gate rests on the items with both labels, as in `check` on those that will have them.
    rated = outcome.items or len(table.items)
    units = min(len(set(table.clusters or table.items)), rated)
    decided = replace(outcome.gate, raters=table.raters, sample=None, by="condition")
    limits = decided.advise(rated, units)
    return Audit(
        overall=overall,
        by_stratum=panels,
        gate=replace(outcome, limits=tuple(limits)),
        disagreements=tuple(disagreements),
        clustered=table.clusters is not None,
        weighted=table.weights is not None,
        unrated_strata=unrated,
    )


def _compare(table: LabelTable, rng: np.random.Generator, *, allow_unlabelled: bool) -> RatersPanel:
    unlabelled = [rater for rater, column in table.labels.items() if set(column) <= {None}]
    if not unlabelled or not allow_unlabelled or len(table.raters) < 2:
        return raters_panel(table.labels, rng=rng, design=table.design)
    why = f"rater '{unlabelled[0]}' gave no label"
    return RatersPanel(
        raters=table.raters,
        n_total=len(table.items),
        n_valid=0,
        n_complete=0,
        missing={rater: column.count(None) for rater, column in table.labels.items()},
        **dict.fromkeys(JOINT),
        pairs={
            (one, two): panel(table.labels[one], table.labels[two], rng=rng)
            for one, two in combinations(table.raters, 2)
        },
        reasons=dict.fromkeys(JOINT, why),
    )


def audit_json(result: Audit) -> dict[str, Any]:
    """Convert to JSON: the figures of two raters at the top level, those of more under `pairs`."""
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
    """Flatten a panel: the figures of a single pair, or None and a reason for each."""
    figures = asdict(next(iter(raters.pairs.values())))
    why = figures.pop("reasons")
    for name in ("n_valid", "n_total", *JOINT):
        figures.pop(name, None)
        why.pop(name, None)
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
        **{name: getattr(raters, name) for name in JOINT},
        "alpha_n": raters.n_valid,
        "ac1_n": raters.n_valid,
        "fleiss_n": raters.n_complete,
        "reasons": {**why, **raters.reasons},
        "pairs": [
            {"first": first, "second": second, **asdict(panel)}
            for (first, second), panel in raters.pairs.items()
            if several
        ],
    }


def explain(panel: RatersPanel) -> list[str]:
    """Explain the figures, one or two sentences per line."""
    pairs = list(panel.pairs.values())
    return list(_explain_pair(pairs[0]) if len(pairs) == 1 else _explain_several(panel))


def _explain_pair(panel: Panel) -> Iterator[str]:
    if panel.agreement is None or panel.expected_agreement is None:
        yield f"Agreement is undefined: {panel.reasons['agreement']}."
        return
    table = panel.table
    yield (
        f"The raters gave the same label to {table.both + table.neither:g} of {table.n:g} items"
        f" ({percent(panel.agreement)})."
    )
    if panel.kappa is None:
        yield f"Kappa is undefined: {panel.reasons['kappa']}. This is not perfect agreement."
        return
    expected, gained = panel.expected_agreement, panel.agreement - panel.expected_agreement
    yield (
        f"They label {percent(panel.prevalence)} of the items 1 on average, so random labels at "
        f"that rate would agree on {percent(expected)}. Kappa is the share of the remaining "
        f"{100 * (1 - expected):.1f} points that they gained: {100 * gained:.1f}, or "
        f"{panel.kappa:.3f}."
    )
    if panel.agreement >= HIGH_AGREEMENT > panel.kappa:
        yield (
            "Kappa is low although agreement is high because one label is so common that most of "
            "the agreement is expected by chance."
        )
    positive, negative = panel.positive_agreement, panel.negative_agreement
    if positive is not None and negative is not None and abs(positive - negative) >= CLOSE:
        yield (
            f"When one rater says 1, the other does so in {percent(positive)} of cases; for 0 it "
            f"is {percent(negative)}. They disagree on the rarer label."
        )
    if panel.pabak is not None and panel.kappa is not None and panel.pabak - panel.kappa >= CLOSE:
        yield (
            f"PABAK ({panel.pabak:.3f}) rescales the raw agreement, 2 x agreement - 1: it treats "
            "both labels as equally common and hides disagreement on the rare one."
        )
    if panel.kappa_ci_score is not None:
        low, high = panel.kappa_ci_score
        yield (
            f"With {panel.n_valid} items, the data are compatible with a kappa from {low:.2f} to "
            f"{high:.2f} (95 % score interval)."
        )
    excluded = panel.n_total - panel.n_valid
    if excluded:
        yield f"{excluded} of {panel.n_total} items are excluded because a rater gave no label."


def _explain_several(panel: RatersPanel) -> Iterator[str]:
    yield f"{len(panel.raters)} raters: {', '.join(panel.raters)}."
    yield f"{panel.n_valid} of {panel.n_total} items have at least two labels."
    if panel.alpha is None:
        yield f"Krippendorff's alpha is undefined: {panel.reasons['alpha']}."
        return
    yield f"Krippendorff's alpha of all raters is {panel.alpha:.3f} (0: chance, 1: perfect)."
    if panel.ac1 is not None:
        yield f"Gwet's AC1, which unbalanced labels hardly change, is {panel.ac1:.3f}."
    if panel.fleiss is not None:
        yield (
            f"Fleiss' kappa is {panel.fleiss:.3f} on the {panel.n_complete} items that every "
            "rater labelled."
        )
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
    """Write the gate record in Markdown and JSON; never overwrite an earlier one."""
    for name in (MARKDOWN, JSON):
        if (folder / name).exists():
            raise InputError(f"{folder / name} already exists; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    identities = list(raters) or [RaterIdentity(name) for name in result.overall.raters]
    gate = result.gate
    record = {
        "verdict": "passed" if gate.passed else "failed",
        "outcome": gate.name,
        "consequence": gate.scope.as_dict(),
        "validity": gate.validity_json(),
        "rater_identities": [rater.as_dict() for rater in identities],
        "rubric": None
        if rubric is None
        else {
            "name": rubric.name,
            "version": rubric.version,
            "state": rubric.state,
            "first_turn": rubric.first_turn,
            "sha256": rubric.sha256,
            "history": [entry.as_dict() for entry in rubric.history],
        },
        "audit": audit_json(result),
    }
    write_text(folder / JSON, json_text(record) + "\n")
    write_text(folder / MARKDOWN, "\n".join(_markdown(result, rubric, identities)) + "\n")


def _markdown(
    result: Audit,
    rubric: Rubric | None,
    raters: Sequence[RaterIdentity],
) -> Iterator[str]:
    gate, overall = result.gate, result.overall
    yield from ("# Gate record", "")
    yield f"**Verdict: {gate.name}.** {escape_markdown(gate.headline)}."
    yield from ("", escape_markdown(gate.scope.sentence), "")
    yield from (f"- note: {escape_markdown(limit)}" for limit in gate.limits)
    yield f"- items: {overall.n_valid} valid of {overall.n_total}"
    yield from (f"- rater: {escape_markdown(str(rater))}" for rater in raters)
    if rubric is None:
        yield "- rubric: not stated"
    else:
        yield f"- rubric: {rubric}, sha256 {rubric.sha256}"
    yield from ("", "## Figures", "", *_figures(result), "")
    yield from ("## In words", "", *(f"- {escape_markdown(line)}" for line in explain(overall)), "")
    yield from ("## Disagreements", "", *_disagreements(result), "")
    if rubric is not None:
        yield from ("## Versions of the rubric", "", *history_lines(rubric))


def _figures(result: Audit) -> Iterator[str]:
    """Render a table with a column for all items and one per stratum."""

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
    undefined = defaultdict[str, dict[str, None]](dict)
    for column in columns.values():
        for name, reason in column["reasons"].items():
            if name in FIGURES:
                undefined[reason][name] = None
    for reason, names in sorted(undefined.items()):
        yield f"\nUndefined (–), {', '.join(names)}: {reason}."


def _disagreements(result: Audit) -> Iterator[str]:
    if not result.disagreements:
        yield "None listed: the raters agree on all items, or only counts were given."
        return
    raters = result.overall.raters
    yield "| item | stratum | " + " | ".join(map(escape_markdown, raters)) + " |"
    yield "|---" * (len(raters) + 2) + "|"
    for each in result.disagreements:
        cells = [each.item, each.stratum or ""]
        for rater in raters:
            label = "–" if each.labels[rater] is None else each.labels[rater]
            cells.append(f"{label} {each.reasons.get(rater, '')}".strip())
        yield f"| {' | '.join(map(escape_markdown, cells))} |"
