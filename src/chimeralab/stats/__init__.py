"""Statistics as pure functions: arrays in, numbers out, randomness passed in as ``rng``.

What can't be computed is None, and the record that holds it says why under ``reasons``.
"""
