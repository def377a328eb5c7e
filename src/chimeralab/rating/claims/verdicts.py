"""Does a stated number fit what the counts say, as far as its digits go?"""

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from chimeralab.rating.claims.mentions import Mention
from chimeralab.rating.claims.truths import Truth, intervals, truths
from chimeralab.stats.agreement import Table2x2
from chimeralab.stats.intervals import Interval

# Bounds of a bootstrap move this much from run to run.
BOOTSTRAP_SLACK = 0.006
# A text may round a figure that had been rounded to four digits before.
ROUNDING = 5e-5
LEVEL = re.compile(r"(\d\d(?:\.\d+)?)\s?(?:%|percent)(?:-|\s)?(?:CI\b|confidence|interval)", re.I)
METHOD = re.compile(r"wald|asymptotic|bootstrap\w*|resampl\w*|score\b|wilson|exact", re.IGNORECASE)
METHODS = {"wald": "Wald", "asym": "Wald", "boot": "bootstrap", "resa": "bootstrap",
           "scor": "score", "wils": "Wilson", "exac": "exact"}  # fmt: skip
# A criterion is named no further from its number than this.
REACH = 45
BOUND = re.compile(r"\b(lower|upper)\s(?:\w+\s)?(?:bound|limit|end)\b[^.;]*$", re.IGNORECASE)
CRITERION = re.compile(
    r"threshold|criteri\w+|\bgate\b|\bbar\b|target|cut-?off|requir\w+|preregist\w+|demand\w*"
    r"|minimum|benchmark",
    re.IGNORECASE,
)
NOT_MET = re.compile(
    r"not\s(?:been\s)?(?:met|reach\w*|achiev\w*|pass\w*|satisf\w*|clear\w*|attain\w*)|fail\w*"
    r"|miss\w*|f[ae]ll\w*\s(?:\w+\s)?(?:short|below)|unmet|n't\s(?:meet|reach|pass|clear)|below"
    r"|short\sof",
    re.IGNORECASE,
)
MET = re.compile(
    r"\b(?:is|was|were|been)\s(?:\w+\s)?(?:met|reached|passed|cleared|satisfied|achieved)"
    r"|\b(?:met|meets|reach\w*|pass\w*|clear(?:s|ed)|satisf\w*|achiev\w*|attain\w*|exceed\w*)\b",
    re.IGNORECASE,
)


class Outcome(NamedTuple):
    """What a claim is about, whether it fits, and what would be right."""

    quantity: str
    fits: bool
    right: str
    note: str = ""


def judge(mention: Mention, quantity: str, text: str, table: Table2x2) -> Outcome | None:
    """Hold one number against the counts; None when it states nothing that can be checked."""
    if quantity == "items (said)":
        # "13 items" may be any of the items; only all of them can be recognised.
        return Outcome("items", True, f"{table.n:g}") if table.n in mention.values else None
    if quantity.startswith("largest kappa") and mention.relation in {"above", "below"}:
        # "Kappa can't exceed 0.65" says that the largest is 0.65.
        mention = mention._replace(relation="is")
    return _compare(mention, _truths(table)[quantity], text, table)


def _compare(mention: Mention, truth: Truth, text: str, table: Table2x2) -> Outcome | None:
    if mention.kind == "interval":
        return _interval(mention, truth, text, table)
    bound = BOUND.search(text[: mention.start])
    if bound is not None:
        return _bound(mention, truth, bound[1].lower(), intervals(table).get(truth.name, {}))
    if _is_criterion(mention, text):
        return _criterion(mention, truth, text)
    if mention.kind == "fraction":
        return _fraction(mention, truth, table)
    known = truth.counts if mention.kind == "count" else truth.shares
    if not known:
        return None
    fits = any(_holds(mention, value) for value in known)
    return Outcome(truth.name, fits, _right(mention, truth), "" if fits else _note(mention, table))


@cache
def _truths(table: Table2x2) -> dict[str, Truth]:
    return truths(table)


def _holds(mention: Mention, value: float | None) -> bool:
    if value is None:
        return False
    stated, unit = mention.values[0], mention.units[0]
    if mention.relation == "above":
        return value >= stated - ROUNDING
    if mention.relation == "below":
        return value <= stated + ROUNDING
    # An "about" gives a whole unit of the last digit that is meant, half of it when that is tens.
    reach = unit / 2 if mention.relation == "is" or unit >= 0.1 else unit
    if mention.kind == "count" and mention.relation == "is":
        reach = 0.0
    return abs(value - stated) <= reach + ROUNDING


