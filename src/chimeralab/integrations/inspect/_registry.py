"""The entry point under which Inspect and Scout find `chimeralab/…`.

Inspect loads this at every start, so it imports little: tasks import studies when they run, and
scanners are only imported if Scout is.
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
