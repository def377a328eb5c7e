"""The stressors by name. They act in this order, alone or in any combination."""

from chimeralab.sandbox.stressors.amnesia import Amnesia
from chimeralab.sandbox.stressors.conformity import Conformity
from chimeralab.sandbox.stressors.infallibility import Infallibility
from chimeralab.sandbox.stressors.seam import Arrival, Stressor
from chimeralab.sandbox.stressors.sham import Sham

STRESSORS: dict[str, type[Stressor]] = {
    each.name: each for each in (Infallibility, Conformity, Amnesia)
}

__all__ = ["STRESSORS", "Amnesia", "Arrival", "Conformity", "Infallibility", "Sham", "Stressor"]
