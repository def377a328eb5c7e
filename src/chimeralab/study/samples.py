"""The samples of a study: drawn by seed, apart from each other, and a gate's sample used once."""

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.detection.verdict import from_json
from chimeralab.rating.plan import GateTable, SampledBy
from chimeralab.rating.sampling import Sample, SampledItem, draw_sample
from chimeralab.rating.validity import verdict_of
from chimeralab.study.database import transaction
from chimeralab.study.detecting import stored_detections
from chimeralab.study.folder import Study
from chimeralab.study.raters import brought_up_to_date, candidates, now

Kind = Literal["calibration", "gate"]


@dataclass(frozen=True, slots=True)
class Draw(Record):
    """How a sample was asked for; without a size it is everything."""

    kind: Kind
    size: int | None
    seed: int = 0
    by: SampledBy = "condition"


@dataclass(frozen=True, slots=True)
class StoredSample(Record):
    """A sample as the store keeps it. A gate's is used when it has met its gate, or failed to."""

    name: str
    draw: Draw
    sample: Sample
    used: str | None
    labels_sha256: str | None
    passed: bool | None

    @property
    def population(self) -> str:
        """What the items stand for, in words."""
        total = sum(self.sample.population.values())
        return (
            f"{self.name}: {len(self.sample.items)} of {total} conversations "
            f"by {self.draw.by}, seed {self.draw.seed}"
        )


def stored_samples(study: Study) -> list[StoredSample]:
    """The samples in the order in which they were drawn."""
    with study.archive() as archive:
        rows = list(archive.rows("SELECT * FROM samples ORDER BY drawn, name"))
    found = []
    for row in rows:
        values = json.loads(row["sample"])
        items = tuple(SampledItem(**item) for item in values.pop("items"))
        drawn = (Draw(**json.loads(row["drawn_by"])), Sample(items=items, **values))
        passed = None if row["passed"] is None else bool(row["passed"])
        found.append(StoredSample(row["name"], *drawn, row["used"], row["labels_sha256"], passed))
    return found


def sample_named(study: Study, name: str) -> StoredSample:
    samples = {sample.name: sample for sample in stored_samples(study)}
    if name not in samples:
        known = ", ".join(samples) or "none has been drawn"
        raise InputError(f"unknown sample '{name}'; known: {known}")
    return samples[name]


def sealed_items(study: Study) -> AbstractSet[str]:
    """Conversations whose labels nobody compares yet, as a gate may still be decided on them."""
    gate: GateTable = study.plan.extras["gate"]
    samples = stored_samples(study)
    attempts = [sample for sample in samples if sample.draw.kind == "gate"]
    made = [sample for sample in attempts if sample.used]
    if not gate.declared or len(made) >= gate.attempts or any(sample.passed for sample in made):
        return frozenset()
    unsealed = {item for s in samples if s not in attempts or s.used for item in s.sample.ids}
    return {talk.id for talk in study.talks} - unsealed


def gate_draw(study: Study) -> Draw:
    """How the plan says that the sample of its gate is drawn."""
    gate: GateTable = study.plan.extras["gate"]
    return Draw("gate", gate.sample, gate.seed or 0, gate.by)


def draw(study: Study, asked: Draw) -> StoredSample:
    """Draw a sample from what no other sample holds. The same question gives the same sample."""
    study.checked_lock()
    with brought_up_to_date(study):
        earlier = stored_samples(study)
    same = next((sample for sample in earlier if sample.draw == asked and not sample.used), None)
    if same is not None:
        return same
    if asked.kind == "gate":
        _refuse_gate(study, asked, [each for each in earlier if each.draw.kind == "gate"])
    taken = {item for sample in earlier for item in sample.sample.ids}
    strata = _strata(study, asked.by)
    left = len(set(strata) - taken)
    if not left:
        raise InputError(
            f"{study.path} has nothing left to draw: what is finished and can be judged "
            f"({len(strata)} conversations) is in samples already"
        )
    drawn = draw_sample(
        strata,
        asked.size or left,
        seed=asked.seed,
        method="balanced" if asked.by == "verdict" else "proportional",
        without=taken,
    )
    name = f"{asked.kind}-{1 + sum(sample.draw.kind == asked.kind for sample in earlier)}"
    row = (name, asked.kind, json.dumps(drawn.as_dict()), json.dumps(asked.as_dict()), now())
    with brought_up_to_date(study) as db, transaction(db, study.store_path):
        db.execute(
            "INSERT INTO samples (name, kind, sample, drawn_by, drawn) VALUES (?, ?, ?, ?, ?)", row
        )
    return StoredSample(name, asked, drawn, None, None, None)


def use(study: Study, sample: StoredSample, labels_sha256: str, *, passed: bool) -> None:
    """Mark a gate's sample as used; the store refuses to do this twice."""
    row = (now(), labels_sha256, passed, sample.name)
    with brought_up_to_date(study) as db, transaction(db, study.store_path):
        db.execute("UPDATE samples SET used = ?, labels_sha256 = ?, passed = ? WHERE name = ?", row)


def _refuse_gate(study: Study, asked: Draw, earlier: list[StoredSample]) -> None:
    """Refuse a gate's sample that the plan does not allow, or that comes too early."""
    gate: GateTable = study.plan.extras["gate"]
    if not gate.declared:
        raise InputError("the plan declares no gate; draw --for calibration, or declare [gate]")
    if gate.seed is not None and asked.seed != gate.seed:
        raise InputError(f"the sample of the gate is drawn by the seed of the plan, {gate.seed}")
    if (asked.size, asked.by) != (gate.sample, gate.by):
        size = "every conversation" if gate.sample is None else f"{gate.sample} items"
        raise InputError(f"the gate of the plan is decided on {size} by {gate.by}, not on these")
    for sample in earlier:
        if not sample.used:
            raise InputError(f"{sample.name} has not been used yet; use it before you draw another")
        if sample.passed:
            raise InputError(f"{sample.name} has met the gate; there is nothing to try again")
        # With the seed of the plan another sample is one of what the first has left.
        if sample.draw == asked and gate.seed is None:
            raise InputError(f"{sample.name} was drawn like this and is used; choose another seed")
    if len(earlier) >= gate.attempts:
        raise InputError(
            f"the plan allows {gate.attempts} attempts at the gate, and all have been made"
        )
    with study.archive() as archive:
        left = archive.value("SELECT count(*) FROM trajectories WHERE outcome IS NULL")
    if left:
        raise InputError(
            f"{left} conversations are not finished; a gate's sample is drawn from all"
        )


def _strata(study: Study, by: SampledBy) -> Mapping[str, str]:
    known = candidates(study)
    if by == "condition":
        return {name: found.condition for name, found in known.items()}
    verdicts = {row["id"]: verdict_of(from_json(row)) for row in stored_detections(study)}
    if known.keys() - verdicts.keys():
        raise InputError("some conversations have no verdict yet; run `chimera detect` first")
    return {name: f"verdict {verdicts[name]}" for name in known if verdicts[name] is not None}
