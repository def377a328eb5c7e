"""Scenarios whose truth is known: made from a seed, or imported from public sets."""

from chimeralab.sandbox.scenarios.beliefs import Beliefs
from chimeralab.sandbox.scenarios.consensus import Consensus
from chimeralab.sandbox.scenarios.framing import Framing
from chimeralab.sandbox.scenarios.items import Evidence, Fact, Generator, Question, Scenario
from chimeralab.sandbox.scenarios.ledger import Ledger

GENERATORS = {"ledger": Ledger, "beliefs": Beliefs, "consensus": Consensus, "framing": Framing}

__all__ = [
    "GENERATORS",
    "Beliefs",
    "Consensus",
    "Evidence",
    "Fact",
    "Framing",
    "Generator",
    "Ledger",
    "Question",
    "Scenario",
]
