"""The gate of a study: sealed until decided, three outcomes, recomputed from the labels."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.plans import SELFPLAY, changed
from tests.studies import DETECTED, MakeStudy

Chimera = Callable[..., Any]

TABLES = """
[conversation]
turns = 8
[prompts]
file = "prompts.jsonl"
[raters.mine]
use = "own:Ending"
[gate]
raters = ["rules", "mine"]
threshold = 0.5
sample = 24
seed = 7
"""
RATER = """
from dataclasses import dataclass

from chimeralab.rating.ratings import Rating


@dataclass(frozen=True)
class Ending:
    def open(self, rubric):
        return self

    async def rate(self, item):
        same = len(set(item.texts[-3:])) == 1
        return Rating(item.id, "", int(same), "The end decides.")
"""


PROMPTS = (json.dumps({"id": f"p{n}", "text": f"Tell tale {n}."}) for n in range(16))
GATED = changed(SELFPLAY | {"own.py": RATER, "prompts.jsonl": "\n".join(PROMPTS)}, TABLES)
BOTH = (*DETECTED, "rate rules", "rate mine")


@pytest.fixture
def rated(make_study: MakeStudy) -> Path:
    """A study that was run, judged and rated."""
    return make_study(GATED, steps=BOTH).path


@pytest.fixture
def decided(make_study: MakeStudy) -> Path:
    """A study whose gate is decided."""
    return make_study(GATED, steps=(*BOTH, "draw", "audit")).path


def test_sample_is_drawn_by_the_seed_of_the_plan(chimera: Chimera, rated: Path) -> None:
    refused = chimera("rate", "sample", rated, "--for", "gate", "--seed", 3)
    assert (refused.code, "leave out --seed" in refused.err) == (2, True)
    drawn = chimera("rate", "sample", rated, "--for", "gate", "--json").json
    assert drawn["draw"] == {"kind": "gate", "size": 24, "seed": 7, "by": "condition"}
    assert json.loads((rated / "plan.lock").read_text())["resolved"]["extras"]["gate"] == {
        "raters": ["rules", "mine"], "statistic": "kappa", "threshold": 0.5, "rule": "lower_ci",
        "sample": 24, "by": "condition", "attempts": 1, "seed": 7, "validity": None,
    }  # fmt: skip


def exported(chimera: Chimera, study: Path, name: str) -> int:
    assert chimera("export", study, "--format", "csv", "--out", study.parent / name).code == 0
    return len((study.parent / name / "ratings.csv").read_text().splitlines()) - 1


def test_no_label_of_the_gate_can_be_compared_before_it_is_decided(
    chimera: Chimera, rated: Path
) -> None:
    study = rated
    assert chimera("rate", "sample", study, "--size", 6, "--for", "calibration").code == 0
    assert exported(chimera, study, "undrawn") == 12
    assert chimera("rate", "sample", study, "--for", "gate").code == 0
    assert exported(chimera, study, "drawn") == 12
    assert chimera("audit", study, "--only", "gate-1").code == 2
    assert chimera("audit", study).code == 0
    assert exported(chimera, study, "decided") == 64


def decide(chimera: Chimera, study: Path) -> dict[str, Any]:
    assert chimera("rate", "sample", study, "--for", "gate").code == 0
    found: dict[str, Any] = chimera("audit", study, "--json").json
    assert chimera("report", study).code == 0
    return found


def page_of(study: Path) -> str:
    return (study / "report" / "index.html").read_text(encoding="utf-8")


def test_raters_who_agree_do_not_validate_the_detector(chimera: Chimera, rated: Path) -> None:
    study = rated
    found = decide(chimera, study)
    assert (found["gate"]["passed"], found["outcome"]) == (True, "reliable, not validated")
    page = page_of(study)
    assert "Gate: <strong>reliable, not validated</strong>" in page
    assert "rules (a program" in page
    assert "The detector against mine, 24 items: sensitivity" in page.split('id="methods"')[0]
    counted = r"sensitivity \d+\.\d % \([^)]*, \d+ of \d+\), specificity [^(]+\([^)]*, \d+ of \d+\)"
    assert re.search(counted, " ".join(page.split()))
    methods = page.split('id="methods"')[1]
    assert "Kappa was 1.00 (95 % score interval" in methods
    assert "The detector against mine, 24 items: sensitivity" in methods
    told = chimera("analyse", study).out
    assert "Share of turns marked as collapsed" in told
    judged = chimera("detect", study, "--group-by", "condition").out
    assert re.search(r"of 32 conversations (were|was) marked as collapsed", judged)
    assert re.search(r" marked as +\n.*\bcollapsed\b", judged), "the heading, on two lines"
    talk = chimera("detect", study, "--json").out.splitlines()[0]
    shown = study / "talk.html"
    assert chimera("show", study, "--id", json.loads(talk)["id"], "--out", shown).code == 0
    for text in (f">{told}<", shown.read_text(encoding="utf-8")):
        assert list(bare(text)) == []
    assert list(bare(page)) == []
    for figure in (study / "report" / "figures").glob("*.svg"):
        assert list(bare(figure.read_text(encoding="utf-8"))) == []


def bare(page: str) -> Iterator[str]:
    """Find texts that state a collapse as a fact rather than as a mark of the detector."""
    without_style = re.sub(r"(?s)<style.*?</style>|counts? as collapsed", "", page)
    for text in re.findall(r">([^<>]*collaps[^<>]*)<", without_style, re.IGNORECASE):
        if re.search(r"(?<!arked as )collapsed\b", text, re.IGNORECASE):
            yield text


@pytest.mark.parametrize(
    ("bar", "outcome"),
    [
        ("{ sensitivity = 0.5, specificity = 0.5 }", "validated"),
        ("{ sensitivity = 0.99 }", "reliable, not validated"),
    ],
)
def test_detector_is_validated_by_the_bounds_that_were_declared(
    chimera: Chimera, make_study: MakeStudy, bar: str, outcome: str
) -> None:
    seeded = ("seed = 7\n", f"seed = 7\nvalidity = {bar}\n")
    study = make_study(GATED, seeded, steps=BOTH).path
    assert decide(chimera, study)["outcome"] == outcome
    page = page_of(study)
    assert f"Gate: <strong>{outcome}</strong>" in page
    assert ("How much collapsed" in page) == (outcome == "validated")


# Twelve items on twelve prompts: with perfect agreement, kappa may still be far below 0.80.
ON_TWELVE = (
    ("threshold = 0.5\nsample = 24\n", 'threshold = 0.8\nrule = "point"\nsample = 12\n'),
    ("seed = 7\n", "seed = 7\nvalidity = { sensitivity = 0.8, specificity = 0.8 }\n"),
)
POINT_ONLY = "met at the point estimate, not at its lower bound"


def plain(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>|\*\*|\\", "", text).split())


def test_few_items_never_validate_and_the_opening_says_why(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    study = make_study(GATED, *ON_TWELVE, steps=BOTH).path
    found = decide(chimera, study)
    gate = found["gate"]
    assert (gate["passed"], gate["at_lower_bound"]) == (True, False)
    assert found["outcome"] == "reliable, not validated"
    low, high = gate["interval"]
    assert low < 0.8 < gate["value"]
    estimate = f"kappa {gate['value']:.2f} (95 % interval {low:.2f} to {high:.2f}, 12 items)"
    audited = plain(chimera("audit", study).out)
    assert audited.startswith(f"Gate {POINT_ONLY} (reliable, not validated): {estimate};")
    record = plain((study / "audit" / "gate-record.md").read_text(encoding="utf-8"))
    page = page_of(study)
    opening = plain(page.split('class="state"')[1].split("</p>")[0])
    reliability = plain(page.split('id="reliability"')[1].split("</p>")[0])
    for text in (record, opening, reliability, plain(page.split('id="methods"')[1])):
        assert f"{POINT_ONLY}: {estimate}" in text
    # The bounds of the detector are said with it, for sensitivity and specificity.
    assert re.search(
        r"not validated: its sensitivity \d\.\d\d \(\d\.\d\d to 1\.00\) against rules "
        r"reaches 0\.80 at the point estimate, not at its lower bound; its specificity",
        opening,
    )
    assert "How much was marked as collapsed" in page


def test_gate_that_cannot_decide_is_named_by_check_audit_and_page(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    study = make_study(GATED, *ON_TWELVE, steps=BOTH).path
    by_chance = "the gate passes by chance: with rule = 'point' on 12 items"
    unshown = "the detector can't be validated on 12 items: at least 32 items"
    checked = plain(chimera("check", study, "--offline", "--allow-code").out)
    decide(chimera, study)
    audited = plain(chimera("audit", study).out)
    record = plain((study / "audit" / "gate-record.md").read_text(encoding="utf-8"))
    page = page_of(study)
    opening = plain(page.split('class="state"')[1].split("</p>")[0])
    for text in (checked, audited, record, opening.replace("&#39;", "'")):
        assert by_chance in text
        assert unshown in text


def test_page_names_a_gate_that_cannot_be_met_before_it_is_decided(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    study = make_study(GATED, ("threshold = 0.5", "threshold = 1.0"), steps=BOTH).path
    assert chimera("report", study).code == 0
    assert "the gate can&#39;t be met: no lower bound reaches 1.00" in page_of(study)


def test_validated_stands_next_to_the_figures_that_show_it(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    seeded = ("seed = 7\n", "seed = 7\nvalidity = { sensitivity = 0.5 }\n")
    study = make_study(GATED, seeded, steps=BOTH).path
    assert decide(chimera, study)["outcome"] == "validated"
    opening = plain(page_of(study).split('class="state"')[1].split("</p>")[0])
    for rater in ("rules", "mine"):
        assert re.search(
            rf"against {rater}, sensitivity \d\.\d\d \(\d\.\d\d to \d\.\d\d\), "
            r"specificity \d\.\d\d \(\d\.\d\d to \d\.\d\d\)",
            opening,
        )


def test_forged_record_is_neither_shown_nor_kept(chimera: Chimera, decided: Path) -> None:
    path = decided / "audit" / "gate-record.json"
    honest = path.read_text(encoding="utf-8")
    record = json.loads(honest)
    record["consequence"] |= {"name": "validated", "sentence": "People confirmed it."}
    path.write_text(json.dumps(record | {"outcome": "validated"}), encoding="utf-8")
    assert chimera("report", decided).code == 0
    assert "People confirmed it." not in page_of(decided)
    assert chimera("audit", decided).code == 0
    assert path.read_text(encoding="utf-8") == honest


def test_labels_changed_after_the_verdict_leave_nothing_to_claim(
    chimera: Chimera, decided: Path
) -> None:
    with sqlite3.connect(decided / "study.db") as database:
        database.execute("UPDATE ratings SET label = 0")
    database.close()
    assert chimera("report", decided).code == 0
    page = page_of(decided)
    assert "Gate: <strong>not reliable</strong>" in page
    assert "was used on" in page
