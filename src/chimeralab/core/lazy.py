"""Public names that are imported on first use, so that a package stays quick to import."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(module: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a module from the names that each home module defines.

    Homes are relative to the package. A name whose home needs an extra raises `MissingExtra`.
    """
    places = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(f"chimeralab.{places[name]}"), name)
        except ModuleNotFoundError as error:
            from chimeralab.core.extras import missing_extra  # noqa: PLC0415 - seldom needed

            raise missing_extra(error) or error from None
        setattr(sys.modules[module], name, value)
        return value

    return load
