"""Samples: by seed, by stratum, without overlap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimeralab.core.errors import InputError
from chimeralab.rating.ratings import Shuffler
from chimeralab.rating.samples import Method, Sample, draw_sample

RUNS = {f"{name}-{n}": name for name in ("A", "B", "C", "R") for n in range(180)}
VERDICTS = {f"run-{n}": "collapsed" if n < 540 else "clear" for n in range(720)}


def sizes(sample: Sample) -> dict[str, int]:
    strata = [stratum for _, stratum in sample.items]
    return {name: strata.count(name) for name in sample.population}


def test_a_proportional_sample_takes_the_same_share_of_each_condition() -> None:
    assert sizes(draw_sample(RUNS, 180, Shuffler("secret", "1"))) == {
        "A": 45,
        "B": 45,
        "C": 45,
        "R": 45,
    }


def test_a_balanced_sample_takes_as_many_of_each_verdict_and_weights_them_back() -> None:
    sample = draw_sample(VERDICTS, 120, Shuffler("secret", "1"), method="balanced")
    assert sizes(sample) == {"clear": 60, "collapsed": 60}
    weights = {stratum: sample.weights[item] for item, stratum in sample.items}
    assert weights == {"clear": 3.0, "collapsed": 9.0}


def test_shortfall_of_a_small_stratum_goes_to_the_others() -> None:
    strata = {"a": "x", "b": "y", "c": "y", "d": "y"}
    assert sizes(draw_sample(strata, 4, Shuffler("secret", "1"), method="balanced")) == {
        "x": 1,
        "y": 3,
    }


def test_calibration_and_gate_share_no_item() -> None:
    calibration = draw_sample(RUNS, 40, Shuffler("secret", "7"))
    gate = draw_sample(RUNS, 180, Shuffler("secret", "8"), without=calibration.ids)
    assert not set(calibration.ids) & set(gate.ids)
    assert (len(calibration.ids), len(gate.ids)) == (40, 180)


@pytest.mark.parametrize("size", [0, -1, 721])
def test_an_impossible_sample_is_rejected(size: int) -> None:
    with pytest.raises(InputError, match="from 720 items"):
        draw_sample(RUNS, size, Shuffler("secret", "1"))


populations = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=4), st.sampled_from("pqr"), min_size=3, max_size=40
)


@given(populations, st.integers(0, 9), st.sampled_from(["proportional", "balanced"]), st.data())
def test_weights_add_up_to_the_population_and_the_order_does_not_matter(
    strata: dict[str, str], seed: int, method: Method, data: st.DataObject
) -> None:
    size = data.draw(st.integers(min(3, len(strata)), len(strata)))
    sample = draw_sample(strata, size, Shuffler("secret", str(seed)), method=method)
    assert len(set(sample.ids)) == size
    assert sum(sample.weights.values()) == pytest.approx(len(strata))
    turned = dict(reversed(strata.items()))
    assert draw_sample(turned, size, Shuffler("secret", str(seed)), method=method) == sample
