"""Servers for tests of whole commands: a real one with SmolLM2, and a proxy that breaks things."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from chimeralab import weights
from tests.e2e.servers.fault_proxy import FaultProxy
from tests.e2e.servers.smollm_server import smollm_server

KEY = "sk-planted-0123456789-do-not-print"


@pytest.fixture(scope="session")
def smollm_url() -> Iterator[str]:
    """The `/v1` address of SmolLM2 on a llama.cpp server. It asks for the key `KEY`."""
    pytest.importorskip("xllamacpp", reason="the test server comes with xllamacpp")
    (file,) = weights.MODELS["smollm2"].files
    with smollm_server(weights.ensure("smollm2") / file.name, key=KEY) as url:
        yield url


@pytest.fixture
def smollm_key(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the environment variable that holds the server's key."""
    monkeypatch.setenv("SMOLLM_TEST_KEY", KEY)
    return "SMOLLM_TEST_KEY"


@pytest.fixture
def fault_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., FaultProxy]]:
    """Starts proxies: `fault_proxy(url, ["busy", "drop", "pass"])`."""
    # Between two tries the SDK waits for half a second, then for one, two and four.
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    with ExitStack() as running:
        yield lambda *args: running.enter_context(FaultProxy(*args))
