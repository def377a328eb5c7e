"""A model whose own code fails: one sentence that says which, how, where, and what to do."""

import traceback
from pathlib import Path

from chimeralab.core.errors import InputError
from chimeralab.core.secrets import redact


def breakdown(model: str, error: Exception) -> InputError:
    """The error to raise instead of whatever a model's code let through."""
    return InputError(
        f"[models.{model}] broke down with {redact(repr(error))}{_place(error)}; mend its code, or "
        "raise a ModelFailure there where another attempt may help"
    )


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
