"""Pages about logs: the table of conversations, and a conversation with its evidence."""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chimeralab.core.records import name_kind
from chimeralab.core.result_words import FACT
from chimeralab.core.tables import Columns, open_table
from chimeralab.detection.cost import describe_shares, join_tokens
from chimeralab.detection.locked import LOCKED
from chimeralab.detection.loops import LOOPS, DetectorPair
from chimeralab.detection.verdict import as_json
from chimeralab.report.listing import COLUMNS, NO_LOOP, ColumnHeading
from chimeralab.web.log_index import ORDERS, PAGE, LogScanner, Query, pages_of
from chimeralab.web.pages import JudgedConversation, draw_picture, page, show_conversation

# Columns whose first click sorts in descending order.
DESCENDING_FIRST = frozenset({"share", "cost"})

EXPORT: Columns = {
    "id": str,
    "source": str,
    "messages": int,
    "kind": str,
    "since": int,
    "until": int,
    "share": float,
    "tokens": int,
    "estimated": bool,
    "evidence": str,
}


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
    number, sort = params.get("page", "1"), params.get("sort", "")
    sort = sort if sort in ORDERS else "cost"
    return Query(
        search=params.get("q", ""),
        kind=params.get("kind", ""),
        fields=fields,
        sort=sort,
        descending=params.get("order", "down" if sort == "cost" else "up") == "down",
        page=int(number) if number.isascii() and number.isdigit() and len(number) < 9 else 1,
    )


def address(params: Mapping[str, str], path: str = "/logs", **changed: Any) -> str:
    """Build an address with some parameters changed, without the token, which is now a cookie.

    Conversations carry the parameters of their table, for their neighbours and the way back.

    >>> address({"q": "a b", "page": "3"}, page=None, sort="share")
    '/logs?q=a+b&sort=share'
    """
    kept = {name: v for name, v in params.items() if name not in ("token", "at") and v}
    merged = {k: v for k, v in {**kept, **changed}.items() if v is not None}
    return f"{path}?{urlencode(merged)}" if merged else path


def headings(params: Mapping[str, str], query: Query) -> Iterator[ColumnHeading]:
    for name, title in COLUMNS.items():
        now = query.sort == name
        down = not query.descending if now else name in DESCENDING_FIRST
        href = address(params, sort=name, order="down" if down else "up", page=None)
        state = ("descending" if query.descending else "ascending") if now else None
        yield name, title, href, state


def chips(
    params: Mapping[str, str], query: Query, kinds: Mapping[str, int]
) -> Iterator[tuple[str, str, int, str, bool]]:
    """Each kind of loop with its plain name, count and address, and whether it is chosen."""
    looping = {kind: n for kind, n in kinds.items() if kind not in NO_LOOP}
    listed = {"": ("all", sum(kinds.values())), "loop": ("loops", sum(looping.values()))}
    listed |= {kind: (NO_LOOP.get(kind) or name_kind(kind), n) for kind, n in kinds.items()}
    for kind, (label, n) in listed.items():
        yield kind, label, n, address(params, kind=kind or None, page=None), kind == query.kind


def table(request: Request) -> Response:
    """Show a page of the table of conversations."""
    scanner, params = get_scanner(request), dict(request.query_params)
    query = parse_query(params)
    rows, total = scanner.index.find(query)
    pages = pages_of(total)
    now = min(max(query.page, 1), pages)
    fields = scanner.fields()
    name = params.get("by", "") if params.get("by") in fields else ""
    sums = scanner.index.summary(query)
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
        chips=list(chips(params, query, scanner.index.kinds())),
        sums=sums,
        shares=describe_shares(sums["tokens"]),
        lost=join_tokens(sums["tokens"], 0),
        spent=join_tokens(sums["tokens"], -1),
        groups=[
            (group, looping, count, address(params, page=None, **{f"field.{name}": group}))
            for group, looping, count in (scanner.index.rank(name, query) if name else ())
        ],
        by=name,
        in_order=address(params, sort="log", order="up", page=None),
        export=address(params, "/logs.csv", page=None),
        fields={name: sorted(seen.items()) for name, seen in fields.items()},
        chosen=query.fields or {},
        names=sorted(scanner.choices),
        first=(now - 1) * PAGE + 1,
        number=now,
        before=address(params, page=now - 1) if now > 1 else None,
        after=address(params, page=now + 1) if now < pages else None,
    )


def export(request: Request) -> Response:
    """Export the rows of the table, of all its pages, as CSV."""
    index, query = get_scanner(request).index, parse_query(request.query_params)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "conversations.csv"
        with open_table(path, EXPORT) as write:
            for number in range(1, pages_of(index.find(query)[1]) + 1):
                for row in index.find(replace(query, page=number))[0]:
                    write({name: getattr(row, name) for name in EXPORT})
        csv = path.read_bytes()
    download = {"content-disposition": 'attachment; filename="conversations.csv"'}
    return Response(csv, headers=download, media_type="text/csv")


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
    *neighbours, at, total = index.place(request.path_params["n"], parse_query(params))
    before, after = (address(params, f"/logs/{each}") if each else None for each in neighbours)
    run = index.list_run(request.path_params["n"])
    number = -(-(at or 1) // PAGE)
    back = address(params, page=number if number > 1 else None)
    trail = {
        "back": back,
        "title": "All conversations" if back == "/logs" else "Back to the table",
        "place": f"{at:,} of {total:,}" if at else None,
        "before": before,
        "after": after,
        "export": f"/logs/{request.path_params['n']}.json",
    }
    links = [(address(params, f"/logs/{n}"), name, parent) for n, name, parent in run]
    return show_conversation(request, shown, trail, run=links if len(links) > 1 else ())


def verdict(request: Request) -> Response:
    """Export the verdict on a conversation."""
    return JSONResponse(as_json(load_conversation(request).detection))


def picture(request: Request) -> Response:
    return draw_picture(load_conversation(request), request.path_params["name"])


ROUTES = [
    Route("/logs", table),
    Route("/logs.csv", export),
    Route("/logs/events", events),
    Route("/logs/{n:int}", conversation),
    Route("/logs/{n:int}.json", verdict),
    Route("/logs/{n:int}/{name}.svg", picture),
]
