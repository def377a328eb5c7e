"""`max_cost` against a server that bills a dollar for every answer and never gives a usable one.

However often a command is repeated, at most the requests in flight exceed the limit.
"""

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from chimeralab import pipeline
from chimeralab.core.errors import InputError
from chimeralab.study import RunOptions, Study
from chimeralab.study.store import Store
from tests.plans import RATED, SELFPLAY, TRIAL, Change
from tests.studies import write_study

LIMIT = 5
CONCURRENCY = 2
QUIETLY = RunOptions(watch=False)
FREE = "price = { input = 0, output = 0 }"


def served(name: str, url: str) -> str:
    """A model on a server, which costs a dollar per million tokens."""
    return f"""
[models.{name}]
use = "openai"
model = "served"
base_url = "{url}"
max_retries = 0
price = {{ input = 1.0, output = 1.0 }}
[run]
retry_wait = 0.0
concurrency = {CONCURRENCY}
max_cost = {LIMIT}.0
"""


def persist(step: Callable[[], Any], times: int = 12) -> list[str]:
    """Repeat a command again and again, and collect why it stopped."""
    reasons = []
    for _ in range(times):
        try:
            reasons.append(str(step().stopped))
        except InputError as error:
            reasons.append(str(error))
    return reasons


def charged(proxy: Any) -> int:
    return sum(fault.startswith("billed") for fault in proxy.seen)


def check_limit(proxy: Any, reasons: list[str]) -> None:
    assert LIMIT <= charged(proxy) <= LIMIT + CONCURRENCY
    assert f"max_cost = {LIMIT} is used up" in reasons[-1]


# Whether the first question is answered, billed and useless, or billed and unreadable.
FIRST = [["fine"], []]


@pytest.mark.parametrize("first", FIRST)
def test_runs_stay_within_the_limit(
    first: list[str], tmp_path: Path, fault_proxy: Callable[..., Any]
) -> None:
    proxy = fault_proxy("http://127.0.0.1:9/v1", [*first, *["billed_null"] * 500])
    tables = served("free", proxy.url) + '[conditions.looping]\nspeakers = ["free", "free"]\n'
    study = write_study(tmp_path / "study", SELFPLAY, tables, "[models.loops]\n")
    check_limit(proxy, persist(lambda: pipeline.run(study, QUIETLY)))


@pytest.mark.parametrize("first", FIRST)
def test_trials_stay_within_the_limit(
    first: list[str], tmp_path: Path, fault_proxy: Callable[..., Any]
) -> None:
    proxy = fault_proxy("http://127.0.0.1:9/v1", [*first, *["billed_null"] * 500])
    study = write_study(tmp_path / "study", TRIAL, served("p", proxy.url))
    check_limit(proxy, persist(lambda: pipeline.run(study, QUIETLY)))


def rated_study(folder: Path, url: str) -> Study:
    """A finished study whose judge is on a server."""
    free: list[Change] = [
        ('course = "verbatim"', f'course = "verbatim"\n{FREE}'),
        ('[models.free]\nuse = "phantom"', f'[models.free]\nuse = "phantom"\n{FREE}'),
    ]
    study = write_study(folder, RATED, *free, served("judge", url))
    # No conversation asks the judge anything, but a run asks every model its first question.
    assert pipeline.run(study, QUIETLY).complete
    return study


@pytest.mark.parametrize("fault", ["billed_null", "billed_words"])
@pytest.mark.parametrize("step", ["rate", "attack"])
def test_raters_stay_within_the_limit(
    step: str, fault: str, tmp_path: Path, fault_proxy: Callable[..., Any]
) -> None:
    """A rating takes up to three requests, and the limit is checked before each of them."""
    proxy = fault_proxy("http://127.0.0.1:9/v1", ["fine", "fine", *[fault] * 500])
    study = rated_study(tmp_path / "study", proxy.url)
    check_limit(proxy, persist(lambda: getattr(pipeline, step)(study, "judge")))


def test_first_questions_of_raters_count(tmp_path: Path, fault_proxy: Callable[..., Any]) -> None:
    """The judge answers nothing, not even hello: each command pays for one question."""
    proxy = fault_proxy("http://127.0.0.1:9/v1", ["billed_null"] * 500)
    study = rated_study(tmp_path / "study", proxy.url)
    reasons = persist(lambda: pipeline.rate(study, "judge"))
    check_limit(proxy, reasons)
    assert "can't be used" in reasons[0]


KILLED = """
import os, sys
from pathlib import Path
from chimeralab import pipeline
from chimeralab.models.openai import OpenAIModel
from chimeralab.study import RunOptions, Study

path, step = Path(sys.argv[1]), sys.argv[2]
reply = OpenAIModel.reply

async def paid_and_killed(model, request):
    if len(request.messages) > 1 or request.conversation:
        os._exit(9)
    return await reply(model, request)

OpenAIModel.reply = paid_and_killed
study = Study(path, allow_code=True)
if step == "run":
    pipeline.run(study, RunOptions(watch=False))
else:
    pipeline.rate(study, "judge")
"""


@pytest.mark.parametrize("step", ["run", "rate"])
def test_what_was_in_flight_when_a_command_was_killed_is_estimated(
    step: str, tmp_path: Path, fault_proxy: Callable[..., Any]
) -> None:
    proxy = fault_proxy("http://127.0.0.1:9/v1", ["fine"] * 500)
    if step == "run":
        tables = served("free", proxy.url) + '[conditions.looping]\nspeakers = ["free", "free"]\n'
        study = write_study(tmp_path / "study", SELFPLAY, tables, "[models.loops]\n")
    else:
        study = rated_study(tmp_path / "study", proxy.url)
    asked = len(proxy.seen)
    spent = [study_cost(study)]
    for _ in range(2):
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, study.path, step], check=False, capture_output=True
        )
        assert killed.returncode == 9, killed.stderr
        spent.append(study_cost(study))
    assert len(proxy.seen) == asked + 2
    # At least the tokens that the answer might have taken, each time.
    first, most = 5e-6, (400 if step == "rate" else 256) / 1e6
    assert spent[1] - spent[0] >= first + most
    assert spent[2] - spent[1] >= first + most


def study_cost(study: Study) -> float:
    with closing(Store(study.store_path)) as store:
        return store.total_cost()
