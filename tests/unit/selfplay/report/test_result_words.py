"""Texts about results use the words that the gate allows, and names are never changed."""

import io
import re

import pytest
from rich.console import Console

from chimeralab.cli import estimate_tables as terminal
from chimeralab.core.result_words import MARK
from chimeralab.rating.gate import FORBIDDEN, NO_AUDIT, ClaimScope
from chimeralab.rating.study_audit import Reliability
from chimeralab.report.conversation import draw_conversation
from chimeralab.report.files import Report
from chimeralab.selfplay.report.material import Material
from chimeralab.selfplay.report.page import make_report

# A condition of the study that is named like a result.
NAMED = "collapsed_ones"
SCOPES = {
    "not reliable": NO_AUDIT,
    "reliable, not validated": ClaimScope("reliable", "The labels are reliable.", FORBIDDEN),
    "validated": ClaimScope("validated", "The detector agrees with every rater.", ()),
}


@pytest.fixture(scope="module")
def texts(material: Material, report: Report) -> dict[str, dict[str, str]]:
    """The report with its figures and numbers, a conversation and the terminal, by outcome."""
    with pytest.MonkeyPatch.context() as patch:
        return {outcome: told(material, report, scope, patch) for outcome, scope in SCOPES.items()}


def told(
    material: Material, report: Report, scope: ClaimScope, patch: pytest.MonkeyPatch
) -> dict[str, str]:
    if scope is not NO_AUDIT:
        gate = Reliability(scope, scope.name, None)
        # Two conversations are enough to see how they are told, and quick to draw.
        few = material._replace(reliability=gate, detections=material.detections[:2])
        report = make_report(few)
    written = io.StringIO()
    patch.setattr(terminal, "out", Console(file=written, width=200))
    assert material.results is not None
    terminal.print_analysis(material.results[0], scope.words, full=True)
    talk = next(material.study.trajectories())
    conversation = draw_conversation(talk, speaker="all", words=scope.words)
    pages = {"report": report.html, "conversation": conversation, "terminal": written.getvalue()}
    pages |= {f"figure {each.name}": f"{each.wide} {each.label}" for each in report.figures}
    pages |= {f"number {name}": each.what for name, each in report.numbers.items()}
    return {name: result_text(page, scope) for name, page in pages.items()}


def result_text(page: str, scope: ClaimScope) -> str:
    """The words of a page with those of its labels, without the rule and the sentence of the gate.

    What the rule counts as collapsed is a definition; the gate's sentence asks what people would
    call collapsed.
    """
    labels = " ".join(re.findall(r'aria-label="([^"]+)"', page))
    words = re.sub(r"<(style).*?</\1>|<[^>]+>", " ", page, flags=re.S)
    flat = " ".join(f"{words} {labels}".split())
    return re.sub(r"counts? as collapsed", "", flat.replace(scope.sentence, ""))


@pytest.mark.parametrize("outcome", ["not reliable", "reliable, not validated"])
def test_without_validation_no_text_says_collapsed(
    texts: dict[str, dict[str, str]], outcome: str
) -> None:
    for name, text in texts[outcome].items():
        places = re.finditer(r"(?<!marked as )\bcollapsed\b(?!_)", text, re.IGNORECASE)
        bare = [text[max(0, at.start() - 60) : at.end() + 20] for at in places]
        assert bare == [], name
        assert not re.search(r"marked as marked|marked marked|marked as collapsed_", text), name


def test_validated_results_are_not_called_marked(
    texts: dict[str, dict[str, str]],
) -> None:
    found = texts["validated"]
    assert [name for name, text in found.items() if "marked" in text.lower()] == []
    for name in ("report", "conversation", "terminal"):
        assert "collapsed" in found[name], name


@pytest.mark.parametrize("outcome", SCOPES)
def test_a_condition_named_like_a_result_keeps_its_name(
    texts: dict[str, dict[str, str]], outcome: str
) -> None:
    for name in ("report", "terminal", "figure distributions"):
        assert set(re.findall(r"\b\w*collapsed\w+", texts[outcome][name])) == {NAMED}, name


def test_every_wording_of_a_mark_says_marked() -> None:
    assert all("marked" in form for form in MARK)
