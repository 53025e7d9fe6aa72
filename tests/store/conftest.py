"""The places over which every behaviour is shown."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.postgres import postgres_url
from tests.store.place import Place, at, in_file, in_memory


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Each kind of store in turn."""
    with ExitStack() as stack:
        match request.param:
            case "memory":
                place = in_memory()
            case "sqlite":
                place = in_file(tmp_path / "store.db")
            case _:
                place = at(stack.enter_context(postgres_url()))
        stack.callback(place.close)
        yield place


@pytest.fixture
def shared(url: str) -> Iterator[Place]:
    """A store that processes can share."""
    place = at(url)
    yield place
    place.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a test's SQLite file stands, or will."""
    return tmp_path / "store.db"


@pytest.fixture
def file(path: Path) -> Iterator[Place]:
    """A store in an SQLite file."""
    place = in_file(path)
    yield place
    place.close()
