"""What importers share: finding files, and saying plainly when they are not what was expected."""

import csv
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from chimeralab.core.errors import InputError, LogError


def text_of(path: Path, wanted: str) -> str:
    """The text of a file, or what stands in the way."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"{path} can't be read ({why}); expected {wanted}") from None
    except UnicodeDecodeError:
        raise misfit(path, wanted, "it is not UTF-8 text") from None


def json_of(path: Path, wanted: str) -> Any:
    try:
        return json.loads(text_of(path, wanted))
    except (ValueError, RecursionError):
        raise misfit(path, wanted, "it is not JSON") from None


def rows_of(path: Path, wanted: str, columns: Collection[str]) -> list[dict[str, str]]:
    """The rows of a CSV file that has all these columns."""
    try:
        reader = csv.DictReader(text_of(path, wanted).splitlines(keepends=True), strict=True)
        rows = list(reader)
    except csv.Error as error:
        raise misfit(path, wanted, f"it is not CSV: {error}") from None
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        raise misfit(path, wanted, f"it has no column {', '.join(map(repr, missing))}")
    return rows


def misfit(path: Path, wanted: str, why: str, line: int | None = None) -> LogError:
    """The file is not what the importer reads: `wanted` says what that is."""
    return LogError(str(path), f"not {wanted} ({why})", line)
