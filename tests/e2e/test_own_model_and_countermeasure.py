"""A model and a countermeasure of the user's own go through a study under their own names."""

from collections.abc import Callable
from typing import Any

import pytest

from chimeralab.core.errors import InputError
from chimeralab.study import Study
from tests.studies import MakeStudy

Chimera = Callable[..., Any]

PLAN = """
[study]
name = "own parts"
[models.parrot]
use = "own:Parrot"
word = "again"
[models.fresh]
use = "phantom"
[conditions.plain]
speakers = ["parrot", "parrot"]
[conditions.helped]
speakers = ["parrot", "parrot"]
countermeasure = { use = "own:Relieve", by = "fresh", turns = 3 }
[conversation]
turns = 12
[prompts]
items = [{ id = "p1", text = "Begin." }]
[run]
retry_wait = 0.0
"""

OWN = '''
"""What a user writes: settings are frozen dataclasses, found by their names in this file."""

from dataclasses import dataclass, replace

from chimeralab.models.seam import ModelFailure, Reply


@dataclass(frozen=True)
class Parrot:
    """A model that says one thing; `open` starts it."""

    word: str = "hello"

    def open(self):
        return Speaking(self.word)


class Speaking:
    def __init__(self, word):
        self.word = word
        self.asked = 0

    async def reply(self, request):
        self.asked += 1
        if self.asked == 3:
            raise ModelFailure("server", "out of breath")
        return Reply(self.word, prompt_tokens=1, completion_tokens=1, reported_model="parrot-1")


@dataclass(frozen=True)
class Relieve:
    """A countermeasure: another model speaks for as long as it acts."""

    by: str
    turns: int = 4

    @property
    def models(self):
        return (self.by,)

    def change(self, ask, detected):
        return replace(ask, model=self.by) if ask.within(detected, self.turns) else ask


@dataclass(frozen=True)
class Idle:
    turns: int = 4
'''


FILES = {"plan.toml": PLAN, "own.py": OWN}


def test_custom_parts_run_and_are_recorded_under_their_own_names(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    folder = make_study(FILES).path
    checked = chimera("check", folder, "--json")
    assert checked.json["models"][0]["reported_model"] == "parrot-1"
    assert not any("not used in any condition" in advice for advice in checked.json["advice"])
    assert f"the plan runs the code of {folder / 'own.py'}, sha256 " in checked.err
    assert [chimera(step, folder).code for step in ("lock", "run", "verify")] == [0, 0, 0]
    study = Study(folder)
    lock = study.lock
    assert lock is not None
    assert set(lock.resolved["outside_code"]) == {"own:Parrot", "own:Relieve"}
    with study.archive() as archive:
        models = [turn["model"] for turn in archive.turns("helped/p1/1")]
        events = list(archive.rows("SELECT * FROM events WHERE kind = 'intervention'"))
        failed = archive.value("SELECT reason FROM attempts WHERE outcome = 'server'")
    first = events[0]["turn"]
    assert events[0]["detail"] == '{"by": "fresh", "turns": 3, "use": "Relieve"}'
    assert models[:first] == ["parrot"] * first
    assert models[first : first + 3] == ["fresh"] * 3
    assert failed == "out of breath"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("own:Relieve", "own:Idle", r"'own:Idle' in \[conditions.helped\] countermeasure is not a"),
        ('use = "own:Parrot"\nword = "again"', 'use = "own:Idle"', r"'own:Idle' .* is not a model"),
        ('by = "fresh"', 'by = "frsh"', r"unknown model 'frsh' .*did you mean 'fresh'"),
        ('by = "fresh", ', "", r"countermeasure needs a key 'by'"),
    ],
)
def test_own_parts_are_checked_before_anything_is_run(
    make_study: MakeStudy, old: str, new: str, complaint: str
) -> None:
    unnamed = [('by = "fresh", ', "")] if old == "own:Relieve" else []
    with pytest.raises(InputError, match=complaint):
        _ = make_study(FILES, (old, new), *unnamed).plan
