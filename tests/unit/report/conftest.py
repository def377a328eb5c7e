"""One finished study that the tests of its report share; none of them changes it."""

import pytest

from chimeralab.report.selfplay.material import Material, gather
from tests.looping_study import finished_study


@pytest.fixture(scope="session")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Three conditions, four prompts, two repeats, locked, run and judged."""
    return gather(finished_study(tmp_path_factory.mktemp("made") / "study"))
