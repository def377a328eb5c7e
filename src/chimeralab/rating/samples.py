"""Samples of items to rate: drawn by seed, disjoint, and used once for a gate."""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from chimeralab.core.errors import InputError
from chimeralab.core.parts import validate
from chimeralab.core.records import Record
from chimeralab.rating.gate import Gate, SampledBy
from chimeralab.rating.ratings import Item, Shuffler, make_item
from chimeralab.rating.validity import verdict_of
from chimeralab.study.database import name_cell, open_to_write, transaction
from chimeralab.study.folder import Study
from chimeralab.study.store import draw_secret, now
from chimeralab.study.verdicts import load_detections

Method = Literal["proportional", "balanced"]
Purpose = Literal["calibration", "gate"]


@contextmanager
def open_store(study: Study) -> Iterator[sqlite3.Connection]:
    """Open the database of a study that has been run."""
    if not study.store_path.is_file():
        raise InputError(f"{study.path} has not been run yet; start with `chimera run`")
    with closing(open_to_write(study.store_path)) as db:
        yield db


def load_items(study: Study) -> dict[str, Item]:
    """Load every finished conversation as an item, in the order of the plan."""
    return {
        talk.id: make_item(talk, "all")
        for talk in study.trajectories()
        if talk.metadata["outcome"] is not None
    }


def load_groups(study: Study) -> tuple[dict[str, str], dict[str, str]]:
    """Load the condition and the prompt of each conversation."""
    with study.archive() as archive:
        rows = list(archive.rows("SELECT id, condition, prompt FROM trajectories"))
    conditions = {row["id"]: row["condition"] for row in rows}
    return conditions, {row["id"]: row["prompt"] for row in rows}


@dataclass(frozen=True, slots=True)
class Sample(Record):
    """Items with their strata, and how they were drawn; a `size` of None draws everything.

    A gate's sample counts as used once the gate is decided.
    """

    items: tuple[tuple[str, str], ...]
    method: Method
    population: Mapping[str, int]
    seed: int = 0
    name: str = ""
    kind: Purpose = "calibration"
    size: int | None = None
    by: SampledBy = "condition"
    used: str | None = None
    labels_sha256: str | None = None
    passed: bool | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(item for item, _ in self.items)

    @property
    def weights(self) -> dict[str, float]:
        """Sampling weights: how many items of the population each stands for."""
        sizes = Counter(stratum for _, stratum in self.items)
        return {item: self.population[name] / sizes[name] for item, name in self.items}

    @property
    def request(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("kind", "size", "seed", "by")}

    @property
    def content(self) -> dict[str, Any]:
        weights = self.weights
        return {
            "items": [
                {"id": item, "stratum": stratum, "weight": weights[item]}
                for item, stratum in self.items
            ],
            "method": self.method,
            "seed": self.seed,
            "population": dict(self.population),
        }

    def __str__(self) -> str:
        total = sum(self.population.values())
        return (
            f"{self.name}: {len(self.items)} of {total} conversations "
            f"by {self.by}, seed {self.seed}"
        )

    def as_dict(self) -> dict[str, Any]:
        used = {name: getattr(self, name) for name in ("used", "labels_sha256", "passed")}
        return {"name": self.name, "draw": self.request, "sample": self.content, **used}


def draw_sample(
    strata: Mapping[str, str],
    size: int,
    shuffler: Shuffler,
    *,
    method: Method = "proportional",
    without: Collection[str] = (),
) -> Sample:
    """Draw a stratified sample: proportional, or balanced with equally many from each stratum.

    `strata` maps items to a condition or the detector's verdict; its order does not matter.
    >>> conditions = {f"run-{n}": "AB"[n % 2] for n in range(10)}
    >>> [stratum for _, stratum in draw_sample(conditions, 4, Shuffler("secret", "")).items]
    ['A', 'A', 'B', 'B']
    """
    members: dict[str, list[str]] = {}
    for item in sorted(set(strata) - set(without)):
        members.setdefault(strata[item], []).append(item)
    population = {name: len(members[name]) for name in sorted(members)}
    total = sum(population.values())
    if not 1 <= size <= total:
        raise InputError(f"a sample of {size} can't be drawn from {total} items")
    sizes = (
        _allocate_proportionally(population, size)
        if method == "proportional"
        else _allocate_equally(population, size)
    )
    items = tuple(
        (item, name)
        for name in population
        for item in sorted(shuffler.order(members[name])[: sizes[name]])
    )
    return Sample(items, method, population)


def _allocate_proportionally(population: Mapping[str, int], size: int) -> dict[str, int]:
    """Allocate by largest remainder, with at least one per stratum if the size allows."""
    total = sum(population.values())
    exact = {name: size * count / total for name, count in population.items()}
    sizes = {name: int(share) for name, share in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (sizes[name] - exact[name], name))
    for name in by_remainder[: size - sum(sizes.values())]:
        sizes[name] += 1
    empty = [name for name, count in sizes.items() if count == 0]
    for name in empty if size >= len(sizes) else ():
        largest = max(sizes, key=lambda other: sizes[other])
        sizes[largest] -= 1
        sizes[name] = 1
    return sizes


