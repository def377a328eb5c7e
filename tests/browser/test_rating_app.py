"""Two people rate at once in a real browser, by keys alone, and a killed server loses nothing."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chimeralab.study import Study
from chimeralab.study.drafts import DraftRating
from chimeralab.study.invitations import RatingRoom
from chimeralab.study.raters import stored_ratings
from chimeralab.study.samples import stored_samples
from chimeralab.study.verify import verify_study
from chimeralab.web.pages import served
from tests.people_rate import TELLING, people_rate

SHEETS = 7


class Host:
    """A server on one port, that can be killed and started again."""

    def __init__(self, study: Path) -> None:
        self.study = study
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.origin = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "chimeralab", "view", str(self.study), "--no-open"]
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith(self.origin)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    people_rate(tmp_path / "study")
    host = Host(tmp_path / "study")
    host.start()
    yield host
    host.kill(signal.SIGINT)


@pytest.fixture
def links(host: Host) -> dict[str, str]:
    with RatingRoom(Study(host.study)) as room:
        return {name: f"{host.origin}/rate?token={room.invite(name)}" for name in ("ann", "bob")}


def shows(visit: Any, text: str) -> None:
    """Wait until a page with this text has loaded, scripts and all."""
    there = f"document.body?.innerText.includes({json.dumps(text)})"
    visit.until(f"document.readyState === 'complete' && {there}")


def train(visit: Any) -> None:
    """The worked examples, by keys: a label, then on to the next."""
    shows(visit, "Thank you for rating")
    visit.press("Enter")
    shows(visit, "Example 1 of ")
    examples = int(visit.value_of("document.querySelector('h1').innerText.split(' of ')[1]"))
    for n in range(1, examples + 1):
        shows(visit, f"Example {n} of {examples}")
        visit.press("1")
        shows(visit, "manual")
        visit.press("Enter")


def rate(visit: Any, label: str, sheets: range) -> None:
    for n in sheets:
        shows(visit, f"Conversation {n} of {SHEETS}")
        visit.press("j", "j", "e", label)
        visit.until(f"!document.body?.innerText.includes('Conversation {n} of {SHEETS}')")


def test_two_rate_at_once_and_a_killed_server_loses_nothing(
    browser: Any, host: Host, links: dict[str, str]
) -> None:
    ann, bob = (browser.visit(links[name], context=browser.context()) for name in ("ann", "bob"))
    train(ann)
    train(bob)
    rate(ann, "1", range(1, 4))
    rate(bob, "0", range(1, 3))
    host.kill()
    host.start()
    # Cookies are still good: the invitation is in the study, not in the server that was killed.
    ann.ask("Page.navigate", url=f"{host.origin}/rate")
    bob.ask("Page.navigate", url=f"{host.origin}/rate")
    rate(ann, "1", range(4, SHEETS + 1))
    rate(bob, "0", range(3, SHEETS + 1))
    for visit in (ann, bob):
        shows(visit, "All are done")
        visit.tab_to("button.go")
        visit.press("Enter")
        shows(visit, "Handed in")
        assert visit.serious_errors() == []
        assert all(url.startswith(host.origin) for url in visit.fetched())
    study = Study(host.study)
    for name, label in (("human:ann", 1), ("human:bob", 0)):
        given = stored_ratings(study, name)
        assert [rating.label for rating in given.values()] == [label] * 6
        assert {rating.turns for rating in given.values()} == {(2,)}
    [sample] = stored_samples(study)
    assert sample.used
    host.kill(signal.SIGINT)
    assert verify_study(Study(host.study)).findings == ()


def test_a_reason_is_kept_while_it_is_typed(
    browser: Any, links: dict[str, str], host: Host
) -> None:
    ann = browser.visit(links["ann"], context=browser.context())
    ann.ask("Page.navigate", url=f"{host.origin}/rate/1")
    shows(ann, "Conversation 1 of 7")
    ann.press("r", *"Same.", "Escape")
    ann.until("document.getElementById('saved').textContent === 'Kept.'")
    host.kill()
    host.start()
    ann.ask("Page.navigate", url=f"{host.origin}/rate/1")
    assert ann.until("document.getElementById('reason')?.value") == "Same."


def test_nothing_that_the_browser_of_a_rater_receives_tells_anything(
    browser: Any, links: dict[str, str], host: Host
) -> None:
    context = browser.context()
    browser.visit(links["bob"], context=context)
    rating = ("/rate", "/rate/training/1", "/rate/overview", "/rate/99", "/study/1")
    for address in (*rating, *(f"/rate/{n}" for n in range(1, SHEETS + 1))):
        visit = browser.visit(host.origin + address, context=context)
        received = visit.received()
        assert host.origin + address in received
        for url, sent in received.items():
            name = url.partition("/static/")[2]
            if name:  # a file that is the same for everybody, and names our classes
                file = served(name)
                assert file is not None
                assert sent.endswith(file.read_text(encoding="utf-8"))
            else:
                assert [word for word in TELLING if word in f"{url} {sent}".lower()] == []
        browser.close_tabs()


def test_two_tabs_of_one_rater_lose_no_label(
    browser: Any, links: dict[str, str], host: Host
) -> None:
    context = browser.context()
    browser.visit(links["ann"], context=context)
    first, second = (browser.visit(f"{host.origin}/rate/1", context=context) for _ in range(2))
    first.ask("Page.bringToFront")
    first.press("1")
    shows(first, f"Conversation 2 of {SHEETS}")
    second.ask("Page.bringToFront")
    # This tab does not know of the label; what it keeps by itself must not take it away.
    second.press("r", *"Later.", "Escape")
    second.until("document.getElementById('saved').textContent === 'Kept.'")
    again = browser.visit(f"{host.origin}/rate/1", context=context)
    pressed = "document.querySelector('[aria-pressed=true]')?.value"
    assert again.value_of(pressed) == "1"
    assert again.value_of("document.getElementById('reason').value") == "Later."


def test_unsure_ones_are_come_back_to_by_a_key(
    browser: Any, links: dict[str, str], host: Host
) -> None:
    context = browser.context()
    browser.visit(links["ann"], context=context)
    visit = browser.visit(f"{host.origin}/rate/3", context=context)
    visit.press("u")
    shows(visit, f"Conversation 4 of {SHEETS}")
    visit.press("o")
    shows(visit, "You were unsure about 1")
    visit.press("u")
    shows(visit, f"Conversation 3 of {SHEETS}")


@pytest.mark.parametrize("width", [390, 1280])
def test_a_raters_pages_fit_and_shut_nobody_out(
    browser: Any, links: dict[str, str], host: Host, width: int
) -> None:
    context = browser.context()
    browser.visit(links["bob"], context=context)
    with RatingRoom(Study(host.study)) as room:
        bob = room.invited(links["bob"].partition("token=")[2])
        assert bob is not None
        room.save(bob, DraftRating("training-2", "1"))  # so that its answer is shown
    addresses = ("/rate/training/1", "/rate/training/2", "/rate/1", "/rate/overview", "/rate/99")
    for address in ("/rate", *addresses):
        visit = browser.visit(host.origin + address, width=width, context=context)
        assert visit.overflow() == 0
        assert visit.complaints() == [] or address == "/rate/99"
        assert visit.low_contrast() == []
        assert visit.serious_errors() == []
        browser.close_tabs()
