"""Zstandard for tests: in the standard library since Python 3.14, before that in a backport."""

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import compress
else:
    from backports.zstd import compress

__all__ = ["compress"]
