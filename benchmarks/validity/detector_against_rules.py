"""The locked detector against the rules rater on public conversations."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.table import Result, keep
from benchmarks.transcripts import DATA
from chimeralab import LOCKED, Trajectory, detect_all, readers
from chimeralab.rating.ratings import make_item
from chimeralab.rating.rubric import load_rubric
from chimeralab.rating.rules import rate_by_rules
from chimeralab.rating.validity import robustness, validity

COMMAND = "python -m benchmarks.validity.detector_against_rules"


def main() -> None:
    selfchats = DATA / "selfchats" / "conversations.jsonl"
    dialogues = DATA / "dialogue-eval" / "conversations.jsonl"
    if not selfchats.exists():
        print("left out: the public conversations are not on this machine")
        return
    _compare("self-play chats", list(readers.read(selfchats)), None)
    real = (talk for talk in readers.read(dialogues) if talk.metadata["model"] != "QualityControl")
    _compare("bot sides", [talk for talk, _ in zip(real, range(200), strict=False)], "bot")


def _compare(name: str, talks: Sequence[Trajectory], speaker: str | None) -> None:
    rubric = load_rubric()
    items = {talk.id: make_item(talk, speaker) for talk in talks}
    ratings = [rate_by_rules(item, rubric) for item in items.values()]
    verdicts = list(detect_all(talks, speaker=speaker))
    result = validity(verdicts, ratings, items, rng=np.random.default_rng(1))
    found, clear = result.diagnosis.sensitivity, result.diagnosis.specificity
    value = f"sensitivity {found.hits}/{found.n}, specificity {clear.hits}/{clear.n}"
    both = detect_all(talks, speaker=speaker, detector=replace(LOCKED, drift="both"))
    _, changed, _ = robustness(verdicts, both, rng=np.random.default_rng(1))
    note = f"kappa {result.diagnosis.agreement.kappa:.2f}; differences: {result.classes}"
    note += f"; drift=both changes {len(changed)}"
    keep(Result(f"detector against rules, {name}", value, "printed as it is", True, COMMAND, note))


if __name__ == "__main__":
    main()
