"""Folders are replaced atomically, and leftovers of killed writers are removed."""

from pathlib import Path

import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.files import _MACHINE, atomic_folder


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_folder_is_replaced_atomically(tmp_path: Path) -> None:
    for text in ("first", "second"):
        with atomic_folder(tmp_path / "out") as new:
            (new / text).write_text(text)
        assert names(tmp_path / "out") == {text}
    assert names(tmp_path) == {"out"}


def test_failing_block_changes_nothing(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "out") as new:
        (new / "first").write_text("first")
    for error in (InputError("no"), OSError("no"), KeyboardInterrupt()):
        with pytest.raises((InputError, KeyboardInterrupt)), atomic_folder(tmp_path / "out"):
            raise error
    assert (names(tmp_path), names(tmp_path / "out")) == ({"out"}, {"first"})


def test_leftovers_of_a_killed_writer_are_removed_or_restored(tmp_path: Path) -> None:
    left = tmp_path / f".out.{_MACHINE}-999999999.part"
    (left / "out").mkdir(parents=True)
    before = tmp_path / ".out.before"
    before.mkdir()
    (before / "first").write_text("killed between the two renames")
    with pytest.raises(InputError), atomic_folder(tmp_path / "out"):
        raise InputError("no")
    assert (names(tmp_path), names(tmp_path / "out")) == ({"out"}, {"first"})
