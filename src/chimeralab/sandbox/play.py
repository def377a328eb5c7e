"""A whole session in memory, for subjects that answer at once: what the recovery study runs on."""

from collections.abc import Callable

from chimeralab.models.seam import Request
from chimeralab.sandbox.scored import Scored
from chimeralab.sandbox.scoring import Scorer
from chimeralab.sandbox.script import Script, score

Answering = Callable[[Request], str]


def play(script: Script, answer: Answering, session: str) -> list[Scored]:
    """Put every step of a script to a subject, probes included, and score it."""
    answers: list[str] = []
    rows, scorer = [], Scorer()
    for turn in range(1, len(script.course.steps) + 1):
        probes, probed = script.probes_at(turn), dict[str, str]()
        if "alone" in probes:
            shown = script.fork(turn, answers, "alone", probed)
            probed["alone"] = answer(
                Request(
                    shown.messages, conversation=session, turn=turn, probe="alone", key=shown.key
                )
            )
        shown = script.asked(turn, answers, probed.get("alone"))
        answers.append(
            answer(Request(shown.messages, conversation=session, turn=turn, key=shown.key))
        )
        for probe in probes:
            if probe != "alone":
                shown = script.fork(turn, answers, probe, probed)
                probed[probe] = answer(
                    Request(
                        shown.messages, conversation=session, turn=turn, probe=probe, key=shown.key
                    )
                )
        rows.append(score(script, turn, answers, probed, scorer))
    return rows
