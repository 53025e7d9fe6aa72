"""Connections are kept for the next call to the same host, and only so many of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from application.remote import Failure, FailureKind
from infrastructure.addresses import AddressPolicy
from infrastructure.http_client import HttpClient, Limits, Reply

pytestmark = pytest.mark.anyio
ANYWHERE = AddressPolicy(allows_loopback=True, allows_private=True)


@dataclass
class Host:
    """Answers every request with nothing, and counts who connects."""

    url: str = ""
    connected: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected += 1
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def hosts(count: int) -> AsyncIterator[list[Host]]:
    found = [Host() for _ in range(count)]
    servers = [await asyncio.start_server(host.serve, "127.0.0.1", 0) for host in found]
    for host, server in zip(found, servers, strict=True):
        host.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    yield found
    for server in servers:
        server.close()


async def call(client: HttpClient, host: Host) -> None:
    reply = await client.send("GET", host.url, {})
    assert isinstance(reply, Reply)
    assert reply.status == 204


async def test_a_connection_is_used_again_for_its_host_and_for_no_other() -> None:
    async with hosts(2) as (one, other), HttpClient(ANYWHERE) as client:
        for host in (one, other, one, other, one):
            await call(client, host)

        assert (one.connected, other.connected) == (1, 1)


async def test_calls_side_by_side_have_a_connection_each_which_are_all_used_again() -> None:
    async with hosts(1) as (host,), HttpClient(ANYWHERE) as client:
        await asyncio.gather(*(call(client, host) for _ in range(5)))
        opened = host.connected
        await asyncio.gather(*(call(client, host) for _ in range(opened)))

        assert host.connected == opened


async def test_of_too_many_idle_ones_that_of_the_host_used_longest_ago_is_closed() -> None:
    async with hosts(3) as found, HttpClient(ANYWHERE, Limits(idle_connections_max=2)) as client:
        for host in found:
            await call(client, host)
        for host in reversed(found):
            await call(client, host)

        assert [host.connected for host in found] == [2, 1, 1]


async def test_who_finds_all_connections_at_work_waits_for_one() -> None:
    async with hosts(1) as (host,), HttpClient(ANYWHERE, Limits(connections_max=1)) as client:
        await asyncio.gather(*(call(client, host) for _ in range(5)))

        assert host.connected == 1


async def test_what_speaks_another_protocol_is_not_called() -> None:
    async with HttpClient(ANYWHERE) as client:
        found = await client.send("GET", "ftp://127.0.0.1:1/", {})

    assert isinstance(found, Failure)
    assert found.kind is FailureKind.MALFORMED
