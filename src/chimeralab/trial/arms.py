"""The arms of a trial: the control, those of the one-line designs, and named arms."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.parts import Part, PartLoader, choose, format_value, read_part, read_record
from chimeralab.core.records import Record
from chimeralab.study.plan import read_named_tables
from chimeralab.trial.countermeasures import COUNTERMEASURES, SEAM
from chimeralab.trial.script import Arm
from chimeralab.trial.stressors import SHAM, STRESSORS, Amnesia, Conformity, Infallibility, Stressor
from chimeralab.trial.stressors import seam as stressor_seam

CONTROL = "control"
# Cells are stored, so these always have a digit, and other stressors only if used.
FIRST_PLACES = (Amnesia.name, Conformity.name, Infallibility.name)
SYSTEM = "You take part in a test. Reply with the answer alone."
Tables = Mapping[str, Any]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class TrialTable(Record):
    """[trial]: the subjects and the design.

    `factorial` crosses stressors: every combination is an arm, including the control. `each` gives
    a stressor its own arm. `dose` varies one key of one stressor. `countermeasures` are tried
    against their stressor and on their own. `sham` adds an arm with neutral text instead of all
    stressors; with "each", also one for every stressor. `probes` defaults to all probes.
    """

    subjects: Annotated[tuple[str, ...], Field(min_length=1)]
    factorial: tuple[str, ...] = ()
    each: tuple[str, ...] = ()
    dose: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    countermeasures: tuple[str, ...] = ()
    sham: bool | Literal["each"] = True
    repeats: Count = 1
    system: str | None = SYSTEM
    probes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Reject duplicates and empty doses."""
        keys = ("subjects", "factorial", "each", "countermeasures", "probes")
        lists: list[tuple[str, Sequence[object]]] = [
            (key, getattr(self, key)) for key in keys if getattr(self, key)
        ]
        for name, doses in self.dose.items():
            lists += [(f"dose {name}.{key}", values) for key, values in doses.items()]
            lists += [] if doses else [(f"dose {name}", ())]
        for key, named in lists:
            if not named:
                raise InputError(f"{key} lists no doses")
            repeated = next((value for value in named if named.count(value) > 1), None)
            if repeated is not None:
                raise InputError(f"{key} has {format_value(repeated)} twice")


@dataclass(frozen=True, slots=True)
class ArmTable(Record):
    """[arms.NAME]: stressors with changed settings, and a countermeasure."""

    stressors: dict[str, dict[str, Any]] = field(default_factory=dict)
    countermeasure: dict[str, Any] | None = None
    sham: bool = False
    dose: float | None = None


class StressorTables:
    """The tables [stressors.NAME] of a plan; stressors without one have their defaults.

    `known` has the class of each stressor in the order in which they act: first built-in ones, then
    those of the plan, for which `custom` has the `use`.
    """

    def __init__(self, tables: Tables, loader: PartLoader) -> None:
        self.known: dict[str, type[Stressor]] = dict(STRESSORS)
        self.custom: dict[str, str] = {}
        self.tables: dict[str, Tables] = {}
        for name, table in read_named_tables(tables, "stressors").items():
            place = f"[stressors.{name}]"
            if isinstance(table, Mapping) and "use" in table:
                if name in STRESSORS:
                    raise InputError(
                        f"{place}: {name!r} is a built-in stressor; choose another name"
                    )
                part = read_part(STRESSORS, table, place, loader, stressor_seam.SEAM)
                if not isinstance(part.settings, Stressor):
                    raise InputError(
                        f"{place} use = {part.use!r} is not a Stressor; inherit from "
                        "chimeralab.trial.stressors.Stressor"
                    )
                self.known[name], self.custom[name] = type(part.settings), part.use
                table = {key: value for key, value in table.items() if key != "use"}  # noqa: PLW2901
            beyond = "or your own, with use = 'module:Class'"
            choose(name, self.known, f"stressor {name!r}", or_else=beyond)
            self.tables[name] = table
            read_record(self.known[name], table, place)

    def part(self, name: str, changes: Tables, place: str) -> Stressor:
        """A stressor with some settings changed."""
        choose(name, self.known, f"stressor {name!r} in {place}")
        base = self.tables.get(name, {})
        place = f"[stressors.{name}]" if not changes else place
        part = read_record(self.known[name], {**base, **changes}, place)
        for other in part.others:
            choose(other, self.known, f"stressor {other!r} in {place}")
        return part

    def custom_parts(self) -> dict[str, Part]:
        """The custom stressors, under the names of their tables."""
        return {
            f"stressors.{name}": Part(use, self.part(name, {}, "[stressors]"))
            for name, use in self.custom.items()
        }

    def arm(self, changes: Mapping[str, Tables], place: str, **more: Any) -> Arm:
        """An arm with these stressors, in the order in which they act."""
        for name in changes:
            choose(name, self.known, f"stressor {name!r} in {place}")
        ordered = {
            name: self.part(name, changes[name], f"{place} {name}")
            for name in self.known
            if name in changes
        }
        return Arm(ordered, **more)


