"""Reads the activity that other hosts recorded, over their HTTP routes (SPEC section 11, WIRE)."""

import re
import ssl
from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from application.ports import Clock
from application.remote import AgentsPage, Failure, FailureKind, MessagesPage, Remote, failure
from domain.ids import RemoteCursor, RoomId, SessionId
from infrastructure.addresses import AddressPolicy, Resolve, is_loopback_host, literal_address, resolve
from infrastructure.http_client import DEFAULT_LIMITS, HttpClient, Limits, tls_context
from infrastructure.remote_pages import NotAPage, read_agents, read_messages
from infrastructure.retry_after import retry_after_s

LOOPBACK_PREFIX: Final = "/v1"
PREFIX: Final = "/api/desktop/v1"
"""Where the routes are on any host but this one."""
USER_HEADER: Final = "X-User-Id"

_Page = TypeVar("_Page", AgentsPage, MessagesPage)


class BadRemote(Exception):
    """The settings of a remote cannot work; the text says which, and shows no secret."""


class HttpRemoteActivity:
    """The remote's routes for reading, as a port.

    Loopback may be called, private addresses only if the remote or `allows_private` says so (SPEC P9).
    """

    def __init__(
        self,
        clock: Clock,
        *,
        allows_private: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve = resolve,
    ) -> None:
        tls = tls or tls_context()
        self._clock = clock
        self._anywhere = HttpClient(AddressPolicy(True, True), limits, tls=tls, resolve=resolve)
        self._guarded = HttpClient(AddressPolicy(True, allows_private), limits, tls=tls, resolve=resolve)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._anywhere.close()
        await self._guarded.close()

    async def list_agents(self, remote: Remote, room: RoomId) -> AgentsPage | Failure:
        """The sessions of a room."""
        return await self._read(remote, f"/rooms/{_segment(room)}/agents/list", {}, read_agents)

    async def list_messages(
        self, remote: Remote, room: RoomId, session: SessionId, after_version: RemoteCursor, limit: int
    ) -> MessagesPage | Failure:
        """The messages of a session with the lowest versions above a cursor, at most `limit`."""
        route = f"/rooms/{_segment(room)}/agents/sessions/{_segment(session)}/messages"
        query = {"after_version": after_version, "limit": limit}
        return await self._read(remote, route, query, read_messages)

    async def _read(
        self, remote: Remote, route: str, query: Mapping[str, int], read: Callable[[bytes], _Page]
    ) -> _Page | Failure:
        try:
            address = f"{base_url(remote.url)}{route}"
            headers = _headers(remote)
        except BadRemote as error:
            return failure(FailureKind.MALFORMED, str(error))
        client = self._anywhere if remote.allows_private else self._guarded
        reply = await client.send("GET", f"{address}?{urlencode(query)}" if query else address, headers)
        if isinstance(reply, Failure):
            return reply
        if not reply.is_success:
            wait_s = retry_after_s(reply.headers.get("retry-after"), self._clock.now_ms())
            return failure(FailureKind.STATUS, _said(reply.status), reply.status, wait_s)
        try:
            return read(reply.body)
        except NotAPage as error:
            return failure(FailureKind.PROTOCOL, str(error), reply.status)


_HOST: Final = re.compile(rb"[A-Za-z0-9._-]+")
_NO_URL: Final = "the remote's URL cannot be used; give http:// or https://, a host, perhaps a port"


def _is_host(host: str) -> bool:
    """Whether a host can be looked up; raises ValueError for a name of wrong length."""
    return literal_address(host) is not None or _HOST.fullmatch(host.encode("idna")) is not None


def base_url(url: str) -> str:
    """Where a remote's routes begin; raises BadRemote.

    The prefix goes by how the host is written. A URL that ends with one of the prefixes keeps it.
    """
    try:
        parts = urlsplit(url.strip())
        is_usable = parts.port != 0 and _is_host(parts.hostname or "")
    except ValueError:
        raise BadRemote(_NO_URL) from None
    if not (is_usable and parts.hostname and parts.scheme in ("http", "https")):
        raise BadRemote(_NO_URL)
    if parts.username is not None or parts.password is not None:
        raise BadRemote("the remote's URL holds a name or a password; give a token instead")
    if parts.query or parts.fragment:
        raise BadRemote("the remote's URL has a query or a fragment; leave them out")
    base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    if base.endswith((LOOPBACK_PREFIX, PREFIX)):
        return base
    return base + (LOOPBACK_PREFIX if is_loopback_host(parts.hostname) else PREFIX)


def _segment(name: str) -> str:
    """A name as one segment of a path; a name of dots alone is none to servers unless it is escaped."""
    return quote(name, safe="") if name.strip(".") else "%2E" * len(name)


def _headers(remote: Remote) -> dict[str, str]:
    headers = {"accept": "application/json"}
    if token := remote.token.strip():
        headers["authorization"] = f"Bearer {_header_value('token', token)}"
    if user := remote.user_id.strip():
        headers[USER_HEADER] = _header_value("user id", user)
    return headers


def _header_value(what: str, value: str) -> str:
    if not (value.isascii() and value.isprintable()):
        raise BadRemote(f"the remote's {what} has characters that no header can carry")
    return value


def _said(status: int) -> str:
    """What an answer that is no page means, for a person."""
    try:
        said = f"the remote answered {status} {HTTPStatus(status).phrase}"
    except ValueError:
        said = f"the remote answered {status}"
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f"{said}: look at the token"
    return f"{said}; redirects are not followed" if 300 <= status < 400 else said
