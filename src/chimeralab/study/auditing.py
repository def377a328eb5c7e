"""Auditing a study: how far its raters agree, and whether that meets the gate of the plan."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text, replacing
from chimeralab.core.records import Record
from chimeralab.rating.audit import Audit, audit
from chimeralab.rating.gate_record import JSON, MARKDOWN, write_record
from chimeralab.rating.label_table import LabelTable, from_ratings
from chimeralab.rating.ratings import Rating
from chimeralab.study.folder import Study
from chimeralab.study.lock import digest
from chimeralab.study.rater_identity import identity_of, rubric_of
from chimeralab.study.rating_sections import GateTable
from chimeralab.study.ratings import Candidate, candidates, stored_raters, stored_ratings
from chimeralab.study.samples import (
    Draw,
    StoredSample,
    draw,
    sample_named,
    stored_samples,
    use,
)
from chimeralab.study.validating import ValidityAgainst, validate

FOLDER, VALIDITY = "audit", "validity.json"


@dataclass(frozen=True, slots=True)
class StudyAudit(Record):
    """The audit of a study, the sample of its gate if one is declared, the detector's validity."""

    audit: Audit
    sample: str | None
    validity: tuple[ValidityAgainst, ...]
    record: str | None


def audit_study(study: Study, only: str | None = None) -> StudyAudit:
    """Compare the raters. A declared gate is held once on its sample and leaves a record.

    `only` names a calibration sample instead: it is compared as often as one likes.
    """
    study.checked_lock()
    gate: GateTable = study.plan.extras["gate"]
    known = candidates(study)
    if gate.declared and only is None:
        return _held(study, gate, known)
    ratings = all_ratings(study, only)
    table = _table(ratings, known)
    found = audit(table, may_be_silent=True)
    return StudyAudit(found, None, validate(study, table, ratings, known), None)


def label_table(study: Study) -> LabelTable:
    """The labels that the audit of a study compares; those of a gate once it has been held."""
    gate: GateTable = study.plan.extras["gate"]
    if not gate.declared:
        return _table(all_ratings(study), candidates(study))
    used = [sample for sample in stored_samples(study, "gate") if sample.used]
    if not used:
        raise InputError(f"the gate of {study.path} has not been held; run `chimera audit` first")
    ratings = _of_gate(study, gate, used[-1].sample.ids)
    return _table(ratings, candidates(study), used[-1])


def all_ratings(study: Study, only: str | None = None) -> dict[str, dict[str, Rating]]:
    """What every rater said, about all conversations or those of a calibration sample."""
    sample = None if only is None else sample_named(study, only)
    if sample and sample.draw.kind == "gate":
        raise InputError(f"{only} is a gate's sample: its labels are compared once, without --only")
    ratings = {name: stored_ratings(study, name) for name in stored_raters(study)}
    ratings = _within(ratings, sample.sample.ids) if sample else ratings
    return {name: given for name, given in ratings.items() if given}


def _held(study: Study, gate: GateTable, known: Mapping[str, Candidate]) -> StudyAudit:
    rubric = rubric_of(study)
    if rubric.state != "locked":
        raise InputError(f"the rubric is {rubric.state}; a gate is held with a locked one")
    sample = _gate_sample(study, gate, known)
    ratings = _of_gate(study, gate, sample.sample.ids)
    _refuse_unrated(study, ratings, sample.sample.ids)
    table = _table(ratings, known, sample)
    found = audit(table, gate.gate(sample.population), may_be_silent=True)
    _use_once(study, sample, ratings, found)
    validity = validate(study, table, ratings, known)
    record = study.path / FOLDER
    _write(study, record, found, gate.raters)
    _write_validity(record, validity)
    return StudyAudit(found, sample.name, validity, str(record))