def read_arms(
    tables: Tables, trial: TrialTable, stressors: StressorTables, loader: PartLoader
) -> dict[str, Arm]:
    """Every arm by name, the control first."""
    designed = dict(_expand_designs(trial, stressors))
    helped = dict(_expand_countermeasures(trial, stressors, loader))
    named = dict(
        _read_named_arms(read_named_tables(tables, "arms"), designed | helped, stressors, loader)
    )
    arms = {CONTROL: stressors.arm({}, "[trial]"), **designed, **named, **helped}
    used = {name for arm in arms.values() for name in arm.stressors}
    places = (*FIRST_PLACES, *(name for name in stressors.known if name in used - {*FIRST_PLACES}))
    for name, arm in arms.items():
        cell = "".join("1" if place in arm.stressors else "0" for place in places)
        arms[name] = replace(arm, cell=cell)
    if trial.sham and used:
        all_of_them = stressors.arm({name: {} for name in used}, "[trial] sham")
        arms[SHAM] = replace(all_of_them, sham=True, cell=SHAM)
        for name in used if trial.sham == "each" and len(used) > 1 else ():
            alone = stressors.arm({name: {}}, "[trial] sham")
            arms[f"{SHAM}-{name}"] = replace(alone, sham=True, cell=f"{SHAM}-{name}")
    unused = [name for name in stressors.tables if name not in used]
    if unused:
        raise InputError(
            f"[stressors.{unused[0]}] is not used in any arm; name it in [trial] each or factorial"
        )
    return arms


def _expand_designs(trial: TrialTable, stressors: StressorTables) -> Iterator[tuple[str, Arm]]:
    for name in trial.each:
        yield name, stressors.arm({name: {}}, "[trial] each")
    for name in trial.factorial:
        choose(name, stressors.known, f"stressor {name!r} in [trial] factorial")
    for levels in product((False, True), repeat=len(trial.factorial)):
        on = [name for name, level in zip(trial.factorial, levels, strict=True) if level]
        if on:
            yield "+".join(on), stressors.arm({name: {} for name in on}, "[trial] factorial")
    place = "[trial] dose"
    for name, doses in trial.dose.items():
        choose(name, stressors.known, f"stressor {name!r} in {place}")
        defaults = stressors.part(name, {}, place).as_dict()
        for key, values in doses.items():
            choose(key, defaults, f"key {key!r} in {place} {name}")
            for value in values:
                whole = isinstance(defaults[key], int) and value == int(value)
                change = {name: {key: int(value) if whole else value}}
                dosed = {"dose": float(value), "dosed": f"{name}.{key}"}
                yield f"{name}-{key}-{value:g}", stressors.arm(change, place, **dosed)


def _read_named_arms(
    tables: Tables, designed: Mapping[str, Arm], stressors: StressorTables, loader: PartLoader
) -> Iterator[tuple[str, Arm]]:
    for name, table in tables.items():
        place = f"[arms.{name}]"
        read = read_record(ArmTable, table, place)
        if name in (CONTROL, SHAM):
            raise InputError(f"{place}: the arm {name!r} is built in; choose another name")
        if name in designed:
            raise InputError(
                f"{place}: [trial] already makes the arm {name!r}; choose another name"
            )
        if not read.stressors and read.countermeasure is None:
            raise InputError(
                f"{place} has neither stressors nor a countermeasure, like the control; "
                "name a stressor, as in stressors = { amnesia = {} }"
            )
        arm = stressors.arm(read.stressors, f"{place} stressors", dose=read.dose, sham=read.sham)
        if read.countermeasure is not None:
            where = f"{place} countermeasure"
            part = read_part(COUNTERMEASURES, read.countermeasure, where, loader, SEAM)
            aim = getattr(part.settings, "against", None)
            if arm.stressors and aim is not None and aim not in arm.stressors:
                raise InputError(
                    f"{where} {part.use!r} works against {aim}, which is not a stressor of this "
                    "arm; add it, or choose another countermeasure"
                )
            arm = replace(arm, countermeasure=part.settings, against=part.use)
        yield name, arm


def _expand_countermeasures(
    trial: TrialTable, stressors: StressorTables, loader: PartLoader
) -> Iterator[tuple[str, Arm]]:
    """Each countermeasure with its stressor, the stressor alone, and the countermeasure alone."""
    place = "[trial] countermeasures"
    for use in trial.countermeasures:
        if ":" not in use:
            choose(use, COUNTERMEASURES, f"countermeasure {use!r} in {place}")
        part: Part = read_part(COUNTERMEASURES, {"use": use}, place, loader, SEAM)
        bare = getattr(part.settings, "against", None)
        if bare is None:
            raise InputError(f"{place}: {use!r} has no attribute `against`; use [arms.NAME]")
        arm = stressors.arm({bare: {}}, place)
        yield bare, arm
        name = getattr(part.settings, "name", type(part.settings).__name__)
        yield f"{bare}-with-{name}", replace(arm, countermeasure=part.settings, against=use)
        # What it costs, or gains, without a stressor.
        calm = stressors.arm({}, place, countermeasure=part.settings, against=use)
        yield f"{CONTROL}-with-{name}", calm
