"""The templates of trials: everything their comments offer works, and no arm is duplicated."""

import re
from pathlib import Path

import pytest

from chimeralab.core.errors import InputError
from chimeralab.study import Study
from chimeralab.study.folder import new_study, templates
from chimeralab.trial.forecast import max_requests

TRIALS = [name for name in templates() if name.startswith("trial-")]
NEEDS_FACTS = ("trial-amnesia", "trial-countermeasures", "trial-factorial")
OFFERED = {
    "trial-conformity": ("beliefs", "ledger"),
    "trial-infallibility": ("beliefs", "consensus"),
}


def with_scenarios(folder: Path, template: str, use: str) -> Study:
    new_study(folder, template)
    plan = folder / "plan.toml"
    before, after = plan.read_text().split("[scenarios]\n")
    run = after[after.index("[run]") :]
    plan.write_text(f'{before}[scenarios]\nuse = "{use}"\nnumber = 2\n{run}')
    return Study(folder)


@pytest.mark.parametrize(("template", "use"), [(t, use) for t in OFFERED for use in OFFERED[t]])
def test_kinds_of_scenarios_that_a_template_offers_work(tmp_path, template, use):
    assert f'"{use}"' in (templates()[template] / "plan.toml").read_text()
    assert len(with_scenarios(tmp_path / "study", template, use).plan.prompts) == 2


@pytest.mark.parametrize("template", NEEDS_FACTS)
@pytest.mark.parametrize("use", ["beliefs", "consensus", "framing"])
def test_amnesia_needs_scenarios_with_facts(tmp_path, template, use):
    assert "the only kind with facts" in (templates()[template] / "plan.toml").read_text()
    with pytest.raises(InputError, match="never acts on these scenarios"):
        _ = with_scenarios(tmp_path / "study", template, use).plan


@pytest.mark.parametrize("template", TRIALS)
def test_no_template_has_two_arms_that_are_the_same(tmp_path, template):
    new_study(tmp_path / "study", template)
    plan = Study(tmp_path / "study").plan.own
    done = [
        (plan.subjects[name], repr((arm.stressors, arm.countermeasure, arm.sham)))
        for name, arm in plan.arms.items()
    ]
    assert len(done) == len(set(done))


@pytest.mark.parametrize("template", TRIALS)
def test_template_declares_its_outcomes_and_is_small(tmp_path, template):
    """At about five calls per second on two cores, 1,500 calls take five minutes."""
    new_study(tmp_path / "study", template)
    study = Study(tmp_path / "study")
    assert study.plan.own.declared
    scripts = [
        talk.script
        for talk in study.talks
        if talk.script is not None and talk.speakers[0].model == "smol"
    ]
    calls, _, _ = max_requests(scripts)
    stated = re.search(
        r"This first look asks the model ([\d,]+) questions", study.plan_path.read_text()
    )
    assert int(stated[1].replace(",", "")) == calls <= 1_500
    assert " for a study" in study.plan_path.read_text()
