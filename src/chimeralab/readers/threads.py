"""Follows links from the latest message of a conversation back to its first."""

from collections.abc import Sequence

Parents = Sequence[int | None]
"""For every message, the index of the one it answers; None begins a conversation."""


def threads(parents: Parents, times: Sequence[str | None]) -> list[list[int]]:
    """The path to the latest message below each root; messages without a time end no path.

    Where a conversation was taken back and went on differently, the later ending counts.

    >>> threads([None, 0, 0, 2, None], ["1", "2", "3", "4", "5"])
    [[0, 2, 3], [4]]
    """
    answered = _answered(parents, times)
    latest: dict[int, tuple[bool, str, int]] = {}
    for node, (root, time) in enumerate(zip(_roots(parents), times, strict=True)):
        if time is not None:
            rank = (node not in answered, time, node)
            latest[root] = max(latest.get(root, rank), rank)
    return [_path(node, parents) for _, (_, _, node) in sorted(latest.items())]


def _answered(parents: Parents, times: Sequence[str | None]) -> set[int]:
    answered: set[int] = set()
    for node, time in enumerate(times):
        at = parents[node] if time is not None else None
        while at is not None and at not in answered:
            answered.add(at)
            at = parents[at]
    return answered


def _path(leaf: int, parents: Parents) -> list[int]:
    path: dict[int, None] = {}
    at: int | None = leaf
    while at is not None and at not in path:
        path[at] = None
        at = parents[at]
    return list(reversed(path))


def _roots(parents: Parents) -> list[int]:
    roots: dict[int, int] = {}
    for node in range(len(parents)):
        path: dict[int, None] = {}
        at = node
        while at not in roots and at not in path and (parent := parents[at]) is not None:
            path[at] = None
            at = parent
        roots |= dict.fromkeys([*path, at], roots.get(at, at))
    return [roots[node] for node in range(len(parents))]
