"""stuck-bench: an open benchmark of loop detectors, described in docs/stuck-bench.md."""
