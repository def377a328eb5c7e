"""Loops and tool calls in a real browser: marks are seen, and nothing from a tool runs."""

from pathlib import Path
from typing import Any

import pytest

from chimeralab import Call, Trajectory, Turn
from chimeralab.report.conversation import draw_conversation

HOSTILE = (
    "<script>document.title = 'owned'; fetch('https://example.org/')</script>"
    "<img src=x onerror=\"document.title = 'owned'\"></div></li></ol><h1>Not a heading</h1>"
    "<iframe src=https://example.org/></iframe>\u202e\x1b[31m"
)
SIZES = (320, 360, 768, 1280)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent whose calls, arguments and results are hostile, and that goes round in circles."""
    long = "W" * 3_000 + "\n" + "line\n" * 60
    made = [
        Call(HOSTILE, HOSTILE, HOSTILE, error=True),
        Call("read", {"path": HOSTILE}, long),
        Call("", None, None),
    ]
    turns = [Turn("Go.", "user", "user")]
    for call in (*made, *[Call("bash", '{"c": "make"}', HOSTILE, error=True)] * 5):
        turns.append(Turn("", "assistant", "assistant", spoken=False, calls=(call,)))
        turns.append(Turn(call.result or "", "tool", "tool", spoken=False))
    turns += [Turn("Once more, the build has failed.", "assistant", "assistant")] * 7
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(draw_conversation(Trajectory("agent", tuple(turns))), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", SIZES)
def test_page_fits_the_screen_and_stays_quiet(browser: Any, page: Path, width: int) -> None:
    visit = browser.visit(page, width=width)
    assert visit.overflow() == 0
    assert visit.complaints() == []
    assert visit.fetched() == []


def test_nothing_from_a_tool_runs(browser: Any, page: Path) -> None:
    visit = browser.visit(page)
    assert visit.value_of("document.title") == "Conversation agent"
    assert visit.value_of("document.querySelectorAll('script, img, iframe').length") == 0
    assert visit.value_of("document.querySelectorAll('h1').length") == 1
    shown = "[...document.querySelectorAll('.call .result')].map(e => e.textContent).join('')"
    assert "<script>document.title = 'owned'" in visit.value_of(shown)


@pytest.mark.parametrize("width", [360, 1280])
def test_marks_of_loops_are_seen(browser: Any, page: Path, width: int) -> None:
    visit = browser.visit(page, width=width)
    marks = "[...document.querySelectorAll('li.looping .loop')]"
    assert visit.value_of(f"{marks}.filter(e => e.getClientRects().length).length") == 12
    assert visit.value_of(f"{marks}[0].textContent").startswith("A loop begins here")
    coloured = (
        "[...document.querySelectorAll('li.looping')].every(e => getComputedStyle(e)"
        ".backgroundColor !== getComputedStyle(document.body).backgroundColor)"
    )
    assert visit.value_of(coloured) is True
    assert "Loops:" in visit.value_of("document.querySelector('.verdict.looping').innerText")


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_its_paper(browser: Any, page: Path, dark: bool) -> None:
    assert browser.visit(page, dark=dark).low_contrast() == []


def test_long_results_are_folded(browser: Any, page: Path) -> None:
    visit = browser.visit(page)
    assert visit.value_of("document.querySelectorAll('.call details:not([open])').length") == 1
    heights = "[...document.querySelectorAll('.call')].map(e => e.getBoundingClientRect().height)"
    assert max(visit.value_of(heights)) < 400


def test_links_lead_to_messages(browser: Any, page: Path) -> None:
    links = "[...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.getAttribute('href'))"
    visit = browser.visit(page)
    broken = f"{links}.filter(href => !document.getElementById(href.slice(1)))"
    assert visit.value_of(broken) == []
    assert visit.value_of("document.querySelectorAll('.loop a').length") > 12
