"""The rating rooms of the studies that a server shows, and the door for those who hold a link."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar
from urllib.parse import parse_qs

from starlette.requests import Request

from chimeralab.core.errors import ChimeraError
from chimeralab.rating.invitations import RatingRoom
from chimeralab.study import Study
from chimeralab.web.safety import Door, Visitor

# All that a rater's link opens.
PATHS = ("/rate", "/static/")
Given = ParamSpec("Given")
Got = TypeVar("Got")


class RatingDesk:
    """The rating room of a study behind one thread, which all requests take turns in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="rating")
        self._room: RatingRoom | None = None

    def ask(
        self,
        what: Callable[Concatenate[RatingRoom, Given], Got],
        *args: Given.args,
        **named: Given.kwargs,
    ) -> Got:
        """Have something done in the room."""
        return self._worker.submit(lambda: what(self._opened(), *args, **named)).result()

    def _opened(self) -> RatingRoom:
        if self._room is None:
            self._room = RatingRoom(Study(self.folder))
        return self._room

    def close(self) -> None:
        if self._room is not None:
            self._worker.submit(self._room.close).result()
        self._worker.shutdown()


class RatingDesks:
    """The desks of all studies that the server shows, each opened when it is first needed."""

    def __init__(self, studies: Sequence[Path]) -> None:
        self.studies = list(studies)
        self._desks: dict[int, RatingDesk] = {}
        self._lock = threading.Lock()

    def of(self, number: int) -> RatingDesk:
        with self._lock:
            if number not in self._desks:
                self._desks[number] = RatingDesk(self.studies[number - 1])
            return self._desks[number]

    def door(self) -> Door:
        """Lets in who holds an invitation to one of the studies."""

        def who(token: str) -> Visitor | None:
            for number, folder in enumerate(self.studies, start=1):
                if not (folder / "study.db").is_file():
                    continue
                try:
                    found = self.of(number).ask(RatingRoom.invited, token)
                except ChimeraError:
                    continue  # a store that can't be written has nobody who rates in it
                if found:
                    return Visitor("rater", PATHS, number, token)
            return None

        return who

    def close(self) -> None:
        for each in self._desks.values():
            each.close()


class Form:
    """What a page has sent: fields that may come several times."""

    def __init__(self, body: bytes) -> None:
        self._fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)

    def all(self, name: str) -> list[str]:
        return self._fields.get(name, [])

    def first(self, name: str) -> str:
        return next(iter(self.all(name)), "")


async def form_of(request: Request) -> Form:
    return Form(await request.body())
