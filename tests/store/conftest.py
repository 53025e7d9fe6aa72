"""The places over which every behaviour is shown."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.place import Place, in_file, in_memory


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Each kind of store in turn."""
    place = in_memory() if request.param == "memory" else in_file(tmp_path / "store.db")
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
