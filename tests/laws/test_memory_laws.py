"""Memory does not grow with the number of conversations."""

import gc
from collections.abc import Iterator

from chimeralab import Trajectory, Turn, detect_all
from chimeralab.detection.measure import BATCH_TURNS

TURNS = 4
NAME = "soon forgotten"  # other tests of this process may keep theirs


def test_conversations_are_freed_once_judged() -> None:
    read = 0

    def talks() -> Iterator[Trajectory]:
        nonlocal read
        for number in range(BATCH_TURNS):
            read += 1
            turns = (Turn(f"point {number} of step {n}") for n in range(TURNS))
            yield Trajectory(f"{NAME} {number}", tuple(turns))

    for judged, _ in enumerate(detect_all(talks(), detector=None, loops=None), start=1):
        assert read - judged < BATCH_TURNS / TURNS
        if judged == BATCH_TURNS:
            gc.collect()
            alive = sum(
                type(each) is Trajectory and each.id.startswith(NAME)  # a dead proxy has no class
                for each in gc.get_objects()
            )
            assert alive <= 2 * BATCH_TURNS / TURNS
    assert judged == BATCH_TURNS
