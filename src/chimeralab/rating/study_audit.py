"""Audit of a study: agreement of its raters, its gate, and the validity of the detector."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.files import parse_json, read_regular, write_text
from chimeralab.core.numbers import percent, plural
from chimeralab.core.parts import format_value
from chimeralab.core.schema import json_text
from chimeralab.rating.audit import (
    JSON,
    MARKDOWN,
    Audit,
    RaterIdentity,
    audit,
    audit_json,
    write_record,
)
from chimeralab.rating.gate import FORBIDDEN, HUMAN, NO_AUDIT, ClaimScope, Gate
from chimeralab.rating.labels import LabelTable, from_ratings, write_targets
from chimeralab.rating.packets import DUPLICATES, PacketKey, lay_out_packet
from chimeralab.rating.plan import load_study_rubric
from chimeralab.rating.rater_checks import load_retest
from chimeralab.rating.raters import find_rater, list_raters, load_ratings
from chimeralab.rating.ratings import Item, Rating, Shuffler
from chimeralab.rating.rubric import Label
from chimeralab.rating.samples import (
    Sample,
    draw,
    draw_sample,
    find_sample,
    load_groups,
    load_items,
    load_samples,
    load_strata,
    mark_used,
)
from chimeralab.rating.validity import (
    AgainstRaters,
    Validity,
    judge_validity,
    validity,
    validity_json,
)
from chimeralab.stats.intervals import wilson
from chimeralab.study.database import decode
from chimeralab.study.export import find_sealed_items, load_adjudications
from chimeralab.study.folder import Study
from chimeralab.study.lock import digest
from chimeralab.study.steps import record_step
from chimeralab.study.store import SECRET, Archive
from chimeralab.study.verdicts import CheckResult, Finding, load_detections, nearly_equal

FOLDER, VALIDITY = "audit", "validity.json"

# By rater and conversation.
RatingsByRater = Mapping[str, Mapping[str, Rating]]


class Reliability(NamedTuple):
    """A decided gate, computed from the stored labels: what may be claimed, and the figures.

    `retests` has the number of items that a rater labelled twice, and how many got the same label;
    `limits` say why the gate can't decide, if it can't.
    """

    scope: ClaimScope
    verdict: str
    figures: Mapping[str, Any] | None
    raters: Sequence[RaterIdentity] = ()
    against: AgainstRaters = MappingProxyType({})
    retests: Mapping[str, tuple[int, int]] = MappingProxyType({})
    limits: Sequence[str] = ()

    @property
    def retest_in_words(self) -> str:
        """Test-retest agreement of each rater, in a sentence."""
        parts = []
        for rater, (items, same) in self.retests.items():
            low, high = map(percent, wilson(same, items))
            parts.append(
                f"{rater} gave {same} of {plural(items, 'repeated item')} the same "
                f"label again ({percent(same / items)}, 95 % interval {low} – {high})"
            )
        unasked = [each.name for each in self.raters if each.name not in self.retests]
        parts += [f"not asked of {', '.join(unasked)}"] if unasked else []
        return f"Retest agreement: {'; '.join(parts)}."


def scope_of(reliability: Reliability | None) -> ClaimScope:
    return NO_AUDIT if reliability is None else reliability.scope


def audit_study(study: Study, only: str | None = None) -> Audit:
    """Compare the raters; a declared gate is decided once, on its sample, and recorded.

    `only` names a calibration sample, which can be audited any number of times.
    """
    study.check_lock()
    gate: Gate = study.plan.extras["gate"]
    known = load_items(study)
    if gate.declared and only is None:
        return _decide(study, gate, known)
    sample = None if only is None else find_sample(study, only)
    if sample and sample.kind == "gate":
        raise InputError(f"{only} is a gate's sample, which is audited once, without --only")
    given = _select_ratings(study, list_raters(study), sample.ids if sample else None)
    given = {name: ratings for name, ratings in given.items() if ratings}
    table = _table(study, given, known)
    found = audit(table, allow_unlabelled=True)
    return replace(found, against=_validate(study, table, given, known))


def _decide(study: Study, gate: Gate, known: Mapping[str, Item]) -> Audit:
    """Decide the gate of the plan; the same labels give the same verdict again."""
    rubric = load_study_rubric(study)
    if rubric.state != "locked":
        raise InputError(
            f"the rubric is {rubric.state}; a gate needs a locked one: run `chimera calibrate`"
        )
    sample = _gate_sample(study, gate, known)
    found, given = _judge(study, gate, sample, known)
    if sample.used is None:
        mark_used(study, sample, _labels_hash(given), passed=found.gate.passed)
    folder = study.path / FOLDER
    raters = [find_rater(study, name).identity_record for name in gate.raters]
    rows = ", ".join(map(json_text, validity_json(found.against)))
    with record_step(study, "audit"):
        _archive_earlier_record(folder, found)
        write_record(folder, found, rubric, raters)
        write_text(folder / VALIDITY, f"[{rows}]\n")
    return replace(found, record=str(folder))


def _judge(
    study: Study,
    gate: Gate,
    sample: Sample,
    known: Mapping[str, Item],
    *,
    any_labels: bool = False,
) -> tuple[Audit, RatingsByRater]:
    """Judge gate and detector by the stored labels, regardless of earlier records.

    All labels must be there and, once the gate is decided, be unchanged; `verify` skips these
    checks with `any_labels`, to report what is wrong.
    """
    given = _select_ratings(study, gate.raters, sample.ids)
    if not any_labels:
        if sample.used is not None and sample.labels_sha256 != _labels_hash(given):
            raise InputError(
                f"{sample.name} was used on {sample.used[:10]} with other labels; a gate sample is "
                "used once, and its verdict is final"
            )
        _check_all_rated(study, given, sample.ids)
    table = _table(study, given, known, sample)
    found = audit(table, gate, allow_unlabelled=True)
    against = _validate(study, table, given, known)
    outcome = replace(found.gate, population=str(sample))
    if gate.validity is not None:
        validated, reason = judge_validity(gate.validity, against)
        outcome = replace(outcome, validated=validated, validity_reason=reason)
    return replace(found, gate=outcome, sample=sample.name, against=against), given


def load_reliability(study: Study) -> Reliability | None:
    """Compute the decided gate of a study from its labels; None while it is undecided."""
    gate: Gate = study.plan.extras["gate"]
    if not gate.declared or not study.store_path.is_file():
        return None
    sample = _find_decided_sample(study)
    if sample is None:
        return None
    try:
        found, _ = _judge(study, gate, sample, load_items(study))
        planned = [find_rater(study, name) for name in gate.raters]
    except InputError as error:
        why = (
            f"The reliability gate can't be recomputed from the stored labels: {error}. "
            "Every claim about collapse describes what the detector marked."
        )
        return Reliability(ClaimScope("descriptive", why, FORBIDDEN), "not reliable", None)
    return Reliability(
        scope=found.gate.scope,
        verdict=found.gate.name,
        figures=audit_json(found),
        raters=[each.identity_record for each in planned],
        against=found.against,
        retests={each.name: again for each in planned if (again := load_retest(study, each))},
        limits=found.gate.limits,
    )


def load_decided_gate(study: Study) -> tuple[Audit, RatingsByRater] | None:
    """Load the last decided gate with the ratings behind it; None while there is none."""
    gate: Gate = study.plan.extras["gate"]
    sample = _find_decided_sample(study)
    if not gate.declared or sample is None:
        return None
    return _judge(study, gate, sample, load_items(study))


def _find_decided_sample(study: Study) -> Sample | None:
    used = [each for each in load_samples(study) if each.kind == "gate" and each.used]
    return used[-1] if used else None


def _gate_sample(study: Study, gate: Gate, known: Mapping[str, Item]) -> Sample:
    """Find the latest sample of the gate; without a size, draw it once everything is rated."""
    samples = load_samples(study)
    drawn = [sample for sample in samples if sample.kind == "gate"]
    if drawn:
        return drawn[-1]
    if gate.sample is not None:
        raise InputError(
            f"no gate sample has been drawn; `chimera rate sample {study.path} --for gate` draws it"
        )
    taken = {item for sample in samples for item in sample.ids}
    items = [item for item in known if item not in taken]
    _check_all_rated(study, _select_ratings(study, gate.raters, items), items)
    return draw(study, "gate", gate.sample, gate.seed, gate.by)


def _select_ratings(
    study: Study, raters: Sequence[str], items: Sequence[str] | None
) -> RatingsByRater:
    """Load ratings of the given conversations, in their order, or of all."""
    rated = {name: load_ratings(study, name) for name in raters}
    if items is None:
        return rated
    return {
        name: {item: ratings[item] for item in items if item in ratings}
        for name, ratings in rated.items()
    }


def _labels_hash(given: RatingsByRater) -> str:
    return digest(
        {name: {i: r.label for i, r in ratings.items()} for name, ratings in given.items()}
    )


def _check_all_rated(study: Study, given: RatingsByRater, items: Sequence[str]) -> None:
    for name, ratings in given.items():
        if len(ratings) < len(items):
            person = name.removeprefix(HUMAN) if name.startswith(HUMAN) else ""
            how = f"invite {study.path} {person}" if person else f"{study.path} --rater {name}"
            raise InputError(
                f"{name} has not rated {len(items) - len(ratings)} of the {len(items)} "
                f"conversations of the gate; run `chimera rate {how}`"
            )


def _table(
    study: Study, given: RatingsByRater, known: Mapping[str, Item], sample: Sample | None = None
) -> LabelTable:
    """Tabulate labels with conditions as strata and prompts as clusters."""
    if len(given) < 2:
        raise InputError(
            f"agreement needs at least two raters; the study has {len(given)}; see `chimera rate`"
        )
    weights = sample.weights if sample is not None and sample.by == "verdict" else None
    conditions, prompts = load_groups(study)
    return from_ratings(
        (rating for ratings in given.values() for rating in ratings.values()),
        strata={name: conditions[name] for name in known},
        clusters={name: prompts[name] for name in known},
        weights=weights,
    )


def _archive_earlier_record(folder: Path, found: Audit) -> None:
    """Move the record of an earlier attempt to its own folder; delete that of this one."""
    try:
        record = parse_json(read_regular(folder / JSON))
        population = str(record["audit"]["gate"]["population"])
    except (OSError, ValueError, KeyError, TypeError):
        population = found.gate.population
    if population != found.gate.population:
        earlier = folder / f"attempt-{1 + len(list(folder.glob('attempt-*')))}"
        earlier.mkdir()
        for name in (JSON, MARKDOWN, VALIDITY):
            if (folder / name).exists():
                (folder / name).rename(earlier / name)
    for name in (JSON, MARKDOWN):
        (folder / name).unlink(missing_ok=True)


def _validate(
    study: Study, table: LabelTable, given: RatingsByRater, known: Mapping[str, Item]
) -> AgainstRaters:
    """Compare the stored verdicts with each rater's labels on the same conversations."""
    detections = list(load_detections(study))
    unjudged = set(table.items) - {each.id for each in detections}
    compared: dict[str, Validity | str] = {}
    for name, ratings in given.items():
        if unjudged:
            compared[name] = "some conversations have no verdict yet: run `chimera detect`"
        elif all(rating.label is None for rating in ratings.values()):
            compared[name] = "the rater gave no label"
        elif len(ratings) < len(table.items):
            compared[name] = "the rater has not rated every item"
        else:
            rated, rng = [ratings[item] for item in table.items], np.random.default_rng(0)
            compared[name] = validity(detections, rated, known, rng=rng, design=table.design)
    return compared


