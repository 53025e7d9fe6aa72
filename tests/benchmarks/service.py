"""Reports over HTTP: the service on one core, 64 connections from the other, every report durable."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from tests.benchmarks.figures import Figure, Table
from tests.benchmarks.reports import TEXT

CONNECTIONS = 64
EACH = 60
"""Reports on each connection in one round."""
ROUNDS = 3
BULK_REPORTS, BULK_SESSIONS = 12_000, 8


def run(table: Table, folder: Path) -> None:
    rates: dict[bool, float] = {}
    for with_store in (True, False):
        with _service(f"sqlite:///{folder}/http.db", with_store=with_store) as (port, pid):
            begun = _cpu_s(pid)
            rates[with_store], p99 = asyncio.run(_load(port))
            cpu = (_cpu_s(pid) - begun) / (CONNECTIONS * (EACH * ROUNDS + 1)) * 1e6
            table.add(Figure(f"CPU a report {'with' if with_store else 'without'} a store", f"{cpu:.0f} µs"))
            _bulk(table, port, pid, with_store=with_store)
            if with_store:
                rate = rates[True]
                table.add(Figure("reports over HTTP", f"{rate:,.0f}/s", ">= 1,500/s", rate >= 1_500))
                table.add(Figure("99 of 100 answers within", f"{p99:.0f} ms", "<= 100 ms", p99 <= 100))
    share = rates[True] / rates[False]
    table.add(
        Figure(
            "share of the route without a store",
            f"{share:.2f}",
            ">= 0.40",
            share >= 0.4,
            f"{rates[False]:,.0f}/s without",
        )
    )


def _bulk(table: Table, port: int, pid: int, *, with_store: bool) -> None:
    begun = _cpu_s(pid)
    rate = _import(port)
    beside = f"{(_cpu_s(pid) - begun) / BULK_REPORTS * 1e6:.0f} µs of CPU a report"
    if with_store:
        table.add(Figure("bulk reports over HTTP", f"{rate:,.0f}/s", ">= 4,000/s", rate >= 4_000, beside))
    else:
        table.add(Figure("the same without a store", f"{rate:,.0f}/s", beside=beside))


@contextmanager
def _service(url: str, *, with_store: bool) -> Iterator[tuple[int, int]]:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.benchmarks.http_server", url),
            *(() if with_store else ("--without-store",)),
        ],
        stdout=subprocess.PIPE,
    )
    own = os.sched_getaffinity(0)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        os.sched_setaffinity(0, own - {min(own)} or own)
        yield port, process.pid
    finally:
        os.sched_setaffinity(0, own)
        process.terminate()
        process.communicate()


def _cpu_s(pid: int) -> float:
    """The CPU time that a process has had, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _load(port: int) -> tuple[float, float]:
    """Reports a second, and within how many ms 99 of 100 were answered; the middle one of the rounds."""
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS)]
    measured = []
    for caller, (reader, writer) in enumerate(connections):
        await _ask(reader, writer, _request(caller, "state", _turn()))
    for round_ in range(ROUNDS):
        waits: list[float] = []
        begun = time.perf_counter()
        await asyncio.gather(
            *(
                _report(reader, writer, caller, round_, waits)
                for caller, (reader, writer) in enumerate(connections)
            )
        )
        rate = CONNECTIONS * EACH / (time.perf_counter() - begun)
        measured.append((rate, sorted(waits)[len(waits) * 99 // 100] * 1e3))
    for _, writer in connections:
        writer.close()
    return sorted(measured)[ROUNDS // 2]


def _import(port: int) -> float:
    """Reports a second of one bulk import, as of a host that was offline: its sessions take turns."""
    turns = [_line(caller, _turn()) for caller in range(BULK_SESSIONS)]
    lines = [
        _line(number % BULK_SESSIONS, _message(f"bulk-{number}"))
        for number in range(BULK_REPORTS - BULK_SESSIONS)
    ]
    connection = HTTPConnection("127.0.0.1", port)
    begun = time.perf_counter()
    headers = {"Content-Type": "application/x-ndjson"}
    connection.request("POST", "/v1/imports", b"".join([*turns, *lines]), headers)
    answer = connection.getresponse().read()
    taken = time.perf_counter() - begun
    connection.close()
    assert answer.count(b'"status":200') == BULK_REPORTS, answer[:1_000]
    return BULK_REPORTS / taken


def _line(caller: int, body: bytes) -> bytes:
    named = f'{{"roomId":"bulk","agentSessionId":"ses-{caller}",'
    return named.encode() + body[1:] + b"\n"


async def _report(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, caller: int, round_: int, waits: list[float]
) -> None:
    for number in range(EACH):
        request = _request(caller, "messages", _message(f"msg-{round_}-{number}"))
        begun = time.perf_counter()
        await _ask(reader, writer, request)
        waits.append(time.perf_counter() - begun)


def _turn() -> bytes:
    return json.dumps({"state": {"turn": {"turnId": "turn-1", "phase": "running"}}}).encode()


def _message(name: str) -> bytes:
    update = {
        "messageId": name,
        "turnId": "turn-1",
        "role": "assistant",
        "kind": "text",
        "status": "completed",
        "payload": {"text": TEXT},
    }
    return json.dumps({"updates": [update]}).encode()


def _request(caller: int, what: str, body: bytes) -> bytes:
    head = (
        f"POST /v1/rooms/room-1/agents/sessions/ses-{caller}/{what} HTTP/1.1\r\n"
        "host: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    return await reader.readexactly(length)
