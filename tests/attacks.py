"""Attacks of the campaign on whole studies: kills, damaged databases, and tampering."""

import importlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tests import damage
from tests.kills import Kills
from tests.studies import StudyCache

STUDIES_VARIABLE = "CAMPAIGN_STUDIES"
QUICK_READERS = ("verify", "audit", "export", "conversations", "show", "detect", "analyse")
# Charts take seconds.
SLOW_READERS = ("report", "bundle", "claims", "compare")


def open_cache(folder: Path) -> StudyCache:
    """The studies of a campaign, which its processes share; else studies of one's own."""
    cache = Path(os.environ.get(STUDIES_VARIABLE) or folder / "studies")
    cache.mkdir(parents=True, exist_ok=True)
    return StudyCache(cache)


class Damage:
    """A cell of a database or some of its pages are overwritten, and every command reads it."""

    shown: Any = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        cache = open_cache(folder)
        self.kinds: dict[str, Callable[[Path], Path]] = {
            "selfplay": lambda to: damage.full_selfplay(cache, to),
            "trial": lambda to: damage.full_trial(cache, to),
        }
        self.cells = list(damage.list_cells())

    def attack(self, number: int, rng: Random) -> None:
        shutil.rmtree(self.folder / "place", ignore_errors=True)
        copy = self.kinds[rng.choice(list(self.kinds))]
        study = copy(self.folder / "place" / "study")
        database = study / "study.db"
        if number % 4:
            cell = rng.choice(self.cells)
            while not damage.damage_cell(database, cell):
                cell = rng.choice(self.cells)
            self.shown = str(cell)
        else:
            self.shown = damage.overwrite_pages(database, rng.randrange(2**32))
        names = SLOW_READERS if number % 10 == 0 else QUICK_READERS
        complaints = damage.complaints(damage.read_all(study, names))
        assert not complaints, f"{self.shown}: {complaints}"


class Tamper:
    """A study or a bundle is changed behind the back of `verify`, which names it."""

    shown: Any = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ways: Any = importlib.import_module("tests.tamper")
        self.targets = self.ways.make_targets(open_cache(folder))

    def attack(self, number: int, _rng: Random) -> None:
        attack = self.ways.ATTACKS[number]
        self.shown = attack.name
        copy, original = self.folder / "copy", self.targets[attack.target]
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(original, copy)
        attack.apply(copy)
        problem = self.ways.find_problem(attack, copy, original)
        assert problem is None, problem


ATTACKS: dict[str, Callable[[Path], Any]] = {
    "kills": lambda folder: Kills(folder, open_cache(folder)),
    "damage": Damage,
    "tamper": Tamper,
}
