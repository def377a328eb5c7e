"""Bundles: a study as a folder that can be cited, deposited and verified by anyone."""

from chimeralab.bundle.build import Bundle, write_bundle
from chimeralab.bundle.check import verify_bundle
from chimeralab.bundle.manifest import is_bundle

__all__ = ["Bundle", "is_bundle", "verify_bundle", "write_bundle"]