def _fraction(mention: Mention, truth: Truth, table: Table2x2) -> Outcome | None:
    if not truth.counts:
        return None
    part, whole = mention.values
    fits = whole == table.n and any(_holds(mention, count) for count in truth.counts)
    right = " or ".join(f"{count}/{table.n:g}" for count in truth.counts)
    note = "" if fits else _note(mention._replace(kind="count", values=(part,)), table)
    return Outcome(truth.name, fits, right, note)


def _interval(mention: Mention, truth: Truth, text: str, table: Table2x2) -> Outcome | None:
    level = LEVEL.search(text)
    share = float(level[1]) / 100 if level else 0.95
    known = intervals(table, share).get(truth.name)
    if not known:
        return None
    method = METHOD.search(text)
    named = METHODS[method[0][:4].lower()] if method else None
    chosen = {name: known[name] for name in known if name == named} or known
    fits = any(_bounds_hold(mention, name, bounds) for name, bounds in chosen.items())
    right = "; ".join(
        f"{name} {bounds.low:.4f} to {bounds.high:.4f}" for name, bounds in chosen.items() if bounds
    )
    return Outcome(f"{truth.name}, {100 * share:g} % interval", fits, right or "undefined")


def _bound(
    mention: Mention, truth: Truth, side: str, known: Mapping[str, Interval | None]
) -> Outcome | None:
    """One end of an interval: "the lower bound of kappa is 0.355"."""
    place = 0 if side == "lower" else 1
    ends = {name: bounds[place] for name, bounds in known.items() if bounds is not None}
    if not ends:
        return None
    fits = any(_holds(mention, end) for end in ends.values())
    right = "; ".join(f"{name} {end:.4f}" for name, end in ends.items())
    return Outcome(f"{truth.name}, {side} bound", fits, right)


def _bounds_hold(mention: Mention, method: str, bounds: Interval | None) -> bool:
    slack = BOOTSTRAP_SLACK if method == "bootstrap" else 0.0
    return bounds is not None and all(
        abs(true - stated) <= unit / 2 + slack + ROUNDING
        for true, stated, unit in zip(bounds, mention.values, mention.units, strict=True)
    )


def _is_criterion(mention: Mention, text: str) -> bool:
    """A number that was asked for and not found: kappa ≥ 0.80, the bar of 0.80."""
    if mention.stated[:1] in ">≥":
        return True
    before, after = text[: mention.start][-REACH:], text[mention.end :][:REACH]
    # No other number may stand between the word and this one.
    named_before = re.search(rf"(?:{CRITERION.pattern})[^\d]*$", before, re.IGNORECASE)
    named_after = re.match(rf"[\s\w-]{{0,25}}?(?:{CRITERION.pattern})", after, re.IGNORECASE)
    return mention.kind in {"decimal", "percent"} and bool(named_before or named_after)


def _criterion(mention: Mention, truth: Truth, text: str) -> Outcome | None:
    value = truth.shares[0] if truth.shares else None
    if NOT_MET.search(text):
        claimed = False
    elif MET.search(text):
        claimed = True
    else:
        return None
    met = value is not None and value >= mention.values[0] - ROUNDING
    word = "met" if met else "not met"
    return Outcome(f"{truth.name} against a criterion", met == claimed, f"{_number(value)}, {word}")


def _right(mention: Mention, truth: Truth) -> str:
    if mention.kind == "count":
        return " or ".join(map(str, truth.counts))
    show = _percent if mention.kind == "percent" else _number
    meanings = truth.meanings or ("",) * len(truth.shares)
    told = zip(map(show, truth.shares), meanings, strict=True)
    return ", ".join(f"{value} {meaning}".strip() for value, meaning in told)


def _note(mention: Mention, table: Table2x2) -> str:
    """What the stated number is instead, if it is anything."""
    exact = mention._replace(relation="is")
    names = [truth.name for truth in _truths(table).values() if _is_value(exact, truth)]
    return f"that is: {', '.join(names)}" if names else ""


def _is_value(mention: Mention, truth: Truth) -> bool:
    known = truth.counts if mention.kind == "count" else truth.shares
    return any(_holds(mention, value) for value in known)


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _percent(value: float | None) -> str:
    return "undefined" if value is None else f"{100 * value:.1f} %"
