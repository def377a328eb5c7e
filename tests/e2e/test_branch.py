"""`chimera branch`: a recorded loop goes on as a study of its own, offline."""

import json
from pathlib import Path

import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.records import Trajectory, Turn
from chimeralab.models.catalogue import RecordedSettings
from chimeralab.selfplay.branch import BranchOptions, read_model, split_talk, write_plan
from chimeralab.study import Study

NEW = ["apples ripen", "boats sail far", "cats sleep", "dogs run fast", "eggs boil", "figs dry"]
SAME = "Let us count the stars tonight, dear friend."


def write_log(path: Path, messages: list[tuple[str, str]]) -> Path:
    lines = [{"role": who, "content": text} for who, text in messages]
    path.write_text(json.dumps({"id": "talk 7", "messages": lines}) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def loop(tmp_path):
    said = [*NEW, *[SAME] * 6]
    talk = [(("alice", "bob")[n % 2], text) for n, text in enumerate(said)]
    return write_log(tmp_path / "talk.jsonl", talk)


def test_a_loop_goes_on_as_a_locked_study_with_a_page(loop, tmp_path, chimera):
    folder = tmp_path / "branches"
    command = ("branch", loop, "--model", "phantom", "--n", "3", "--study", folder)
    found = json.loads(chimera(*command, "--json").out)
    assert set(found["arms"]) == {"nudge", "sham", "none"}
    assert found["arms"]["none"]["runs"] == 3
    assert found["arms"]["none"]["estimates"]["escape"]["value"] == 1  # a phantom says new things
    assert Path(found["page"]).is_file()
    study = Study(folder)
    assert study.lock is not None
    with study.archive() as archive:
        said = [turn.text for turn in next(iter(archive.trajectories())).turns]
        (moment,) = {row["turn"] for row in archive.rows("SELECT turn FROM events")}
    # The first message takes the place of the prompt.
    assert said[: len(NEW) - 1] == NEW[1:]
    assert set(said[len(NEW) - 1 : moment]) == {SAME}
    assert SAME not in said[moment:]
    assert chimera("verify", folder).code == 0
    again = json.loads(chimera(*command, "--json").out)
    assert again["arms"] == found["arms"]
    other = chimera("branch", loop, "--model", "phantom", "--n", "4", "--study", folder)
    assert (other.code, "is another plan" in other.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--model", "gpt"), "--model 'gpt' is not embedded, phantom, or NAME@URL"),
        (("--treatments", "nuge"), "unknown treatment 'nuge' (did you mean 'nudge'?)"),
        (("--treatments", "none,sham"), "--treatments needs one besides sham and none"),
        (("--after", "40"), "--after 40: the loop is noticed at turn"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(
    options, complaint, loop, tmp_path, chimera
):
    folder = tmp_path / "branches"
    ran = chimera("branch", loop, "--study", folder, *options)
    assert ran.code == 2
    assert complaint in ran.err
    assert not folder.exists()


def test_a_conversation_that_does_not_loop_is_refused(tmp_path, chimera):
    talk = [(("alice", "bob")[n % 2], text) for n, text in enumerate(NEW)]
    ran = chimera("branch", write_log(tmp_path / "talk.jsonl", talk), "--model", "phantom")
    assert (ran.code, "has no loop to branch from" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("turns", "complaint"),
    [
        ([("a", "x"), ("b", "y"), ("b", "z"), ("a", "w")], "where it is the turn of 'a'"),
        ([("a", "x"), ("a", "y"), ("a", "z")], "has one speaker alone"),
    ],
)
def test_only_speakers_in_turn_can_be_continued(turns, complaint):
    said = tuple(Turn(text, who) for who, text in [("p", "A prompt."), *turns])
    with pytest.raises(InputError, match=complaint):
        split_talk(Trajectory("t", said, {}))


def test_any_text_survives_the_plan(tmp_path):
    odd = 'Quote " and \\ and \x7f and\nа new line 🙂 [perturbations]'
    turns = tuple(Turn(odd, ("a", "b")[n % 2]) for n in range(6))
    talk = Trajectory('id "1"', turns, {"prompt_text": odd})
    options = BranchOptions(read_model("phantom"), ["nudge", "none"], n=2)
    (tmp_path / "plan.toml").write_text(write_plan(talk, 4, options), encoding="utf-8")
    plan = Study(tmp_path).plan
    recorded = plan.models["continued"].part.settings
    assert recorded.said == (odd,) * 4
    assert plan.prompts[0].text == odd


def test_recorded_model_may_not_go_on_as_itself():
    with pytest.raises(InputError, match="unknown use = 'recorded'"):
        RecordedSettings(("a",), {"use": "recorded"})
