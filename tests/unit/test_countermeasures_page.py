"""The page about countermeasures says what the trial came out with, and nothing else."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.studies import RUN

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "studies" / "countermeasures"
PAGE = ROOT / "docs" / "countermeasures.md"
# A number with decimals, and its sign if it has one.
DECIMAL = re.compile(r"(?<![\w.,])[+−]?\d+\.\d+(?![\w.])")
# What the page cites from elsewhere: the model's name and size, what came out of an earlier run,
# and what `check` predicted.
FORECAST = {"0.17", "0.09", "0.19", "0.22"}
CITED = {"1.5", "1.1", "−0.194", "−0.069", "+0.444", "+0.217"} | FORECAST


@pytest.fixture(scope="module")
def page() -> str:
    return " ".join(PAGE.read_text(encoding="utf-8").split())


@pytest.fixture(scope="module")
def result() -> dict:
    found: dict = json.loads((STUDY / "numbers.json").read_text(encoding="utf-8"))
    return found


def test_every_number_of_the_page_is_one_of_the_trial(page, result):
    known = {each["text"].removeprefix("< ") for each in result["numbers"].values()}
    assert {*DECIMAL.findall(page)} - known <= CITED


def test_every_kept_number_is_on_the_page(page, result):
    texts = {name: each["text"] for name, each in result["numbers"].items()}
    assert not {name: text for name, text in texts.items() if text not in page}


def test_rows_of_the_tables_have_the_numbers_of_their_arms(page, result):
    numbers = {name: each["text"] for name, each in result["numbers"].items()}

    def shown(name: str) -> str:
        low, high = numbers[f"{name}Low"], numbers[f"{name}High"]
        return numbers[name] if low == "–" else f"{numbers[name]} ({low} to {high})"

    arms = re.findall(r"mciRfQwen(\w+?)(?=\b)", " ".join(n for n in numbers if "Low" not in n))
    arms = [arm for arm in arms if not arm.endswith("High") and "Minus" not in arm]
    assert len(arms) == 8
    for arm in arms:
        title = " ".join(word.lower() for word in re.findall("[A-Z][a-z]+", arm))
        cells = [title, shown(f"mciRfQwen{arm}"), numbers[f"mciQwen{arm}"], shown(f"dfsQwen{arm}")]
        cells += [numbers[f"recallQwen{arm}"], numbers[f"conformityRateQwen{arm}"]]
        assert f"| {' | '.join(cells)} |" in page


@pytest.mark.parametrize(
    ("difference", "measure", "name"),
    [
        ("amnesia − sham", "recall fidelity", "MciRfQwenAmnesiaMinusSham"),
        ("amnesia − sham", "MCI", "MciQwenAmnesiaMinusSham"),
        (
            "amnesia with ledger − amnesia",
            "recall fidelity",
            "MciRfQwenAmnesiaWithLedgerMinusAmnesia",
        ),
        ("amnesia with ledger − amnesia", "MCI", "MciQwenAmnesiaWithLedgerMinusAmnesia"),
        ("conformity − sham", "DFS", "DfsQwenConformityMinusSham"),
        (
            "conformity with commit − conformity",
            "DFS",
            "DfsQwenConformityWithCommitMinusConformity",
        ),
    ],
)
def test_declared_outcomes_have_their_estimate_and_interval(
    page, result, difference, measure, name
):
    texts = {key: each["text"] for key, each in result["numbers"].items()}
    low, high = texts[f"effect{name}Low"], texts[f"effect{name}High"]
    bounds = "–" if low == "–" else f"{low} to {high}"
    cells = (difference, measure, texts[f"effect{name}"], bounds, texts[f"holmP{name}"])
    assert f"| {' | '.join(cells)} |" in page


def test_kept_answers_give_the_numbers_of_their_arms(result, chimera):
    numbers = {name: each["value"] for name, each in result["numbers"].items()}
    found = chimera("measure", STUDY / "trials.csv", "--by", "arm", "--json").json
    assert len(found["groups"]) == 8
    for name, group in found["groups"].items():
        arm = "Qwen" + "".join(map(str.title, name.split("-")))
        assert group["mci"]["rf"] == pytest.approx(numbers[f"mciRf{arm}"], abs=1e-9)
        assert group["dfs"]["value"] == pytest.approx(numbers[f"dfs{arm}"], abs=1e-9)


def test_lock_was_committed_with_the_plan(result):
    lock = json.loads((STUDY / "plan.lock").read_text(encoding="utf-8"))
    assert (lock["sha256"], lock["locked_at"]) == (result["lock"], result["locked_at"])


def test_checks_are_quoted_with_their_verdicts(page, result):
    for each in result["checks"]:
        verdict = "yes" if each["passed"] else "**no**"
        assert f"| {each['check']} | {each['arm']} | {verdict} | {each['message']} |" in page


def test_plan_is_the_one_that_was_locked(page, result):
    plan = (STUDY / "plan.toml").read_bytes()
    assert hashlib.sha256(plan).hexdigest() == result["plan_sha256"]
    for name in ("lock", "locked_at", "root"):
        assert result[name] in page
    [revision] = re.findall(r'revision = "sha256:(\w+)"', plan.decode())
    assert revision in page


@pytest.fixture(scope="module")
def plan() -> str:
    """The plan, with a scripted subject instead of the model."""
    text = (STUDY / "plan.toml").read_text(encoding="utf-8")
    return re.sub(r"(?s)\[models\.qwen\]\n.*?\n\n", '[models.qwen]\nuse = "subject"\n\n', text)


def test_plan_makes_the_design_that_the_page_describes(plan, page, make_study, chimera):
    study = make_study({"plan.toml": plan}, steps=RUN)
    forecast = chimera("check", study.path, "--offline", "--json").json
    assert f"{forecast['calls']:,} requests" in page
    assert f"{forecast['conversations']} sessions" in page
    [subject] = chimera("analyse", study.path, "--json").json["subjects"]
    found = {(each["name"], each["arm"]): each["message"] for each in subject["checks"]}
    # What the stressors do is drawn by the plan, whoever answers.
    for check, arm in (("memory disturbed", "amnesia"), ("signal given", "conformity")):
        message = found[check, arm].replace("\N{NO-BREAK SPACE}", " ")
        assert f"| {check} | {arm} | yes | {message} |" in page
    for arm in ("conformity", "conformity-with-commit"):
        asked = found["majority noticed", arm].partition(" of ")[2]
        assert f"noticed in 4 of {asked} |".replace("\N{NO-BREAK SPACE}", " ") in page
    assert found["memory gone", "amnesia"].partition(" of ")[2].partition(";")[0] in page
    predicted = {f"{each['difference']:.2f}" for each in forecast["detectable"]}
    assert predicted == FORECAST
