"""Many conversations as a folder of pages: an index with the loops first, and a page for each."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.files import replacing_folder
from chimeralab.core.records import Detection, Trajectory
from chimeralab.detection.detectors import Judges
from chimeralab.detection.measure import Measured, Measurer, measurer_for
from chimeralab.detection.verdict import verdict
from chimeralab.embedding.encoder import Encoder, default_encoder
from chimeralab.report.conversation import BOTH, draw_judged
from chimeralab.report.listing import (
    COLUMNS,
    ColumnHeading,
    ConversationTable,
    ListedConversation,
    found_in,
)
from chimeralab.report.page import render

INDEX = "index.html"
# Pictures take half a second each, so of many conversations those in a loop have one.
MOST_PICTURES = 20
MOST_PAGES = 2_000
LONGEST_NAME = 80
MADE_BY_US = '<meta name="generator" content="Chimera Lab'
# In the order of the table; what is not named comes last.
RANKS = ("looping", "collapsed", "noticed")


class WrittenIndex(NamedTuple):
    """What an index counts."""

    conversations: int
    looping: int
    collapsed: int


def write_index(
    trajectories: Iterable[Trajectory],
    folder: Path,
    judges: Judges = BOTH,
    *,
    speaker: str | None = None,
    open_encoder: Callable[[], Encoder] = default_encoder,
) -> WrittenIndex:
    """Judge conversations, and write a page for each and an index of them into a folder.

    The folder takes its place when all is written, and replaces none but one of ours.
    """
    refuse_foreign(folder)
    measurer = measurer_for(judges.collapse, open_encoder, speaker=speaker)
    coming = iter(trajectories)
    first = list(islice(coming, MOST_PICTURES + 1))
    pictures = MOST_PICTURES
    few = len(first) <= MOST_PICTURES
    listed: list[ListedConversation] = []
    looping = collapsed = 0
    with replacing_folder(folder) as made:
        names = PageNames()
        for measured, detection in _judged(measurer, chain(first, coming), judges):
            if len(listed) == MOST_PAGES:
                raise InputError(
                    f"there are more than {MOST_PAGES:,} conversations: choose one with --id, or"
                    " browse them with `chimera view`"
                )
            stuck = bool(detection.looping or detection.collapsed)
            drawn = pictures > 0 and (few or stuck)
            pictures -= drawn
            encoder = measurer.encoder if drawn else None
            name = names.of(detection.id)
            page = draw_judged(measured, detection, judges, encoder, up=INDEX)
            (made / name).write_text(page, encoding="utf-8", errors="replace")
            listed.append(_listed(name, measured, detection))
            looping += bool(detection.looping)
            collapsed += bool(detection.collapse_rate)
        counts = WrittenIndex(len(listed), looping, collapsed)
        pictured = None if few or not measurer.encoder else MOST_PICTURES - pictures
        page = _draw_index(listed, counts, pictured)
        (made / INDEX).write_text(page, encoding="utf-8", errors="replace")
    return counts


def _draw_index(
    listed: list[ListedConversation], counts: WrittenIndex, pictured: int | None
) -> str:
    headings = [ColumnHeading(*each) for each in COLUMNS.items()]
    table = ConversationTable(headings, sorted(listed, key=_rank))
    return render("index.html", frame="base.html", table=table, counts=counts, pictured=pictured)


def refuse_foreign(folder: Path) -> None:
    """Refuse to replace what is no index of ours, before any work is done."""
    if not folder.parent.is_dir():
        raise InputError(f"{folder}: there is no folder {folder.parent}; make it first")
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    index = folder / INDEX
    ours = index.is_file() and MADE_BY_US in index.read_text("utf-8", errors="replace")[:4_096]
    if not ours:
        raise InputError(f"{folder} is there already and is no index of ours; name another --out")


def _judged(
    measurer: Measurer, trajectories: Iterable[Trajectory], judges: Judges
) -> Iterator[tuple[Measured, Detection]]:
    for measured in measurer.measure(trajectories):
        detection = verdict(
            measured, judges.collapse, measurer.encoder, loops=judges.loops, trace=True
        )
        yield measured, detection


def _listed(page: str, measured: Measured, detection: Detection) -> ListedConversation:
    messages = len(measured.trajectory.turns)
    return ListedConversation(page, detection.id, detection.source, messages, found_in(detection))


def _rank(listed: ListedConversation) -> tuple[int, float]:
    """Loops first, and of those the longest."""
    found = listed.found
    look = RANKS.index(found.look) if found.look in RANKS else len(RANKS)
    return look, -(found.share or 0.0)


class PageNames:
    """Names of files for pages; two conversations never share one."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def of(self, conversation: str) -> str:
        name, number = page_name(conversation), 1
        # Some systems take Run-1 and run-1 for the same file.
        while name.lower() in self._taken:
            number += 1
            name = f"{page_name(conversation).removesuffix('.html')}-{number}.html"
        self._taken.add(name.lower())
        return name


def page_name(conversation: str) -> str:
    """A file name for a page. An id that can't be one as it is gets a mark of its own.

    >>> page_name("run-7"), page_name("models/a b")
    ('conversation-run-7.html', 'conversation-models-a-b-751ac7.html')
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", conversation)[:LONGEST_NAME].strip("-.")
    if safe == conversation:
        return f"conversation-{safe}.html"
    mark = hashlib.sha256(conversation.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"conversation-{safe}-{mark}.html" if safe else f"conversation-{mark}.html"
