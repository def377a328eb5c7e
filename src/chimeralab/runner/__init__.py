"""Running conversations: one turn by turn, many side by side, everything written down."""

from chimeralab.runner.asking import Ended
from chimeralab.runner.converse import converse, converse_all
from chimeralab.runner.journal import (
    Answer,
    AttemptFailed,
    Event,
    Intervened,
    Journal,
    MemoryJournal,
    News,
    RetryLog,
    RunStarted,
    Subscriber,
    TalkEnded,
    TrialScored,
    TurnStored,
)
from chimeralab.runner.room import Brake, Limits, Price, Room, TurnJudge
from chimeralab.runner.talk import Prompt, Rules, Said, Speaker, Talk

__all__ = [
    "Answer",
    "AttemptFailed",
    "Brake",
    "Ended",
    "Event",
    "Intervened",
    "Journal",
    "Limits",
    "MemoryJournal",
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
    "TurnJudge",
    "TurnStored",
    "converse",
    "converse_all",
]
