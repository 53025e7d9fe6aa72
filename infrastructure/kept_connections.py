"""Connections to one host, kept for the next call.

httpcore's own pool asks every connection several times per call whether it is still there, so that a call
costs the more the more of them there are. Here the one that was used last is asked, once.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable

import httpcore


class KeptConnections(httpcore.AsyncConnectionPool):
    """So many connections at the most; who needs one more waits."""

    def __init__(
        self,
        tls: ssl.SSLContext,
        connections_max: int,
        idle_timeout_s: float,
        network: httpcore.AsyncNetworkBackend,
    ) -> None:
        super().__init__(ssl_context=tls, network_backend=network)
        self._free = asyncio.Semaphore(connections_max)
        self._idle: list[httpcore.AsyncHTTPConnection] = []
        self._tls = tls
        self._idle_timeout_s = idle_timeout_s
        self._network = network

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        """Call; the connection is free again once the body of the response is closed."""
        await self._free.acquire()
        try:
            connection = await self._connection(request.url.origin)
            response = await connection.handle_async_request(request)
        except BaseException:
            self._free.release()
            raise

        def give_back() -> None:
            self._free.release()
            if connection.is_idle():
                self._idle.append(connection)

        return httpcore.Response(
            response.status,
            headers=response.headers,
            content=_Body(response, give_back),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close what is idle."""
        while self._idle:
            await self._idle.pop().aclose()

    async def _connection(self, origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection:
        while self._idle:
            connection = self._idle.pop()
            if connection.can_handle_request(origin) and not connection.has_expired():
                return connection
            await connection.aclose()
        return httpcore.AsyncHTTPConnection(
            origin, self._tls, self._idle_timeout_s, network_backend=self._network
        )


class _Body:
    """A response's body, which tells when it is closed."""

    def __init__(self, response: httpcore.Response, closed: Callable[[], None]) -> None:
        self._response = response
        self._closed: Callable[[], None] | None = closed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._response.aiter_stream():
            yield part

    async def aclose(self) -> None:
        closed, self._closed = self._closed, None
        try:
            await self._response.aclose()
        finally:
            if closed is not None:
                closed()
