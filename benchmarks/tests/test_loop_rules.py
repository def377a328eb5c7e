"""The rules that the loop detector is compared with alarm where their authors say."""

import pytest

from benchmarks.validity.loop_logs import Log
from benchmarks.validity.loop_rules import (
    TERMS,
    Rule,
    events_equal,
    exact_text,
    without,
    word_jaccard,
)
from chimeralab import LOOPS, Trajectory, Turn


@pytest.mark.parametrize(
    ("rule", "texts", "noticed"),
    [
        (exact_text, ["a b", "c d"] * 3, 5),
        (word_jaccard, ["one two three four", "five", "Four three two one!"], 3),
        (events_equal, ["same"] * 4, 4),
        (events_equal, ["a", "b"] * 3, 6),
    ],
)
def test_a_rule_of_others_alarms_where_it_says(rule: Rule, texts: list[str], noticed: int) -> None:
    assert rule(talk(texts)).alarms[0].noticed == noticed
    assert not rule(talk([f"{n} is the number of this" for n in range(9)])).alarms


def test_term_is_removed_and_restored() -> None:
    log = Log(
        talk(["Thanks so much!", "You're welcome, take care!", "Bye, lovely day!"] * 3), "", "", ()
    )
    found = {term: [a.kind for a in without(term, [log])[0].alarms] for term in TERMS}
    assert found["nothing"][0] == "farewell"
    assert "farewell" not in found["courtesy"]
    assert without("nothing", [log])[0].alarms[0].kind == "farewell"
    assert LOOPS.describe()["changed"] == {}


def talk(texts: list[str]) -> Trajectory:
    return Trajectory("talk", tuple(Turn(text) for text in texts))
