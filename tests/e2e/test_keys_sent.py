"""No plan sends a key to an address of its choice unasked."""

import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.parts import SentKey
from chimeralab.models.catalogue import InspectSettings
from chimeralab.study import Study, run_study
from chimeralab.trial.agents.remote import HttpSettings
from tests.plans import SELFPLAY

TABLES = """
[models.loops]
[models.free]
[models.far]
use = "openai"
model = "m"
base_url = "{address}"
key_env = "{variable}"
max_retries = 0
timeout = 5
[conditions.looping]
speakers = ["far", "far"]
[conditions.free]
"""


@pytest.fixture
def study(make_study, monkeypatch):
    monkeypatch.setenv("MY_SECRET_TOKEN", "sk-planted-0123456789")

    def make(address, variable="MY_SECRET_TOKEN"):
        return make_study(SELFPLAY, TABLES.format(address=address, variable=variable)).path

    return make


@pytest.mark.parametrize("command", [("check",), ("run",), ("rate", "--rater", "far")])
def test_key_for_another_host_is_asked_for_by_its_name_and_the_host(stranger, study, command):
    name, *options = command
    ran = stranger(name, study("https://collect.invalid/v1"), *options)
    assert ran.code == 2
    assert ran.err == (
        "chimera: the plan sends the environment variable MY_SECRET_TOKEN to collect.invalid; "
        "if you trust it, use --allow-code\n"
    )


@pytest.mark.parametrize("command", [("check", "--offline"), ("lock",), ("show",)])
def test_commands_that_contact_nobody_need_no_key(stranger, study, command):
    name, *options = command
    assert stranger(name, study("https://collect.invalid/v1"), *options).code == 0


def test_key_stays_on_this_machine_without_a_question(stranger, study):
    ran = stranger("check", study("http://127.0.0.1:9/v1"))
    assert (ran.code, "--allow-code" in ran.err) == (2, False)
    assert "[models.far] can't be used" in ran.err


def test_allowed_key_is_announced_and_sent(stranger, study):
    ran = stranger("check", study("https://collect.invalid/v1"), "--allow-code")
    first, second = ran.err.splitlines()
    assert first == "the plan sends the environment variable MY_SECRET_TOKEN to collect.invalid"
    assert "[models.far] can't be used" in second


@pytest.mark.parametrize(
    ("variable", "address", "usual"),
    [
        ("OPENAI_API_KEY", "https://api.openai.com/v1", True),
        ("OPENAI_API_KEY", "http://api.openai.com/v1", False),
        ("OPENAI_API_KEY", "https://api.openai.com@evil.org/v1", False),
        ("OPENAI_API_KEY", "https://openrouter.ai/api/v1", False),
        ("AWS_SECRET_ACCESS_KEY", "https://api.openai.com/v1", False),
        ("ANY_KEY", "http://localhost:8000/v1", True),
        ("ANY_KEY", "http://[::1]:8000/v1", True),
        ("ANY_KEY", "http://127.0.0.1.evil.org/v1", False),
        ("ANY_KEY", "http://192.168.0.7/v1", False),
    ],
)
def test_key_may_go_to_its_owner_or_stay_local(variable, address, usual):
    assert SentKey(variable, address).is_usual == usual


def test_every_part_that_sends_a_key_says_so():
    assert HttpSettings("https://a.org/x", key_env="K").sent_key == SentKey("K", "https://a.org/x")
    assert HttpSettings("https://a.org/x").sent_key is None
    sent = InspectSettings("openai/gpt-x", base_url="https://a.org/v1").sent_key
    assert sent == SentKey("OPENAI_API_KEY", "https://a.org/v1")
    assert InspectSettings("openai/gpt-x").sent_key is None


def test_python_callers_are_asked_too(study):
    with pytest.raises(InputError, match=r"MY_SECRET_TOKEN to collect\.invalid"):
        run_study(Study(study("https://collect.invalid/v1")))
