"""A destination inside the process, with the sink that hands parcels to it."""

import asyncio
from collections.abc import Sequence

from application.sinks import Parcel, Receipt, Trouble
from domain.subscription import Subscription
from tests.sinks.kit.bench import RETRY_AFTER_S, Arrival, Fault

RECEIPTS = {
    Fault.UNAVAILABLE: Receipt(Trouble.ENDPOINT, "not well", 503),
    Fault.REFUSES: Receipt(Trouble.MESSAGE, "not this one", 400),
    Fault.GONE: Receipt(Trouble.GONE, "no more", 410),
    Fault.LATER: Receipt(Trouble.ENDPOINT, "later", 503, RETRY_AFTER_S),
    Fault.SILENT: Receipt(Trouble.ENDPOINT, "no answer"),
}


class RecordingBench:
    """Keeps what it is handed."""

    kind = "in_process"
    target = ""
    faults = frozenset(Fault)
    tells_gaps = True

    def __init__(self) -> None:
        self.arrived: list[Arrival] = []
        self._orders: list[list[object]] = []
        self._is_open = asyncio.Event()
        self._is_open.set()

    async def start(self) -> None:
        """It is there."""

    def sink(self, subscription: Subscription) -> "RecordingSink":
        return RecordingSink(self)

    async def received(self) -> Sequence[Arrival]:
        return tuple(self.arrived)

    async def fail_next(self, fault: Fault, times: int = 1, room: str = "") -> None:
        self._orders.append([fault, times, room])

    async def hold(self) -> None:
        self._is_open.clear()

    async def let_go(self) -> None:
        self._is_open.set()

    async def restart(self) -> None:
        """Nothing lies between the sink and it."""

    async def close(self) -> None:
        self._is_open.set()

    def _order(self, room: str) -> Fault | None:
        for order in self._orders:
            fault, times, wanted = order
            if wanted in ("", room):
                order[1] = int(str(times)) - 1
                if not order[1]:
                    self._orders.remove(order)
                return Fault(str(fault))
        return None

    async def take(self, parcel: Parcel) -> Receipt:
        fault = self._order(parcel.committed.room)
        if fault in (None, Fault.SILENT):
            self.arrived.append(
                Arrival(
                    parcel.committed.transaction_id,
                    parcel.committed.room,
                    parcel.committed.delta,
                    parcel.gap,
                    parcel.redelivery,
                )
            )
        await self._is_open.wait()
        return RECEIPTS[fault] if fault else Receipt()


class RecordingSink:
    """Leads to a recording bench."""

    def __init__(self, bench: RecordingBench) -> None:
        self._bench = bench

    async def send(self, parcel: Parcel) -> Receipt:
        return await self._bench.take(parcel)

    async def close(self) -> None:
        """Nothing to let go."""
