"""Calls other hosts over HTTP, within bounds, and only at addresses that may be called.

What comes back is a value: a reply of whatever status, or the failure that kept it away. The client follows
no redirect, takes no proxy from the environment, and connects to the very address that was checked.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import httpcore
import httpx

from application.remote import Failure, FailureKind, failure
from infrastructure.addresses import (
    AddressPolicy,
    NoAddress,
    RefusedAddress,
    Resolve,
    checked_addresses,
    resolve,
)
from infrastructure.bodies import ENCODINGS, BadEncoding, BodyTooLarge, read_body
from infrastructure.kept_connections import KeptConnections

BODY_BYTES_MAX: Final = 8 * 2**20
"""The most that is read of a reply, unpacked (SPEC section 10)."""
EXCERPT_BYTES_MAX: Final = 4 * 2**10
"""The most that is read of a reply of which only the start is wanted."""
EXCERPT_TIMEOUT_S: Final = 1.0
"""How long such a body may take once its status is known."""
USER_AGENT: Final = "reprise"


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a call may take, and how many there may be."""

    connect_timeout_s: float = 3.0
    read_timeout_s: float = 10.0
    """Between two pieces of a reply; the same for sending."""
    call_timeout_s: float = 30.0
    """From the call to the end of the reply, waiting for a free connection and another try included."""
    body_bytes_max: int = BODY_BYTES_MAX
    connections_max: int = 400
    """To all hosts together; whoever calls bounds the calls to one."""
    idle_connections_max: int = 100
    idle_timeout_s: float = 30.0


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class Reply:
    """What a host answered."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    """Read only from a success, or as far as `deliver` does; blank otherwise."""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class HttpClient:
    """Connections to other hosts, under one policy of addresses."""

    def __init__(
        self,
        policy: AddressPolicy,
        limits: Limits = DEFAULT_LIMITS,
        *,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve = resolve,
    ) -> None:
        self._limits = limits
        self._transport = _CheckedTransport(policy, limits, tls or tls_context(), resolve)
        timeout = httpx.Timeout(limits.read_timeout_s, connect=limits.connect_timeout_s)
        self._extensions = {"timeout": timeout.as_dict()}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes = b""
    ) -> Reply | Failure:
        """Call, and read the reply.

        A GET whose connection broke is sent once more at once, because an idle connection may have been
        closed by the other side just then. Nothing else is.
        """

        async def call() -> Reply:
            request = self._request(method, url, {"accept-encoding": ENCODINGS, **headers}, content)
            try:
                return await self._exchange(request)
            except _BROKEN:
                if method != "GET":
                    raise
                return await self._exchange(request)

        return await self._bounded(call)

    async def deliver(self, url: str, headers: Mapping[str, str], content: bytes) -> Reply | Failure:
        """POST once, and read the start of the reply, whatever its status; the rest is dropped.

        A reply counts once its status is there: trouble behind that does not make it a failure. Cookies
        that an endpoint sets are not kept.
        """

        async def call() -> Reply:
            request = self._request("POST", url, headers, content)
            response = await self._transport.handle_async_request(request)
            try:
                return Reply(response.status_code, dict(response.headers), await _excerpt(response))
            finally:
                await response.aclose()

        return await self._bounded(call)

    async def _bounded(self, call: Callable[[], Awaitable[Reply]]) -> Reply | Failure:
        """What a call comes to, within the time for all of it."""
        try:
            async with asyncio.timeout(self._limits.call_timeout_s):
                return await call()
        except asyncio.CancelledError:
            if _is_canceled_by_caller():
                raise
            return failure(FailureKind.CANCELED, "the connection gave the call up")
        except TimeoutError:
            return failure(
                FailureKind.TIMEOUT, f"the call took longer than {self._limits.call_timeout_s:g} s"
            )
        except _TROUBLE as trouble:
            return self._failure(trouble)

    def _request(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> httpx.Request:
        """A request for the transport itself: what httpx's client adds, such as cookies, is unwanted here."""
        common = {"user-agent": USER_AGENT, "accept": "*/*"}
        return httpx.Request(
            method, url, headers={**common, **headers}, content=content, extensions=self._extensions
        )

    async def _exchange(self, request: httpx.Request) -> Reply:
        response = await self._transport.handle_async_request(request)
        try:
            body = b""
            if response.is_success:
                body = await read_body(
                    response.aiter_raw(),
                    response.headers.get("content-encoding", ""),
                    self._limits.body_bytes_max,
                )
            return Reply(response.status_code, dict(response.headers), body)
        finally:
            await response.aclose()

    def _failure(self, trouble: Exception) -> Failure:
        """The failure in plain words; never with a library's own, which may repeat a header."""
        match trouble:
            case RefusedAddress():
                return failure(FailureKind.REFUSED_ADDRESS, str(trouble))
            case NoAddress():
                return failure(FailureKind.TRANSPORT, str(trouble))
            case BodyTooLarge():
                limit = self._limits.body_bytes_max
                return failure(FailureKind.TOO_LARGE, f"the reply has more than {limit} bytes")
            case BadEncoding():
                return failure(FailureKind.PROTOCOL, str(trouble))
            case httpx.ConnectTimeout():
                limit_s = self._limits.connect_timeout_s
                return failure(FailureKind.TIMEOUT, f"no connection within {limit_s:g} s")
            case httpx.TimeoutException():
                limit_s = self._limits.read_timeout_s
                return failure(FailureKind.TIMEOUT, f"nothing came for {limit_s:g} s")
            case (
                httpx.InvalidURL() | httpx.UnsupportedProtocol() | httpx.LocalProtocolError() | UnicodeError()
            ):
                return failure(FailureKind.MALFORMED, "the call cannot be written: a bad URL, token or id")
            case httpx.ConnectError():
                return _connect_failure(trouble)
            case _:
                return failure(FailureKind.TRANSPORT, "the connection broke before the reply was whole")


