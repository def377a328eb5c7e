"""An agreement panel in plain words: why kappa is low when raters mostly agree, and the like."""

from collections.abc import Iterator

from chimeralab.stats.panel import Panel
from chimeralab.stats.raters import RatersPanel

# From this share of equal labels on, a reader expects a high kappa and deserves an explanation.
HIGH_AGREEMENT = 0.8
CLOSE = 0.1


def explain(panel: RatersPanel) -> list[str]:
    """What the figures mean, one sentence or two a line."""
    if len(panel.pairs) > 1:
        return list(_several(panel))
    return list(_pair(panel.pairs[0].panel))


def _pair(panel: Panel) -> Iterator[str]:
    if panel.agreement is None or panel.prevalence is None or panel.expected_agreement is None:
        yield f"Nothing can be said: {panel.reasons['agreement']}."
        return
    yield _raw(panel)
    if panel.kappa is None:
        yield f"Kappa is undefined: {panel.reasons['kappa']}. Perfect agreement is not shown by it."
        return
    yield from _chance(panel)
    yield from _both_sides(panel)
    yield from _pabak(panel)
    yield from _precision(panel)


def _raw(panel: Panel) -> str:
    table = panel.table
    same = table.both + table.neither
    return (
        f"The raters gave the same label to {same:g} of {table.n:g} items"
        f" ({_percent(panel.agreement)})."
    )


def _chance(panel: Panel) -> Iterator[str]:
    assert panel.agreement is not None
    assert panel.expected_agreement is not None
    room = 1 - panel.expected_agreement
    earned = panel.agreement - panel.expected_agreement
    yield (
        f"They say 1 for {_percent(panel.prevalence)} of the items on average, so labels drawn at "
        f"that rate would already be equal for {_percent(panel.expected_agreement)}. Kappa asks "
        f"how much of the remaining {_points(room)} points they earned: {_points(earned)}, "
        f"which is {panel.kappa:.3f}."
    )
    if panel.agreement >= HIGH_AGREEMENT and (panel.kappa or 0) < HIGH_AGREEMENT:
        yield (
            "This is why kappa is low although agreement is high: one label is so common that "
            "most agreement comes for free."
        )


def _both_sides(panel: Panel) -> Iterator[str]:
    positive, negative = panel.positive_agreement, panel.negative_agreement
    if positive is None or negative is None or abs(positive - negative) < CLOSE:
        return
    yield (
        f"When one rater says 1, the other does so in {_percent(positive)} of the cases; for 0 it "
        f"is {_percent(negative)}. They part on the rarer label."
    )


def _pabak(panel: Panel) -> Iterator[str]:
    if panel.pabak is None or panel.kappa is None or panel.pabak - panel.kappa < CLOSE:
        return
    yield (
        f"PABAK ({panel.pabak:.3f}) is the raw agreement on another scale, 2 x agreement - 1: it "
        "acts as if both labels were equally common and hides how the raters do on the rare one."
    )


def _precision(panel: Panel) -> Iterator[str]:
    interval = panel.kappa_ci_score
    if interval is not None:
        yield (
            f"With {panel.n_valid} items a kappa anywhere from {interval.low:.2f} to "
            f"{interval.high:.2f} would not surprise (95 % score interval)."
        )
    left_out = panel.n_total - panel.n_valid
    if left_out:
        yield f"{left_out} of {panel.n_total} items lack a label of one of them and are left out."


def _several(panel: RatersPanel) -> Iterator[str]:
    raters = f"{len(panel.raters)} raters: {', '.join(panel.raters)}"
    yield f"{raters}. {panel.n_valid} of {panel.n_total} items have two labels or more."
    if panel.alpha is None:
        yield f"Krippendorff's alpha is undefined: {panel.reasons['alpha']}."
        return
    yield f"Krippendorff's alpha over all of them is {panel.alpha:.3f}; 0 is chance, 1 perfect."
    kappas = [(pair.panel.kappa, pair) for pair in panel.pairs if pair.panel.kappa is not None]
    if kappas:
        low, weakest = min(kappas, key=lambda entry: entry[0])
        yield f"{weakest.first} and {weakest.second} agree least: kappa {low:.3f}."


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _points(share: float) -> str:
    return f"{100 * share:.1f}"
