"""The rubric as an artefact: a version, a state, and a lock on its bytes."""

import re
from pathlib import Path

import pytest

from chimeralab.core.errors import InputError
from chimeralab.rating.rubric import (
    BUILT_IN,
    Rubric,
    history_lines,
    load_rubric,
    lock_path,
    lock_rubric,
    rubric_text,
)


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    """A copy of the built-in rubric with its lock."""
    path = tmp_path / "own.toml"
    path.write_bytes(BUILT_IN.read_bytes())
    lock_path(path).write_bytes(lock_path(BUILT_IN).read_bytes())
    return path


def edited(path: Path, old: str, new: str) -> Path:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        load_rubric(path)
    return str(caught.value)


def test_built_in_rubric_is_locked_and_complete() -> None:
    rubric = load_rubric()
    assert (rubric.state, rubric.adjacent_turns, rubric.short_words) == ("locked", 3, 15)
    assert [step.id for step in rubric.steps] == ["verbatim", "template", "short_form", "default"]
    assert [kind.id for kind in rubric.kinds] == ["A", "B", "C"]
    assert len(rubric.examples) == 8


def test_locked_rubric_with_one_changed_byte_is_rejected(locked: Path) -> None:
    edited(locked, "In doubt, the label is 0:", "In doubt, the label is 0;")
    assert "was changed after it was locked" in refusal(locked)


def test_locked_rubric_cannot_become_a_draft_again(locked: Path) -> None:
    edited(locked, 'state = "locked"', 'state = "draft"')
    assert "was changed after it was locked" in refusal(locked)


def test_locked_rubric_without_its_lock_is_rejected(locked: Path) -> None:
    lock_path(locked).unlink()
    assert "own.lock is missing" in refusal(locked)


def test_damaged_lock_is_rejected(locked: Path) -> None:
    lock_path(locked).write_text("{", encoding="utf-8")
    assert "own.lock is damaged" in refusal(locked)


@pytest.fixture
def calibrated(locked: Path) -> Path:
    lock_path(locked).unlink()
    return edited(locked, 'state = "locked"', 'state = "calibrated"')


def test_calibrated_rubric_can_be_locked_once(calibrated: Path) -> None:
    rubric = lock_rubric(calibrated)
    assert rubric == load_rubric(calibrated)
    assert rubric.state == "locked"
    with pytest.raises(InputError, match="is locked"):
        lock_rubric(calibrated)


def test_lock_that_was_killed_half_way_can_be_completed(calibrated: Path) -> None:
    before = calibrated.read_bytes()
    lock_rubric(calibrated)
    after = calibrated.read_bytes()
    calibrated.write_bytes(before)  # the lock is written first
    assert lock_rubric(calibrated) == load_rubric(calibrated)
    assert calibrated.read_bytes() == after
    calibrated.write_bytes(before + b"# another rubric\n")
    with pytest.raises(InputError, match="without a lock"):
        lock_rubric(calibrated)


def test_draft_cannot_be_locked(calibrated: Path) -> None:
    edited(calibrated, 'state = "calibrated"', 'state = "draft"')
    before = calibrated.read_bytes()
    with pytest.raises(InputError, match="is draft"):
        lock_rubric(calibrated)
    assert calibrated.read_bytes() == before
    assert not lock_path(calibrated).exists()


def test_calibrated_rubric_must_state_its_reliability(calibrated: Path) -> None:
    text = calibrated.read_text(encoding="utf-8")
    calibrated.write_text(text[: text.rindex("kappa")], encoding="utf-8")
    assert "must give the kappa" in refusal(calibrated)


def test_current_version_must_be_in_the_history_once(calibrated: Path) -> None:
    edited(calibrated, 'version = "3.0"', 'version = "3.1"')
    assert "one entry for version 3.1" in refusal(calibrated)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("short_words = 15", "shortwords = 15", "short_words"),
        ('id = "A"', 'id = "A"\nwieght = 2', "wieght"),
        ("label = 1", "label = 2", "examples[1] label"),
        ('version = "3.0"', "version = ", "TOML"),
    ],
)
def test_malformed_rubric_is_rejected_with_the_place_of_the_error(
    calibrated: Path, old: str, new: str, place: str
) -> None:
    assert place in refusal(edited(calibrated, old, new))


def test_missing_rubric_is_named(tmp_path: Path) -> None:
    assert "nowhere.toml can't be read" in refusal(tmp_path / "nowhere.toml")


@pytest.fixture(scope="module")
def rubric() -> Rubric:
    return load_rubric()


def test_text_for_raters_contains_every_rule(rubric: Rubric) -> None:
    text = rubric_text(rubric)
    for part in (*rubric.dos, *rubric.donts, *(kind.rule for kind in rubric.kinds)):
        assert part in text
    for example in rubric.examples:
        assert example.reason in text
        assert all(turn in text for turn in example.turns)


def test_text_for_raters_omits_the_history(rubric: Rubric) -> None:
    assert "0.566" not in rubric_text(rubric)


def test_history_states_the_reliability_of_each_version(rubric: Rubric) -> None:
    lines = history_lines(rubric)
    assert len(lines) == len(rubric.history)
    assert [line.split()[1] for line in lines] == ["1.0", "2.0", "2.1", "2.2", "3.0"]
    assert all("(2026-02-19)" in line for line in lines)
    kappas = [re.search(r"\(kappa (.*?)[):]", line) for line in lines]
    assert [found and found[1] for found in kappas] == [
        "0.011", "not measured", "0.519", "not measured", "0.566 on 180 items",
    ]  # fmt: skip
