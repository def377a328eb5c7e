"""One session of a trial as it went: what was shown, what was done to it, what was answered."""

import json
from collections.abc import Iterator

from markupsafe import Markup, escape

from chimeralab.errors import InputError
from chimeralab.report.pages import inert
from chimeralab.sandbox.scene import Injection
from chimeralab.study import Study
from chimeralab.study.archive import Archive

WORDS = {"said": "injected", "removed": "removed from memory", "altered": "altered in memory"}


def session_html(study: Study, session: str, most: int = 12) -> Markup:
    """The first trials of a session as a list, every injection in its place."""
    talk = next((talk for talk in study.talks if talk.id == session), None)
    if talk is None or talk.script is None:
        raise InputError(f"{study.path} has no session {session!r}")
    with study.archive() as archive:
        answers = [turn["text"] for turn in archive.turns(session)]
        items = Markup("").join(
            _trial(
                talk.script.scene(turn, answers).present.text,
                injections(archive, session, turn),
                answers[turn - 1],
            )
            for turn in range(1, min(most, len(answers)) + 1)
        )
    return Markup('<ol class="session">{}</ol>').format(items)


def injections(archive: Archive, session: str, turn: int) -> Iterator[Injection]:
    """What was done to a session at a turn, from the log of events."""
    query = "SELECT kind, detail FROM events WHERE trajectory = ? AND turn = ? ORDER BY id"
    for event in archive.rows(query, session, turn):
        for detail in json.loads(event["detail"])["injections"]:
            yield Injection(event["kind"], **detail)


def _trial(shown: str, done: Iterator[Injection], answer: str) -> Markup:
    events = Markup("").join(_event(each) for each in done)
    return Markup(
        '<li>{}<pre class="shown">{}</pre><p class="answer"><b>Answer</b> {}</p></li>'
    ).format(events, inert(shown), inert(answer))


def _event(each: Injection) -> Markup:
    """An injection by who did what; a fact that was altered shows both versions."""
    text = each.text if each.instead is None else f"{each.text} → {each.instead}"
    head = escape(f"{each.stressor}: {WORDS[each.action]} (trial {each.turn})")
    return Markup('<details class="event"><summary>{}</summary><pre>{}</pre></details>').format(
        head, inert(text)
    )
