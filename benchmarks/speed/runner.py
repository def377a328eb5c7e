"""Bar 5, second half: scheduling and storing every turn durably costs under 3 %."""

import tempfile
import time
from pathlib import Path

from benchmarks.table import Result, keep
from chimeralab import Study, run
from chimeralab.study import RunOptions

COMMAND = "python -m benchmarks.speed.runner"
CONVERSATIONS = 8
SHORT, LONG = 5, 25
# A turn of up to 96 tokens takes the embedded model about 0.8 s when eight conversations share
# it; half of that makes the runner's share look larger than it is.
LATENCY = 0.4

PLAN = f"""
[study]
name = "overhead"

[models.subject]
use = "phantom"
latency = {LATENCY}

[conditions.alone]
speakers = ["subject", "subject"]

[conversation]
turns = TURNS
repeats = {CONVERSATIONS}

[prompts]
items = [{{ id = "p", bucket = "planning", text = "Plan a trip." }}]

[run]
concurrency = {CONVERSATIONS}
"""


def main() -> None:
    # Starting up and greeting the model happen once a run: the difference leaves them out.
    more = LONG - SHORT
    overhead = (seconds(LONG) - seconds(SHORT)) / (more * LATENCY) - 1
    note = f"{CONVERSATIONS} conversations, {more} turns each at {LATENCY} s, without start-up"
    value = f"{100 * overhead:.1f} %"
    keep(Result("runner overhead", value, "3 %", overhead < 0.03, COMMAND, note))


def seconds(turns: int) -> float:
    """How long a study of this many turns takes on a model that is never the bottleneck."""
    with tempfile.TemporaryDirectory() as folder:
        plan = PLAN.replace("TURNS", str(turns))
        (Path(folder) / "plan.toml").write_text(plan, encoding="utf-8")
        started = time.perf_counter()
        assert run(Study(folder), RunOptions(watch=False)).complete
        return time.perf_counter() - started


if __name__ == "__main__":
    main()
