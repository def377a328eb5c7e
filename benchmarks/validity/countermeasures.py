"""What countermeasures do for a real model: the embedded one, under each stressor and without any.

A phantom's benefit is set in advance; a model's is found. `review` is not among them: it needs a
belief that is asked for again and again, and with that this small model is at the floor (right in
31 % of the answers of 24 sessions, where guessing gives 28 %).
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.table import Result, keep
from chimeralab import pipeline
from chimeralab.stats.effects import Effect
from chimeralab.study import Study
from chimeralab.trial.analysis import MAX_UNREAD, SubjectResult

COMMAND = "python -m benchmarks.validity.countermeasures"
# Every fact is told in the message that first needs it: this model finds it there, and little else.
PLAN = """
[study]
name = "countermeasures"
kind = "trial"
[models.smol]
use = "embedded"
[sampling]
temperature = 0.0
[trial]
subjects = ["smol"]
countermeasures = ["ledger", "commit"]
system = "Reply with the answer alone."
probes = ["alone", "recall"]
[stressors.amnesia]
frequency = 0.6
[stressors.conformity]
size = 5
[layout]
opening = "Answer from what you are told."
lag = 0
beliefs = 0
consensus = 0.8
recall_every = 2
[scenarios]
use = "ledger"
number = 6
recall = 5
inference = 0
novel = 1
[run]
seed = 1
concurrency = 12
"""
# What each countermeasure is to mend, and what it may cost where nothing is wrong.
TARGETS = {"ledger": "recall", "commit": "conformity_rate"}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "plan.toml").write_text(PLAN, encoding="utf-8")
        study = Study(Path(folder))
        pipeline.lock(study)
        pipeline.run(study)
        [subject] = pipeline.analyse_trial(study).subjects
    for result in results(subject):
        keep(result)


def results(subject: SubjectResult) -> list[Result]:
    """One line per countermeasure: under its stressor, and by itself."""
    unread = [check for check in subject.checks if check.name == "readable" and check.value]
    worst = max((check.value or 0.0 for check in unread), default=0.0)
    note = f"at most {worst:.0%} of an arm's answers unread; {subject.checks[0].message}"
    found = []
    for name, measure in TARGETS.items():
        under = _said(subject.countermeasures, name, measure, calm=False)
        alone = _said(subject.countermeasures, name, "accuracy", calm=True)
        value = f"{measure} {under} under stress; accuracy {alone} without"
        if not subject.informative:
            value = f"not informative ({subject.short_reasons[0]})"
        title = f"countermeasure {name} on the embedded model"
        bar = f"informative, and at most {MAX_UNREAD:.0%} unread"
        met = subject.informative and worst <= MAX_UNREAD
        found.append(Result(title, value, bar, met, COMMAND, note))
    return found


def _said(effects: Sequence[Effect], name: str, measure: str, *, calm: bool) -> str:
    """The difference that a countermeasure makes, with its interval or the reason for none."""
    for effect in effects:
        arm = next(arm for arm, weight in effect.weights.items() if weight > 0)
        fits = arm.endswith(f"-with-{name}") and arm.startswith("control-") == calm
        if fits and effect.measure == measure:
            if effect.estimate is None:
                return f"unknown ({effect.reason})"
            bounds = effect.interval
            between = f" ({bounds.low:+.2f} to {bounds.high:+.2f})" if bounds else ""
            return f"{effect.estimate:+.2f}{between}"
    return "unknown"


if __name__ == "__main__":
    main()
