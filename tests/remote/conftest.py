"""One running remote for all tests that need no process of their own; each has a room to itself."""

import itertools
from collections.abc import Iterator

import pytest

from domain.ids import RoomId
from tests.remote.running import RunningRemote, running_remote

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def shared_remote() -> Iterator[RunningRemote]:
    with running_remote() as remote:
        yield remote


@pytest.fixture
def room() -> RoomId:
    """The name of a room that no other test knows."""
    return RoomId(f"room-{next(_NUMBERS)}")
