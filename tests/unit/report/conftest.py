"""One finished study and its report, which many tests share; none of them changes it."""

import pytest

from chimeralab.report.frame import Report
from chimeralab.report.selfplay.material import Material, gather
from chimeralab.report.selfplay.page import make_report
from tests.looping_study import finished_study


@pytest.fixture(scope="session")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Three conditions, four prompts, two repeats, locked, run and judged."""
    return gather(finished_study(tmp_path_factory.mktemp("made") / "study"))


@pytest.fixture(scope="session")
def report(material: Material) -> Report:
    """The report of that study, which has no audit."""
    return make_report(material)
