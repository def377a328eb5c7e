"""Model files ready for use: found in the cache, fetched when missing, never unchecked."""

from chimeralab.weights.cache import (
    FileCheck,
    cache_root,
    ensure,
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
