"""Questions asked aside, in a fork of the conversation, so that measuring changes nothing."""

import re
from functools import lru_cache
from typing import Literal

from chimeralab.sandbox.course import Step
from chimeralab.sandbox.scenarios.items import Question
from chimeralab.sandbox.scoring import chosen_option

Probe = Literal["alone", "confidence", "belief", "recall"]
PROBES: tuple[Probe, ...] = ("alone", "confidence", "belief", "recall")

CONFIDENCE = (
    "How sure are you that your last answer is right? Reply with one number from 0 (certainly "
    "wrong) to 1 (certainly right)."
)
BELIEF = "How likely is it that {lure} is the right answer? Reply with one number from 0 to 1."
_ANSWER = re.compile(r"answer\s*(?:is|:)\s*(.+)", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?<![\w.])(\d+(?:\.\d+)?|\.\d+)\s*(%|percent\b|/\s*10{1,2}\b)?", re.IGNORECASE
)


def probes_of(step: Step, wanted: tuple[Probe, ...]) -> tuple[Probe, ...]:
    """What is asked aside at a step: before the answer (`alone`) and after it."""
    fits = {
        "alone": step.consensus is not None,
        "confidence": True,
        "belief": step.phase is not None and step.lure is not None,
        "recall": step.recall is not None,
    }
    return tuple(probe for probe in PROBES if probe in wanted and fits[probe])


def probe_text(probe: Probe, step: Step) -> str | None:
    """The words of a probe that follows an answer; `alone` asks the question itself."""
    if probe == "confidence":
        return CONFIDENCE
    if probe == "belief":
        return BELIEF.format(lure=step.lure)
    return question_text(step.recall) if probe == "recall" and step.recall else None


def question_text(question: Question) -> str:
    """A question with its options, and the form in which an answer can be read."""
    if not question.options:
        return f"Question: {question.prompt}\nReply in one short sentence."
    listed = ", ".join(question.options)
    return f"Question: {question.prompt}\nOptions: {listed}\nReply with one of the options only."


@lru_cache(4_096)
def read_choice(text: str, options: tuple[str, ...]) -> str | None:
    """The option that a reply names, looking first behind a word such as "answer:".

    >>> read_choice("Rome or Paris? My answer: Rome.", ("Paris", "Rome"))
    'Rome'
    """
    stated = _ANSWER.findall(text)
    chosen = chosen_option(stated[-1], options) if stated else None
    return chosen_option(text, options) if chosen is None else chosen


def read_share(text: str) -> float | None:
    """A number from 0 to 1 in a reply, also as a percentage; None when it can't be told.

    >>> read_share("About 85 %."), read_share("0.7"), read_share("I am sure"), read_share("7")
    (0.85, 0.7, None, None)
    """
    found = _NUMBER.search(text)
    if found is None:
        return None
    unit = (found[2] or "").replace(" ", "")
    scale = {"": 1, "/10": 10}.get(unit, 100)
    share = float(found[1]) / scale
    return share if 0 <= share <= 1 else None
