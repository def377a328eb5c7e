"""Replies held to the options of a question by a JSON schema, where a server or provider takes one.

The schema wants an object with one field, since few take a bare choice.
"""

import json
from collections.abc import Sequence
from typing import Any

# What the object around an option takes beside the option.
MORE_TOKENS = 16
# A question with a schema that is answered so may do without it.
DECLINED = (400, 404, 415, 422, 501)
NOT_KEPT = "{who} did not keep to the options"
NOT_TAKEN = "{who} takes no JSON schema ({why})"


def answer_schema(options: Sequence[str]) -> dict[str, Any]:
    """The schema of an object whose `answer` is one of the options."""
    return {
        "type": "object",
        "properties": {"answer": {"type": "string", "enum": list(options)}},
        "required": ["answer"],
        "additionalProperties": False,
    }


def answer_in(text: str) -> str | None:
    """The answer in an object as the schema wants it; None where there is no such object.

    >>> answer_in('{"answer": "Rome"}'), answer_in("Rome")
    ('Rome', None)
    """
    try:
        found = json.loads(text)
    except ValueError:
        return None
    answer = found.get("answer") if isinstance(found, dict) else None
    return answer if isinstance(answer, str) else None
