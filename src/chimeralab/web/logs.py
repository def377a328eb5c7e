"""The pages about logs: a table of conversations, and one conversation with its evidence."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chimeralab.core.result_words import FACT
from chimeralab.detection.detectors import LOCKED, LOOPS, Judges
from chimeralab.report.listing import COLUMNS, NO_LOOP, ColumnHeading, ConversationTable
from chimeralab.web.conversation import (
    ShownConversation,
    Trail,
    draw_picture,
    show_conversation,
)
from chimeralab.web.library import Library
from chimeralab.web.pages import page
from chimeralab.web.shelf import ORDERS, PAGE, Query

# Words are read from the left; of numbers, the largest are asked for first.
LARGEST_FIRST = frozenset({"messages", "share"})


class Choice(NamedTuple):
    """A value that one may filter by, with how many conversations have it."""

    value: str
    label: str
    conversations: int
    chosen: bool


def library_of(request: Request) -> Library:
    library: Library | None = request.app.state.site.library
    if library is None:
        raise HTTPException(404, "this server shows no logs")
    return library


def asked(params: Mapping[str, str]) -> Query:
    """The query that an address stands for; what it can't mean is left out."""
    fields = {
        name.removeprefix("field."): value
        for name, value in params.items()
        if name.startswith("field.") and value
    }
    name, equals, value = params.get("where", "").partition("=")
    if equals and name.strip():
        fields[name.strip()] = value.strip()
    number = params.get("page", "1")
    return Query(
        search=params.get("q", ""),
        kind=params.get("kind", ""),
        fields=fields,
        sort=params.get("sort", "log") if params.get("sort") in ORDERS else "log",
        descending=params.get("order") == "down",
        page=int(number) if number.isascii() and number.isdigit() and len(number) < 9 else 1,
    )


def address(params: Mapping[str, str], path: str = "/logs", **changed: Any) -> str:
    """The table with some of its parameters changed; without the token, which is a cookie by now.

    A conversation is given those of the table that led to it, so that its neighbours are those of
    the table, and the way back leads to the same page.

    >>> address({"q": "a b", "page": "3"}, page=None, sort="share")
    '/logs?q=a+b&sort=share'
    """
    kept = {name: value for name, value in params.items() if name != "token" and value}
    merged = {k: v for k, v in {**kept, **changed}.items() if v is not None}
    return f"{path}?{urlencode(merged)}" if merged else path


def headings(params: Mapping[str, str], query: Query) -> Iterator[ColumnHeading]:
    for name, title in COLUMNS.items():
        now = query.sort == name
        down = not query.descending if now else name in LARGEST_FIRST
        href = address(params, sort=name, order="down" if down else "up", page=None)
        state = ("descending" if query.descending else "ascending") if now else None
        yield ColumnHeading(name, title, href, state)


def table(request: Request) -> Response:
    """The conversations that are asked for, a page of them."""
    library, params = library_of(request), dict(request.query_params)
    query = asked(params)
    found = library.shelf.find(query)
    chosen = query.fields or {}
    now = min(max(query.page, 1), found.pages)
    kinds = library.shelf.kinds()
    return page(
        request,
        "logs.html",
        library=library,
        query=query,
        where=params.get("where", ""),
        found=found,
        table=ConversationTable(
            list(headings(params, query)),
            [row._replace(href=address(params, row.href, page=None)) for row in found.rows],
        ),
        may_grow=library.state == "reading" and (found.total < PAGE or params.keys() - {"token"}),
        kinds=[Choice(k, NO_LOOP.get(k, k), n, query.kind == k) for k, n in kinds.items()],
        looping=sum(n for kind, n in kinds.items() if kind not in NO_LOOP),
        fields={
            name: [Choice(v, v, n, chosen.get(name) == v) for v, n in sorted(seen.items())]
            for name, seen in library.fields().items()
        },
        names=sorted(library.choices),
        first=(now - 1) * PAGE + 1,
        number=now,
        before=address(params, page=now - 1) if now > 1 else None,
        after=address(params, page=now + 1) if now < found.pages else None,
    )


async def events(request: Request) -> Response:
    """Rows as they are judged."""
    library = library_of(request)
    return library.feed.stream(library.standing)


def shown_of(request: Request) -> ShownConversation:
    """The conversation that an address is about."""
    library, n = library_of(request), request.path_params["n"]
    kept = library.shelf.keep(n)
    if kept is None or kept.detection is None:
        raise HTTPException(404, f"there is no conversation {n} here (yet)")
    by_vectors = kept.detection.detector["name"] is not None
    judges = Judges(LOCKED if by_vectors else None, LOOPS)
    return ShownConversation(kept.trajectory, kept.detection, judges, FACT, f"/logs/{n}")


def conversation(request: Request) -> Response:
    """One conversation, with the way back and to its neighbours in the table that led to it."""
    library, n = library_of(request), request.path_params["n"]
    shown, params = shown_of(request), dict(request.query_params)
    place = library.shelf.place(n, asked(params))
    before, after = (
        None if each is None else address(params, f"/logs/{each}")
        for each in (place.before, place.after)
    )
    back = address(params, page=place.page if place.page > 1 else None)
    title = "All conversations" if back == "/logs" else "Back to the table"
    return show_conversation(request, shown, Trail(back, title, before, after))


def picture(request: Request) -> Response:
    return draw_picture(shown_of(request), request.path_params["name"])


ROUTES = [
    Route("/logs", table),
    Route("/logs/events", events),
    Route("/logs/{n:int}", conversation),
    Route("/logs/{n:int}/{name}.svg", picture),
]
