"""What Inspect and Scout find under `chimeralab/…`, by the entry point of this package.

Every start of Inspect loads this, so it brings in nothing that the run may not need: studies are
loaded by the tasks that run them, and Scout's scanners only where Scout is running.
"""

import sys

from chimeralab.integrations.inspect.guard import LoopGuard
from chimeralab.integrations.inspect.scorers import collapse_rate, looping
from chimeralab.integrations.inspect.selfplay import self_play, self_play_study
from chimeralab.integrations.inspect.trial import stress_trial

__all__ = [
    "LoopGuard", "collapse_rate", "looping", "self_play", "self_play_study", "stress_trial"
]  # fmt: skip

# Scout takes as long to import as Inspect itself.
if "inspect_scout" in sys.modules:
    from chimeralab.integrations.inspect.scanners import collapse, loops

    __all__ += ["collapse", "loops"]