def _allocate_equally(population: Mapping[str, int], size: int) -> dict[str, int]:
    """Allocate equally; what a small stratum lacks goes to the others."""
    sizes = dict.fromkeys(population, 0)
    for _ in range(size):
        available = [name for name in sizes if sizes[name] < population[name]]
        sizes[min(available, key=lambda name: (sizes[name], name))] += 1
    return sizes


def load_samples(study: Study) -> list[Sample]:
    """Load the samples in the order in which they were drawn."""
    with study.archive() as archive:
        rows = list(archive.rows("SELECT * FROM samples ORDER BY drawn, name"))
    found = []
    for row in rows:
        with name_cell("samples", row, "sample"):
            values = json.loads(row["sample"]) | json.loads(row["drawn_by"])
            values["items"] = tuple((item["id"], item["stratum"]) for item in values["items"])
            values |= {name: row[name] for name in ("name", "used", "labels_sha256")}
            passed = None if row["passed"] is None else bool(row["passed"])
            sample = validate(Sample, {**values, "passed": passed})
            _ = sample.weights  # each item has a stratum of the population
        found.append(sample)
    return found


def find_sample(study: Study, name: str) -> Sample:
    samples = {sample.name: sample for sample in load_samples(study)}
    if name not in samples:
        known = ", ".join(samples) or "none has been drawn"
        raise InputError(f"unknown sample '{name}'; known: {known}")
    return samples[name]


def draw(
    study: Study, kind: Purpose, size: int | None, seed: int = 0, by: SampledBy = "condition"
) -> Sample:
    """Draw from the items outside earlier samples; the same request returns the same sample."""
    study.check_lock()
    with open_store(study) as db:
        earlier, secret = load_samples(study), draw_secret(db)
    request = {"kind": kind, "size": size, "seed": seed, "by": by}
    same = next(
        (sample for sample in earlier if sample.request == request and not sample.used), None
    )
    if same is not None:
        return same
    if kind == "gate":
        _check_gate_sample(study, request, [each for each in earlier if each.kind == "gate"])
    taken = {item for sample in earlier for item in sample.ids}
    strata = load_strata(study, by)
    left = len(set(strata) - taken)
    if not left:
        raise InputError(
            f"{study.path} has nothing left to draw: all {len(strata)} finished conversations are "
            "in samples already"
        )
    method: Method = "balanced" if by == "verdict" else "proportional"
    shuffler = Shuffler(secret, f"sample {seed}")
    drawn = draw_sample(strata, size or left, shuffler, method=method, without=taken)
    name = f"{kind}-{1 + sum(sample.kind == kind for sample in earlier)}"
    drawn = replace(drawn, name=name, kind=kind, size=size, seed=seed, by=by)
    row = (name, kind, json.dumps(drawn.content), json.dumps(request), now())
    with open_store(study) as db, transaction(db, study.store_path):
        db.execute(
            "INSERT INTO samples (name, kind, sample, drawn_by, drawn) VALUES (?, ?, ?, ?, ?)", row
        )
    return drawn


def mark_used(study: Study, sample: Sample, labels_sha256: str, *, passed: bool) -> None:
    """Mark a gate's sample as used, which the store allows once."""
    row = (now(), labels_sha256, passed, sample.name)
    with open_store(study) as db, transaction(db, study.store_path):
        db.execute("UPDATE samples SET used = ?, labels_sha256 = ?, passed = ? WHERE name = ?", row)


def _check_gate_sample(study: Study, request: Mapping[str, Any], earlier: Sequence[Sample]) -> None:
    """Reject a gate sample that differs from the plan, or is drawn too early or too often."""
    gate: Gate = study.plan.extras["gate"]
    if not gate.declared:
        raise InputError("the plan declares no gate; declare [gate], or draw --for calibration")
    if request["seed"] != gate.seed:
        raise InputError(f"the gate's sample is drawn with the seed of the plan, {gate.seed}")
    if (request["size"], request["by"]) != (gate.sample, gate.by):
        size = "every conversation" if gate.sample is None else f"{gate.sample} items"
        raise InputError(
            f"the plan's gate is decided on {size} by {gate.by}; use these for its sample"
        )
    for sample in earlier:
        if not sample.used:
            raise InputError(f"{sample.name} has not been used yet; run `chimera audit` first")
        if sample.passed:
            raise InputError(f"{sample.name} has already met the gate; no other sample is needed")
    if len(earlier) >= gate.attempts:
        raise InputError(
            f"the plan allows {gate.attempts} attempts at the gate, and all have been used"
        )
    with study.archive() as archive:
        left = archive.value("SELECT count(*) FROM trajectories WHERE outcome IS NULL")
    if left:
        raise InputError(
            f"{left} conversations are not finished; a gate's sample is drawn when all are"
        )


def load_strata(study: Study, by: SampledBy) -> Mapping[str, str]:
    """Load the stratum of each finished conversation: its condition, or the detector's verdict."""
    known = load_items(study)
    if by == "condition":
        conditions, _ = load_groups(study)
        return {name: conditions[name] for name in known}
    verdicts = {each.id: verdict_of(each) for each in load_detections(study)}
    if known.keys() - verdicts.keys():
        raise InputError("some conversations have no verdict yet; run `chimera detect` first")
    return {name: f"verdict {verdicts[name]}" for name in known if verdicts[name] is not None}
