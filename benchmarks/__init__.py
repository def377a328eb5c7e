"""Benchmarks: each prints a ratio taken in one run and keeps its last result in a table."""
