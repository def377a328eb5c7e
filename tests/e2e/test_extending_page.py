"""Every example on the page about extending runs as it is printed, through a whole study."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.documented_parts import PAGE, SECTIONS, SELFPLAY, TRIAL, block
from tests.studies import MakeStudy

BASES = {
    "Model": (SELFPLAY, ["detect"]),
    "Detector": (SELFPLAY, ["detect", "analyse"]),
    "Countermeasure of self-play": (SELFPLAY, ["detect"]),
    "Rater": (SELFPLAY, ["rate", "rate --rater mine", "audit"]),
    "Scenario": (TRIAL, ["analyse"]),
    "Stressor": (TRIAL, ["analyse"]),
    "Probe": (TRIAL, ["analyse"]),
    "Countermeasure of a trial": (TRIAL, ["analyse", "report"]),
    "Measure of a trial": (TRIAL, ["analyse"]),
    "Kind of study": (SELFPLAY, ["detect", "analyse", "report", "show"]),
}


@pytest.mark.parametrize("title", [title for title in SECTIONS if title != "Reader"])
def test_every_part_of_the_page_goes_through_a_study(
    title: str, make_study: MakeStudy, chimera: Callable[..., Any]
) -> None:
    base, steps = BASES[title]
    tables = block(title, "toml")
    study = make_study({"plan.toml": base, "mine.py": block(title, "python")}, tables).path
    for step in ["check", "lock", "run", *steps, "verify"]:
        command, *options = step.split()
        ran = chimera(command, study, *options)
        assert ran.code == 0, (step, ran.err)
    lock = json.loads((study / "plan.lock").read_text(encoding="utf-8"))
    named = re.findall(r"mine:\w+", tables)
    assert named
    assert set(named) <= set(lock["resolved"]["outside_code"])


def test_reader_of_the_page_reads_its_log(
    tmp_path: Path, chimera: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(block("Reader", "python"), encoding="utf-8")
    posts = {"channel": "help", "posts": [{"by": "ann", "said": "Once more."}] * 6}
    Path("posts.jsonl").write_text(json.dumps(posts), encoding="utf-8")
    ran = chimera(*block("Reader", "sh").split()[1:], "--json")
    assert (ran.code, ran.rows[0]["id"], ran.rows[0]["collapsed"]) == (0, "help", [5, 6])


def test_table_lists_every_section() -> None:
    listed = re.findall(r"^\| \[(.+?)\]", PAGE, re.MULTILINE)
    assert [title.lower() for title in SECTIONS] == listed
