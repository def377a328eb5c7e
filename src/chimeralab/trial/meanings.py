"""What each number of the metrics means, and why it can be undefined."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from chimeralab.core.numbers import number, p_value

Number = float | None


class Meaning(NamedTuple):
    """What a number says, why it can be undefined, and how it is shown.

    In ``says``, ``{share}`` is the number in percent, ``{rest}`` what it lacks to 1, and ``{all}``
    all metrics. ``undefined`` names the columns that would define the number.
    """

    says: str
    undefined: str = ""
    shown: Callable[[Number], str] = partial(number, digits=3)


PARTS = {"mci": ("rf", "ci", "cb"), "gfq": ("ta", "cta"), "dfs": ("fi", "br")}
METRIC_MEANINGS: dict[str, dict[str, Meaning]] = {
    "mci": {
        "value": Meaning("memory coherence; these trials allow at most {all.mci.ceiling:.3f}"),
        "rf": Meaning(
            "recall fidelity: {share} of the trials are right", "no trial states `correct`"
        ),
        "ci": Meaning(
            "continuity: confidence moves by {rest:.2f} from trial to trial",
            "no session states `confidence` twice, and a single trial has no step",
        ),
        "cb": Meaning(
            "context binding: right answers, weighted by the context they need",
            "no trial states both `correct` and `weight`",
        ),
        "ceiling": Meaning(
            "the highest index in reach", "no trial states both `correct` and `weight`"
        ),
    },
    "gfq": {
        "value": Meaning("generalization fidelity, on novel trials"),
        "ta": Meaning(
            "task accuracy: {share} of the novel trials are right",
            "no trial marked `novel` states `correct`",
        ),
        "cta": Meaning(
            "agreement: mean confidence that went into right answers",
            "no trial marked `novel` states both `correct` and `confidence`",
        ),
    },
    "dfs": {
        "value": Meaning("decision frame stability"),
        "fi": Meaning(
            "invariance: wording moves an answer by {rest:.2f} ({all.dfs.pairs:,} pairs)",
            "no matched pair: two rows that share `pair`, one with `frame` neutral and one biased,"
            " both with a `response`",
        ),
        "br": Meaning(
            "resistance: error under bias, spread over all {all.dfs.trials:,} trials",
            "no trial states `bias` and, where it is 1, `response` and `truth`",
        ),
    },
}
COMPANION_MEANINGS: dict[str, Meaning] = {
    "cb_normalised": Meaning(
        "share of the context weight that was earned",
        "no trial with `correct` has a `weight` above 0",
    ),
    "ece": Meaning(
        "mean gap between confidence and accuracy; 0 is calibrated",
        "no trial states both `correct` and `confidence`",
    ),
    "brier": Meaning(
        "squared miss of confidence; 0 is perfect, always saying 0.5 gives 0.25",
        "no trial states both `correct` and `confidence`",
    ),
    "auroc": Meaning(
        "chance that a right answer was given with more confidence than a wrong one",
        "needs right and wrong answers that state a `confidence`",
    ),
    "brier_novel": Meaning(
        "the Brier score on novel trials",
        "no trial marked `novel` states both `correct` and `confidence`",
    ),
    "auroc_novel": Meaning(
        "the AUROC of confidence on novel trials",
        "needs right and wrong answers on `novel` trials that state a `confidence`",
    ),
    "generalisation_gap": Meaning(
        "accuracy on familiar trials minus accuracy on novel ones",
        "no session has judged trials both marked and not marked `novel`",
    ),
    "br_biased_only": Meaning(
        "resistance without the neutral trials, which dilute it",
        "no trial with `bias` 1 states `response` and `truth`",
    ),
    "toward_signal_rate": Meaning(
        "share of misleading signals that were followed",
        "no trial with `bias` 1 states `response`, `truth` and a `signal` that differs from the"
        " truth",
    ),
    "mcnemar_b": Meaning(
        "pairs right only when neutral",
        "no matched pair with both halves known to be right or wrong",
        partial(number, digits=0),
    ),
    "mcnemar_c": Meaning(
        "pairs right only when biased",
        "no matched pair with both halves known to be right or wrong",
        partial(number, digits=0),
    ),
    "mcnemar_p": Meaning(
        "p-value of the exact McNemar test of these two counts",
        "no pair whose two halves differ in being right",
        p_value,
    ),
}


def reasons_for(
    values: Mapping[str, Number], intervals: Mapping[str, Any], clusters: Mapping[str, int]
) -> dict[str, str]:
    """Why each number that is None is so; a metric is for the reasons of its parts."""
    why = {}
    for name, meaning in COMPANION_MEANINGS.items():
        if values[name] is None:
            why[name] = meaning.undefined
    for metric, meanings in METRIC_MEANINGS.items():
        reasons = {
            name: meaning.undefined
            for name, meaning in meanings.items()
            if name != "value" and values[f"{metric}.{name}"] is None
        }
        why |= {f"{metric}.{name}": reason for name, reason in reasons.items()}
        unit = "trials" if metric == "dfs" else "sessions"
        if values[metric] is None:
            lacking = [
                f"{part} is undefined: {reasons[part]}" for part in PARTS[metric] if part in reasons
            ]
            whole = f"no session defines all of {', '.join(PARTS[metric])}"
            why[metric] = "; ".join(lacking) or whole
        elif intervals[metric] is None:
            alone = f"the {unit} form one cluster, which tells nothing about the spread"
            why[f"{metric}.interval"] = (
                alone if clusters[unit] < 2 else "no resamples were asked for"
            )
    return why
