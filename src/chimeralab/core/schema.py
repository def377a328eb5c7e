"""The version of the format in which studies and JSON are written.

It is the `user_version` of a study's database and the field `schema` of every JSON object that
commands write. It increases with any change that readers need to know about.
"""

import json
from collections.abc import Mapping
from typing import Any

from chimeralab.core.errors import InputError

SCHEMA = 12
# Earlier numbers were never released, so nothing migrates them.
FIRST_SCHEMA = 12


def json_text(value: Mapping[str, Any], *, indent: int | None = None) -> str:
    """Serialise an object with its `schema`, in ASCII so that lone surrogates survive.

    >>> json_text({"turns": 2})
    '{"schema": 12, "turns": 2}'
    """
    return json.dumps({"schema": SCHEMA, **value}, allow_nan=False, indent=indent)


def check_schema(
    number: int,
    place: str,
    way_out: str = "write it again with this version",
    error: type[InputError] = InputError,
) -> None:
    """Raise unless this version reads what was written under a schema number."""
    if number > SCHEMA:
        raise error(
            f"{place} was written by a later version of chimera-lab (schema {number}; this one "
            f"reads {SCHEMA}); install that version"
        )
    if number < FIRST_SCHEMA:
        raise error(
            f"{place} was written before the first release of chimera-lab (schema {number}), whose "
            f"format has changed since; {way_out}"
        )
