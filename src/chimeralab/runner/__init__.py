"""Running conversations: one turn by turn, many side by side, everything written down."""

from chimeralab.runner.asking import Ended
from chimeralab.runner.converse import converse, converse_all
from chimeralab.runner.journal import (
    Answer,
    AttemptFailed,
    Brake,
    Event,
    Intervened,
    Journal,
    MemoryJournal,
    News,
    Price,
    RetryLog,
    Room,
    RunStarted,
    Subscriber,
    TalkEnded,
    TurnJudge,
    TurnStored,
)
from chimeralab.runner.talk import Prompt, Rules, Said, SessionScript, Speaker, Talk

__all__ = [
    "Answer",
    "AttemptFailed",
    "Brake",
    "Ended",
    "Event",
    "Intervened",
    "Journal",
    "MemoryJournal",
    "News",
    "Price",
    "Prompt",
    "RetryLog",
    "Room",
    "Rules",
    "RunStarted",
    "Said",
    "SessionScript",
    "Speaker",
    "Subscriber",
    "Talk",
    "TalkEnded",
    "TurnJudge",
    "TurnStored",
    "converse",
    "converse_all",
]
