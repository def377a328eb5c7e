"""On public transcripts the fast encoder leads to the verdicts of f32, and stays in its margin."""

from itertools import islice

import pytest

from benchmarks.transcripts import DATA
from benchmarks.validity.verdicts import compare
from chimeralab import readers
from chimeralab.embedding.encoder import MiniLMEncoder


@pytest.mark.parametrize(("name", "most"), [("dialogue-eval", 25), ("tau-bench", 4)])
def test_no_verdict_of_a_sample_differs(name: str, most: int) -> None:
    """`python -m benchmarks.validity.verdicts` does it on the whole of three sets."""
    if not (DATA / name).exists():
        pytest.skip(f"the public data set {name} is not at hand")
    encoder = MiniLMEncoder()
    found = compare(list(islice(readers.read_all([DATA / name]), most)), encoder)
    assert found.conversations == most
    assert found.unlike == 0
    assert found.largest_error < encoder.margin
