"""The pytest plugin. Every run of pytest loads it, so it imports next to nothing."""

import pytest

from chimeralab import testing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="session")
def assert_no_loop() -> "Callable[..., None]":
    """Fail if a conversation loops or is empty: `assert_no_loop(messages)`."""
    return testing.assert_no_loop
