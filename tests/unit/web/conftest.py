"""Fixtures: the app in this process, without a network."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from chimeralab.web.app import Site, application
from chimeralab.web.safety import AllowedHosts, SecurityMiddleware, owner_auth

TOKEN = "the-token-of-these-tests"
PORT = 8472
OWN = f"http://127.0.0.1:{PORT}"
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """The examples, read and judged."""
    site = Site([str(EXAMPLES)])
    site.start()
    assert site.scanner is not None
    site.scanner.wait()
    yield site
    site.close()


@pytest.fixture(scope="session")
def safety(site: Site) -> SecurityMiddleware:
    return SecurityMiddleware(
        application(site), AllowedHosts("127.0.0.1", PORT), [owner_auth(TOKEN)]
    )


@pytest.fixture
def stranger(safety: SecurityMiddleware) -> TestClient:
    """A client without a token."""
    return TestClient(safety, base_url=OWN, raise_server_exceptions=False, follow_redirects=False)


@pytest.fixture
def owner(safety: SecurityMiddleware) -> TestClient:
    """A client that has opened the start-up link."""
    client = TestClient(safety, base_url=OWN, raise_server_exceptions=False)
    client.get(f"/?token={TOKEN}")
    return client
