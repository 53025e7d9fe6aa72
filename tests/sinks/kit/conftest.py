"""The kit over every sink and both databases."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from infrastructure import crashpoints
from tests.sinks.kit.benches import BENCHES
from tests.sinks.kit.house import House
from tests.store.place import Place, at


@pytest.fixture(params=BENCHES)
def sink(request: pytest.FixtureRequest) -> str:
    """The name of each sink in turn."""
    return str(request.param)


@pytest.fixture
def kit(sink: str, url: str, tmp_path: Path) -> "Kit":
    """What opens a house."""
    return Kit(sink, at(url), tmp_path)


class Kit:
    """Opens a house with the sink and the database whose turn it is."""

    def __init__(self, sink: str, place: Place, folder: Path) -> None:
        self.sink = sink
        self._place = place
        self._folder = folder

    @asynccontextmanager
    async def house(self) -> AsyncIterator[House]:
        bench = BENCHES[self.sink](self._folder)
        await bench.start()
        house = House(self._place, bench, self._place.ledger())
        try:
            yield house
        finally:
            crashpoints.disarm()
            await house.close()
            self._place.close()
