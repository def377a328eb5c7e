"""Statistics as pure functions: arrays in, numbers out, randomness passed in as ``rng``.

An undefined number is None, and its record gives the reason under ``reasons``.
"""
