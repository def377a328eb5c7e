"""Logs that nobody of us wrote give conversations, with the messages that their raw text has."""

from pathlib import Path

import pytest

import chimeralab
from chimeralab import readers
from tests.wild.compare import compare
from tests.wild.files import WildFile, wild_files
from tests.wild.raw_counts import COUNTERS, is_log

FILES = {f"{file.source}/{file.repository}/{file.path}": file for file in wild_files()}
HEALTHY = ("swe-smith", "swe-play", "alfworld", "open-hai/")


def fetched(file: WildFile, folder: Path) -> Path:
    path = file.fetch(folder)
    if path is None:
        pytest.skip(f"{file.repository} is not on this machine")
    return path


@pytest.mark.skipif(not FILES, reason="the wild logs are not next to the project")
def test_the_index_lists_files() -> None:
    assert len(FILES) > 100


@pytest.mark.parametrize("name", [name for name in FILES if FILES[name].source in COUNTERS])
def test_log_is_read_as_its_raw_text_counts(tmp_path: Path, name: str) -> None:
    path = fetched(FILES[name], tmp_path)
    found = compare(FILES[name].source, path)
    assert bool(found.talks) == is_log(path)
    assert not is_log(path) or not found.wrong()


@pytest.mark.parametrize("name", [name for name in FILES if any(part in name for part in HEALTHY)])
def test_healthy_log_does_not_loop(tmp_path: Path, name: str) -> None:
    for talk in readers.read(fetched(FILES[name], tmp_path)):
        assert not chimeralab.detect(talk, detector=None).looping
