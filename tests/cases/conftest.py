"""A case begins with an empty store."""

from collections.abc import Iterator

import pytest

from tests.domain.story import Story, told


@pytest.fixture
def story() -> Iterator[Story]:
    with told() as story:
        yield story
