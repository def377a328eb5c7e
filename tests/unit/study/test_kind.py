"""A plan may name a custom kind of study."""

from pathlib import Path

import pytest

from chimeralab import pipeline
from chimeralab.bundle import write_bundle
from chimeralab.core.errors import InputError
from chimeralab.study import Study
from chimeralab.study.verify import verify_study
from tests.documented_parts import SELFPLAY, block
from tests.studies import MakeStudy

FILES = {"plan.toml": SELFPLAY, "mine.py": block("Kind of study", "python")}
TABLES = block("Kind of study", "toml")


@pytest.fixture
def monologue(make_study: MakeStudy) -> Study:
    study = make_study(FILES, TABLES)
    pipeline.lock(study)
    pipeline.run(study)
    pipeline.detect(study)
    return study


def test_custom_kind_decides_who_speaks(monologue: Study) -> None:
    speakers = {turn.speaker for talk in monologue.trajectories() for turn in talk.turns}
    assert speakers == {"loops-1", "free-1"}
    assert monologue.plan.study.kind == "mine:Monologue"


def test_kind_without_its_code_is_read_from_the_lock(monologue: Study) -> None:
    found = Study(monologue.path)
    assert found.plan.conditions == monologue.plan.conditions
    assert found.plan.prompts == monologue.plan.prompts
    assert found.plan.kind.units == monologue.plan.kind.units
    assert [talk.id for talk in found.talks] == [talk.id for talk in monologue.talks]
    assert verify_study(found).findings == ()


def test_bundle_of_a_custom_kind_uses_its_unit_names(monologue: Study, tmp_path: Path) -> None:
    write_bundle(Study(monologue.path), tmp_path / "bundle")
    registered = (tmp_path / "bundle" / "preregistration.md").read_text(encoding="utf-8")
    assert "Within topics: 2 conditions" in registered


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ('[study]\nname = "x"\nkind = "trail"\n', r"kind = 'trail' in \[study\] .*mean 'trial'"),
        ('[kind]\nuse = "mine:Units"', r"'mine:Units' in \[kind\] is not a dataclass"),
        ('[kind]\nuse = "dataclasses:Field"', r"in \[kind\]"),
        ('[kind]\nuse = "trail"', r"unknown use = 'trail' in \[kind\]"),
    ],
)
def test_part_that_is_not_a_kind_is_refused(
    make_study: MakeStudy, change: str, complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        make_study(FILES, change).plan  # noqa: B018 - reading it is the test
