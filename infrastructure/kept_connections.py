"""Connections to other hosts, kept for the next call.

httpcore's own pool asks every connection several times per call whether it is still there, so that a call
costs the more the more of them there are. Here the one that was used last for a host is asked, once.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import httpcore

SCHEMES: Final = (b"http", b"https")
_Host = tuple[bytes, bytes, int]
"""Scheme, name and port: connections to these are alike."""


class KeptConnections(httpcore.AsyncConnectionPool):
    """So many connections at work at the most, and so many idle ones; who needs one more waits."""

    def __init__(
        self,
        tls: ssl.SSLContext,
        connections_max: int,
        idle_max: int,
        idle_timeout_s: float,
        network: httpcore.AsyncNetworkBackend,
    ) -> None:
        super().__init__(ssl_context=tls, network_backend=network)
        self._free = asyncio.Semaphore(connections_max)
        self._idle: dict[_Host, list[httpcore.AsyncHTTPConnection]] = {}
        """By host, the one that was used last at the end; the host used last stands last."""
        self._idle_count = 0
        self._idle_max = idle_max
        self._tls = tls
        self._idle_timeout_s = idle_timeout_s
        self._network = network

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        """Call; the connection is free again once the body of the response is closed."""
        if request.url.scheme not in SCHEMES or not request.url.host:
            raise httpcore.UnsupportedProtocol("only http and https are spoken, and to a host")
        await self._free.acquire()
        try:
            connection = await self._connection(request.url.origin)
            response = await connection.handle_async_request(request)
        except BaseException:
            self._free.release()
            raise

        async def give_back() -> None:
            self._free.release()
            if connection.is_idle():
                await self._keep(_host(request.url.origin), connection)

        return httpcore.Response(
            response.status,
            headers=response.headers,
            content=_Body(response, give_back),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close what is idle."""
        for host in list(self._idle):
            while connection := self._take(host):
                await connection.aclose()

    async def _connection(self, origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection:
        while connection := self._take(_host(origin)):
            if not connection.has_expired():
                return connection
            await connection.aclose()
        return httpcore.AsyncHTTPConnection(
            origin, self._tls, self._idle_timeout_s, network_backend=self._network
        )

    def _take(self, host: _Host) -> httpcore.AsyncHTTPConnection | None:
        idle = self._idle.get(host)
        if not idle:
            return None
        self._idle_count -= 1
        connection = idle.pop()
        if not idle:
            del self._idle[host]
        return connection

    async def _keep(self, host: _Host, connection: httpcore.AsyncHTTPConnection) -> None:
        """Keep a connection; of too many, one to the host goes that was used longest ago."""
        self._idle[host] = [*self._idle.pop(host, ()), connection]
        self._idle_count += 1
        if self._idle_count > self._idle_max and (surplus := self._take(next(iter(self._idle)))):
            await surplus.aclose()


def _host(origin: httpcore.Origin) -> _Host:
    return origin.scheme, origin.host, origin.port


class _Body:
    """A response's body, which tells when it is closed."""

    def __init__(self, response: httpcore.Response, closed: Callable[[], Awaitable[None]]) -> None:
        self._response = response
        self._closed: Callable[[], Awaitable[None]] | None = closed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._response.aiter_stream():
            yield part

    async def aclose(self) -> None:
        closed, self._closed = self._closed, None
        try:
            await self._response.aclose()
        finally:
            if closed is not None:
                await closed()
