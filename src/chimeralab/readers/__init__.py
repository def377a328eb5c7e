"""Read logs of conversations: `read` one file, `read_all` of many, `find_logs` in folders."""

from typing import TYPE_CHECKING

from chimeralab.core.lazy import lazy_names

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

__getattr__ = lazy_names(
    __name__,
    {
        "readers.formats": ("READERS", "reader_named"),
        "readers.logs": ("find_logs", "read", "read_all"),
        "readers.seam": ("Place", "Reader", "Unreadable"),
        "readers.tables": ("rows_with",),
    },
)
