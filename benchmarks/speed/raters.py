"""Fifty people rate at once on a real server: no error, no label lost, none twice.

Each of them opens their link, reads sheets in any order, cites turns, begins a reason and gives a
label, often another one later, for a
minute; then labels what is left and hands in. What the study
then holds is compared with what each of them was told was kept.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import httpx

from benchmarks.speed.web import served
from benchmarks.table import Result, keep
from chimeralab.rating.invitations import RatingService
from chimeralab.rating.raters import load_ratings
from chimeralab.study import RunOptions, Study, run_study

COMMAND = "python -m benchmarks.speed.raters"
RATERS, SECONDS = 50, 60
PLAN = """
[study]
name = "many raters"
[models.m]
use = "phantom"
[conditions.c]
speakers = ["m", "m"]
[conversation]
turns = 8
repeats = 20
[prompts]
items = [{ id = "p", bucket = "b", text = "Talk." }]
"""


@dataclass
class Rater:
    """Somebody with a link: what they were told was kept, and how long they waited for it."""

    name: str
    token: str
    sheets: int
    kept: dict[int, str] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    handing_in: float = 0.0
    errors: list[str] = field(default_factory=list)


async def rate(rater: Rater, origin: str, until: float) -> None:
    """Go on rating until the time is up, then give every sheet a label and hand in."""
    choose = random.Random(rater.name)
    headers = {"origin": origin, "content-type": "application/x-www-form-urlencoded"}
    async with httpx.AsyncClient(base_url=origin, timeout=60) as client:

        async def ask(method: str, path: str, content: str = "") -> None:
            started = time.perf_counter()
            try:
                answer = await client.request(method, path, content=content, headers=headers)
            except httpx.HTTPError as error:
                rater.errors.append(f"{method} {path}: {error!r}")
                return
            rater.waits.append(time.perf_counter() - started)
            if answer.status_code >= 400:
                rater.errors.append(f"{method} {path}: {answer.status_code} {answer.text[:80]}")

        async def give(n: int) -> None:
            label = choose.choice("01")
            await ask("POST", f"/rate/{n}", f"label={label}&turn=2&turn=3&reason=Sheet+{n}")
            rater.kept[n] = label

        await ask("GET", f"/rate?token={rater.token}")
        while time.monotonic() < until:
            n = choose.randint(1, rater.sheets)
            await ask("GET", f"/rate/{n}")
            await ask("POST", f"/rate/{n}", f"turn=1&reason=Half+a+thought+on+{n}")
            await give(n)
        for n in range(1, rater.sheets + 1):
            if n not in rater.kept:
                await give(n)
        await ask("POST", "/rate/hand-in")
        rater.handing_in = rater.waits.pop()


async def all_rate(raters: list[Rater], origin: str, seconds: float) -> float:
    started = time.monotonic()
    await asyncio.gather(*(rate(each, origin, started + seconds) for each in raters))
    return time.monotonic() - started


def invited(study: Study) -> list[Rater]:
    found = []
    with RatingService(study) as service:
        for n in range(1, RATERS + 1):
            token = service.invite(f"rater {n}")
            invitation = service.find_invitation(token)
            assert invitation is not None
            found.append(Rater(f"human:rater {n}", token, len(service.session(invitation).sheets)))
    return found


def lost_or_twice(study: Study, raters: list[Rater]) -> tuple[int, int]:
    """Labels other than what their rater was told was kept, and those that are there twice."""
    lost = 0
    with RatingService(study) as service:
        for each in raters:
            invitation = service.find_invitation(each.token)
            assert invitation is not None
            session = service.session(invitation)
            first: dict[str, str] = {}
            for n, entry in enumerate(session.key.entries, 1):
                if not entry.duplicate:
                    first[entry.item] = each.kept[n]
            stored = load_ratings(study, each.name)
            lost += sum(
                item not in stored or str(stored[item].label) != label
                for item, label in first.items()
            )
    with study.archive() as archive:
        rows = archive.rows("SELECT trajectory, rater FROM ratings")
        times = Counter((row["trajectory"], row["rater"]) for row in rows)
    return lost, sum(n - 1 for n in times.values())


def main(seconds: float = SECONDS) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "plan.toml").write_text(PLAN, encoding="utf-8")
        study = Study(path)
        run_study(study, RunOptions(watch=False))
        raters = invited(study)
        with served(path) as url:
            origin = url.partition("/?")[0]
            httpx.get(url, timeout=60)  # the address is told before the server can answer
            took = asyncio.run(all_rate(raters, origin, seconds))
        lost, twice = lost_or_twice(study, raters)
    waits = [1000 * wait for each in raters for wait in each.waits]
    errors = [error for each in raters for error in each.errors]
    for error in errors[:5]:
        print(error, file=sys.stderr)
    labels = sum(each.sheets for each in raters)
    value = f"{len(errors)} errors, {lost} lost, {twice} twice"
    note = (
        f"{RATERS} raters for {took:.0f} s, {labels} sheets handed in; "
        f"{len(waits) / took:.0f} requests/s, median {median(waits):.0f} ms, "
        f"slowest {max(waits):.0f} ms; handing in, all of them at once, at most "
        f"{max(each.handing_in for each in raters):.1f} s"
    )
    if seconds < SECONDS:
        print(f"{value} (too short for the bar, which is a minute) {note}")
        return
    keep(Result("web, raters", value, "0, 0, 0", not (errors or lost or twice), COMMAND, note))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