def recompute_gate(study: Study) -> CheckResult:
    """Decide the gate again on the stored labels, and compare the result with its record."""
    gate: Gate = study.plan.extras["gate"]
    sample = _find_decided_sample(study)
    if sample is None:
        return _check_orphan_record(study, gate)
    place = f"{FOLDER}/{JSON}"
    findings = []
    try:
        found, given = _judge(study, gate, sample, load_items(study), any_labels=True)
    except InputError as error:
        return CheckResult((Finding(sample.name, f"its gate can't be recomputed: {error}"),))
    passed, figures = found.gate.passed, json.loads(json.dumps(audit_json(found)))
    if _labels_hash(given) != sample.labels_sha256:
        findings.append(Finding(sample.name, "its labels changed after the gate was decided"))
    if passed != sample.passed:
        was, now = ("passed" if each else "failed" for each in (sample.passed, passed))
        findings.append(Finding(sample.name, f"it {was}, but its labels give: {now}"))
    try:
        record = parse_json(read_regular(study.path / place))
        verdict = "passed" if passed else "failed"
        # Records of early versions have no outcome.
        recorded = (record["verdict"], record.get("outcome", found.gate.name))
        if recorded != (verdict, found.gate.name):
            problem = (
                f"it says {' and '.join(map(format_value, recorded))}, but its labels disagree"
            )
            findings.append(Finding(place, problem))
        figures = _drop_added(figures, record["audit"])
        wrong = [
            name
            for name, value in figures.items()
            if not nearly_equal(record["audit"].get(name), value, 1e-9)
        ]
        if wrong:
            name = wrong[0]
            values = f"{format_value(record['audit'].get(name))} → {format_value(figures[name])}"
            problem = f"it differs from its labels (recorded → recomputed): {name} {values}"
            findings.append(Finding(place, problem))
    except OSError:
        findings.append(Finding(place, "it is missing; `chimera audit` writes it again"))
    except (ValueError, KeyError, TypeError, AttributeError):
        findings.append(Finding(place, "it is not a gate record"))
    return CheckResult(tuple(findings), ("the gate, decided again on the stored labels",))


