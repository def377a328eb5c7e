"""A custom measure: named in a plan, counted in every session, compared and reported."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chimeralab.core.errors import InputError
from chimeralab.pipeline import analyse_trial
from chimeralab.study import Study
from tests.plans import trial
from tests.studies import RUN, MakeStudy, Steps

DOC = Path(__file__).parents[2] / "docs" / "extending.md"
PLAN = '[measures.hasty]\nuse = "mine:Hasty"\nsure = 0.5\n'


def example() -> str:
    """The measure that the docs show."""
    section = DOC.read_text(encoding="utf-8").split("\n## Measure of a trial\n")[1]
    return section.split("```python\n")[1].split("```")[0]


def trial_with(make_study: MakeStudy, code: str, more: str = PLAN, steps: Steps = ()) -> Study:
    files = trial(design='each = ["amnesia"]') | {"mine.py": code}
    return make_study(files, more, steps=steps)


def test_custom_measure_is_analysed_and_reported(make_study, chimera):
    study = trial_with(make_study, example(), steps=RUN)
    found = json.loads(chimera("analyse", study.path, "--json").out)["subjects"][0]
    assert found["arms"][0]["measures"]["hasty"]["occasions"] > 0
    assert "hasty" in {effect["measure"] for effect in found["contrasts"]}
    headings = next(
        line for line in chimera("analyse", study.path, "--full").out.split("\n") if "MCI" in line
    )
    assert "hasty" in headings
    assert chimera("report", study.path).code == 0
    page = (study.path / "report" / "index.html").read_text()
    assert "sure answers that are wrong" in page
    assert chimera("verify", study.path).code == 0


def test_custom_measure_changes_only_the_corrected_p_values(make_study):
    study = trial_with(make_study, example(), steps=("run",))
    with_it = analyse_trial(study).subjects[0]
    (study.path / "plan.toml").write_text((study.path / "plan.toml").read_text().replace(PLAN, ""))
    without = analyse_trial(type(study)(study.path, allow_code=True)).subjects[0]
    others = [effect for effect in with_it.contrasts if effect.measure != "hasty"]
    assert [_uncorrected(each) for each in others] == [_uncorrected(e) for e in without.contrasts]
    pairs = zip(others, without.contrasts, strict=True)
    assert all(a.p_holm is None or a.p_holm >= b.p_holm for a, b in pairs)


def _uncorrected(effect: Any) -> Any:
    return replace(effect, p_holm=None)


@pytest.mark.parametrize(
    ("code", "more", "said"),
    [
        ("", PLAN, "can't be loaded"),
        (None, PLAN.replace("hasty]", "recall]"), "'recall' is a built-in measure"),
        (
            "from dataclasses import dataclass\n@dataclass\nclass Hasty:\n    sure: float = 1",
            PLAN,
            "needs a string `says` and a method `tally",
        ),
    ],
)
def test_invalid_measure_is_rejected_before_the_run(make_study, code, more, said):
    study = trial_with(make_study, example() if code is None else code, more)
    with pytest.raises(InputError, match=r"\[measures\.") as caught:
        study.plan  # noqa: B018
    assert said in str(caught.value)
