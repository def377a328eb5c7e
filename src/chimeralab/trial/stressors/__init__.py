"""Stressors by name. They act in this order, alone or combined."""

from chimeralab.trial.stressors.builtin import Amnesia, Conformity, Infallibility
from chimeralab.trial.stressors.seam import SHAM, Arrival, Stressor, apply_sham, read_evidence

STRESSORS: dict[str, type[Stressor]] = {
    each.name: each for each in (Infallibility, Conformity, Amnesia)
}

__all__ = [
    "SHAM",
    "STRESSORS",
    "Amnesia",
    "Arrival",
    "Conformity",
    "Infallibility",
    "Stressor",
    "apply_sham",
    "read_evidence",
]
