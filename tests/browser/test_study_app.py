"""The pages about a study in a real browser: they fit, nobody is shut out, keys alone suffice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chimeralab.report.files import write_report
from chimeralab.study.drafts import DraftRating
from chimeralab.study.invitations import RatingRoom
from tests.browser.test_rating_app import shows
from tests.browser.test_view import Server, serving
from tests.people_rate import people_rate

PAGES = (
    "/study/1",
    "/study/1/talk/looping/p1/1",
    "/study/1/raters",
    "/study/1/reliability",
    "/study/1/report",
    "/study/1/report/index.html",
)


class Decided(NamedTuple):
    """A study whose gate was decided, on a server; the link of the person who is to settle it."""

    server: Server
    token: str


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Decided]:
    study = people_rate(tmp_path_factory.mktemp("decided") / "study")
    with RatingRoom(study) as room:
        for name, label in (("ann", "1"), ("bob", "0")):
            invitation = room.invited(room.invite(name))
            assert invitation is not None
            for sheet in room.desk(invitation).sheets:
                room.save(invitation, DraftRating(sheet, label, "2-3", "As I <b>see</b> it."))
            room.hand_in(invitation)
        token = room.invite("cid", task="adjudicate")
    write_report(study)
    for server in serving(str(study.path)):
        yield Decided(server, token)


@pytest.fixture(scope="module")
def owner(browser: Any, decided: Decided) -> str:
    context = str(browser.context())
    browser.visit(decided.server.url, context=context)
    return context


@pytest.fixture(autouse=True)
def closed_tabs(browser: Any) -> Iterator[None]:
    yield
    browser.close_tabs()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("address", PAGES)
def test_pages_of_a_study_fit_and_shut_nobody_out(
    browser: Any, decided: Decided, owner: str, address: str, width: int
) -> None:
    visit = browser.visit(decided.server.origin + address, width=width, context=owner)
    assert visit.overflow() == 0
    assert visit.complaints() == []
    assert visit.low_contrast() == []
    assert visit.serious_errors() == []
    assert all(url.startswith(decided.server.origin) for url in visit.fetched())


def test_keys_alone_lead_through_a_study(browser: Any, decided: Decided, owner: str) -> None:
    visit = browser.visit(f"{decided.server.origin}/study/1", context=owner)
    visit.press("j", "j")
    assert visit.value_of("document.activeElement.matches('.grid a[data-walk]')")
    opened = visit.value_of("document.activeElement.getAttribute('href')")
    visit.press("Enter")
    there = "document.readyState === 'complete' && location.pathname === "
    visit.until(f"{there} decodeURIComponent('{opened}')")
    visit.press("u")
    visit.until(f"{there} '/study/1'")
    for name in ("raters", "reliability", "report"):
        # Links are reached by Tab, which a page can't take from the browser.
        visit.tab_to(f"header a[href$={name}]")
        visit.press("Enter")
        visit.until(f"{there} '/study/1/{name}'")
        visit.press("u")
        visit.until(f"{there} '/study/1'")


def test_the_report_has_its_styles_and_runs_nothing(
    browser: Any, decided: Decided, owner: str
) -> None:
    address = f"{decided.server.origin}/study/1/report/index.html"
    for width in (390, 1280):
        visit = browser.visit(address, width=width, context=owner)
        assert visit.overflow() == 0
        assert visit.complaints() == []
        assert visit.value_of("document.styleSheets.length") > 0
        assert visit.fetched() == []
    planted = (
        "(() => { const s = document.createElement('script'); s.textContent = 'window.owned = 1';"
        " document.body.append(s); return String(window.owned) })()"
    )
    assert visit.value_of(planted) == "undefined"


@pytest.mark.parametrize("width", [390, 1280])
def test_a_third_person_settles_by_keys_and_sees_no_names(
    browser: Any, decided: Decided, width: int
) -> None:
    context = browser.context()
    link = f"{decided.server.origin}/rate?token={decided.token}"
    visit = browser.visit(link, width=width, context=context)
    shows(visit, "What the raters said")
    assert visit.overflow() == 0
    assert visit.low_contrast() == []
    assert visit.serious_errors() == []
    assert visit.value_of("document.querySelectorAll('blockquote').length") == 2
    assert visit.value_of("document.querySelectorAll('blockquote b').length") == 0
    received = visit.value_of("document.documentElement.outerHTML").lower()
    assert [word for word in ("human:", "ann", "bob") if f">{word}" in received] == []
    assert "human:" not in received
    heading = visit.value_of("document.querySelector('h1').innerText")
    visit.press("j", "j", "e", "r", *"New.", "Escape", "0")
    visit.until(
        f"document.readyState === 'complete' && "
        f"document.querySelector('h1')?.innerText !== '{heading}'"
    )
    visit.press("z")
    shows(visit, heading)
    assert visit.value_of("document.querySelectorAll('input[name=turn]').length") == 4
    assert visit.complaints() == []


def test_a_study_that_nobody_rates_yet_says_so(browser: Any, tmp_path: Path) -> None:
    people_rate(tmp_path / "study")
    for server in serving(str(tmp_path / "study")):
        context = browser.context()
        browser.visit(server.url, context=context)
        for address, said in (
            ("/study/1/raters", "Nobody has been invited yet"),
            ("/study/1/report", "There is no report yet"),
        ):
            visit = browser.visit(server.origin + address, width=390, context=context)
            assert said in visit.value_of("document.body.innerText")
            assert visit.overflow() == 0
            assert visit.serious_errors() == []
