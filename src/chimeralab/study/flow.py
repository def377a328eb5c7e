"""The CONSORT flow: conversations planned, attempted and completed in each condition."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from chimeralab.core.records import Record
from chimeralab.study.store import Archive


@dataclass(frozen=True, slots=True)
class ConditionFlow(Record):
    """The conversations and requests of one condition.

    `outcomes` counts ended conversations by outcome; the others are `open`. `attempts` counts
    requests by outcome.
    """

    condition: str
    planned: int
    attempted: int
    completed: int
    open: int
    turns: int
    outcomes: Mapping[str, int]
    attempts: Mapping[str, int]
    cost: float | None
    tokens: int


def flow(archive: Archive) -> tuple[ConditionFlow, ...]:
    """The flow of every condition, in the order of the plan."""
    attempts = _counters(archive, _ATTEMPTS)
    outcomes = _counters(archive, _OUTCOMES)
    return tuple(
        ConditionFlow(
            **row,
            completed=outcomes[row["condition"]]["completed"],
            open=row["planned"] - outcomes[row["condition"]].total(),
            outcomes=dict(outcomes[row["condition"]]),
            attempts=dict(attempts[row["condition"]]),
        )
        for row in archive.rows(_ARMS)
    )


# An answered attempt without a cost leaves the cost of its condition unknown.
_ARMS = """
    SELECT t.condition, count(*) AS planned,
        sum(EXISTS (SELECT 1 FROM attempts a WHERE a.trajectory = t.id)) AS attempted,
        sum((SELECT count(*) FROM turns u WHERE u.trajectory = t.id)) AS turns,
        CASE WHEN sum((SELECT count(*) FROM attempts a WHERE a.trajectory = t.id
                       AND a.outcome = 'answered' AND a.cost IS NULL)) = 0
             THEN total((SELECT total(cost) FROM attempts a WHERE a.trajectory = t.id)) END AS cost,
        CAST(total((SELECT total(completion_tokens) FROM attempts a
                    WHERE a.trajectory = t.id)) AS INTEGER) AS tokens
    FROM trajectories t GROUP BY t.condition ORDER BY min(t.position)
"""
_OUTCOMES = """
    SELECT condition, outcome AS name, count(*) AS n FROM trajectories
    WHERE outcome IS NOT NULL GROUP BY condition, outcome
"""
_ATTEMPTS = """
    SELECT t.condition, coalesce(a.outcome, 'in flight') AS name, count(*) AS n
    FROM attempts a JOIN trajectories t ON t.id = a.trajectory GROUP BY t.condition, name
"""


def _counters(archive: Archive, query: str) -> defaultdict[str, Counter[str]]:
    counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in archive.rows(query):
        counters[row["condition"]][row["name"]] = row["n"]
    return counters
