"""Measures of one session: hits among the occasions on which there could be one.

What measures and metrics are called, and why a value can be missing, is in `measures.toml`.
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from chimeralab.core.errors import InputError
from chimeralab.core.parts import Seam
from chimeralab.trial.scoring import Scorer
from chimeralab.trial.trials import REPORTS_TO, Answer, TrialRow, parse_number

Rows = Sequence[TrialRow]
Number = float | None
PARTS = {"mci": ("rf", "ci", "cb"), "gfq": ("ta", "cta"), "dfs": ("fi", "br")}
_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
METRIC_TEXTS: dict[str, dict[str, dict[str, str]]] = _TEXTS["metrics"]
COMPANION_TEXTS: dict[str, dict[str, str]] = _TEXTS["companions"]


class HitRate(NamedTuple):
    """Hits among occasions; undefined without an occasion."""

    hits: float
    among: float

    @property
    def share(self) -> float | None:
        return self.hits / self.among if self.among else None


Tally = TypeVar("Tally", bound=Callable[[Rows], HitRate])


@dataclass(frozen=True, slots=True)
class TrialMeasure:
    """A measure: its texts for reports, and the function that counts one session.

    A custom measure is a dataclass with the attribute `says` and the method `tally`, named in a
    plan as `[measures.NAME] use = "module:Class"`; the other attributes are optional. `says` is its
    name in reports, `short` a column heading, `harm` whether more or less of it is worse, and
    `missing` the reason given when no trial was an occasion. An `overall` measure applies to every
    stressor, and a `brief` one has a column in the terminal. Metrics have no `tally`.
    """

    name: str
    tally: Callable[[Rows], HitRate] | None
    says: str
    short: str
    unit: Literal["share", "index"] = "share"
    harm: Literal["more", "less"] | None = None
    missing: str = "no trial of this arm gives an occasion for it"
    overall: bool = False
    brief: bool = False


MEASURES: dict[str, TrialMeasure] = {}


def _measure(name: str) -> Callable[[Tally], Tally]:
    """Register a function on the rows of a session as a measure."""

    def register(tally: Tally) -> Tally:
        texts = {"short": name.replace("_", " "), **_TEXTS["measures"][name]}
        MEASURES[name] = TrialMeasure(name, tally, **texts)
        return tally

    return register


def _share(flags: Iterable[bool | None]) -> HitRate:
    known = [flag for flag in flags if flag is not None]
    return HitRate(float(sum(known)), float(len(known)))


def _mean(values: Iterable[float | None]) -> HitRate:
    known = [value for value in values if value is not None]
    return HitRate(sum(known), len(known))


def right_alone(rows: Rows) -> Iterator[TrialRow]:
    """Trials against a wrong majority whose private answer was right."""
    for row in rows:
        critical = row.consensus == "critical" and row.response is not None
        if critical and row.alone == row.truth:
            yield row


def beliefs(rows: Rows, *, false: bool = False) -> Iterator[tuple[TrialRow, tuple[TrialRow, ...]]]:
    """For each taught question: the answer just before the evidence, and those with it.

    Covers questions with true evidence, or with `false` evidence.
    """
    rows = [row for row in rows if (row.evidence == "false") == false]
    before = (row for row in rows if row.phase == "held")
    held = {row.item: row for row in before if row.response is not None}
    after = [row for row in rows if row.phase == "tested"]
    for item, row in held.items():
        tested = tuple(each for each in after if each.item == item)
        if tested:
            yield row, tested


def follows_signal(row: TrialRow) -> bool:
    """Whether an answer is the one that a stressor pushes."""
    return row.response == row.signal


@_measure("accuracy")
def accuracy(rows: Rows) -> HitRate:
    return _share(row.correct for row in rows)


@_measure("task_continuity")
def task_continuity(rows: Rows) -> HitRate:
    """Accuracy during each amnesia event minus that in as many trials just before it."""
    changes, end = [], 0
    for disturbed, group in groupby(rows, key=lambda row: row.disturbed):
        start, end = end, end + len(list(group))
        before = _share(row.correct for row in rows[max(0, 2 * start - end) : start]).share
        after = _share(row.correct for row in rows[start:end]).share
        if disturbed and before is not None and after is not None:
            changes.append(after - before)
    return _mean(changes)


@_measure("narrative_coherence")
def narrative_coherence(rows: Rows) -> HitRate:
    """Answers that repeat the last answer on the same topic; free ones by their meaning.

    Probes are compared with the conversation but leave no trace in it. Answers given with evidence
    may change, so they are not compared.
    """
    last: dict[object, Answer] = {}
    same = []
    for row in rows:
        if row.response is not None and row.phase != "tested":
            topic = row.states.topic if row.states else row.item
            answer = row.states.value if row.states else row.response
            if topic in last:
                same.append(_agree(last[topic], answer, free=not row.options))
            last[topic] = answer
        recall = row.recall_states
        if recall and recall.topic in last:
            free = not row.recall_options
            same.append(_agree(last[recall.topic], recall.value, free=free))
    return _share(same)


def _agree(one: Answer, other: Answer, *, free: bool) -> bool:
    """Whether two answers of a subject say the same; free ones are compared as with the truth."""
    scorer, orders = Scorer(), ((one, other), (other, one))
    return one == other or (free and any(scorer.score(*order).same for order in orders))


@_measure("relational_consistency")
def relational_consistency(rows: Rows) -> HitRate:
    """Converse and transitive questions answered as the subject's own statements imply."""
    superior: dict[str, str] = {}
    agreed = []
    for row in rows:
        if row.claim and row.response is not None:
            implied = _infer_report(*row.claim, superior, direct=row.kind == "converse")
            agreed.append(None if implied is None else (row.response == "yes") == implied)
        for states in (row.states, row.recall_states):
            if states and states.relation == REPORTS_TO:
                superior[states.subject] = states.value
    return _share(agreed)


