"""A plan is validated before anything runs; errors name the key."""

import hashlib
import tomllib
from pathlib import Path

import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.parts import PartLoader, allow_all
from chimeralab.models.seam import Sampling
from chimeralab.study import Study
from chimeralab.study.folder import new_study
from chimeralab.study.plan import SamplingChange, make_plan, read_plan
from tests.plans import SCRIPTED


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (
            "[sampling]\nmax",
            "[samplin]\nmax",
            r"unknown table \[samplin\] \(did you mean 'sampling",
        ),
        (
            "max_tokens = 20",
            "tempratur = 1",
            r"unknown key 'tempratur' in \[sampling\] \(did you me",
        ),
        ("max_tokens = 20", "temperature = -1", r"\[sampling\] temperature = -1: .*greater"),
        ("max_tokens = 20", "top_p = 0", r"\[sampling\] top_p = 0: "),
        ("max_tokens = 20", "max_tokens = 0", r"\[sampling\] max_tokens = 0: "),
        ("turns = 6", "turns = 0", r"\[conversation\] turns = 0: .*greater than or equal to 1"),
        ("turns = 6", 'turns = "6"', r'\[conversation\] turns = "6": .*valid integer'),
        (
            "turns = 6",
            'on_empty = "skip"',
            r"on_empty = 'skip' is not a valid rule; known: record, stop",
        ),
        ("repeats = 2", "repeats = -1", r"\[conversation\] repeats = -1"),
        ('use = "scripted:Script"', 'use = "opnai"', r"unknown use = 'opnai' .*module:Class"),
        ('use = "scripted:Script"', "", r"\[models.echo\] needs use = NAME"),
        (":Script", ":Nothing", r"'scripted:Nothing' in \[models.echo\] can't be loaded"),
        (":Script", ":Talker", r"'scripted:Talker' in \[models.echo\] is not a dataclass"),
        ("scripted:", "no.such.module:", r"can't be loaded: No module named"),
        ('["echo", "echo"]', '["echo"]', r"\[conditions.solo\] needs at least two speakers"),
        ('["echo", "echo"]', '["echo", "eccho"]', r"unknown model 'eccho' .*did you mean 'echo'"),
        ('["echo", "echo"]', '["echo", 3]', r"\[conditions.solo\] speakers\[2\] = 3"),
        ('name = "critic"', 'name = "echo-1"', r"two speakers with the same name"),
        ('name = "critic"', 'name = "user"', r"called 'user', which is a role of chat logs"),
        ('name = "critic"', 'name = "a/b"', r"name = \"a/b\""),
        ('id = "p2"', 'id = "p1"', r"two prompts have the id 'p1'"),
        ('id = "p2"', 'id = "a b"', r"items\[2\] id = \"a b\""),
        ('text = "Begin."', 'text = " "', r"prompt 'p1' has no text"),
        ('text = "Begin."', 'txt = "Begin."', r"unknown key 'txt' in \[prompts\] items\[1\]"),
        ("items = [", 'file = "p.jsonl"\nitems = [', r"either a file or a list of items"),
        ("seed = 3", "sed = 3", r"unknown key 'sed' in \[run\]"),
        ("seed = 3", "max_cost = 5", r"max_cost can't be enforced without a price for echo"),
        ('name = "scripted"', "name = scripted", r"not valid TOML: .*line 3, column"),
        ('[study]\nname = "scripted"', "", r"there is no table \[study\]"),
    ],
)
def test_what_is_wrong_with_a_plan_is_named(old, new, complaint, make_study):
    study = make_study(SCRIPTED, (old, new))
    with pytest.raises(InputError, match=r"plan.toml: .*" + complaint):
        read_plan(study.plan_path, PartLoader(study.path, allow_all))


@pytest.mark.parametrize(
    ("measure", "complaint"),
    [
        ('{ use = "nuge" }', r"unknown use = 'nuge' .*did you mean 'nudge'"),
        ('{ use = "rotate" }', r"countermeasure needs a key 'to'"),
        ('{ use = "rotate", to = [] }', r"to = \[\]: "),
        ('{ use = "rotate", to = ["other"] }', r"unknown model 'other' in \[conditions.solo\]"),
        ('{ use = "warm", by = -1.0 }', r"by = -1.0: "),
        ('{ use = "trim", keep = 0 }', r"keep = 0: "),
        ('{ use = "nudge", turns = 1.5 }', r"turns = 1.5: "),
    ],
)
def test_countermeasure_settings_are_validated(measure, complaint, make_study):
    study = make_study(
        SCRIPTED, ('["echo", "echo"]', f'["echo", "echo"]\ncountermeasure = {measure}')
    )
    with pytest.raises(InputError, match=complaint):
        _ = study.plan


def test_retrospective_detector_cannot_act_live(make_study):
    study = make_study(
        SCRIPTED, ("turns = 6", "turns = 6\nstop_early = true"), ("[run]", RETROACTIVE)
    )
    with pytest.raises(InputError, match="marking"):
        _ = study.plan


