"""The stressors by name. They act in this order, alone or in any combination."""

from chimeralab.trial.stressors.amnesia import Amnesia
from chimeralab.trial.stressors.seam import SHAM, Arrival, Stressor, apply_sham
from chimeralab.trial.stressors.signals import Conformity, Infallibility

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
]
