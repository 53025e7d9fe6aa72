"""How many deltas destinations take in a second, with rooms side by side, and how long one takes alone."""

import asyncio
import time
from pathlib import Path

from application import signing
from application.sinks import Sink
from infrastructure.addresses import AddressPolicy
from infrastructure.http_client import HttpClient
from infrastructure.main import SystemClock
from infrastructure.sinks.file import FileSink
from infrastructure.sinks.jetstream import JetStreamSink
from infrastructure.sinks.webhook import LIMITS, WebhookSink
from infrastructure.store.memory import MemoryDatabase
from infrastructure.store.secrets import StoredSecrets
from tests.benchmarks.figures import Figure, Table
from tests.nats import SERVER, connect, own_stream
from tests.sinks.parcels import parcel
from tests.sinks.receiving import receiver

DELTAS = 4_000
ALONE = 200
ROOMS = 16


def run(table: Table, folder: Path) -> None:
    _show(table, "signed webhook", 800, asyncio.run(_webhook()))
    try:
        asyncio.run(_is_there())
    except Exception:
        table.add(Figure("JetStream", "no server here"))
    else:
        _show(table, "JetStream, stored on the disk", 1_500, asyncio.run(_jetstream()))
    _show(
        table, "file of JSON lines, flushed", None, asyncio.run(_measure(FileSink(folder / "deltas.jsonl")))
    )


def _show(table: Table, what: str, bar: int | None, measured: tuple[float, float]) -> None:
    rate, alone_ms = measured
    table.add(
        Figure(
            f"{what}, {ROOMS} rooms side by side",
            f"{rate:,.0f}/s",
            f">= {bar:,}/s" if bar else "",
            rate >= bar if bar else None,
            f"one alone {alone_ms:.1f} ms",
        )
    )


async def _measure(sink: Sink) -> tuple[float, float]:
    """Deltas in a second with rooms side by side, and the middle time of one alone in milliseconds."""
    try:
        await _send(sink, 0, "warm")
        times = []
        for number in range(ALONE):
            start = time.perf_counter()
            await _send(sink, number + 1, "alone")
            times.append(time.perf_counter() - start)
        numbers = iter(range(ALONE + 1, ALONE + 1 + DELTAS))

        async def serve(room: str) -> None:
            for number in numbers:
                await _send(sink, number, room)

        start = time.perf_counter()
        await asyncio.gather(*(serve(f"room-{number}") for number in range(ROOMS)))
        return DELTAS / (time.perf_counter() - start), sorted(times)[ALONE // 2] * 1e3
    finally:
        await sink.close()


async def _send(sink: Sink, number: int, room: str) -> None:
    receipt = await sink.send(parcel(number, room))
    assert receipt.trouble is None, receipt


async def _webhook() -> tuple[float, float]:
    secrets = StoredSecrets(MemoryDatabase())
    signing.create(secrets, "bench", bytes(signing.SECRET_BYTES))
    with receiver() as receiving:
        await asyncio.to_thread(receiving.count)
        client = HttpClient(AddressPolicy(allows_loopback=True), LIMITS)
        return await _measure(WebhookSink(receiving.url, client, secrets, "bench", SystemClock()))


async def _jetstream() -> tuple[float, float]:
    async with own_stream(SERVER) as stream:
        return await _measure(JetStreamSink(SERVER, stream.prefix))


async def _is_there() -> None:
    client = await connect()
    await client.jetstream().account_info()
    await client.close()
