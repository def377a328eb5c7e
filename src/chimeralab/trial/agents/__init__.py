"""Agents as subjects, by name: a function, an object with `ainvoke`, a server, a command."""

from pathlib import Path
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.models.seam import Model
from chimeralab.trial.agents.code import AinvokeSettings, CallableSettings, InspectAgentSettings
from chimeralab.trial.agents.seam import Agent, AgentSubject, Session, SessionLost, abilities
from chimeralab.trial.agents.wire import CommandSettings, HttpSettings

AGENTS: dict[str, type] = {
    "callable": CallableSettings,
    "ainvoke": AinvokeSettings,
    "inspect": InspectAgentSettings,
    "http": HttpSettings,
    "command": CommandSettings,
}


def find_abilities(settings: Any, folder: Path, place: str) -> tuple[str, ...]:
    """What an agent can do, by its settings; some are looked at before anybody can tell."""
    if not hasattr(settings, "can") and hasattr(settings, "within"):
        settings = settings.within(folder)
    return abilities(settings, place)


def open_agent(settings: Any, can: tuple[str, ...], folder: Path) -> Model:
    """The agent as a subject. It must be able to do what the plan was made for."""
    placed: Any = settings.within(folder) if hasattr(settings, "within") else settings
    found = abilities(placed, "its")
    if found != can:
        raise InputError(
            f"it can now {_listed(found)}, and the plan was made for one that can {_listed(can)}; "
            "restore it, or start a new study"
        )
    agent: Any = placed.open() if hasattr(placed, "open") else placed
    needed = "reply" if "history" in can else "start"
    if not callable(getattr(agent, needed, None)):
        raise InputError(f"it has no {needed}(), which an agent that can {_listed(can)} needs")
    return agent if "history" in can else AgentSubject(agent, can)


def _listed(can: tuple[str, ...]) -> str:
    return ", ".join(can) or "only answer"


__all__ = ["AGENTS", "Agent", "Session", "SessionLost", "find_abilities", "open_agent"]
