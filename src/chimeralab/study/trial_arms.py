"""The arms of a trial: the control, and whatever the one-line designs and named arms ask for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.core.parts import choose, read_part, read_record, read_value, shown
from chimeralab.sandbox.countermeasures import AGAINST, COUNTERMEASURES
from chimeralab.sandbox.script import Arm
from chimeralab.sandbox.stressors import STRESSORS
from chimeralab.study.sections import Name
from chimeralab.study.trial_sections import ArmTable, TrialTable

CONTROL, SHAM = "control", "sham"
Tables = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stress:
    """The stressors of a plan as its tables [stressors.NAME] set them; others are at defaults."""

    tables: Mapping[str, Tables]

    def part(self, name: str, changes: Tables, place: str) -> Any:
        """One stressor, with a few settings changed."""
        choose(name, STRESSORS, f"stressor {name!r} in {place}")
        base = self.tables.get(name, {})
        place = f"[stressors.{name}]" if not changes else place
        return read_record(STRESSORS[name], {**base, **changes}, place)

    def arm(self, changes: Mapping[str, Tables], place: str, **more: Any) -> Arm:
        """An arm under these stressors, in the order in which stressors act."""
        for name in changes:
            choose(name, STRESSORS, f"stressor {name!r} in {place}")
        ordered = {
            name: self.part(name, changes[name], f"{place} {name}")
            for name in STRESSORS
            if name in changes
        }
        cell = "".join("1" if name in ordered else "0" for name in sorted(STRESSORS))
        return Arm(ordered, cell=cell, **more)


def read_arms(tables: Tables, trial: TrialTable, folder: Path) -> dict[str, Arm]:
    """Every arm by its name; the untouched control always comes first."""
    stress = Stress(_stressor_tables(tables))
    _refuse_repeats(trial)
    designed, measured = dict(_designed(trial, stress)), dict(_measured(trial, stress))
    named = dict(_named(tables.get("arms", {}), designed | measured, stress, folder))
    arms = {CONTROL: stress.arm({}, "[trial]"), **designed, **named, **measured}
    used = {name for arm in arms.values() for name in arm.stressors}
    if trial.sham and used:
        all_of_them = stress.arm({name: {} for name in used}, "[trial] sham")
        arms[SHAM] = replace(all_of_them, sham=True, cell=SHAM)
    unused = [name for name in stress.tables if name not in used]
    if unused:
        raise InputError(
            f"[stressors.{unused[0]}] is part of no arm; name it in [trial] each or factorial"
        )
    return arms


def _stressor_tables(tables: Tables) -> Mapping[str, Tables]:
    found = tables.get("stressors", {})
    if not isinstance(found, Mapping):
        raise InputError("[stressors] takes tables [stressors.NAME]")
    for name, table in found.items():
        choose(name, STRESSORS, f"stressor {name!r}")
        read_record(STRESSORS[name], table, f"[stressors.{name}]")
    return found


def _refuse_repeats(trial: TrialTable) -> None:
    """Whoever names something twice, or doses nothing, meant another plan."""
    for place, named in _lists(trial):
        if not named:
            raise InputError(f"[trial] {place} has no doses; list some, or leave it out")
        twice = next((value for value in named if named.count(value) > 1), None)
        if twice is not None:
            raise InputError(f"[trial] {place} has {shown(twice)} twice; once is enough")


def _lists(trial: TrialTable) -> Iterator[tuple[str, Sequence[object]]]:
    for key in ("subjects", "factorial", "each", "measures", "probes"):
        if getattr(trial, key):
            yield key, getattr(trial, key)
    for name, keys in trial.dose.items():
        yield from ((f"dose {name}.{key}", values) for key, values in keys.items())
        if not keys:
            yield f"dose {name}", ()


def _designed(trial: TrialTable, stress: Stress) -> Iterator[tuple[str, Arm]]:
    for name in trial.each:
        yield name, stress.arm({name: {}}, "[trial] each")
    for name in trial.factorial:
        choose(name, STRESSORS, f"stressor {name!r} in [trial] factorial")
    for levels in product((False, True), repeat=len(trial.factorial)):
        on = [name for name, level in zip(trial.factorial, levels, strict=True) if level]
        if on:
            yield "+".join(on), stress.arm({name: {} for name in on}, "[trial] factorial")
    for name, keys in trial.dose.items():
        for key, values in keys.items():
            yield from _doses(name, key, values, stress)


def _doses(name: str, key: str, values: list[float], stress: Stress) -> Iterator[tuple[str, Arm]]:
    place = "[trial] dose"
    choose(name, STRESSORS, f"stressor {name!r} in {place}")
    defaults = {f.name: f.default for f in fields(STRESSORS[name])}
    choose(key, defaults, f"key {key!r} in {place} {name}")
    for value in values:
        whole = isinstance(defaults[key], int) and value == int(value)
        change = {key: int(value) if whole else value}
        yield (
            f"{name}-{key}-{value:g}",
            stress.arm({name: change}, place, dose=float(value), dosed=f"{name}.{key}"),
        )


def _named(
    tables: Any, designed: Mapping[str, Arm], stress: Stress, folder: Path
) -> Iterator[tuple[str, Arm]]:
    if not isinstance(tables, Mapping):
        raise InputError("[arms] takes tables [arms.NAME]")
    for name, table in tables.items():
        place = f"[arms.{name}]"
        read_value(Name, name, "[arms] the name")
        read = read_record(ArmTable, table, place)
        if name in (CONTROL, SHAM):
            raise InputError(f"{place} can't be set: every trial has this arm by itself")
        if name in designed:
            raise InputError(f"{place} is an arm that [trial] makes already; give it another name")
        yield name, _own(read, place, stress, folder)


def _own(read: ArmTable, place: str, stress: Stress, folder: Path) -> Arm:
    if not read.stressors and read.countermeasure is None:
        raise InputError(
            f"{place} has neither stressors nor a countermeasure, which makes it the control "
            "again; name a stressor, as in stressors = { amnesia = {} }"
        )
    arm = stress.arm(read.stressors, f"{place} stressors", dose=read.dose, sham=read.sham)
    if read.countermeasure is None:
        return arm
    part = read_part(COUNTERMEASURES, read.countermeasure, f"{place} countermeasure", folder)
    _refuse_misaimed(part.use, arm, place)
    return replace(arm, countermeasure=part.settings, against=part.use)


def _refuse_misaimed(use: str, arm: Arm, place: str) -> None:
    """What helps against a stressor does nothing without it; one from outside may do anything."""
    aim = AGAINST.get(use)
    if aim is not None and aim not in arm.stressors:
        raise InputError(
            f"{place} countermeasure {use!r} is against {aim}, which is not among the stressors "
            "of this arm; add it there, or choose another countermeasure"
        )


def _measured(trial: TrialTable, stress: Stress) -> Iterator[tuple[str, Arm]]:
    """Each countermeasure beside the bare arm that it is compared with."""
    for name in trial.measures:
        choose(name, COUNTERMEASURES, f"countermeasure {name!r} in [trial] measures")
        bare = AGAINST[name]
        arm = stress.arm({bare: {}}, "[trial] measures")
        yield bare, arm
        part = COUNTERMEASURES[name]()
        yield f"{bare}-with-{name}", replace(arm, countermeasure=part, against=name)
