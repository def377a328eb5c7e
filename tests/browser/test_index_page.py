"""The index of many conversations in a real browser: it fits a phone, and its links lead on."""

from pathlib import Path
from typing import Any

import pytest

from chimeralab import Trajectory, Turn
from chimeralab.detection.detectors import LOOPS, Judges
from chimeralab.report.index import write_index

# More than get pictures; the longer the list, the longer a check for accessibility takes.
TALKS = 60


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index") / "conversations"
    loop = "Let me try <b>that</b> once more. " + "x" * 90
    said = {True: (Turn(loop),) * 6, False: (Turn("The ferry sails."), Turn("Whales sleep."))}
    talks = [
        Trajectory(f"run-{n}/" + "long" * 40, said[n % 3 > 0], {}, "log:1") for n in range(TALKS)
    ]
    write_index(talks, folder, Judges(None, LOOPS))
    return folder / "index.html"


@pytest.mark.parametrize("width", [390, 1280])
def test_the_index_fits_the_screen_and_stays_quiet(browser: Any, index: Path, width: int) -> None:
    visit = browser.visit(index, width=width)
    assert visit.overflow() == 0
    assert visit.complaints() == []
    assert visit.fetched() == []
    assert visit.low_contrast() == []
    assert visit.serious_errors() == []


def test_every_conversation_is_listed_and_linked(browser: Any, index: Path) -> None:
    visit = browser.visit(index)
    assert visit.value_of("document.querySelectorAll('.conversations tbody tr').length") == TALKS
    looping = "document.querySelectorAll('.conversations tr.looping').length"
    assert visit.value_of(looping) == TALKS * 2 / 3
    links = visit.value_of(
        "[...document.querySelectorAll('.conversations a')].map(a => a.href).join()"
    )
    assert all(Path(link.removeprefix("file://")).is_file() for link in links.split(","))