RETROACTIVE = '[detector]\nmarking = "retroactive"\n[run]'


def test_missing_prompt_file_is_named(make_study):
    study = make_study(SCRIPTED, ('items = [{ id = "p1"', 'file = "gone.jsonl"\n# [{ id = "p1"'))
    with pytest.raises(InputError, match=r"gone.jsonl can't be read \(No such file"):
        _ = study.plan


def test_a_bad_line_of_a_prompt_file_is_named(make_study):
    study = make_study(SCRIPTED, ('items = [{ id = "p1"', 'file = "p.jsonl"\n# [{ id = "p1"'))
    (study.path / "p.jsonl").write_text('{"id": "a", "text": "x\u2028y"}\n\n{"id": "b"\n')
    with pytest.raises(InputError, match=r"p.jsonl, line 3: not valid JSON"):
        _ = study.plan


def test_sampling_is_taken_from_the_innermost_table(make_study):
    study = make_study(
        SCRIPTED,
        ("max_tokens = 20", "max_tokens = 20\ntemperature = 0.1\ntop_p = 0.5"),
        ('use = "scripted:Script"', 'use = "scripted:Script"\nsampling = { temperature = 0.2 }'),
        ('["echo", "echo"]', '["echo", "echo"]\nsampling = { temperature = 0.3 }'),
        ('name = "critic"', 'name = "critic", sampling = { temperature = 0.4 }'),
    )
    solo, trio = (study.plan.conditions[name].speakers for name in ("solo", "trio"))
    assert solo[0].sampling == Sampling(0.3, 0.5, 20)
    assert [speaker.sampling.temperature for speaker in trio] == [0.2, 0.4, 0.2]


def test_every_sampling_parameter_can_be_set():
    assert set(SamplingChange.__dataclass_fields__) == set(Sampling.__dataclass_fields__)


def test_speakers_of_one_model_get_distinct_names(make_study):
    plan = make_study(SCRIPTED).plan
    names = [[s.name for s in condition.speakers] for condition in plan.conditions.values()]
    assert names == [["echo-1", "echo-2"], ["echo-1", "critic", "echo-2"]]
    assert plan.conditions["trio"].speakers[1].system == "Doubt it."


def test_a_key_in_a_plan_is_refused_without_showing_it(make_study, monkeypatch):
    monkeypatch.setenv("LAB_API_KEY", "sk-planted-1234567890")
    study = make_study(SCRIPTED, ('text = "Begin."', 'text = "use sk-planted-1234567890"'))
    with pytest.raises(InputError, match="environment variable LAB_API_KEY") as caught:
        _ = study.plan
    assert "sk-planted" not in str(caught.value)


def test_a_key_in_the_wrong_place_is_not_shown(make_study, monkeypatch):
    monkeypatch.setenv("LAB_API_KEY", "sk-planted-1234567890")
    study = make_study(
        SCRIPTED, ('use = "scripted:Script"', 'use = "scripted:Script"\nsk-planted-1234567890="x"')
    )
    with pytest.raises(InputError) as caught:
        _ = study.plan
    assert "sk-planted" not in str(caught.value)


def test_a_plan_knows_the_file_of_the_code_that_it_names(make_study):
    study = make_study(SCRIPTED)
    sha256 = hashlib.sha256((study.path / "scripted.py").read_bytes()).hexdigest()
    assert {use: file.sha256 for use, file in study.plan.code.items()} == {
        "scripted:Script": sha256
    }


def test_two_studies_may_have_files_of_the_same_name(make_study):
    one, two = make_study(SCRIPTED, name="one"), make_study(SCRIPTED, name="two")
    kinds = [type(study.plan.models["echo"].part.settings) for study in (one, two)]
    assert kinds[0] is not kinds[1]


def test_folder_without_a_plan_is_not_a_study(tmp_path):
    with pytest.raises(InputError, match=r"no plan.toml; see `chimera new`"):
        Study(tmp_path)


def test_published_models_are_pinned_to_their_revisions(tmp_path):
    new_study(tmp_path / "study", "escape-velocity")
    models = Study(tmp_path / "study").plan.models
    assert {name: model.revision for name, model in models.items()} == {
        "llama": "0e9e39f249a16976918f6564b8830bc894c89659",
        "qwen": "a09a35458c702b33eeacc393d103063234e8bc28",
        "mistral": "c170c708c41dac9275d15a8fff4eca08d52bab71",
    }


def test_outcomes_that_name_an_unknown_condition_are_refused(tmp_path: Path) -> None:
    tables = tomllib.loads(
        """
        [study]
        name = "s"
        [models.m]
        use = "phantom"
        [conditions.A]
        speakers = ["m", "m"]
        [prompts]
        items = [{ id = "p", bucket = "b", text = "Go." }]
        [[outcomes.contrasts]]
        name = "rotation"
        whole = "A"
        parts = ["B"]
        """
    )
    with pytest.raises(InputError, match="condition in contrast 'rotation'"):
        make_plan(tables, PartLoader(tmp_path))
