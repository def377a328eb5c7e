"""Holding conversations: one turn by turn, many side by side, everything written down."""

from chimeralab.runner.asking import Ended
from chimeralab.runner.brake import Brake, Limits
from chimeralab.runner.converse import converse, converse_all
from chimeralab.runner.journal import (
    Answer,
    AttemptFailed,
    Event,
    Intervened,
    Journal,
    News,
    RunStarted,
    Subscriber,
    TalkEnded,
    TrialScored,
    TurnStored,
)
from chimeralab.runner.retries import RetryLog
from chimeralab.runner.room import Guard, Price, Room
from chimeralab.runner.rules import Rules
from chimeralab.runner.talk import Prompt, Said, Speaker, Talk

__all__ = [
    "Answer",
    "AttemptFailed",
    "Brake",
    "Ended",
    "Event",
    "Guard",
    "Intervened",
    "Journal",
    "Limits",
    "News",
    "Price",
    "Prompt",
    "RetryLog",
    "Room",
    "Rules",
    "RunStarted",
    "Said",
    "Speaker",
    "Subscriber",
    "Talk",
    "TalkEnded",
    "TrialScored",
    "TurnStored",
    "converse",
    "converse_all",
]
