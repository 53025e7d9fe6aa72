"""What every request passes before a route sees it: it is observed, and may be refused.

From outside to inside: the log line and the metrics of a request; whether the service is stopping; whether
it was reached under a name of its own.
"""

import asyncio
from collections.abc import Collection
from ipaddress import ip_address
from time import monotonic
from typing import Final

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infrastructure.http.problems import STOPPING, WRONG_HOST, Problem, respond, trace_id_of
from infrastructure.metrics import Metrics

PROBES: Final = frozenset(("/healthz", "/readyz", "/metrics", "/version"))
"""Asked by machines that know the service by its number, and as long as there is somebody to answer."""
STREAMS: Final = b"text/event-stream"
LOCAL_NAMES: Final = frozenset(("localhost", "127.0.0.1", "[::1]"))
EVERY_HOST: Final = "*"

log = structlog.get_logger("reprise.http")


class Observed:
    """Logs, counts and times each request; a stream when it begins and when it ends."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, is_stream, begun = 0, False, monotonic()

        async def observed(message: Message) -> None:
            nonlocal status, is_stream
            if message["type"] == "http.response.start":
                status = message["status"]
                is_stream = any(
                    name.lower() == b"content-type" and value.startswith(STREAMS)
                    for name, value in message.get("headers", ())
                )
            await send(message)

        try:
            await self._app(scope, receive, observed)
        except asyncio.CancelledError:
            status = status or 499  # the caller went away
            raise
        except BaseException:
            status = status or 500
            raise
        finally:
            self._tell(scope, status, monotonic() - begun, is_stream=is_stream)

    def _tell(self, scope: Scope, status: int, seconds: float, *, is_stream: bool) -> None:
        route = getattr(scope.get("route"), "path", "")
        self._metrics.answered(scope["method"], route, status, None if is_stream else seconds)
        say = log.debug if scope["path"] in PROBES and status < 400 else log.info
        caller = scope.get("reprise.caller", "")
        say(
            "request",
            method=scope["method"],
            path=scope["path"],  # without the query, which is nobody's business
            status=status,
            duration_ms=round(seconds * 1_000, 1),
            trace_id=trace_id_of(Request(scope)),
            **({"caller": caller} if caller else {}),
        )


class Draining:
    """Lets a service stop: what has begun is finished, what comes then is refused."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self.is_stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        if self.is_stopping and not _follows(scope):
            problem = Problem(STOPPING, STOPPING.advice, headers={"Retry-After": "1", "Connection": "close"})
            await respond(Request(scope), problem)(scope, receive, send)
            return
        self._running += 1
        self._is_idle.clear()
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= 1
            if not self._running:
                self._is_idle.set()

    async def drain(self, timeout_s: float) -> bool:
        """Refuse what comes, and wait for what has begun; whether all of it ended in time."""
        self.is_stopping = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_idle.wait()
        except TimeoutError:
            return False
        return True


def _follows(scope: Scope) -> bool:
    """Whether a browser asks for a stream, which it gives up for good when it is refused.

    A stream that is begun while the service stops ends at once, and so the browser comes again.
    """
    return any(name == b"accept" and STREAMS in value for name, value in scope["headers"])


class KnownHosts:
    """Refuses a request that was sent to a name which is not the service's.

    A page of somebody else's can let its own name lead to this machine, and would then be of the same
    origin; the browser still says which name it asked for.
    """

    def __init__(self, app: ASGIApp, allowed: Collection[str]) -> None:
        self._app = app
        self._allowed = frozenset(name.lower() for name in allowed) | LOCAL_NAMES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in PROBES and EVERY_HOST not in self._allowed:
            named = host_of(Request(scope))
            if named not in self._allowed:
                await respond(Request(scope), Problem(WRONG_HOST, WRONG_HOST.advice))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def host_of(request: Request) -> str:
    """The name that a request was sent to, without its port; blank when it says none, or several."""
    named = request.headers.getlist("host")
    if len(named) != 1:
        return ""
    host = named[0].strip().lower()
    if host.startswith("["):
        return host[: host.find("]") + 1]
    return host.partition(":")[0]


def is_loopback(host: str) -> bool:
    """Whether an address that is listened on can be reached from this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
