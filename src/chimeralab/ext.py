"""Everything that a plug-in imports: base classes, protocols, records and errors.

Names are imported on first use. One that needs the [lab] extra raises `MissingExtra` without it.
"""

from typing import TYPE_CHECKING

from chimeralab.core.lazy import lazy_names

if TYPE_CHECKING:
    from chimeralab.core.errors import ChimeraError, InputError, LogError, LoopDetected
    from chimeralab.core.extras import MissingExtra
    from chimeralab.core.parts import PartLoader
    from chimeralab.core.records import Call, Detection, Loop, Trajectory, Turn
    from chimeralab.detection.seam import Cutoff, Detector, Needs, Observation, Signal, Stream
    from chimeralab.embedding.encoder import Embeddings, Encoder
    from chimeralab.integrations.watch import GuardAction, Watch, WatchSettings
    from chimeralab.models.seam import Message, Model, ModelFailure, Reply, Request, Sampling
    from chimeralab.rating.ratings import Item, Rater, RaterFacts, RaterPart, Rating
    from chimeralab.rating.rubric import Rubric
    from chimeralab.readers.seam import Place, Reader, Unreadable
    from chimeralab.runner.interventions import Ask, Countermeasure
    from chimeralab.selfplay.kind import SelfPlay
    from chimeralab.study.kind import Design, Kind, Units
    from chimeralab.trial.agents.seam import Agent, Session, SessionLost
    from chimeralab.trial.countermeasures import TrialCountermeasure
    from chimeralab.trial.course import Course, Step
    from chimeralab.trial.measures import HitRate, TrialMeasure
    from chimeralab.trial.probes import Probe
    from chimeralab.trial.scenarios.items import Fact, Question, Scenario, ScenarioGenerator
    from chimeralab.trial.scene import Moment, Scene, Utterance
    from chimeralab.trial.stressors.seam import Arrival, Stressor
    from chimeralab.trial.trials import TrialRow

__all__ = [
    "Agent", "Arrival", "Ask", "Call", "ChimeraError", "Countermeasure", "Course", "Cutoff",
    "Design", "Detection", "Detector", "Embeddings", "Encoder", "Fact", "GuardAction", "HitRate",
    "InputError", "Item", "Kind", "LogError", "Loop", "LoopDetected", "Message", "MissingExtra",
    "Model", "ModelFailure", "Moment", "Needs", "Observation", "PartLoader", "Place", "Probe",
    "Question", "Rater", "RaterFacts", "RaterPart", "Rating", "Reader", "Reply", "Request",
    "Rubric", "Sampling", "Scenario", "ScenarioGenerator", "Scene", "SelfPlay", "Session",
    "SessionLost", "Signal", "Step", "Stream", "Stressor", "Trajectory", "TrialCountermeasure",
    "TrialMeasure", "TrialRow", "Turn", "Units", "Unreadable", "Utterance", "Watch",
    "WatchSettings",
]  # fmt: skip

__getattr__ = lazy_names(
    __name__,
    {
        "core.errors": ("ChimeraError", "InputError", "LogError", "LoopDetected"),
        "core.extras": ("MissingExtra",),
        "core.parts": ("PartLoader",),
        "core.records": ("Call", "Detection", "Loop", "Trajectory", "Turn"),
        "detection.seam": ("Cutoff", "Detector", "Needs", "Observation", "Signal", "Stream"),
        "embedding.encoder": ("Embeddings", "Encoder"),
        "integrations.watch": ("GuardAction", "Watch", "WatchSettings"),
        "models.seam": ("Message", "Model", "ModelFailure", "Reply", "Request", "Sampling"),
        "rating.ratings": ("Item", "Rater", "RaterFacts", "RaterPart", "Rating"),
        "rating.rubric": ("Rubric",),
        "readers.seam": ("Place", "Reader", "Unreadable"),
        "runner.interventions": ("Ask", "Countermeasure"),
        "selfplay.kind": ("SelfPlay",),
        "study.kind": ("Design", "Kind", "Units"),
        "trial.agents.seam": ("Agent", "Session", "SessionLost"),
        "trial.countermeasures": ("TrialCountermeasure",),
        "trial.course": ("Course", "Step"),
        "trial.measures": ("HitRate", "TrialMeasure"),
        "trial.probes": ("Probe",),
        "trial.scenarios.items": ("Fact", "Question", "Scenario", "ScenarioGenerator"),
        "trial.scene": ("Moment", "Scene", "Utterance"),
        "trial.stressors.seam": ("Arrival", "Stressor"),
        "trial.trials": ("TrialRow",),
    },
)


def __dir__() -> list[str]:
    return __all__
