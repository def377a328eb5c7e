"""Scenarios whose truth is known, by name: made from a seed, or imported from public sets."""

from chimeralab.sandbox.scenarios.beliefs import Beliefs
from chimeralab.sandbox.scenarios.consensus import Consensus
from chimeralab.sandbox.scenarios.framing import Framing
from chimeralab.sandbox.scenarios.items import Clue, Fact, Generator, Question, Scenario
from chimeralab.sandbox.scenarios.jsonl import JsonLines
from chimeralab.sandbox.scenarios.ledger import Ledger
from chimeralab.sandbox.scenarios.public_sets import BenchForm, MtConsistency, Sycon

GENERATORS = {"ledger": Ledger, "beliefs": Beliefs, "consensus": Consensus, "framing": Framing}
PUBLIC_SETS = {"benchform": BenchForm, "mt-consistency": MtConsistency, "sycon": Sycon}
SCENARIOS: dict[str, type] = {**GENERATORS, **PUBLIC_SETS, "jsonl": JsonLines}

__all__ = [
    "GENERATORS",
    "PUBLIC_SETS",
    "SCENARIOS",
    "Beliefs",
    "BenchForm",
    "Clue",
    "Consensus",
    "Fact",
    "Framing",
    "Generator",
    "JsonLines",
    "Ledger",
    "MtConsistency",
    "Question",
    "Scenario",
    "Sycon",
]
