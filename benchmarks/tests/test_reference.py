"""Verdicts equal those from sentence-transformers in f32; runs where it is installed."""

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import islice

import numpy as np
import pytest

from benchmarks import reference
from benchmarks.transcripts import DATA
from chimeralab import LOCKED, Trajectory, Turn, detect_all, readers
from chimeralab.detection.measure import lag_similarities
from chimeralab.detection.seam import Observation, list_judged_turns
from chimeralab.embedding.encoder import MiniLMEncoder

# To import it takes seconds, and every process that tests would do so to find this file. What it
# gave for known texts is kept, and test_minilm_reference.py compares with that.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("sentence_transformers") is None,
        reason="sentence-transformers comes with make bench",
    ),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> object:
    return reference.load(tmp_path_factory.mktemp("minilm"))


def flips(model: object, talks: Iterable[Trajectory], speaker: str | None) -> list[str]:
    """Conversations whose verdict by our vectors is not that by theirs."""
    talks = list(talks)
    found = detect_all(talks, speaker=speaker, encoder=MiniLMEncoder())
    return [
        talk.id
        for talk, detection in zip(talks, found, strict=True)
        if detection.collapsed != by_reference(model, list_judged_turns(talk, speaker))
    ]


def by_reference(model: object, turns: Sequence[Turn]) -> tuple[int, ...]:
    vectors = model.encode([turn.text for turn in turns])  # type: ignore[attr-defined]
    table = lag_similarities(np.array(vectors), 2).tolist()
    signals = LOCKED.judge(
        Observation(turn, tuple(row)) for turn, row in zip(turns, table, strict=True)
    )
    return tuple(signal.turn for signal in signals if signal.collapsed)


@pytest.mark.parametrize(
    ("folder", "speaker", "most"), [("selfchats", None, None), ("dialogue-eval", "bot", 100)]
)
def test_no_verdict_flips(
    model: object, folder: str, speaker: str | None, most: int | None
) -> None:
    path = DATA / folder / "conversations.jsonl"
    if not path.exists():
        pytest.skip(f"the public data set {folder} is not at hand")
    assert flips(model, islice(readers.read(path), most), speaker) == []