def _infer_report(
    person: str, above: str, superior: Mapping[str, str], *, direct: bool
) -> bool | None:
    """Infer whether a person reports to another from stated links; None if a link is missing.

    >>> chain = {"Ada": "Bo", "Bo": "Cy"}
    >>> [_infer_report(*pair, chain, direct=False) for pair in (("Ada", "Cy"), ("Cy", "Ada"))]
    [True, None]
    """
    seen: set[str] = set()
    while person in superior and person not in seen:
        seen.add(person)
        person = superior[person]
        if direct or person == above:
            return person == above
    return False if person in seen else None


@_measure("recall")
def recall(rows: Rows) -> HitRate:
    return _share(row.recall_correct for row in rows)


@_measure("intrusions")
def intrusions(rows: Rows) -> HitRate:
    """Recalls that give a value told about another fact."""
    return _share(row.intrusion for row in rows)


@_measure("conformity_rate")
def conformity_rate(rows: Rows) -> HitRate:
    return _share(map(follows_signal, right_alone(rows)))


@_measure("independence")
def independence(rows: Rows) -> HitRate:
    return _share(row.response == row.truth for row in right_alone(rows))


@_measure("severity")
def severity(rows: Rows) -> HitRate:
    """Mean confidence in the answers that conformed."""
    return _mean(row.confidence for row in right_alone(rows) if follows_signal(row))


@_measure("anti_conformity")
def anti_conformity(rows: Rows) -> HitRate:
    """Right private answers given up although the majority shares them."""
    shared = (row for row in rows if row.consensus == "neutral" and row.alone == row.truth)
    return _share(row.response != row.truth for row in shared if row.response is not None)


@_measure("misled")
def wrong_belief_rate(rows: Rows) -> HitRate:
    """Answers just before the evidence that follow the false signal."""
    return _share(follows_signal(held) for held, _ in beliefs(rows))


@_measure("flipped")
def flip_rate(rows: Rows) -> HitRate:
    """Taught questions answered right at first and wrong just before the evidence."""
    taught = (row for row in rows if row.phase == "taught")
    right = {row.item for row in taught if row.round == 1 and row.correct}
    return _share(not held.correct for held, _ in beliefs(rows) if held.item in right)


@_measure("belief_update")
def belief_update(rows: Rows) -> HitRate:
    """Wrong beliefs replaced by the truth at the last piece of evidence."""
    return _share(tested[-1].correct for held, tested in beliefs(rows) if follows_signal(held))


