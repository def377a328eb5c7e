"""The web app in a real browser, on a real server: nothing hostile runs, keys alone suffice."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.browser.conftest import AXE
from tests.looping_study import write_study
from tests.two_phantoms import TWO_PHANTOMS

HOSTILE = (
    "<script>document.title = 'owned'; fetch('https://example.org/')</script>"
    "<img src=x onerror=\"document.title = 'owned'\"></bdi></td></tr></table><h1>No heading</h1>"
    "<iframe src=https://example.org/></iframe><base href=https://example.org/>\u202e\x1b[31m"
)
LIVE = f"""
[study]
name = "live"
{TWO_PHANTOMS}
[conversation]
turns = 12
repeats = 1
[prompts]
items = [{{ id = "p1", bucket = "b", text = "Talk." }}, {{ id = "p2", bucket = "b", text = "Go." }}]
[run]
concurrency = 2
"""


class Server(NamedTuple):
    """A running `chimera view`."""

    url: str

    @property
    def origin(self) -> str:
        return self.url.partition("/?")[0]


def serving(*arguments: str) -> Iterator[Server]:
    process = subprocess.Popen(
        [sys.executable, "-m", "chimeralab", "view", *arguments, "--no-open", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", url)
        yield Server(url)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A looping, a healthy and a hostile conversation."""
    folder = tmp_path_factory.mktemp("logs")
    talks: list[dict[str, Any]] = [
        {"id": "stuck", "model": "m1", "turns": ["Hello."] + ["Let me try that again."] * 8},
        {"id": "fine", "model": "m2", "turns": ["Hello.", "The train leaves at nine.", "Hurry."]},
        {
            "id": 'tools/and "quotes" %2F?#',
            "model": "m1",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "\u05e9\u05dc\u05d5\u05dd \U0001f600" * 40},
                *[
                    message
                    for n in range(40)
                    for message in (
                        {
                            "role": "assistant",
                            "content": "w" * 5_000 if n == 0 else f"Again, {n // 3}.",
                            "tool_calls": [
                                {
                                    "id": f"c{n}",
                                    "type": "function",
                                    "function": {"name": "run", "arguments": '{"a": "ls"}'},
                                }
                            ],
                        },
                        {"role": "tool", "tool_call_id": f"c{n}", "content": "error: none"},
                    )
                ],
            ],
        },
        {
            "id": HOSTILE,
            "model": HOSTILE,
            HOSTILE: HOSTILE,
            "turns": [{"speaker": HOSTILE, "text": HOSTILE}] * 8,
        },
    ]
    lines = "\n".join(map(json.dumps, talks))
    (folder / "talks.jsonl").write_text(lines, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def server(logs: Path) -> Iterator[Server]:
    yield from serving(str(logs))


@pytest.fixture(scope="module")
def owner(browser: Any, server: Server) -> str:
    """The context of someone who has opened the start-up link, once all is judged."""
    context = browser.context()
    visit = browser.visit(server.url, context=context)
    visit.until("document.body.innerText.includes('all judged')")
    return str(context)


@pytest.fixture(autouse=True)
def closed_tabs(browser: Any) -> Iterator[None]:
    yield
    browser.close_tabs()


def test_the_token_leaves_the_address_bar(browser: Any, server: Server) -> None:
    visit = browser.visit(server.url, context=browser.context())
    assert visit.value_of("location.href") == f"{server.origin}/"
    assert visit.value_of("document.cookie") == ""


def test_another_context_sees_nothing(browser: Any, server: Server) -> None:
    visit = browser.visit(f"{server.origin}/logs", context=browser.context())
    assert "stuck" not in visit.value_of("document.body.innerText")


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("address", ["/logs", "/logs/1", "/logs/3", "/logs/4"])
def test_pages_fit_stay_quiet_and_ask_only_their_own_server(
    browser: Any, server: Server, owner: str, address: str, width: int
) -> None:
    visit = browser.visit(server.origin + address, width=width, context=owner)
    assert visit.overflow() == 0
    assert visit.complaints() == []
    assert all(url.startswith(server.origin) for url in visit.fetched())
    assert visit.low_contrast() == []


@pytest.mark.parametrize("address", ["/logs", "/logs/4", "/logs?q=%3Cscript%3E&kind=%3Cb%3E"])
def test_hostile_text_runs_nothing(browser: Any, server: Server, owner: str, address: str) -> None:
    visit = browser.visit(server.origin + address, context=owner)
    assert visit.value_of("document.title").startswith("Conversation")
    planted = "document.querySelectorAll('iframe, base, main script, img[src=x]').length"
    assert visit.value_of(planted) == 0
    assert visit.value_of("document.querySelectorAll('h1').length") == 1
    assert visit.complaints() == []
    assert not any("example.org" in url for url in visit.fetched())


def test_no_script_can_turn_a_text_into_markup(browser: Any, server: Server, owner: str) -> None:
    visit = browser.visit(f"{server.origin}/logs", context=owner)
    tried = "(() => { try { document.body.innerHTML = '<b>x</b>' } catch (e) { return e.name } })()"
    assert visit.value_of(tried) == "TypeError"


def test_keys_alone_lead_from_the_table_to_a_conversation_and_back(
    browser: Any, server: Server, owner: str
) -> None:
    visit = browser.visit(f"{server.origin}/logs", context=owner)
    focused = "document.activeElement.textContent"
    visit.press("j")
    assert visit.value_of(focused) == "stuck"
    visit.press("j", "k", "k", "k")
    assert visit.value_of(focused) == "stuck"
    visit.press("Enter")
    visit.until("location.pathname === '/logs/1' && document.readyState === 'complete'")
    visit.until("document.querySelectorAll('.pairing').length > 0")
    visit.press("u")
    visit.until("location.pathname === '/logs' && document.readyState === 'complete'")
    visit.press("/")
    assert visit.value_of("document.activeElement.name") == "q"
    visit.press("t", "r", "a", "i", "n", "Enter")
    visit.until("location.search.includes('q=train') && document.readyState === 'complete'")
    assert visit.value_of("[...document.querySelectorAll('[data-rows] a bdi')].length") == 1


def test_a_turn_has_a_link_of_its_own(browser: Any, server: Server, owner: str) -> None:
    visit = browser.visit(f"{server.origin}/logs/1#turn-7", context=owner)
    assert "try that again" in visit.value_of("document.querySelector(':target').textContent")


@pytest.mark.parametrize("address", ["/logs", "/logs/1", "/logs/3", "/logs/999", "/logs?q=zzz"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_no_serious_error(
    browser: Any, server: Server, owner: str, address: str, width: int
) -> None:
    visit = browser.visit(server.origin + address, width=width, context=owner)
    assert visit.serious_errors() == []


def test_a_message_that_anybody_can_read_looks_the_same_in_show_and_app(
    browser: Any, server: Server, owner: str, logs: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "chimeralab", "show", str(logs), "--id", "stuck"]
    page = tmp_path / "stuck.html"
    subprocess.run([*command, "--out", str(page)], check=True, capture_output=True)
    look = (
        "[...document.querySelectorAll('.turns > li, .turns > li *, .verdict, .side')].map(e => {"
        "const s = getComputedStyle(e), r = e.getBoundingClientRect();"
        "return [e.className, r.width, r.height, s.whiteSpace, s.backgroundColor].join(' ') })"
    )
    ours = browser.visit(f"{server.origin}/logs/1", context=owner).value_of(look)
    assert len(ours) > 9
    assert ours == browser.visit(page).value_of(look)


def test_pictures_are_drawn(browser: Any, server: Server, owner: str) -> None:
    visit = browser.visit(f"{server.origin}/logs/1", context=owner)
    loaded = "[...document.images].filter(i => i.complete && i.naturalWidth > 100).length"
    visit.until(f"{loaded} === 2")


def test_several_things_to_see_are_listed_with_how_they_stand(
    browser: Any, logs: Path, tmp_path: Path
) -> None:
    study = tmp_path / "live"
    study.mkdir()
    (study / "plan.toml").write_text(LIVE, encoding="utf-8")
    for server in serving(str(logs), str(study)):
        for width in (390, 1280):
            visit = browser.visit(server.url, width=width, context=browser.context())
            visit.until("document.querySelectorAll('.entries dt').length === 2")
            assert visit.overflow() == 0
            assert visit.low_contrast() == []
            assert visit.serious_errors() == []


def test_a_live_study_fills_the_grid_and_a_restarted_server_shows_the_same(
    browser: Any, tmp_path: Path
) -> None:
    study = tmp_path / "live"
    study.mkdir()
    (study / "plan.toml").write_text(LIVE, encoding="utf-8")
    cells = "[...document.querySelectorAll('.grid a')].map(a => a.textContent).join(' ')"
    for server in serving(str(study)):
        context = browser.context()
        visit = browser.visit(server.url, context=context)
        assert visit.value_of(cells) == "· · · ·"
        talk = browser.visit(f"{server.origin}/study/1/talk/free/p1/1", context=context)
        run = [sys.executable, "-m", "chimeralab", "run", str(study)]
        subprocess.run(run, check=True, capture_output=True, env=dict(os.environ))
        visit.ask("Page.bringToFront")  # a page that nobody sees holds no connection
        visit.until("document.querySelectorAll('.grid a.done').length === 4")
        visit.until("document.querySelectorAll('.grid a.collapsed, .grid a.looping').length === 2")
        assert visit.complaints() == []
        shown = visit.value_of(cells)
        assert visit.serious_errors() == []
        talk.ask("Page.bringToFront")
        talk.until("document.querySelectorAll('.turns > li').length === 12")
    for server in serving(str(study)):
        again = browser.visit(server.url, context=browser.context())
        again.until(f"{cells} === {json.dumps(shown)}")


def test_hostile_words_of_a_live_study_stay_words(browser: Any, tmp_path: Path) -> None:
    small = (("repeats = 2", "repeats = 1"), ("turns = 14", "turns = 4"))
    study = write_study(tmp_path / "study", *small)
    study.freeze()
    for server in serving(str(study.path)):
        context = browser.context()
        browser.visit(server.url, context=context)
        talk = browser.visit(f"{server.origin}/study/1/talk/loops/p1/1", context=context)
        run = [sys.executable, "-m", "chimeralab", "run", str(study.path), "--allow-code"]
        subprocess.run(run, check=True, capture_output=True)
        talk.until("document.querySelectorAll('.turns > li').length === 4")
        assert "<script>" in talk.value_of("document.querySelector('.turns').textContent")
        assert talk.value_of("document.querySelectorAll('main script, main img').length") == 0
        assert talk.complaints() == []


def test_the_axe_that_is_used_is_named() -> None:
    assert AXE.startswith("axe-core@")