# Figures that records of earlier versions lack.
ADDED = (
    "ac1_ci", "ac1_n", "alpha_n", "at_lower_bound", "fleiss_n", "interval", "items", "limits",
)  # fmt: skip


def _drop_added(figures: Any, record: Any) -> Any:
    """Leave out the figures that were added after the record was written."""
    if isinstance(figures, dict) and isinstance(record, dict):
        return {
            name: _drop_added(value, record.get(name))
            for name, value in figures.items()
            if name in record or name not in ADDED
        }
    return figures


def _check_orphan_record(study: Study, gate: Gate) -> CheckResult:
    """Check a record without a decided gate: forged if the plan has a gate, else not ours."""
    for place in (f"{FOLDER}/{JSON}", JSON):
        if not (study.path / place).exists():
            continue
        if gate.declared:
            problem = "it records a gate that has not been decided"
            return CheckResult((Finding(place, problem),))
        return CheckResult(unchecked=(f"{place}, made from ratings outside this study",))
    return CheckResult()


def recompute_draws(study: Study, archive: Archive) -> CheckResult:
    """Draw every sample and packet again with the secret of the study, and compare.

    A bundle withholds the secret together with the labels of an undecided gate.
    """
    packets = list(archive.rows("SELECT name, packet FROM packets ORDER BY made, name"))
    if not packets and not archive.value("SELECT count(*) FROM samples"):
        return CheckResult()
    samples = load_samples(study)
    secret = archive.value("SELECT value FROM study WHERE key = ?", SECRET)
    if secret is None:
        return CheckResult(unchecked=("samples and packets, whose secret is not revealed yet",))
    found = CheckResult(checked=("samples and packets, drawn again with their secret",))
    ended = {row["id"]: row["ended"] for row in archive.talks()}
    taken: set[str] = set()
    for each in samples:
        drawn = archive.value("SELECT drawn FROM samples WHERE name = ?", each.name)
        try:
            known = load_strata(study, each.by)
        except InputError:  # verdicts are gone, which is reported elsewhere
            known = {}
        strata = {
            item: stratum
            for item, stratum in known.items()
            if item not in taken and ended[item] <= drawn
        }
        taken.update(each.ids)
        if Counter(strata.values()) != each.population:
            found.unchecked += (f"{each.name}: what it was drawn from has changed since",)
            continue
        shuffler = Shuffler(secret, f"sample {each.seed}")
        if draw_sample(strata, len(each.ids), shuffler, method=each.method).items != each.items:
            found.findings += (Finding(each.name, "its seed and secret draw another sample"),)
    items, rubric = load_items(study), load_study_rubric(study)
    for row in packets:
        try:
            key: PacketKey = decode(PacketKey, "packets", row, "packet")
            shown = [items[name] for name in {entry.item for entry in key.entries}]
            share = DUPLICATES if any(entry.duplicate for entry in key.entries) else 0.0
            shuffler = Shuffler(secret, key.purpose)
            same = lay_out_packet(shown, rubric, shuffler, key.masked, share)[1].entries
        except (InputError, KeyError):
            same = None
        if same is None or same != key.entries:
            problem = "it is not the packet that the secret of the study draws"
            found.findings += (Finding(f"packet {row['name']}", problem),)
    return found


def load_settled_labels(study: Study) -> dict[str, Label]:
    """Load the labels that the raters agree on or an adjudicator decided.

    The raters are those of the declared gate, or else all. Conversations on which a gate may still
    be decided are left out.
    """
    gate: Gate = study.plan.extras["gate"]
    raters = gate.raters if gate.declared else list_raters(study)
    given = [load_ratings(study, name) for name in raters]
    with study.archive() as archive:
        adjudicated = load_adjudications(archive)
    sealed = find_sealed_items(study)
    settled: dict[str, Label] = {}
    for item in dict.fromkeys(item for rated in given for item in rated):
        labels = {rated[item].label for rated in given if item in rated}
        agreed = labels.pop() if len(labels) == 1 else None
        label = adjudicated.get(item, agreed)
        if label is not None and item not in sealed:
            settled[item] = label
    return settled


def write_validation_set(study: Study, folder: Path) -> Path:
    """Write the settled labels as a validation set for Inspect Scout."""
    labels = load_settled_labels(study)
    if not labels:
        raise InputError(
            f"no label of {study.path} is settled yet: raters must agree or a third person "
            "adjudicate, and a declared gate must be decided"
        )
    path = folder / "validation.csv"
    write_targets(path, labels)
    return path
