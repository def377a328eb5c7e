"""A kind of study, such as self-play or a trial: a part that knows what only its studies have."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.parts import Part, PartLoader, Seam, choose, read_part
from chimeralab.core.tables import Columns

if TYPE_CHECKING:
    from pathlib import Path

    from chimeralab.models.seam import Model
    from chimeralab.runner import Prompt, Rules, SessionScript
    from chimeralab.study.estimates import Estimates
    from chimeralab.study.folder import Study
    from chimeralab.study.plan import Condition, Plan, Subject
    from chimeralab.study.store import Archive
    from chimeralab.study.verdicts import CheckResult

# Imported when a plan asks for one: a study knows its kind, and nothing here knows which there are.
KINDS = {"selfplay": "chimeralab.selfplay.kind:SelfPlay", "trial": "chimeralab.trial.kind:Trial"}


class MissingSourceError(InputError):
    """What the units of a study were made from can't be read; its lock may still hold them."""


class Units(NamedTuple):
    """What the things of a study are called, in the singular, and the study itself."""

    study: str = "study"
    talk: str = "conversation"
    condition: str = "condition"
    prompt: str = "prompt"
    turn: str = "turn"


class Design(NamedTuple):
    """What a kind reads from its tables: who speaks under which rules about what.

    `extras` are the tables that later steps read, and `own` is what only this kind has.
    """

    models: Mapping[str, "Subject"]
    conditions: Mapping[str, "Condition"]
    conversation: "Rules"
    prompts: "tuple[Prompt, ...]"
    extras: Mapping[str, Any]
    own: Any = None


@dataclass(frozen=True)
class Kind:
    """What makes a study the kind that it is. Only `read` is required; the rest says nothing more.

    A kind of your own usually inherits from `chimeralab.selfplay.kind.SelfPlay`, whose studies are
    conversations that a detector judges.
    """

    name: ClassVar[str] = ""
    units: ClassVar[Units] = Units()
    required: ClassVar[tuple[str, ...]] = ()
    tables: ClassVar[tuple[str, ...]] = ()
    # Whether a detector judges the conversations, and a guard may watch them while they run.
    judged: ClassVar[bool] = True
    # The package whose templates say in a bundle what only this kind can say.
    templates: ClassVar[str] = "chimeralab.selfplay"

    def read(
        self, tables: Mapping[str, Any], loader: PartLoader, locked: Mapping[str, Any] | None
    ) -> Design:
        """Read the tables of a plan; from `locked`, the resolved plan, where their files are gone.

        Raises `MissingSourceError` when something can't be made again and there is no such plan.
        """
        raise NotImplementedError

    def read_extras(self, tables: Mapping[str, Any], loader: PartLoader) -> Mapping[str, Any]:
        """The tables that later steps read, those that are absent with their defaults."""
        return {}

    def script(
        self, plan: "Plan", condition: str, prompt: str, seed: int
    ) -> "SessionScript | None":
        """What a conversation is put through, where it does not just go on by itself."""
        return None

    def agents(self, plan: "Plan") -> Mapping[str, tuple[str, ...]]:
        """The models that are agents, with what each can do."""
        return {}

    def describe_agents(self, plan: "Plan") -> Mapping[str, str]:
        """Who keeps the memory of each agent, and what follows from what it can do."""
        return {}

    def open_agent(self, plan: "Plan", name: str, folder: "Path") -> "Model":
        """An agent of the plan, made ready."""
        raise NotImplementedError

    def finish_run(self, study: "Study") -> None:
        """What is left to do when a run is over."""

    def count_requests(self, plan: "Plan", model: str) -> tuple[int, int, int]:
        """The most calls, prompt tokens and reply tokens that a model can be asked for."""
        raise NotImplementedError

    def advise(self, plan: "Plan") -> Iterator[str]:
        """What `check` advises beyond what it says of every study."""
        yield from ()

    def detectable(self, plan: "Plan") -> tuple[Any, ...]:
        """What the declared outcomes can find; each entry is printed as it says itself."""
        return ()

    def recompute(self, study: "Study", archive: "Archive") -> Iterator["CheckResult"]:
        """What only this kind derives from its records, computed again and compared."""
        yield from ()

    def export_tables(self) -> Mapping[str, tuple[Columns, str]]:
        """The tables that only this kind has, each with its columns and its query."""
        return {}

    def analyse(self, study: "Study", estimates: "Estimates") -> Any:
        """What the records show, read from the stored estimates or computed."""
        raise NotImplementedError

    def name_numbers(
        self, study: "Study", analysis: Any, decided: Any = None, **found: Any
    ) -> Iterator[Any]:
        """The numbers of an analysis for texts, each as a `report.named_numbers.Entry`."""
        yield from ()

    def report(self, study: "Study", tell: Callable[[str], None], estimates: "Estimates") -> Any:
        """The report of a study, as a `report.files.Report`."""
        raise NotImplementedError

    def describe(self, plan: "Plan") -> str:
        """What is crossed with what, in words."""
        raise NotImplementedError

    def facts(self, study: "Study") -> Mapping[str, Any]:
        """What the templates of this kind say of a study."""
        return {}

    def outcome_columns(self) -> Columns:
        raise NotImplementedError

    def outcomes(self, study: "Study") -> Iterable[Mapping[str, Any]]:
        """What was measured of each conversation: the rows that an analysis is made from."""
        raise NotImplementedError

    def live_results(self, study: "Study") -> Mapping[str, Mapping[str, str]]:
        """What is measured of each condition so far, as a page shows it while the study runs."""
        return {}

    def show_talk(self, study: "Study", talk: str, condition: str) -> Any:
        """A finished conversation as a block of a page; None where it is shown as any other."""
        return None


def load_kind(name: str) -> type[Kind]:
    """A kind of this package; its module is loaded when a plan is of it."""
    module, _, cls = KINDS[name].partition(":")
    found: type[Kind] = getattr(import_module(module), cls)
    return found


def read_kind(tables: Mapping[str, Any], loader: PartLoader) -> Part:
    """[study] kind = "trial", or a kind of your own: [kind] use = "module:Class"."""
    about = tables.get("study")
    given = about.get("kind", "selfplay") if isinstance(about, Mapping) else "selfplay"
    table = tables.get("kind", {"use": given})
    if isinstance(table, Mapping) and table.get("use") in KINDS:
        use = table["use"]
        return read_part({use: load_kind(use)}, table, "[kind]", loader, _seam())
    if "kind" not in tables:
        choose(str(given), KINDS, f"kind = {given!r} in [study]")
    part = read_part(dict.fromkeys(KINDS, Kind), table, "[kind]", loader, _seam())
    if not isinstance(part.settings, Kind):
        raise InputError(f"use = {part.use!r} in [kind] is not a kind of study; inherit from Kind")
    return part


def _seam() -> Seam:
    return Seam("read", {"name": str, "units": Units}, load_kind("selfplay"))
