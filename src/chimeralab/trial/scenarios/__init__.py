"""Scenarios whose truth is known, by name: made from a seed, or read from files."""

from chimeralab.trial.scenarios.files import BenchForm, JsonLines, MtConsistency, Sycon
from chimeralab.trial.scenarios.generators import Beliefs, Consensus, Framing, Ledger
from chimeralab.trial.scenarios.items import Clue, Fact, Question, Scenario, ScenarioGenerator

Generator = ScenarioGenerator  # the name that the docs used first
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
    "ScenarioGenerator",
    "Sycon",
]
