"""Calibration: raters label a practice set by a rubric, which is locked once they agree.

The raters and the kappa that they have to reach are stored before their labels are compared. A
practice set is used once, and every result stays on record, met or not.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.rating.audit import Audit, audit
from chimeralab.rating.gate import HUMAN, Gate
from chimeralab.rating.labels import from_ratings
from chimeralab.rating.plan import (
    CALIBRATION,
    check_rater_name,
    load_calibrations,
    load_study_rubric,
)
from chimeralab.rating.raters import find_rater, load_ratings
from chimeralab.rating.ratings import Rating
from chimeralab.rating.rubric import Rubric
from chimeralab.rating.samples import (
    draw,
    find_sample,
    load_groups,
    load_samples,
    open_store,
)
from chimeralab.study.database import transaction
from chimeralab.study.folder import Study
from chimeralab.study.lock import digest
from chimeralab.study.store import now
from chimeralab.study.verdicts import CheckResult, Finding, nearly_equal

SIZE = 20
PRACTICE = "practice set "


def calibrate(study: Study, bar: Gate | None = None) -> dict[str, Any]:
    """Take the next step of a calibration, and return where it stands.

    `bar` has the raters, the kappa and the practice set to draw; it is declared once, and the
    steps after that need none. `passed` is None while labels are `missing`.
    """
    study.check_lock()
    if "rubric" not in study.plan.extras:
        raise InputError(f"{study.path} has no rubric: a study of its kind is not rated")
    with open_store(study):
        rubric = load_study_rubric(study)
    done = load_calibrations(study, rubric)
    practice = _find_open_set(study, rubric, done)
    if practice is None:
        if bar is None and done and done[-1]["passed"]:
            return done[-1]
        practice = _declare(study, rubric, bar, done)
    elif bar is not None and _describe_bar(bar) != practice["bar"]:
        raise InputError(
            f"{practice['sample']} is under way for {' and '.join(practice['bar']['raters'])} with "
            f"a kappa of at least {practice['bar']['threshold']}; finish it without options"
        )
    given = _load_labels(study, practice)
    items = find_sample(study, practice["sample"]).ids
    missing = {name: len(items) - len(of) for name, of in given.items() if len(of) < len(items)}
    if missing:
        return {**practice, "passed": None, "missing": missing}
    record = {**practice, **_judge(study, practice, given), "at": now()}
    key = f"{CALIBRATION}{rubric.sha256} {practice['sample']}"
    used = (record["at"], record["labels_sha256"], record["passed"], practice["sample"])
    with open_store(study) as db, transaction(db, study.store_path):
        db.execute("INSERT INTO study VALUES (?, ?)", (key, json.dumps(record)))
        db.execute(
            "UPDATE samples SET used = ?, labels_sha256 = ?, passed = ? WHERE name = ?", used
        )
    return record


def next_steps(study: Study, found: Mapping[str, Any]) -> list[str]:
    """The commands that get the missing labels of a practice set."""
    steps = []
    for rater in found["missing"]:
        person = rater.startswith(HUMAN)
        who = f"invite {study.path} {rater.removeprefix(HUMAN)}" if person else str(study.path)
        how = "" if person else f" --rater {rater}"
        steps.append(f"chimera rate {who}{how} --only {found['sample']}")
    return [*steps, f"chimera calibrate {study.path}"]


def recompute_calibrations(study: Study) -> CheckResult:
    """Compare the raters again on the stored labels, and the result with its record."""
    findings, checked = [], []
    for record in load_calibrations(study):
        place = f"calibration on {record['sample']}"
        now_found = _judge(study, record, _load_labels(study, record))
        wrong = [k for k in now_found if not nearly_equal(record.get(k), now_found[k], 1e-9)]
        if wrong:
            findings.append(Finding(place, f"its record differs from its labels: {wrong[0]}"))
        checked.append(f"the {place}, compared again on the stored labels")
    return CheckResult(tuple(findings), tuple(checked))


def _find_open_set(
    study: Study, rubric: Rubric, done: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """Find the practice set of this rubric that has not been used."""
    used = {record["sample"] for record in done}
    with study.archive() as archive:
        rows = archive.rows("SELECT value FROM study WHERE key LIKE ?", f"{PRACTICE}%")
        declared = [json.loads(row["value"]) for row in rows]
    mine = (each for each in declared if each["rubric"]["sha256"] == rubric.sha256)
    return next((each for each in mine if each["sample"] not in used), None)


def _describe_bar(bar: Gate) -> dict[str, Any]:
    return {
        "raters": list(bar.raters),
        "threshold": bar.threshold,
        "size": bar.sample or SIZE,
        "by": bar.by,
        "seed": bar.seed,
    }


def _declare(
    study: Study, rubric: Rubric, bar: Gate | None, done: list[dict[str, Any]]
) -> dict[str, Any]:
    """Draw a practice set and store who has to agree on it, and how well."""
    if done and done[-1]["passed"]:
        raise InputError(
            f"{rubric} was calibrated on {done[-1]['sample']} with a kappa of "
            f"{done[-1]['kappa']:.3f}; a rubric is calibrated once in a study"
        )
    if bar is None or not bar.raters:
        raise InputError(
            f"who rates the practice set? `chimera calibrate {study.path} --rater rules "
            f"--rater {HUMAN}ann` draws it for two raters or more"
        )
    for name in bar.raters:
        check_rater_name(name, study.plan.extras["raters"], study.plan.models)
    decided = next((s for s in load_samples(study) if s.kind == "gate" and s.used), None)
    if decided:
        raise InputError(
            f"the gate was decided on {decided.name}; a calibration comes before the gate"
        )
    declared = _describe_bar(bar)
    sample = draw(study, "calibration", declared["size"], bar.seed, bar.by)
    rules = {name: getattr(rubric, name) for name in ("name", "version", "sha256")}
    practice = {"rubric": rules, "sample": sample.name, "bar": declared, "declared_at": now()}
    row = (f"{PRACTICE}{sample.name}", json.dumps(practice))
    with open_store(study) as db, transaction(db, study.store_path):
        db.execute("INSERT INTO study VALUES (?, ?)", row)
    return practice


def _load_labels(study: Study, practice: Mapping[str, Any]) -> dict[str, dict[str, Rating]]:
    """Load the ratings of a practice set, by rater and conversation."""
    items = find_sample(study, practice["sample"]).ids
    rated = {name: load_ratings(study, name) for name in practice["bar"]["raters"]}
    return {
        name: {item: ratings[item] for item in items if item in ratings}
        for name, ratings in rated.items()
    }


def _judge(
    study: Study, practice: Mapping[str, Any], given: Mapping[str, Mapping[str, Rating]]
) -> dict[str, Any]:
    """Compare the labels of a practice set: the kappa of the pair that agrees least."""
    bar, sample = practice["bar"], find_sample(study, practice["sample"])
    _, prompts = load_groups(study)
    table = from_ratings(
        (rating for ratings in given.values() for rating in ratings.values()),
        clusters={item: prompts[item] for item in sample.ids},
        weights=sample.weights if sample.by == "verdict" else None,
    )
    gate = Gate(tuple(bar["raters"]), threshold=bar["threshold"], rule="point")
    found: Audit = audit(table, gate, allow_unlabelled=True)
    known = [(p.kappa, p.kappa_ci_score) for p in found.overall.pairs.values()]
    interval = None if found.gate.value is None else dict(known)[found.gate.value]
    labels = {name: {item: r.label for item, r in of.items()} for name, of in given.items()}
    return {
        "kappa": found.gate.value,
        "kappa_ci": None if interval is None else list(interval),
        "items": found.overall.n_valid,
        "passed": found.gate.passed,
        "reason": re.sub(r"^(-?\d)", r"kappa \1", found.gate.reason),
        "raters": [str(find_rater(study, name).identity_record) for name in bar["raters"]],
        "disagreements": [each.item for each in found.disagreements],
        "labels_sha256": digest(labels),
    }
