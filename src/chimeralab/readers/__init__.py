"""Reads any log of conversations: `read` one file, `read_all` of many, `find_logs` in folders."""

from chimeralab.readers.fields import Unreadable
from chimeralab.readers.find import find_logs
from chimeralab.readers.formats import READERS, reader_named
from chimeralab.readers.reading import read, read_all
from chimeralab.readers.seam import Place, Reader
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
