"""What all tests share: how hypothesis searches, and the stores that processes can share.

Hypothesis searches briefly and the same way each time, or for long with REPRISE_LONG=1.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.postgres import postgres_url

# What a health check warns of is the size of a history, which is meant.
_MEANT = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)

settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=50, suppress_health_check=_MEANT
)
settings.register_profile("long", deadline=None, max_examples=2_000, suppress_health_check=_MEANT)
settings.load_profile("long" if os.environ.get("REPRISE_LONG") == "1" else "ci")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of each kind of store that processes can share, in turn; nothing is there yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
    else:
        with postgres_url() as url:
            yield url
