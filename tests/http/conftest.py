"""What tests of the service share."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Coroutines run on asyncio, as the service does."""
    return "asyncio"
