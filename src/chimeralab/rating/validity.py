"""Validity of the detector against raters, and its robustness across readings.

Three questions that are easily confused: do raters agree with each other (`audit`), does the
detector agree with raters (`validity`), do two readings of it agree (`robustness`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import between, number, percent, plural
from chimeralab.core.records import Detection, Record
from chimeralab.rating.gate import ValidityBar
from chimeralab.rating.loops import alternations, share_template
from chimeralab.rating.ratings import Item, Rating
from chimeralab.rating.rubric import Label
from chimeralab.rating.wording import normalize
from chimeralab.stats.clusters import Proportion
from chimeralab.stats.intervals import mcnemar_exact
from chimeralab.stats.panel import Diagnosis, Panel, diagnose, panel
from chimeralab.stats.resample import SampleDesign

# The detector flags no turn before the third.
FIRST_FLAGGED_TURN = 3

MEANING = {
    "short loop": "the rater's loop is too short or too early for the detector's run",
    "reworded loop": "a loop long enough, whose turns are less similar than the detector asks",
    "no loop named": "the rater says 1 without naming a stretch of adjacent turns",
    "alternation": "two different texts take turns: no neighbours are equal, the detector flags it",
    "farewell": "varied farewells that are similar in meaning",
    "new content": "turns that share a template, each with content of its own",
    "similar meaning": "turns similar in meaning and not in words",
}


@dataclass(frozen=True, slots=True)
class Validity(Record):
    """The detector compared with one rater, and every item where verdict and label differ.

    A difference has the verdict, the label, its class and the turns that decided it.
    """

    rater: str
    diagnosis: Diagnosis
    differences: tuple[Mapping[str, Any], ...]

    @property
    def classes(self) -> dict[str, int]:
        """The number of differences in each class, most frequent first."""
        counts = Counter(difference["name"] for difference in self.differences)
        return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


# The validity against each rater, or why it is unknown.
AgainstRaters = Mapping[str, Validity | str]


def verdict_of(detection: Detection) -> Label | None:
    """1 when any turn collapsed, 0 when none did, None when the detector gave no verdict."""
    if detection.collapse_rate is None:
        return None
    return 1 if detection.collapsed else 0


def validity(
    detections: Iterable[Detection],
    ratings: Sequence[Rating],
    items: Mapping[str, Item],
    *,
    rng: np.random.Generator,
    design: SampleDesign | None = None,
) -> Validity:
    """Compute sensitivity, specificity and kappa of the detector, with one rater as the reference.

    Every rated item must have a verdict and its texts; `design` is in the order of `ratings`.
    """
    by_id = _by_id(detections)
    _refuse_unknown((rating.item for rating in ratings), by_id, "verdict")
    _refuse_unknown((rating.item for rating in ratings), items, "text")
    raters = {rating.rater for rating in ratings}
    if len(raters) != 1:
        raise InputError(f"validity takes the ratings of one rater; there are {len(raters)}")
    judged = [by_id[rating.item] for rating in ratings]
    verdicts = [verdict_of(detection) for detection in judged]
    labels = [rating.label for rating in ratings]
    differing = (
        describe_difference(detection, rating, items[rating.item])
        for detection, rating in zip(judged, ratings, strict=True)
        if None not in (verdict := verdict_of(detection), rating.label) and verdict != rating.label
    )
    diagnosis = diagnose(verdicts, labels, rng=rng, design=design)
    return Validity(raters.pop(), diagnosis, tuple(differing))


def judge_validity(bar: ValidityBar, against: AgainstRaters) -> tuple[bool, str]:
    """Decide whether the detector reaches the thresholds against every rater, and say why.

    Lower bounds are compared, whatever the rule of the gate. Sensitivity and specificity must both
    be known: a detector that marks everything has a sensitivity of 1.
    """
    failures, reached = [], []
    for rater, compared_with in against.items():
        if isinstance(compared_with, str):
            failures.append(f"against {rater} it is unknown ({compared_with})")
            continue
        found = compared_with.diagnosis
        figures = {
            "sensitivity": (found.sensitivity.value, found.sensitivity.interval),
            "specificity": (found.specificity.value, found.specificity.interval),
            "kappa": (found.agreement.kappa, found.agreement.kappa_ci_score),
        }
        shown = []
        for name, (value, interval) in figures.items():
            minimum = bar.as_dict().get(name)
            if value is None or interval is None:
                if minimum is not None or name != "kappa":
                    failures.append(f"its {name} against {rater} is undefined")
                continue
            shown.append(f"{name} {number(value, 2)} ({between(interval, 2)})")
            if minimum is not None and interval[0] < minimum:
                reaches = f"reaches {minimum:.2f} at the point estimate, not at its lower bound"
                short = reaches if value >= minimum else f"stays below {minimum:.2f}"
                failures.append(f"its {shown[-1]} against {rater} {short}")
        reached.append(f"against {rater}, {', '.join(shown)}")
    return not failures, "; ".join(failures or reached)


def validity_in_words(rater: str, found: Validity | str) -> str:
    """Describe the validity against one rater in a sentence."""
    start = f"The detector against {rater}"
    if isinstance(found, str):
        return f"{start}: unknown ({found})."

    def format_share(share: Proportion) -> str:
        if share.value is None or share.interval is None:
            return percent(share.value)
        low, high = map(percent, share.interval)
        return f"{percent(share.value)} ({low} – {high}, {share.hits} of {share.n})"

    diagnosis = found.diagnosis
    agreed = diagnosis.agreement
    kappa = "undefined" if agreed.kappa is None else number(agreed.kappa, 3)
    if agreed.kappa_ci_score is not None:
        kappa += f" ({between(agreed.kappa_ci_score, 3)})"
    classes = ", ".join(f"{count} {name}" for name, count in found.classes.items())
    return (
        f"{start}, {plural(agreed.n_valid, 'item')}: "
        f"sensitivity {format_share(diagnosis.sensitivity)}, "
        f"specificity {format_share(diagnosis.specificity)}, kappa {kappa}; "
        f"they differ on {plural(len(found.differences), 'item')}"
        f"{f' ({classes})' if classes else ''}."
    )


def validity_json(against: AgainstRaters) -> list[dict[str, Any]]:
    rows = []
    for rater, found in against.items():
        row: dict[str, Any] = {"result": None, "classes": {}, "reason": found}
        if isinstance(found, Validity):
            row = {"result": found.as_dict(), "classes": found.classes, "reason": None}
        rows.append({"rater": rater, **row})
    return rows


def robustness(
    first: Iterable[Detection], second: Iterable[Detection], *, rng: np.random.Generator
) -> tuple[Panel, tuple[str, ...], float | None]:
    """Compare the verdicts of two readings on the same conversations.

    Returns their agreement, the conversations whose verdict differs, and the p-value of McNemar's
    test of whether one reading flags more of them.
    """
    one, other = _by_id(first), _by_id(second)
    _refuse_unknown(one, other, "verdict of the second reading")
    _refuse_unknown(other, one, "verdict of the first reading")
    pairs = {item: (verdict_of(one[item]), verdict_of(other[item])) for item in one}
    columns = ([pair[place] for pair in pairs.values()] for place in (0, 1))
    agreement = panel(*columns, rng=rng)
    changed = tuple(item for item, pair in pairs.items() if pair[0] != pair[1])
    table = agreement.table
    return agreement, changed, mcnemar_exact(int(table.first_only), int(table.second_only))


def _by_id(detections: Iterable[Detection]) -> dict[str, Detection]:
    by_id: dict[str, Detection] = {}
    for detection in detections:
        if detection.id in by_id:
            raise InputError(f"two verdicts on '{detection.id}'; ids must differ")
        by_id[detection.id] = detection
    return by_id


def _refuse_unknown(wanted: Iterable[str], known: Mapping[str, object], what: str) -> None:
    missing = next((item for item in wanted if item not in known), None)
    if missing is not None:
        raise InputError(f"item '{missing}' has no {what}")


def describe_difference(detection: Detection, rating: Rating, item: Item) -> dict[str, Any]:
    """Describe a difference between a verdict and a label, and name its class."""
    if rating.label != 1:
        name, turns = _classify_flagged(detection, item), detection.collapsed
    else:
        turns = rating.turns
        repeats = [turn for turn in sorted(turns)[1:] if turn >= FIRST_FLAGGED_TURN]
        # A detector without a window does not say what is too short for it.
        window = int(detection.detector["settings"].get("window", 0))
        name = "short loop" if len(repeats) < window else "reworded loop"
        if len(turns) < 3 or any(later != turn + 1 for turn, later in pairwise(sorted(turns))):
            name = "no loop named"
    return {
        "item": item.id,
        "detector": 1 if detection.collapsed else 0,
        "rater": rating.label or 0,
        "name": name,
        "meaning": MEANING[name],
        "turns": turns,
    }


def _classify_flagged(detection: Detection, item: Item) -> str:
    texts = [normalize(text) for text in item.texts]
    flagged = set(detection.collapsed)
    classes = {
        "alternation": {turn for stretch in alternations(texts) for turn in stretch},
        "farewell": {turn for turn in flagged if texts[turn - 1].farewell},
        "new content": {
            turn
            for turn in flagged
            if any(
                share_template(texts[n], texts[turn - 1]) for n in (turn - 2, turn - 3) if n >= 0
            )
        },
    }
    most = (name for name, turns in classes.items() if 2 * len(turns & flagged) > len(flagged))
    return next(most, "similar meaning")