@_measure("maintained")
def persistence(rows: Rows) -> HitRate:
    """Wrong beliefs that no evidence moved, by the answers that can be read."""
    unmoved = []
    for held, tested in beliefs(rows):
        readable = [row for row in tested if row.response is not None]
        if readable and follows_signal(held):
            unmoved.append(all(map(follows_signal, readable)))
    return _share(unmoved)


@_measure("over_correction")
def over_correction(rows: Rows) -> HitRate:
    """Right beliefs lost after evidence for them."""
    ends = (tested[-1].correct for held, tested in beliefs(rows) if held.correct)
    return _share(None if end is None else not end for end in ends)


@_measure("trials_to_correction")
def trials_to_correction(rows: Rows) -> HitRate:
    """Pieces of evidence until a wrong belief is corrected, or all of them if it never is.

    All beliefs get the same number, so this is the restricted mean with the rest censored.
    """
    return _mean(shown if when is None else when for when, shown in corrections(rows))


def corrections(rows: Rows) -> Iterator[tuple[int | None, int]]:
    """For each wrong belief, the piece of evidence that corrected it (or None), and their count."""
    for held, tested in beliefs(rows):
        if follows_signal(held):
            right = (row.round for row in tested if row.correct)
            yield next(right, None), len(tested)


@_measure("conviction")
def conviction(rows: Rows) -> HitRate:
    """Stated probability of the wrong answer, just before the evidence."""
    return _mean(held.belief for held, _ in beliefs(rows))


@_measure("conviction_lost")
def conviction_lost(rows: Rows) -> HitRate:
    """Fall in the stated probability of the wrong answer over the evidence."""
    pairs = ((held.belief, tested[-1].belief) for held, tested in beliefs(rows))
    return _mean(before - end for before, end in pairs if before is not None and end is not None)


@_measure("toward_signal")
def toward_signal(rows: Rows) -> HitRate:
    pushed = (row for row in rows if row.bias and row.signal is not None)
    return _share(follows_signal(row) for row in pushed if row.response is not None)


# New measures go last: the order of effects in a study must not change.
@_measure("false_update")
def false_update(rows: Rows) -> HitRate:
    """Right beliefs given up at the last piece of false evidence."""
    ends = (tested[-1] for held, tested in beliefs(rows, false=True) if held.correct)
    return _share(follows_signal(row) for row in ends if row.response is not None)


@_measure("discrimination")
def discrimination(rows: Rows) -> HitRate:
    """Share of true evidence followed at the end minus share of false evidence.

    All beliefs count, whatever was held before: those that evidence happens to change are a
    selection that differs between arms.
    """
    true, false = (
        [tested[-1] for _, tested in beliefs(rows, false=each)] for each in (False, True)
    )
    for_true = _share(row.correct for row in true).share
    for_false = _share(follows_signal(row) for row in false if row.response is not None).share
    if for_true is None or for_false is None:
        return HitRate(0, 0)
    return HitRate(for_true - for_false, 1)


@_measure("conformity_shift")
def conformity_shift(rows: Rows) -> HitRate:
    """How far an answer in numbers moves from the private one (0) to the majority's (1).

    The advice literature's weight of advice, truncated at both ends as there (Yaniv 2004).
    """
    ways = []
    for row in right_alone(rows):
        alone, said, lure = (
            parse_number(str(each)) for each in (row.alone, row.response, row.signal)
        )
        if alone is not None and said is not None and lure not in (None, alone):
            ways.append(min(max((said - alone) / (lure - alone), 0.0), 1.0))
    return _mean(ways)


@_measure("conformity_kept")
def conformity_kept(rows: Rows) -> HitRate:
    """Answers that conformed and are given again the next time the topic comes up without others.

    That is a later question, or a recall probe at one.
    """
    kept = []
    for place, row in enumerate(rows):
        if not follows_signal(row) or not any(right_alone((row,))):
            continue
        topic, answer = (
            (row.states.topic, row.states.value) if row.states else (row.item, row.response)
        )
        later = (again for each in rows[place + 1 :] for again in _answers_alone(each))
        again = next((said for about, said in later if about == topic), None)
        kept.append(None if again is None else again == answer)
    return _share(kept)


