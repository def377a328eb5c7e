"""A run that was killed before its first record leaves an empty database, and can be resumed."""

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from chimeralab.web.app import Site, application
from tests.plans import SELFPLAY, SMALL_TRIAL, Files
from tests.studies import MakeStudy

OWN = "http://127.0.0.1"


@pytest.mark.parametrize("files", [SELFPLAY, SMALL_TRIAL], ids=["selfplay", "trial"])
def test_run_that_was_killed_before_its_first_record_can_be_resumed(
    files: Files, make_study: MakeStudy, chimera: Callable[..., Any]
) -> None:
    study = make_study(files, steps=("lock",))
    study.store_path.touch()
    assert not study.has_begun
    site = Site([str(study.path)])
    try:
        site.start()
        client = TestClient(application(site), base_url=OWN)
        assert client.get("/study/1").status_code == 200
    finally:
        site.close()
    assert chimera("lock", study.path).code == 0
    assert chimera("run", study.path).code == 0
    assert study.has_begun
    assert chimera("verify", study.path).code == 0
