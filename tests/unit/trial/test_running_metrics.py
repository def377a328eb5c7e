"""Metrics of a stream: one pass, and memory that does not grow with the trials."""

import gc
import pickle
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

import pytest

from chimeralab.core.errors import InputError
from chimeralab.trial.metrics import RunningMetrics, measure_once
from chimeralab.trial.trials import Trial


def stream(sessions: int) -> Iterator[Trial]:
    """Sessions of ten trials in six scenarios, one trial at a time, with a pair in each session."""
    for number in range(sessions):
        for place in range(10):
            yield Trial(
                f"s{number}",
                place,
                scenario=f"x{number % 6}",
                correct=(number * place) % 3 > 0,
                confidence=(number + place) % 11 / 10,
                weight=place / 10,
                novel=place > 6,
                bias=place == 9,
                response="a" if (number + place) % 4 else "b",
                truth="a",
                signal="b",
                repeat=number,
                pair="p" if place in (8, 9) else None,
                frame={8: "neutral", 9: "biased"}.get(place),  # type: ignore[arg-type]
            )


def test_no_trial_outlives_its_session():
    held = []

    def watched() -> Iterator[Trial]:
        for number, trial in enumerate(stream(30)):
            if number % 50 == 49:
                held.append(sum(isinstance(each, Trial) for each in gc.get_objects()))
            yield trial

    already = sum(isinstance(each, Trial) for each in gc.get_objects())
    measure_once(watched(), resamples=0)
    assert max(held) - already <= 20, "the session at hand, and its rows split into pairs"


def test_what_is_kept_does_not_grow_with_the_sessions():
    running, sizes = RunningMetrics(), []
    for number, (_, session) in enumerate(groupby(stream(600), key=attrgetter("session")), start=1):
        running.add(tuple(session))
        if number in (300, 600):
            sizes.append(len(pickle.dumps(running)))
    assert sizes[1] <= sizes[0] + 50, "counts may have a digit more"


def test_pair_whose_halves_lie_in_two_sessions_is_counted_when_it_is_complete():
    halves = {"neutral": "a", "biased": "b"}
    trials = [
        Trial(session, 1, pair="p", frame=frame, response=response, truth="a")  # type: ignore[arg-type]
        for session, (frame, response) in zip("xy", halves.items(), strict=True)
    ]
    running = RunningMetrics()
    running.add(trials[:1])
    assert (running.measure().dfs.pairs, running.measure().dfs.unpaired) == (0, 1)
    running.add(trials[1:])
    found = running.measure().dfs
    assert (found.pairs, found.unpaired, found.fi) == (1, 0, 0.0)


def test_second_half_of_the_same_frame_is_an_error_across_sessions():
    running = RunningMetrics()
    running.add([Trial("x", 1, pair="p", frame="neutral", response="a")])
    with pytest.raises(InputError, match="second neutral half of pair 'p'"):
        running.add([Trial("y", 1, pair="p", frame="neutral", response="a")])


def test_empty_stream_is_an_error():
    with pytest.raises(InputError, match="no trial"):
        measure_once(iter(()))
