"""Reports in a real browser, of self-play and of a trial: they fit, print, and run nothing."""

from pathlib import Path
from typing import Any

import pytest

from chimeralab.report.files import write_report
from tests.looping_study import finished_study
from tests.stressed_study import HOSTILE, finished_trial

SIZES = (320, 360, 768, 1280)
SEEN = ".filter(e => e.getClientRects().length)"


@pytest.fixture(scope="module")
def selfplay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(finished_study(tmp_path_factory.mktemp("made") / "study")).page


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(finished_trial(tmp_path_factory.mktemp("made") / "trial")).page


@pytest.fixture(scope="module", params=["selfplay", "trial"])
def page(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("width", SIZES)
def test_report_fits_the_screen_and_stays_quiet(browser: Any, page: Path, width: int) -> None:
    visit = browser.visit(page, width=width)
    assert visit.overflow() == 0
    assert visit.complaints() == []
    assert visit.fetched() == []


def test_planted_markup_stays_text(browser: Any, selfplay: Path) -> None:
    visit = browser.visit(selfplay)
    assert visit.value_of("document.title") == "Report on loops <i>and</i> others"
    planted = "script, img, iframe, object, base, i, b, u, svg[onload]"
    assert visit.value_of(f"document.querySelectorAll('{planted}').length") == 0
    said = visit.value_of("document.querySelector('main').textContent")
    assert "<script>document.title = 'owned'</script><img src=x onerror=alert(1)>" in said
    assert "Do <script>alert(1)</script> loops differ?" in said
    assert "<u>odd</u>" in said


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
def test_text_stands_out_from_its_paper(browser: Any, page: Path, dark: bool, width: int) -> None:
    assert browser.visit(page, dark=dark, width=width).low_contrast() == []


@pytest.mark.parametrize("width", [320, 1280])
def test_every_figure_is_seen_once_with_its_words(browser: Any, page: Path, width: int) -> None:
    visit = browser.visit(page, width=width)
    visit.value_of("document.querySelectorAll('details').forEach(d => d.open = true)")
    charts = f"[...document.querySelectorAll('figure .chart')]{SEEN}"
    figures = visit.value_of("document.querySelectorAll('figure').length")
    assert figures > 12
    assert visit.value_of(f"{charts}.length") == figures
    assert visit.value_of(f"{charts}.every(c => c.getAttribute('aria-label').length > 40)")


@pytest.mark.parametrize(("width", "most"), [(390, 1400), (1280, 900)])
def test_a_stranger_meets_verdicts_and_the_summary_before_anything_else(
    browser: Any, trial: Path, width: int, most: int
) -> None:
    visit = browser.visit(trial, width=width)
    first = f"[...document.querySelectorAll('figure .chart')]{SEEN}[0]"
    said = visit.value_of(f"{first}.getAttribute('aria-label')")
    assert said.startswith("Differences in MCI, GFQ and DFS on one scale")
    assert visit.value_of(f"{first}.getBoundingClientRect().top") < most
    box = "document.getElementById('glance')"
    assert visit.value_of(f"{box}.getBoundingClientRect().bottom") < most
    assert visit.value_of(f"{box}.querySelectorAll('.finding strong').length") == 2
    folded = "[...document.querySelectorAll('details figure')].length"
    closed = "[...document.querySelectorAll('details:not([open]) figure')].length"
    assert visit.value_of(folded) == visit.value_of(closed) > 8


def test_planted_replies_of_a_trial_stay_text(browser: Any, trial: Path) -> None:
    visit = browser.visit(trial)
    assert visit.value_of("document.title") == "Report on stress <i>and</i> sham"
    planted = "script, img, iframe, object, base, i, svg[onload]"
    assert visit.value_of(f"document.querySelectorAll('{planted}').length") == 0
    assert HOSTILE in visit.value_of("document.querySelector('main').textContent")


def test_injections_of_a_session_stand_out_where_they_were_made(browser: Any, trial: Path) -> None:
    visit = browser.visit(trial)
    marked = "[...document.querySelectorAll('.session .injected .put')]"
    assert visit.value_of(f"{marked}.some(e => e.textContent.includes('Participant 8'))")
    assert visit.value_of("document.querySelectorAll('.session .disturbed li').length") > 0


def test_a_row_of_a_table_becomes_a_card_on_a_phone(browser: Any, selfplay: Path) -> None:
    cell = "document.querySelector('#distributions ~ .scroll td:nth-child(4)')"
    heading = f"getComputedStyle({cell}, '::before').content"
    assert "mean" in browser.visit(selfplay, width=360).value_of(heading)
    assert browser.visit(selfplay, width=1280).value_of(heading) == "none"


def test_print_unfolds_the_tables_and_leaves_the_rest_of_the_transcripts_folded(
    browser: Any, selfplay: Path
) -> None:
    visit = browser.visit(selfplay)
    content = (
        "getComputedStyle(document.querySelector('details.%s'), '::details-content')"
        ".contentVisibility"
    )
    assert visit.value_of(content % "numbers") == "hidden"
    visit.ask("Emulation.setEmulatedMedia", media="print")
    assert visit.value_of(content % "numbers") == "visible"
    assert visit.value_of(content % "rest") == "hidden"


def test_links_lead_to_sections(browser: Any, page: Path) -> None:
    broken = (
        "[...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.getAttribute('href'))"
        ".filter(href => !document.getElementById(href.slice(1)))"
    )
    assert browser.visit(page).value_of(broken) == []


def test_ids_of_the_page_are_unique(browser: Any, page: Path) -> None:
    twice = (
        "(ids => ids.filter((id, n) => ids.indexOf(id) !== n))"
        "([...document.querySelectorAll('[id]')].map(e => e.id))"
    )
    assert browser.visit(page).value_of(twice) == []
