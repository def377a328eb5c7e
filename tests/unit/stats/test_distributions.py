"""Distributions in plain Python, against scipy."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from chimeralab.stats.intervals import beta_cdf, student_quantile, student_sf

degrees = st.floats(0, 5).map(lambda digits: 10**digits)
shapes = st.floats(-0.3, 3).map(lambda digits: 10**digits)


@given(st.floats(-40, 40), degrees)
def test_tails_of_student_are_those_of_scipy(t, df):
    assert student_sf(t, df) == pytest.approx(special.stdtr(df, -t), rel=2e-8, abs=1e-300)


@given(st.floats(-9, math.log10(0.5)).map(lambda digits: 10**digits), degrees)
def test_quantiles_of_student_are_those_of_scipy(above, df):
    oracle = -special.stdtrit(df, above)
    assert student_quantile(above, df) == pytest.approx(oracle, rel=1e-8, abs=1e-8)


@given(st.floats(0, 1), shapes, shapes)
def test_beta_distribution_is_that_of_scipy(x, a, b):
    assert beta_cdf(x, a, b) == pytest.approx(special.betainc(a, b, x), abs=1e-10)


def test_endless_degrees_of_freedom_are_the_normal_distribution():
    assert student_quantile(0.025, math.inf) == pytest.approx(special.ndtri(0.975))
    assert student_sf(1.96, math.inf) == pytest.approx(special.ndtr(-1.96))


@pytest.mark.parametrize("df", [0.0, -1.0, math.nan])
def test_without_degrees_of_freedom_there_is_no_quantile(df):
    assert math.isnan(student_quantile(0.025, df))
