"""Chimera Lab inside Inspect and Scout: scanners, scorers, self-play, stress trials and a guard."""

from importlib import import_module
from typing import Any

from chimeralab.core.extras import missing_extra
from chimeralab.integrations.inspect.naming import answer_to_the_name_of_the_package

_HOMES = {
    "guard": ("guarded",),
    "scanners": ("collapse", "loops"),
    "scorers": ("collapse_rate", "looping"),
    "selfplay": ("self_play", "self_play_study"),
    "trial": ("stress_trial",),
    "validation": ("write_validation_set",),
}
_PLACES = {name: home for home, names in _HOMES.items() for name in names}

# Before anything is registered, since the names depend on it.
answer_to_the_name_of_the_package()


def __getattr__(name: str) -> Any:
    """Each part is loaded when it is asked for: scorers need no Scout, and only tasks the lab."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None