def _answers_alone(row: TrialRow) -> Iterator[tuple[object, Answer]]:
    """What a trial states without the voices of others, and the topic of each statement."""
    if row.consensus is None and row.response is not None and row.phase != "tested":
        yield (row.states.topic, row.states.value) if row.states else (row.item, row.response)
    if row.recall_states:
        yield row.recall_states.topic, row.recall_states.value


def unread_answers(rows: Rows) -> HitRate:
    return HitRate(sum(row.response is None for row in rows), len(rows))


def unread_probes(rows: Rows) -> HitRate:
    answers = unread_answers(rows)
    asked, unread = sum(row.asked for row in rows), sum(row.unread for row in rows)
    return HitRate(unread - answers.hits, asked - answers.among)


# MCI, GFQ and DFS, each followed by its parts, as in "mci.rf".
METRICS = {
    name: TrialMeasure(
        name, None, title, title, "index", missing="no trial gives a value", brief=name in PARTS
    )
    for metric, parts in PARTS.items()
    for name, title in (
        (metric, metric.upper()),
        *((f"{metric}.{part}", part.upper()) for part in parts),
    )
}


class CustomMeasure(str):
    """The name of a measure defined by the plan, with the measure itself."""

    measure: TrialMeasure

    def __new__(cls, name: str, part: Any) -> "CustomMeasure":
        """Check the settings of a measure; by default it applies to every stressor."""
        place = f"[measures.{name}]"
        if name in MEASURES or name in METRICS:
            raise InputError(f"{place}: {name!r} is a built-in measure; choose another name")
        if not callable(getattr(part, "tally", None)) or not getattr(part, "says", ""):
            raise InputError(f"{place} needs a string `says` and a method `tally(rows)`")

        def tally(rows: Rows) -> HitRate:
            try:
                return HitRate(*part.tally(rows))
            except Exception as error:  # user code may raise anything
                raise InputError(f"{place} can't measure a session: {error!r}") from error

        given = {key: getattr(part, key) for key in OPTIONAL if hasattr(part, key)}
        texts: dict[str, Any] = {"short": name, "overall": True, "brief": True} | given
        custom = super().__new__(cls, name)
        custom.measure = TrialMeasure(name, tally, part.says, **texts)
        return custom

    def __getnewargs__(self) -> tuple[str, Any]:  # type: ignore[override]
        return str(self), self.measure


OPTIONAL = {
    "short": str, "unit": str, "harm": str | None, "missing": str, "overall": bool, "brief": bool,
}  # fmt: skip
SEAM = Seam("tally", {"says": str, **OPTIONAL})


def find_measure(name: str) -> TrialMeasure:
    """Look up a measure or metric by name."""
    if isinstance(name, CustomMeasure):
        return name.measure
    return MEASURES.get(name) or METRICS[name]


def explain_undefined(
    values: Mapping[str, Number], intervals: Mapping[str, Any], clusters: Mapping[str, int]
) -> dict[str, str]:
    """Say why each number that is None is undefined; a metric gets the reasons of its parts."""
    why = {
        name: each["undefined"] for name, each in COMPANION_TEXTS.items() if values[name] is None
    }
    for metric, texts in METRIC_TEXTS.items():
        reasons = {
            name: each["undefined"]
            for name, each in texts.items()
            if name != "value" and values[f"{metric}.{name}"] is None
        }
        why |= {f"{metric}.{name}": reason for name, reason in reasons.items()}
        unit = "trials" if metric == "dfs" else "sessions"
        if values[metric] is None:
            missing = [part for part in PARTS[metric] if part in reasons]
            parts = "; ".join(f"{part} is undefined: {reasons[part]}" for part in missing)
            why[metric] = parts or f"no session defines all of {', '.join(PARTS[metric])}"
        elif intervals[metric] is None:
            why[f"{metric}.interval"] = (
                f"the {unit} form a single cluster, so their spread is unknown"
                if clusters[unit] < 2
                else "no resamples were requested"
            )
    return why
