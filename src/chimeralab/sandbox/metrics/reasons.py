"""Why a number is undefined, in words that say which columns would define it."""

from collections.abc import Mapping

REASONS = {
    "mci.rf": "no trial states `correct`",
    "mci.ci": "no session states `confidence` twice, and a single trial has no step",
    "mci.cb": "no trial states both `correct` and `weight`",
    "mci.ceiling": "no trial states both `correct` and `weight`",
    "gfq.ta": "no trial marked `novel` states `correct`",
    "gfq.cta": "no trial marked `novel` states both `correct` and `confidence`",
    "dfs.fi": "no matched pair: two rows that share `pair`, one with `frame` neutral and one "
    "biased, both with a `response`",
    "dfs.br": "no trial states `bias` and, where it is 1, `response` and `truth`",
    "cb_normalised": "no trial with `correct` has a `weight` above 0",
    "ece": "no trial states both `correct` and `confidence`",
    "brier": "no trial states both `correct` and `confidence`",
    "auroc": "needs right and wrong answers that state a `confidence`",
    "brier_novel": "no trial marked `novel` states both `correct` and `confidence`",
    "auroc_novel": "needs right and wrong answers on `novel` trials that state a `confidence`",
    "generalisation_gap": "no session has judged trials both marked and not marked `novel`",
    "br_biased_only": "no trial with `bias` 1 states `response` and `truth`",
    "toward_signal_rate": "no trial with `bias` 1 states `response`, `truth` and a `signal` that "
    "differs from the truth",
    "mcnemar_b": "no matched pair with both halves known to be right or wrong",
    "mcnemar_c": "no matched pair with both halves known to be right or wrong",
    "mcnemar_p": "no pair whose two halves differ in being right",
}
PARTS = {"mci": ("rf", "ci", "cb"), "gfq": ("ta", "cta"), "dfs": ("fi", "br")}


def reason_for(name: str, numbers: Mapping[str, float | None]) -> str:
    """Why a number is undefined; a metric is for the reasons of its parts.

    >>> reason_for("gfq", {"gfq": None, "gfq.ta": 0.5, "gfq.cta": None})
    'cta is undefined: no trial marked `novel` states both `correct` and `confidence`'
    """
    if name not in PARTS:
        return REASONS[name]
    missing = [part for part in PARTS[name] if numbers[f"{name}.{part}"] is None]
    whys = [f"{part} is undefined: {REASONS[f'{name}.{part}']}" for part in missing]
    return "; ".join(whys) or f"no session defines all of {', '.join(PARTS[name])}"
