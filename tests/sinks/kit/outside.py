"""The kit's benches of the sinks that lead outside: a webhook, JetStream, a file."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from application import signing
from application.sinks import Parcel, Receipt, Sink
from domain.delta import CommitDelta
from domain.subscription import Subscription
from infrastructure.addresses import AddressPolicy
from infrastructure.sinks.nats_messages import token
from infrastructure.sinks.targets import FILE, JETSTREAM, WEBHOOK, Surroundings, open_sink
from infrastructure.store.memory import MemoryDatabase
from infrastructure.store.secrets import StoredSecrets
from tests.nats import OwnServer, own_server, stream_at
from tests.sinks.kit.bench import RETRY_AFTER_S, Arrival, Fault
from tests.sinks.nats_proxy import NatsProxy
from tests.sinks.receiving import Posted, Receiving
from tests.store.place import Clock

ANSWERS: Final[Mapping[Fault, dict[str, Any]]] = {
    Fault.UNAVAILABLE: {"status": 503},
    Fault.REFUSES: {"status": 400},
    Fault.GONE: {"status": 410},
    Fault.LATER: {"status": 429, "headers": {"retry-after": str(RETRY_AFTER_S)}},
    Fault.SILENT: {"what": "cut"},
}
REFUSALS: Final = {
    Fault.UNAVAILABLE: {"code": 503, "err_code": 10_023, "description": "insufficient resources"},
    Fault.REFUSES: {"code": 400, "err_code": 10_054, "description": "message size exceeds maximum allowed"},
}


def opened(subscription: Subscription, secrets: StoredSecrets | None = None) -> Sink:
    """The sink of a subscription, as the service makes it."""
    around = Surroundings(
        Clock(), secrets or StoredSecrets(MemoryDatabase()), AddressPolicy(allows_loopback=True)
    )
    return open_sink(subscription.kind, subscription.target, "bench", around)


class WebhookBench:
    """A receiver in a process of its own."""

    kind = WEBHOOK
    target = ""
    faults = frozenset(Fault)
    tells_gaps = True

    def __init__(self) -> None:
        self._secrets = StoredSecrets(MemoryDatabase())
        self._before: list[Arrival] = []

    async def start(self) -> None:
        signing.create(self._secrets, "bench", bytes(signing.SECRET_BYTES))
        self._receiving = await asyncio.to_thread(Receiving)
        self.target = self._receiving.url

    def sink(self, subscription: Subscription) -> Sink:
        return opened(subscription, self._secrets)

    async def received(self) -> Sequence[Arrival]:
        posted = await asyncio.to_thread(self._receiving.posted)
        return (*self._before, *(_posted(one) for one in posted if one.answer in (0, 204)))

    async def fail_next(self, fault: Fault, times: int = 1, room: str = "") -> None:
        answer = ANSWERS[fault] | ({"room": room} if room else {})
        await asyncio.to_thread(self._receiving.answer, *[answer] * times)

    async def hold(self) -> None:
        await asyncio.to_thread(self._receiving.hold)

    async def let_go(self) -> None:
        await asyncio.to_thread(self._receiving.let_go)

    async def restart(self) -> None:
        self._before = list(await self.received())
        await asyncio.to_thread(self._receiving.kill)
        await asyncio.to_thread(self._receiving.start)

    async def close(self) -> None:
        await asyncio.to_thread(self._receiving.kill)


def _posted(posted: Posted) -> Arrival:
    event = json.loads(posted.body)
    delta = CommitDelta.from_json(json.dumps(event["data"]))
    return Arrival(posted.headers["webhook-id"], event["partitionkey"], delta, event.get("gap", 0))


class JetStreamBench:
    """A server of its own, behind a proxy that can fail in its stead."""

    kind = JETSTREAM
    target = ""
    faults = frozenset((*REFUSALS, Fault.SILENT))
    tells_gaps = True
    prefix = "commits"

    def __init__(self) -> None:
        self._orders: list[tuple[Fault, str]] = []
        self._running = own_server()
        self._proxy = NatsProxy(self._refusal)

    async def start(self) -> None:
        self._server: OwnServer = await asyncio.to_thread(self._running.__enter__)
        self._proxy.server_port = self._server.port
        await self._proxy.start()
        self.target = f"nats://127.0.0.1:{self._proxy.port}/{self.prefix}"
        async with stream_at(self._server.url, self.prefix) as stream:
            await stream.make()

    def sink(self, subscription: Subscription) -> Sink:
        return opened(subscription)

    async def received(self) -> Sequence[Arrival]:
        async with stream_at(self._server.url, self.prefix) as stream:
            stored = await stream.stored()
        found = [(one.headers or {}, one.data.decode()) for one in stored]
        return tuple(_stored(headers, data) for headers, data in found if headers["ce-part"] == "1")

    async def fail_next(self, fault: Fault, times: int = 1, room: str = "") -> None:
        self._orders += [(fault, room)] * times

    def _refusal(self, subject: str) -> dict[str, object] | None:
        for order in self._orders:
            fault, room = order
            if not room or subject.split(".")[1] == token(room):
                self._orders.remove(order)
                return {"error": REFUSALS[fault]} if fault in REFUSALS else {}
        return None

    async def hold(self) -> None:
        self._proxy.hold()

    async def let_go(self) -> None:
        self._proxy.let_go()

    async def restart(self) -> None:
        await asyncio.to_thread(self._server.kill)
        await asyncio.to_thread(self._server.start)

    async def close(self) -> None:
        await self._proxy.close()
        await asyncio.to_thread(self._running.__exit__, None, None, None)


def _stored(headers: Mapping[str, str], data: str) -> Arrival:
    return Arrival(
        headers["ce-id"].removesuffix(":1"),
        unquote(headers["ce-partitionkey"]),
        CommitDelta.from_json(data),
        int(headers.get("ce-gap", 0)),
        int(headers["Once-Msg-Id"].rpartition(":1")[2].removeprefix(".r") or 0),
    )


@dataclass
class HeldSink:
    """A sink whose receipts may be held back."""

    sink: Sink
    is_open: asyncio.Event

    async def send(self, parcel: Parcel) -> Receipt:
        receipt = await self.sink.send(parcel)
        await self.is_open.wait()
        return receipt

    async def close(self) -> None:
        await self.sink.close()


class FileBench:
    """A file; it goes away when it is rotated."""

    kind = FILE
    faults: frozenset[Fault] = frozenset()
    tells_gaps = True

    def __init__(self, folder: Path) -> None:
        self._path = folder / "deltas.jsonl"
        self.target = f"file://{self._path}"
        self._rotated: list[Path] = []
        self._is_open = asyncio.Event()
        self._is_open.set()

    async def start(self) -> None:
        self._path.touch()

    def sink(self, subscription: Subscription) -> Sink:
        return HeldSink(opened(subscription), self._is_open)

    async def received(self) -> Sequence[Arrival]:
        return tuple(
            _written(json.loads(line))
            for path in (*self._rotated, self._path)
            if path.exists()
            for line in path.read_bytes().splitlines(keepends=True)
            if line.endswith(b"\n")
        )

    async def fail_next(self, fault: Fault, times: int = 1, room: str = "") -> None:
        raise NotImplementedError("a file does as it is told")

    async def hold(self) -> None:
        self._is_open.clear()

    async def let_go(self) -> None:
        self._is_open.set()

    async def restart(self) -> None:
        self._rotated.append(self._path.rename(self._path.with_suffix(f".{len(self._rotated)}")))

    async def close(self) -> None:
        """It stays for whoever looks at the folder."""


def _written(line: dict[str, Any]) -> Arrival:
    delta = CommitDelta.from_json(json.dumps(line["delta"]))
    return Arrival(line["transactionId"], delta.workspace_id, delta, line.get("gap", 0))