def _gate_sample(study: Study, gate: GateTable, known: Mapping[str, Candidate]) -> StoredSample:
    """The last sample of the gate; one that takes in everything is drawn when all is rated."""
    samples = stored_samples(study)
    drawn = [sample for sample in samples if sample.draw.kind == "gate"]
    if drawn:
        return drawn[-1]
    if gate.sample is not None:
        raise InputError(
            f"no gate sample has been drawn; `chimera rate {study.path} --sample {gate.sample} "
            f"--by {gate.by} --seed N` draws it"
        )
    taken = {item for sample in samples for item in sample.sample.ids}
    items = [item for item in known if item not in taken]
    _refuse_unrated(study, _of_gate(study, gate, items), items)
    return draw(study, Draw("gate", None))


def _of_gate(study: Study, gate: GateTable, items: Sequence[str]) -> dict[str, dict[str, Rating]]:
    """What the raters of the gate said about the items."""
    return _within({name: stored_ratings(study, name) for name in gate.raters}, items)


def _within(
    ratings: Mapping[str, Mapping[str, Rating]], items: Sequence[str]
) -> dict[str, dict[str, Rating]]:
    return {
        name: {item: given[item] for item in items if item in given}
        for name, given in ratings.items()
    }


def _refuse_unrated(
    study: Study, ratings: Mapping[str, Mapping[str, Rating]], items: Sequence[str]
) -> None:
    for name, given in ratings.items():
        if len(given) < len(items):
            raise InputError(
                f"{name} has not rated {len(items) - len(given)} of the {len(items)} "
                f"conversations of the gate; see `chimera rate {study.path} --rater {name}`"
            )


def _table(
    ratings: Mapping[str, Mapping[str, Rating]],
    known: Mapping[str, Candidate],
    sample: StoredSample | None = None,
) -> LabelTable:
    """Strata are conditions; conversations about one prompt belong together."""
    if len(ratings) < 2:
        raise InputError(
            f"agreement needs two raters, and the study has {len(ratings)}; see `chimera rate`"
        )
    weighted = sample is not None and sample.draw.by == "verdict"
    weights = (
        {item.id: item.weight for item in sample.sample.items} if sample and weighted else None
    )
    return from_ratings(
        (rating for given in ratings.values() for rating in given.values()),
        strata={name: found.condition for name, found in known.items()},
        clusters={name: found.prompt for name, found in known.items()},
        weights=weights,
    )


def _use_once(
    study: Study, sample: StoredSample, ratings: Mapping[str, Mapping[str, Rating]], found: Audit
) -> None:
    """The first verdict on a sample stands: the same labels give it again, others are refused."""
    labels = {name: {i: r.label for i, r in given.items()} for name, given in ratings.items()}
    fingerprint = digest(labels)
    if sample.used is None:
        use(study, sample, fingerprint, passed=found.gate.passed)
    elif sample.labels_sha256 != fingerprint:
        raise InputError(
            f"{sample.name} was used on {sample.used[:10]} with other labels; a gate sample is "
            "used once, and its verdict stands"
        )


def _write(study: Study, folder: Path, found: Audit, raters: Iterable[str]) -> None:
    """Write the record of the gate; that of an earlier attempt is moved aside."""
    if (folder / JSON).exists():
        if (
            _population(folder / JSON) == found.gate.gate.population
            and (folder / MARKDOWN).exists()
        ):
            return
        _move_aside(folder)
    identities = [identity_of(study, name).for_record for name in raters]
    write_record(folder, found, rubric_of(study), identities)


def _population(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["audit"]["gate"]["population"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _move_aside(folder: Path) -> None:
    number = 1 + len(list(folder.glob("attempt-*")))
    earlier = folder / f"attempt-{number}"
    earlier.mkdir()
    for name in (JSON, MARKDOWN, VALIDITY):
        if (folder / name).exists():
            (folder / name).rename(earlier / name)


def _write_validity(folder: Path, validity: tuple[ValidityAgainst, ...]) -> None:
    with replacing(folder / VALIDITY) as part:
        text = json_text([each.as_dict() for each in validity])
        part.write_text(text + "\n", encoding="utf-8")
