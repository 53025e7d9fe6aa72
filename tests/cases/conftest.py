"""A case begins with an empty store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.domain.story import Story, told
from tests.postgres import postgres_url


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def story(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Story]:
    """Told to each kind of store in turn."""
    match request.param:
        case "memory":
            with told() as story:
                yield story
        case "sqlite":
            with told(f"sqlite:///{tmp_path / 'story.db'}") as story:
                yield story
        case _:
            with postgres_url() as url, told(url) as story:
                yield story
