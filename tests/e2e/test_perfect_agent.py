"""A perfect subject is always right, also behind a server; a guessing one is at chance."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from chimeralab.study import Study
from chimeralab.trial.store import load_trials
from tests.agents import serving
from tests.plans import TRIAL, Files, changed

FREE = [
    {
        "facts": [
            {"subject": "Ada", "relation": "lives in", "value": "Rome"},
            {"subject": "The bridge", "relation": "was built in", "value": "1932"},
            {"subject": "Bo", "relation": "repairs", "value": "the old clock"},
        ],
        "questions": [
            {"prompt": "Where does Ada live?", "truth": "Rome", "needs": ["f1"]},
            {"prompt": "When was the bridge built?", "truth": 1932, "needs": ["f2"]},
            {"prompt": "What does Bo repair?", "truth": "the old clock", "needs": ["f3"]},
            {"prompt": "Is Rome where Ada lives?", "truth": "yes", "needs": ["f1"]},
            {"prompt": "How tall is it?", "truth": {"number": 3.5, "tolerance": 0.5}},
            {"prompt": "Who wrote it?", "truth": ["Mark Twain", "Samuel Clemens"]},
        ],
    }
]
DATA = Path(__file__).parents[2].parent / "shared" / "data"
PUBLIC = {
    "benchform": DATA / "benchform",
    "mt-consistency": DATA / "mt-consistency" / "cleaned_data.csv",
    "sycon": DATA / "sycon-false-presuppositions",
}
SETS = ["ledger", "beliefs", "consensus", "framing", *PUBLIC, "free"]
ASKED = re.compile(r"Question: (.+?)\n(?:Options: (.+)\n)?Reply", re.DOTALL)


def perfect(url: str, name: str, number: int) -> Files:
    use, more = name, ""
    if name == "free":
        use, more = "jsonl", 'path = "free.jsonl"'
    elif name in PUBLIC:
        if not PUBLIC[name].exists():
            pytest.skip(f"the public set {name} is not next to the repository")
        more = f'path = "{PUBLIC[name].resolve()}"'
        more += "\nquestions = 6" if name != "sycon" else ""
    tables = f"""
[models.p]
[agents.a]
use = "http"
url = "{url}"
can = ["fork", "forget"]
[trial]
subjects = ["a"]
[scenarios]
use = "{use}"
number = {number}
{more}
[layout]
lag = 1
[sampling]
[run]
"""
    lines = "".join(json.dumps({**FREE[0], "id": f"free-{n}"}) + "\n" for n in range(number))
    return changed(TRIAL | {"free.jsonl": lines}, tables)


class Knowing:
    """Answers every question with its truth, as a sentence where it is free."""

    def __init__(self) -> None:
        self.truths: dict[str, str] = {}

    def learn(self, study: Study) -> None:
        assert study.plan.own is not None
        for course in study.plan.own.courses:
            for step in course.steps:
                for question in filter(None, (step.question, step.recall)):
                    self.truths[question.prompt] = str(question.truth)

    def __call__(self, asked: dict[str, Any]) -> tuple[int, Any]:
        message = asked.get("message", "")
        if "Question: " not in message:
            return 200, {"answer": "1.0"}
        # A question may have several lines, and options of its own within.
        last = message.rpartition("Question: ")[2]
        truth = next(self.truths[p] for p in self.truths if last.startswith(f"{p}\n"))
        closed = "\nOptions: " in last or truth in ("yes", "no")
        return 200, {"answer": truth if closed else f"The answer is {truth}."}


def guess(asked: dict[str, Any]) -> tuple[int, Any]:
    message = asked.get("message", "")
    found = ASKED.findall(message)
    place = int(hashlib.sha256((asked["session"] + message).encode()).hexdigest()[:8], 16)
    options = found[-1][1].split(", ") if found and found[-1][1] else ["blue", "Oslo", "42"]
    return 200, {"answer": options[place % len(options)] if found else "0.5"}


@pytest.mark.parametrize("name", SETS)
def test_perfect_subject_behind_a_server_is_right_in_everything(make_study, chimera, name):
    knowing = Knowing()
    with serving(knowing) as url:
        study = make_study(perfect(url, name, 1))
        knowing.learn(study)
        assert chimera("run", study.path).code == 0
    rows = list(load_trials(study))
    assert [row.item for row in rows if not row.correct] == []
    assert [row.item for row in rows if row.recall_truth and not row.recall_correct] == []


@pytest.mark.parametrize("name", ["consensus", "free"])
def test_guessing_subject_is_at_chance(make_study, chimera, name):
    with serving(guess) as url:
        study = make_study(perfect(url, name, 4))
        assert chimera("run", study.path).code == 0
    rows = list(load_trials(study))
    right = sum(bool(row.correct) for row in rows)
    chances = [1 / row.options if row.options else 0.0 for row in rows]
    if name == "free":
        assert right / len(rows) <= 0.05
    else:
        spread = sum(each * (1 - each) for each in chances) ** 0.5
        assert abs(right - sum(chances)) < 4 * spread
