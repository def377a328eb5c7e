"""Agents as subjects: a function, an object with `ainvoke`, a server, a command."""

from pathlib import Path
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.models.seam import Model
from chimeralab.trial.agents.local import AinvokeSettings, CallableSettings, InspectAgentSettings
from chimeralab.trial.agents.remote import CommandSettings, HttpSettings
from chimeralab.trial.agents.seam import Agent, AgentSubject, Session, SessionLost, read_abilities

AGENTS: dict[str, type] = {
    "callable": CallableSettings,
    "ainvoke": AinvokeSettings,
    "inspect": InspectAgentSettings,
    "http": HttpSettings,
    "command": CommandSettings,
}


def find_abilities(settings: Any, folder: Path, place: str) -> tuple[str, ...]:
    """The abilities of an agent by its settings; some agents must be loaded to find out."""
    if not hasattr(settings, "can") and hasattr(settings, "within"):
        settings = settings.within(folder)
    return read_abilities(settings, place)


def open_agent(settings: Any, can: tuple[str, ...], folder: Path) -> Model:
    """Open an agent as a subject; its abilities must be those that were locked."""
    placed: Any = settings.within(folder) if hasattr(settings, "within") else settings
    found = read_abilities(placed, "its")
    if found != can:
        now, locked = (", ".join(each) or "only answer" for each in (found, can))
        raise InputError(
            f"the agent can now {now}, but the plan was made for one that can {locked}; "
            "restore it, or start a new study"
        )
    agent: Any = placed.open() if hasattr(placed, "open") else placed
    needed = "reply" if "history" in can else "start"
    if not callable(getattr(agent, needed, None)):
        abilities = ", ".join(can) or "only answer"
        raise InputError(f"it has no {needed}(), which an agent that can {abilities} needs")
    return agent if "history" in can else AgentSubject(agent, can)


__all__ = ["AGENTS", "Agent", "Session", "SessionLost", "find_abilities", "open_agent"]
