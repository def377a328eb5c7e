"""Scenarios whose truth is known, by name: made from a seed, or imported from public sets."""

from chimeralab.trial.scenarios.beliefs import Beliefs
from chimeralab.trial.scenarios.consensus import Consensus
from chimeralab.trial.scenarios.framing import Framing
from chimeralab.trial.scenarios.items import Clue, Fact, Generator, Question, Scenario
from chimeralab.trial.scenarios.jsonl import JsonLines
from chimeralab.trial.scenarios.ledger import Ledger
from chimeralab.trial.scenarios.public_sets import BenchForm, MtConsistency, Sycon

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
