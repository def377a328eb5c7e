"""Model files ready for use: found in the cache, fetched when missing, never unchecked."""

from collections.abc import Callable
from pathlib import Path

from chimeralab.weights.cache import (
    FileCheck,
    cache_root,
    glance,
    locate,
    model_folder,
    verify,
)
from chimeralab.weights.catalogue import MODELS, ModelFile, ModelSpec

__all__ = [
    "MODELS",
    "FileCheck",
    "ModelFile",
    "ModelSpec",
    "cache_root",
    "ensure",
    "glance",
    "locate",
    "model_folder",
    "verify",
]


def ensure(name: str, *, say: Callable[[str], None] | None = None) -> Path:
    """The folder with all files of a model; pulls what is missing and tells so on stderr."""
    return locate(name) or _pull(name, say)


def _pull(name: str, say: Callable[[str], None] | None) -> Path:
    # The network parts take a third of a second to import, and a cached model needs none of them.
    from chimeralab.weights.pull import pull, to_stderr  # noqa: PLC0415

    return pull(name, say=say or to_stderr)
