"""A kind of study, such as self-play or a trial: a part with what is specific to it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

# Imported when a plan names one, so that nothing here depends on the kinds.
KINDS = {"selfplay": "chimeralab.selfplay.kind:SelfPlay", "trial": "chimeralab.trial.kind:Trial"}


class MissingSourceError(InputError):
    """The source of a study's units can't be read; the lock may still have them."""


class Units(NamedTuple):
    """What a study and its units are called, in the singular."""

    study: str = "study"
    talk: str = "conversation"
    condition: str = "condition"
    prompt: str = "prompt"
    turn: str = "turn"


class Design(NamedTuple):
    """What a kind reads from the tables of a plan.

    `extras` are the tables of later steps, and `own` has what only this kind has.
    """

    models: Mapping[str, "Subject"]
    conditions: Mapping[str, "Condition"]
    conversation: "Rules"
    prompts: "tuple[Prompt, ...]"
    extras: Mapping[str, Any]
    own: Any = None


@dataclass(frozen=True)
class Kind:
    """Everything specific to a kind of study. Only `read` is required; the rest has defaults.

    A kind of your own usually inherits from `chimeralab.selfplay.kind.SelfPlay`, whose studies are
    conversations that a detector judges.
    """

    name: ClassVar[str] = ""
    units: ClassVar[Units] = Units()
    required: ClassVar[tuple[str, ...]] = ()
    tables: ClassVar[tuple[str, ...]] = ()
    # Whether a detector judges the conversations, live or afterwards.
    judged: ClassVar[bool] = True
    # The package with the templates of this kind for a bundle.
    templates: ClassVar[str] = "chimeralab.selfplay"

    def read(
        self, tables: Mapping[str, Any], loader: PartLoader, locked: Mapping[str, Any] | None
    ) -> Design:
        """Read the tables of a plan; use `locked`, the resolved plan, where files are missing.

        Raises `MissingSourceError` if something can't be rebuilt and `locked` is None.
        """
        raise NotImplementedError

    def read_extras(self, tables: Mapping[str, Any], loader: PartLoader) -> Mapping[str, Any]:
        """The tables of later steps, with defaults for absent ones."""
        return {}

    def script(
        self, plan: "Plan", condition: str, prompt: str, seed: int
    ) -> "SessionScript | None":
        """The script of a session; None for a free conversation."""
        return None

    def agents(self, plan: "Plan") -> Mapping[str, tuple[str, ...]]:
        """The models that are agents, with their capabilities."""
        return {}

    def describe_agents(self, plan: "Plan") -> Mapping[str, str]:
        """Who keeps the memory of each agent, and what its capabilities imply."""
        return {}

    def open_agent(self, plan: "Plan", name: str, folder: "Path") -> "Model":
        """Open an agent of the plan."""
        raise NotImplementedError

    def finish_run(self, study: "Study") -> None:
        """Called at the end of a run."""

    def count_requests(self, plan: "Plan", model: str) -> tuple[int, int, int]:
        """The maximum number of calls, prompt tokens and reply tokens of a model."""
        raise NotImplementedError

    def advise(self, plan: "Plan") -> Iterator[str]:
        """Advice of `check` that is specific to this kind."""
        yield from ()

    def detectable(self, plan: "Plan") -> tuple[Any, ...]:
        """What the declared outcomes can detect, one printable entry each."""
        return ()

    def recompute(self, study: "Study", archive: "Archive") -> Iterator["CheckResult"]:
        """Recompute what only this kind derives from its records, and compare."""
        yield from ()

    def export_tables(self) -> Mapping[str, tuple[Columns, str]]:
        """The export tables of this kind, each with its columns and query."""
        return {}

    def analyse(self, study: "Study", estimates: "Estimates") -> Any:
        """Analyse the records, using stored estimates where they are current."""
        raise NotImplementedError

    def name_numbers(
        self, study: "Study", analysis: Any, reliability: Any = None, **found: Any
    ) -> Iterator[Any]:
        """Yield the named numbers of an analysis, as `report.named_numbers.Entry`."""
        yield from ()

    def report(
        self, study: "Study", on_progress: Callable[[str], None], estimates: "Estimates"
    ) -> Any:
        """Build the report, a `report.files.Report`."""
        raise NotImplementedError

    def describe(self, plan: "Plan") -> str:
        """The design in words, such as what is crossed with what."""
        raise NotImplementedError

    def facts(self, study: "Study") -> Mapping[str, Any]:
        """The variables of this kind's templates."""
        return {}

    def outcome_columns(self) -> Columns:
        raise NotImplementedError

    def outcomes(self, study: "Study") -> Iterable[Mapping[str, Any]]:
        """The rows that an analysis is computed from, one per conversation."""
        raise NotImplementedError

    def load_rows(self, study: "Study") -> Iterator[tuple[Sequence[Any], bool]]:
        """What earlier runs scored, session by session, and whether a session has ended.

        The live display of the next run goes on from there.
        """
        yield from ()

    def live_results(self, study: "Study") -> Mapping[str, Mapping[str, str]]:
        """Results so far by condition, for the live page."""
        return {}

    def show_talk(self, study: "Study", talk: str, condition: str) -> Any:
        """A finished conversation as a page block; None for the default view."""
        return None


def load_kind(name: str) -> type[Kind]:
    """Import a built-in kind."""
    module, _, cls = KINDS[name].partition(":")
    found: type[Kind] = getattr(import_module(module), cls)
    return found


def read_kind(tables: Mapping[str, Any], loader: PartLoader) -> Part:
    """Read `[study] kind = "trial"`, or a kind of your own: `[kind] use = "module:Class"`."""
    about = tables.get("study")
    given = about.get("kind", "selfplay") if isinstance(about, Mapping) else "selfplay"
    table = tables.get("kind", {"use": given})
    use = table.get("use") if isinstance(table, Mapping) else None
    if isinstance(use, str) and use in KINDS:
        return read_part({use: load_kind(use)}, table, "[kind]", loader, _seam())
    if "kind" not in tables:
        choose(str(given), KINDS, f"kind = {given!r} in [study]")
    part = read_part(dict.fromkeys(KINDS, Kind), table, "[kind]", loader, _seam())
    if not isinstance(part.settings, Kind):
        raise InputError(f"use = {part.use!r} in [kind] is not a kind of study; inherit from Kind")
    return part


def _seam() -> Seam:
    return Seam("read", {"name": str, "units": Units}, load_kind("selfplay"))
