"""The NATS server that tests use, streams of their own on it, and servers of their own."""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.client import JetStreamContext

SERVER = os.environ.get("REPRISE_TEST_NATS", "nats://127.0.0.1:4222")
_REQUIRED = os.environ.get("REPRISE_REQUIRE_SERVICES") == "1"
PROGRAM = shutil.which("nats-server") or "/usr/sbin/nats-server"
START_TIMEOUT_S = 60.0
"""For a machine that is very busy."""


async def _nothing(*_: object) -> None:
    """What the library tells about connections that come and go is no news."""


async def connect(server: str = SERVER) -> Client:
    return await nats.connect(server, error_cb=_nothing, allow_reconnect=False, max_reconnect_attempts=1)


@cache
def _missing() -> str:
    """Why the server cannot be used; blank when it can."""

    async def look() -> None:
        client = await connect()
        await client.jetstream().account_info()
        await client.close()

    try:
        asyncio.run(look())
    except Exception as error:
        return f"no NATS server with JetStream for tests (REPRISE_TEST_NATS): {error}"
    return ""


def nats_server() -> str:
    """The server's address; skips the test where there is none."""
    if _missing():
        (pytest.fail if _REQUIRED else pytest.skip)(_missing())
    return SERVER


class Stream:
    """A stream of a test's own, and all that it has stored."""

    def __init__(self, client: Client, prefix: str) -> None:
        self.prefix = prefix
        self.jetstream: JetStreamContext = client.jetstream()

    async def make(self, **settings: Any) -> None:
        await self.jetstream.add_stream(name=self.prefix, subjects=[f"{self.prefix}.>"], **settings)

    async def stored(self) -> list[Msg]:
        """Every message, oldest first."""
        state = (await self.jetstream.stream_info(self.prefix)).state
        if not state.messages:
            return []
        consumer = await self.jetstream.subscribe(f"{self.prefix}.>", ordered_consumer=True)
        found = [await consumer.next_msg(START_TIMEOUT_S) for _ in range(state.messages)]
        await consumer.unsubscribe()
        return found


@asynccontextmanager
async def stream_at(server: str, prefix: str) -> AsyncIterator[Stream]:
    """A stream that may be there; `prefix` is its name and begins its subjects."""
    client = await connect(server)
    try:
        yield Stream(client, prefix)
    finally:
        await client.close()


@asynccontextmanager
async def own_stream(server: str, **settings: Any) -> AsyncIterator[Stream]:
    """A stream that is gone in the end."""
    async with stream_at(server, f"test_{uuid4().hex}") as stream:
        await stream.make(**settings)
        try:
            yield stream
        finally:
            await stream.jetstream.delete_stream(stream.prefix)


class OwnServer:
    """A server with a folder and a port of its own, which a test may stop and start."""

    def __init__(self, folder: Path, config: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._config = folder / "config"
        self._config.write_text(f'jetstream {{store_dir: "{folder}"}}\n{config}\n')
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it knows its streams."""
        self._process = subprocess.Popen(
            [PROGRAM, "-a", "127.0.0.1", "-p", str(self.port), "-c", self._config],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if b"Server is ready" in line:
                break

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@contextmanager
def own_server(config: str = "") -> Iterator[OwnServer]:
    """A server that is gone in the end, and its configuration; skips the test where none can be started."""
    if not Path(PROGRAM).exists():
        (pytest.fail if _REQUIRED else pytest.skip)("no program nats-server here")
    with TemporaryDirectory() as folder:
        server = OwnServer(Path(folder), config)
        server.start()
        try:
            yield server
        finally:
            server.kill()
