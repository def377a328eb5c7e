"""One finished study and its report, which many tests share; none of them changes it."""

import pytest

from chimeralab.report.files import Report
from chimeralab.selfplay.report.material import Material, gather
from chimeralab.selfplay.report.page import make_report
from tests.plans import LOOPERS
from tests.studies import DETECTED, StudyCache


@pytest.fixture(scope="session")
def material(studies: StudyCache, tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Three conditions, four prompts, two repeats, locked, run and judged."""
    folder = tmp_path_factory.mktemp("made") / "study"
    return gather(studies.copy(folder, LOOPERS, steps=DETECTED))


@pytest.fixture(scope="session")
def report(material: Material) -> Report:
    """The report of that study, which has no audit."""
    return make_report(material)
