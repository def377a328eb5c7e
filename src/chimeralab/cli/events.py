"""What happens in a run as lines of JSON, for others to read while it goes on."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from chimeralab.cli.terminal import say
from chimeralab.core.errors import InputError
from chimeralab.core.records import plain_value
from chimeralab.runner import (
    AttemptFailed,
    Intervened,
    News,
    RunStarted,
    Subscriber,
    TalkEnded,
    TurnStored,
)

STANDARD_OUTPUT = "-"
NAMES: dict[type, str] = {
    RunStarted: "run_started",
    TurnStored: "turn_stored",
    AttemptFailed: "attempt_failed",
    Intervened: "intervened",
    TalkEnded: "talk_ended",
}


def line_of(news: News) -> dict[str, Any]:
    """One piece of news as an object: a hook goes by the name of its point.

    >>> line_of(TalkEnded("control/ledger-1/1", "completed", 12, None))["event"]
    'talk_ended'
    """
    if isinstance(news, Intervened):
        return {"event": NAMES[Intervened], "talk": news.talk, **news.event.as_dict()}
    own = getattr(news, "as_event", None)  # of news that only one kind of study has
    if own is not None:
        line: dict[str, Any] = own()
        return line
    return {"event": NAMES[type(news)], **plain_value(news._asdict())}


@contextmanager
def event_lines(target: str | None) -> Iterator[Subscriber]:
    """A subscriber that appends a line for each piece of news; whoever stops reading stops nobody.

    Every line is written out before the run goes on.
    """
    with ExitStack() as opened:
        if target is None:
            yield lambda news: None
            return
        stream: TextIO | None = sys.stdout
        if target != STANDARD_OUTPUT:
            try:
                stream = opened.enter_context(Path(target).open("a", encoding="utf-8"))
            except OSError as error:
                raise InputError(f"{target} can't be written ({error.strerror})") from error

        def publish(news: News) -> None:
            nonlocal stream
            if stream is None:
                return
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            try:
                stream.write(json.dumps({"at": now, **line_of(news)}, ensure_ascii=False) + "\n")
                stream.flush()
            except OSError as error:
                stream = None
                say(f"{target} takes no more events ({error.strerror}); the run goes on")

        yield publish
