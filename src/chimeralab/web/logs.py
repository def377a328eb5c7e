"""Pages about logs: the table of conversations, and a conversation with its evidence."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chimeralab.core.result_words import FACT
from chimeralab.detection.locked import LOCKED
from chimeralab.detection.loops import LOOPS, DetectorPair
from chimeralab.report.listing import COLUMNS, NO_LOOP, ColumnHeading
from chimeralab.web.log_index import ORDERS, PAGE, LogScanner, Query, pages_of
from chimeralab.web.pages import JudgedConversation, draw_picture, page, show_conversation

# Columns whose first click sorts in descending order.
DESCENDING_FIRST = frozenset({"messages", "share"})


def get_scanner(request: Request) -> LogScanner:
    scanner: LogScanner | None = request.app.state.site.scanner
    if scanner is None:
        raise HTTPException(404, "this server was started without logs")
    return scanner


def parse_query(params: Mapping[str, str]) -> Query:
    """Parse the parameters of an address; ignore invalid values."""
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
    """Build an address with some parameters changed, without the token, which is now a cookie.

    Conversations carry the parameters of their table, for their neighbours and the way back.

    >>> address({"q": "a b", "page": "3"}, page=None, sort="share")
    '/logs?q=a+b&sort=share'
    """
    kept = {name: value for name, value in params.items() if name != "token" and value}
    merged = {k: v for k, v in {**kept, **changed}.items() if v is not None}
    return f"{path}?{urlencode(merged)}" if merged else path


def headings(params: Mapping[str, str], query: Query) -> Iterator[ColumnHeading]:
    for name, title in COLUMNS.items():
        now = query.sort == name
        down = not query.descending if now else name in DESCENDING_FIRST
        href = address(params, sort=name, order="down" if down else "up", page=None)
        state = ("descending" if query.descending else "ascending") if now else None
        yield name, title, href, state


def table(request: Request) -> Response:
    """Show a page of the table of conversations."""
    scanner, params = get_scanner(request), dict(request.query_params)
    query = parse_query(params)
    rows, total = scanner.index.find(query)
    pages = pages_of(total)
    now = min(max(query.page, 1), pages)
    kinds = scanner.index.kinds()
    return page(
        request,
        "logs.html",
        scanner=scanner,
        query=query,
        where=params.get("where", ""),
        total=total,
        last=pages,
        headings=headings(params, query),
        rows=[row._replace(href=address(params, row.href, page=None)) for row in rows],
        may_grow=scanner.state == "reading" and (total < PAGE or params.keys() - {"token"}),
        kinds=[(kind, NO_LOOP.get(kind, kind), n) for kind, n in kinds.items()],
        looping=sum(n for kind, n in kinds.items() if kind not in NO_LOOP),
        fields={name: sorted(seen.items()) for name, seen in scanner.fields().items()},
        chosen=query.fields or {},
        names=sorted(scanner.choices),
        first=(now - 1) * PAGE + 1,
        number=now,
        before=address(params, page=now - 1) if now > 1 else None,
        after=address(params, page=now + 1) if now < pages else None,
    )


async def events(request: Request) -> Response:
    """Stream rows as they are judged."""
    scanner = get_scanner(request)
    return scanner.feed.stream(scanner.snapshot)


def load_conversation(request: Request) -> JudgedConversation:
    """Load the conversation of a request with its verdict."""
    n = request.path_params["n"]
    trajectory, detection = get_scanner(request).index.get(n) or (None, None)
    if trajectory is None or detection is None:
        raise HTTPException(404, f"conversation {n} does not exist or has not been read yet")
    by_vectors = detection.detector["name"] is not None
    judges = DetectorPair(LOCKED if by_vectors else None, LOOPS)
    return JudgedConversation(trajectory, detection, judges, FACT, f"/logs/{n}")


def conversation(request: Request) -> Response:
    """Show a conversation, with links to its neighbours in the table and back."""
    shown, params = load_conversation(request), dict(request.query_params)
    index = get_scanner(request).index
    *neighbours, number = index.place(request.path_params["n"], parse_query(params))
    before, after = (address(params, f"/logs/{each}") if each else None for each in neighbours)
    back = address(params, page=number if number > 1 else None)
    title = "All conversations" if back == "/logs" else "Back to the table"
    trail = {"back": back, "title": title, "before": before, "after": after}
    return show_conversation(request, shown, trail)


def picture(request: Request) -> Response:
    return draw_picture(load_conversation(request), request.path_params["name"])


ROUTES = [
    Route("/logs", table),
    Route("/logs/events", events),
    Route("/logs/{n:int}", conversation),
    Route("/logs/{n:int}/{name}.svg", picture),
]
