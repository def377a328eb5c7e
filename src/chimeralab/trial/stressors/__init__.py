"""The stressors by name. They act in this order, alone or in any combination."""

from chimeralab.trial.stressors.amnesia import Amnesia
from chimeralab.trial.stressors.conformity import Conformity
from chimeralab.trial.stressors.infallibility import Infallibility
from chimeralab.trial.stressors.seam import Arrival, Stressor
from chimeralab.trial.stressors.sham import Sham

STRESSORS: dict[str, type[Stressor]] = {
    each.name: each for each in (Infallibility, Conformity, Amnesia)
}

__all__ = ["STRESSORS", "Amnesia", "Arrival", "Conformity", "Infallibility", "Sham", "Stressor"]
