"""A model that no conversation needs is neither loaded nor asked."""

import pytest

from chimeralab.core.errors import ChimeraError
from chimeralab.models import embedded
from tests.plans import RATED, changed, trial

SPARE = '[models.spare]\nuse = "embedded"\nprice = { input = 0.0, output = 0.0 }\n'


@pytest.fixture(autouse=True)
def engines(monkeypatch) -> list[object]:
    """The engines of the embedded model that were started, which would take 460 MB each."""
    started: list[object] = []

    class Engine:
        def __init__(self, options: object) -> None:
            started.append(options)
            raise ChimeraError("this engine must not start")

    monkeypatch.setattr(embedded, "EngineProcess", Engine)
    return started


@pytest.mark.parametrize("files", [trial(design='each = ["amnesia"]', number=1), RATED])
def test_unnamed_embedded_model_is_not_started(make_study, chimera, engines, files):
    study = make_study(changed(files, SPARE))
    for command in ("check", "lock", "run", "report"):
        ran = chimera(command, study.path)
        assert ran.code == 0, ran.err
        if command == "check":
            assert "note: [models.spare] is not used" in ran.out
    assert not engines


def test_named_embedded_model_is_started_by_check_and_run(make_study, chimera, engines):
    plan = changed(trial(design='each = ["amnesia"]', number=1), SPARE)
    study = make_study(changed(plan, ('subjects = ["p"]', 'subjects = ["p", "spare"]')))
    for command in ("check", "run"):
        assert "this engine must not start" in chimera(command, study.path).err
    assert len(engines) == 2


def test_models_of_sessions_that_have_ended_are_not_started_again(make_study, chimera, engines):
    plan = changed(trial(design='each = ["amnesia"]', number=1), SPARE)
    study = make_study(plan)
    assert chimera("run", study.path).code == 0
    assert chimera("run", study.path).code == 0
    assert not engines


def test_model_that_only_rates_is_checked_but_not_opened_by_a_run(make_study, chimera, engines):
    study = make_study(changed(RATED, SPARE, ('"rules", "judge"]', '"rules", "spare"]')))
    assert "this engine must not start" in chimera("check", study.path).err
    assert chimera("run", study.path).code == 0
    assert len(engines) == 1
