"""How well the claims check reads: slips found and false alarms on sentences of our own."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.table import Result, keep
from chimeralab.rating.claims import Counts, check_claims
from chimeralab.stats.agreement import Table2x2

COMMAND = "python -m benchmarks.validity.claims"
PHRASINGS = Path(__file__).with_name("claims_phrasings.toml")
COUNTS = Counts(Table2x2(157, 7, 6, 10), {})


class Score(NamedTuple):
    """Slips found of all slips, sentences without a slip that raised an alarm, of how many."""

    slips: int
    found: int
    sound: int
    false_alarms: int
    understood: int


def main() -> None:
    for name, sentences in phrasings().items():
        score = score_of(sentences)
        value = f"{score.found}/{score.slips} slips, {score.false_alarms} false alarms"
        met = score.found == score.slips and not score.false_alarms
        note = f"{len(sentences)} sentences, {score.sound} without a slip"
        keep(Result(f"claims, {name} set", value, "all, none", met, COMMAND, note))


def phrasings() -> dict[str, list[dict[str, Any]]]:
    """The sentences by set."""
    return tomllib.loads(PHRASINGS.read_text(encoding="utf-8"))


def score_of(sentences: Sequence[dict[str, Any]]) -> Score:
    outcomes = [(sentence.get("slips", []), findings(sentence["text"])) for sentence in sentences]
    return Score(
        slips=sum(len(slips) for slips, _ in outcomes),
        found=sum(any(slip in each for each in told) for slips, told in outcomes for slip in slips),
        sound=sum(not slips for slips, _ in outcomes),
        false_alarms=sum(
            not any(slip in each for slip in slips) for slips, told in outcomes for each in told
        ),
        understood=sum(
            bool(check_claims(sentence["text"], COUNTS).claims) for sentence in sentences
        ),
    )


def findings(text: str) -> list[str]:
    """What the check objects to, as stated."""
    return [claim.stated for claim in check_claims(text, COUNTS).findings]


if __name__ == "__main__":
    main()
