"""Reads any log of conversations: `read` one file, `read_all` of many, `find_logs` in folders."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chimeralab.readers.formats import READERS, reader_named
    from chimeralab.readers.logs import find_logs, read, read_all
    from chimeralab.readers.seam import Place, Reader, Unreadable
    from chimeralab.readers.tables import rows_with

__all__ = [
    "READERS",
    "Place",
    "Reader",
    "Unreadable",
    "find_logs",
    "read",
    "read_all",
    "reader_named",
    "rows_with",
]

_PLACES = {
    "READERS": "formats",
    "Place": "seam",
    "Reader": "seam",
    "Unreadable": "seam",
    "find_logs": "logs",
    "read": "logs",
    "read_all": "logs",
    "reader_named": "formats",
    "rows_with": "tables",
}


def __getattr__(name: str) -> Any:
    """Loads what is used: a guard reads messages and needs no format of logs."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
