"""The pytest plugin, which every run of pytest loads: so it loads nothing itself."""

import pytest

from chimeralab import testing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="session")
def assert_no_loop() -> "Callable[..., None]":
    """Fails unless a conversation was held and does not loop: `assert_no_loop(messages)`."""
    return testing.assert_no_loop