async def _excerpt(response: httpx.Response) -> bytes:
    """The start of a body, as it comes."""
    body = b""
    with contextlib.suppress(httpx.HTTPError, TimeoutError):
        async with asyncio.timeout(EXCERPT_TIMEOUT_S):
            async for part in response.aiter_raw():
                body += part
                if len(body) >= EXCERPT_BYTES_MAX:
                    break
    return body[:EXCERPT_BYTES_MAX]


_BROKEN: Final = (httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError)
"""A connection that was there and broke."""
_TROUBLE: Final = (
    httpx.HTTPError,
    httpx.InvalidURL,
    UnicodeError,
    RefusedAddress,
    NoAddress,
    BodyTooLarge,
    BadEncoding,
)


def _is_canceled_by_caller() -> bool:
    """Whether somebody cancelled the task that calls, rather than something inside the call."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _connect_failure(trouble: httpx.ConnectError) -> Failure:
    cause: BaseException | None = trouble
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = f"the certificate is not trusted: {cause.verify_message}"
            return failure(FailureKind.MALFORMED, reason)
        if isinstance(cause, ssl.SSLError):
            return failure(FailureKind.TRANSPORT, "no secure connection could be agreed on")
        if isinstance(cause, OSError) and cause.strerror:
            return failure(FailureKind.TRANSPORT, f"no connection: {cause.strerror}")
        cause = cause.__cause__ or cause.__context__
    return failure(FailureKind.TRANSPORT, "no connection")


def tls_context() -> ssl.SSLContext:
    """Trusts the usual authorities, or those of SSL_CERT_FILE or SSL_CERT_DIR in their place."""
    return httpx.create_ssl_context()


class _CheckedTransport(httpx.AsyncHTTPTransport):
    """httpx's own transport, over connections to checked addresses.

    The pool still knows hosts by their names, so certificates are checked against the name, and two names
    of one address share no connection.
    """

    def __init__(self, policy: AddressPolicy, limits: Limits, tls: ssl.SSLContext, resolve: Resolve) -> None:
        super().__init__(verify=tls, trust_env=False)
        self._pool = KeptConnections(
            tls,
            limits.connections_max,
            limits.idle_connections_max,
            limits.idle_timeout_s,
            _CheckedBackend(policy, resolve),
        )


class _CheckedBackend(httpcore.AsyncNetworkBackend):
    """Looks a host up once and connects to an address that passed the check."""

    def __init__(self, policy: AddressPolicy, resolve: Resolve) -> None:
        self._policy = policy
        self._resolve = resolve
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  (httpcore's signature)
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """The first of the addresses that answers; each has its share of the time-out."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await checked_addresses(host, port, self._policy, self._resolve)
                share_s = None if timeout is None else timeout / len(addresses)
                for address in addresses[:-1]:
                    with contextlib.suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                        return await self._network.connect_tcp(
                            str(address), port, share_s, local_address, socket_options
                        )
                return await self._network.connect_tcp(
                    str(addresses[-1]), port, None, local_address, socket_options
                )
        except TimeoutError:
            raise httpcore.ConnectTimeout from None

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)
