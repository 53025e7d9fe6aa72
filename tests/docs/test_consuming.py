"""The examples of the consumer's guide run as they stand."""

import asyncio
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from application import signing
from application.sinks import Parcel, Receipt
from infrastructure.addresses import AddressPolicy
from infrastructure.main import SystemClock
from infrastructure.sinks.targets import Surroundings, open_sink
from infrastructure.store.memory import MemoryDatabase
from infrastructure.store.secrets import StoredSecrets
from tests.http.serving import Served, clean_environment, served
from tests.nats import nats_server, stream_at
from tests.sinks.parcels import parcel

CHECKOUT = Path(__file__).parents[2]
GUIDE = (CHECKOUT / "docs" / "consuming.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"^```(?:sh|python) (\S+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL))
END_TIMEOUT_S = 60.0
"""For a machine that is very busy."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    with served(f"sqlite:///{tmp_path}/store.db") as service:
        yield service


class Example:
    """An example that runs, and what it says."""

    def __init__(self, name: str, folder: Path, **environment: object) -> None:
        program = {".sh": "bash", ".py": sys.executable}[Path(name).suffix]
        (folder / name).write_text(EXAMPLES[name], "utf-8")
        self.process = subprocess.Popen(
            [program, name],
            cwd=folder,
            env={**clean_environment(), **{key: str(value) for key, value in environment.items()}},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def line(self) -> str:
        """The next line that it says."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def rest(self) -> list[str]:
        """All that it says from here on, once it has ended well."""
        out, _ = self.process.communicate(timeout=END_TIMEOUT_S)
        assert self.process.returncode == 0, out
        return out.splitlines()

    def kill(self) -> None:
        """End it, and what it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@contextmanager
def running(name: str, folder: Path, **environment: object) -> Iterator[Example]:
    example = Example(name, folder, **environment)
    try:
        yield example
    finally:
        example.kill()


def run(name: str, folder: Path, **environment: object) -> list[str]:
    with running(name, folder, **environment) as example:
        return example.rest()


def report(service: Served, folder: Path) -> None:
    """What a reader of the guide does first."""
    run("report.sh", folder, REPRISE_URL=service.url)
    run("report.py", folder, REPRISE_URL=service.url)


def send(kind: str, target: str, secrets: StoredSecrets, *parcels: Parcel) -> list[Receipt]:
    """Deliver as the service does."""

    async def run() -> list[Receipt]:
        policy = AddressPolicy(allows_loopback=True)
        sink = open_sink(kind, target, "example", Surroundings(SystemClock(), secrets, policy))
        receipts = [await sink.send(one) for one in parcels]
        await sink.close()
        return receipts

    return asyncio.run(run())


def test_reports_are_taken_over_curl_and_from_python(service: Served, tmp_path: Path) -> None:
    first = json.loads("\n".join(run("report.sh", tmp_path, REPRISE_URL=service.url)))
    again = json.loads("\n".join(run("report.sh", tmp_path, REPRISE_URL=service.url)))

    assert again == first
    assert run("report.py", tmp_path, REPRISE_URL=service.url) == ["message m-1 applied "]
    assert run("report.py", tmp_path, REPRISE_URL=service.url) == ["message m-1 ignored duplicate"]


def test_a_stream_is_followed_over_curl(service: Served, tmp_path: Path) -> None:
    report(service, tmp_path)

    with running("follow.sh", tmp_path, REPRISE_URL=service.url) as follower:
        while not (line := follower.line()).startswith("data: "):
            pass

    event = json.loads(line.removeprefix("data: "))
    assert event["data"]["workspaceId"] == "team"


def test_a_stream_is_followed_from_python_over_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with served(url, "--port", port) as service:
        run("report.sh", tmp_path, REPRISE_URL=service.url)
        follower = Example("follow.py", tmp_path, REPRISE_URL=service.url, COMMITS=2)
        assert follower.line() == "team s-1 t-1"
    try:
        with served(url, "--port", port) as service:
            run("report.py", tmp_path, REPRISE_URL=service.url)
            assert follower.rest() == ["team m-1"]
    finally:
        follower.kill()


def test_a_webhook_is_verified_and_counted_once(tmp_path: Path) -> None:
    secrets = StoredSecrets(MemoryDatabase())
    secret = signing.create(secrets, "example", bytes(32))

    with running("receive.py", tmp_path, WEBHOOK_SECRET=secret, PORT=0) as receiver:
        port = receiver.line().rpartition(" ")[2]
        hook = f"http://127.0.0.1:{port}/"
        receipts = send("webhook", hook, secrets, parcel(1), parcel(2), parcel(1, redelivery=1))
        signing.rotate(secrets, "example", bytes([1]) * 32, SystemClock().now_ms())
        during = send("webhook", hook, secrets, parcel(3))
        forged = httpx.post(hook, json={}, headers={"webhook-id": "x"})

    assert receipts + during == [Receipt(status=204)] * 4
    assert forged.status_code == 401
    with sqlite3.connect(tmp_path / "received.db") as received:
        assert received.execute("SELECT * FROM deltas").fetchall() == [
            ("tx-1", "team", 1),
            ("tx-2", "team", 1),
            ("tx-3", "team", 1),
        ]
    received.close()


def test_what_is_reported_arrives_at_a_receiver_that_subscribed(tmp_path: Path) -> None:
    """The whole way, with nothing in it but what the guide says."""
    url = f"sqlite:///{tmp_path}/store.db"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    own = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "REPRISE_DATABASE_URL": url,
        "REPRISE_ALLOW_PRIVATE_TARGETS": "true",
        "TARGET": f"http://127.0.0.1:{port}/",
    }
    with served(url, environment=own) as service:
        secret = run("subscribe.sh", tmp_path, **own)[-1].removeprefix("secret: ")
        with running("receive.py", tmp_path, WEBHOOK_SECRET=secret, PORT=port) as receiver:
            assert receiver.line() == f"listening on {port}"
            run("try.sh", tmp_path, **own)
            assert receiver.line() == "team reprise-test"
            report(service, tmp_path)
            assert [receiver.line(), receiver.line()] == ["team s-1 t-1", "team m-1"]


def test_jetstream_is_consumed_once_for_each_event(tmp_path: Path) -> None:
    server, prefix = nats_server(), f"test_{uuid4().hex}"
    secrets = StoredSecrets(MemoryDatabase())

    async def delete() -> None:
        async with stream_at(server, prefix) as stream:
            await stream.jetstream.delete_stream(prefix)

    try:
        with running("consume.py", tmp_path, NATS_URL=server, PREFIX=prefix, MESSAGES=4) as consumer:
            assert consumer.line() == "consuming"
            sent = (parcel(1), parcel(2, sessions=("s-1", "s-2")), parcel(1, redelivery=1))
            assert send("jetstream", f"{server}/{prefix}", secrets, *sent) == [Receipt()] * 3
            said = consumer.rest()
    finally:
        asyncio.run(delete())

    assert said == ["tx-1:1 team", "tx-2:1 team", "tx-2:2 team", "tx-1:1 team"]
    with sqlite3.connect(tmp_path / "consumed.db") as consumed:
        assert [id_ for (id_,) in consumed.execute("SELECT id FROM events")] == ["tx-1:1", "tx-2:1", "tx-2:2"]
    consumed.close()


def test_each_example_is_run_by_a_test() -> None:
    assert set(EXAMPLES) == {
        *("report.sh", "report.py", "subscribe.sh", "try.sh"),
        *("receive.py", "follow.sh", "follow.py", "consume.py"),
    }
    assert all(f'"{name}"' in Path(__file__).read_text("utf-8") for name in EXAMPLES)
