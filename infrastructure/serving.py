"""Runs the service: one process with the API, its streams and its workers, from start to a clean end."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from time import monotonic
from types import FrameType
from typing import Final

import structlog
import uvicorn

from infrastructure.asynchronous import AsyncLedger
from infrastructure.collector import settle_in
from infrastructure.configuration import Settings, masked_url
from infrastructure.http.gate import is_loopback
from infrastructure.http.service import Service, create_service
from infrastructure.main import open_ledger_async
from infrastructure.metrics import Metrics
from infrastructure.settings import AddressTaken, BadSetting
from infrastructure.workers import MakeWorkers, Worker, workers_of

CLOSING_S: Final = 1
"""Of the time to stop, what is left for connections to be closed."""
BACKLOG: Final = 2_048
KEEP_ALIVE_S: Final = 30

log = structlog.get_logger("reprise")


async def serve(
    settings: Settings,
    make_workers: MakeWorkers = workers_of,
    announce: Callable[[str], object] = lambda _: None,
) -> None:
    """Serve until a signal says to stop; then finish what has begun.

    `announce` is told the address once requests are answered there.
    Raises BadSetting when others than this machine could come in without a token, AddressTaken when the
    address is taken, and what `open_ledger_async` raises.
    """
    metrics = Metrics(settings.database_url.partition(":")[0])
    async with open_ledger_async(settings.database_url, appended=metrics.appended) as ledger:
        await refuse_open_door(ledger, settings)
        listener = listen(settings.host, settings.port)
        is_working = settings.workers and not settings.read_only
        workers = make_workers(ledger, settings, metrics) if is_working else ()
        service = create_service(ledger, settings, metrics, workers)
        async with running(workers):
            await Server(service, settings, listener, workers, announce).serve_until_told()


async def refuse_open_door(ledger: AsyncLedger, settings: Settings) -> None:
    """Raise BadSetting for a service that others can reach and that has no token to ask them for."""
    if is_loopback(settings.host) and not settings.require_token:
        return
    if not any(not token.revoked_at for token in await ledger.tokens()):
        raise BadSetting(
            f"{settings.host}: others could come in, and there is no token to ask them for; make one with"
            " `reprise tokens create --scope operate`, or listen on 127.0.0.1"
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket for the address; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise AddressTaken(
            f"cannot listen on {host} port {port}: {error.strerror or error}; take others with --host, --port"
        ) from error


@asynccontextmanager
async def running(workers: Sequence[Worker]) -> AsyncIterator[None]:
    """Start the workers, and stop all that were started, however it ends."""
    started: list[Worker] = []
    try:
        for worker in workers:
            await worker.start()
            started.append(worker)
        yield
    finally:
        await asyncio.gather(*(worker.stop() for worker in started))


class Server(uvicorn.Server):
    """The server, which on a signal first lets the service finish, and ends with success."""

    def __init__(
        self,
        service: Service,
        settings: Settings,
        listener: socket.socket,
        workers: Sequence[Worker],
        announce: Callable[[str], object],
    ) -> None:
        super().__init__(
            uvicorn.Config(
                service.app,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=CLOSING_S,
            )
        )
        self._service = service
        self._settings = settings
        self._listener = listener
        self._workers = workers
        self._announce = announce
        self._draining: asyncio.Task[None] | None = None

    async def serve_until_told(self) -> None:
        """Serve until a signal comes, and until what had begun by then is finished."""
        await self.serve(sockets=[self._listener])
        if self._draining is not None:
            if self.force_exit:
                self._draining.cancel()
            with suppress(asyncio.CancelledError):
                await self._draining

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, and say where."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        settle_in()
        log.info(
            "serving",
            url=url_of(self._listener),
            store=masked_url(self._settings.database_url),
            read_only=self._settings.read_only,
            workers=[worker.name for worker in self._workers],
        )
        self._announce(url_of(self._listener))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """The first signal lets what has begun be finished; a second one does not wait for it."""
        if self._draining is None:
            self._loop.call_soon_threadsafe(self._begin_to_stop, signal.Signals(sig).name)
        else:
            self.should_exit = self.force_exit = True

    def _begin_to_stop(self, why: str) -> None:
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain(why))

    async def _drain(self, why: str) -> None:
        began, patience_s = monotonic(), max(self._settings.drain_seconds - CLOSING_S, 0.1)
        log.info("stopping", signal=why, drain_seconds=self._settings.drain_seconds)
        self._service.readiness.is_stopping = True
        self._service.draining.is_stopping = True
        try:
            async with asyncio.timeout(patience_s):
                await asyncio.gather(
                    self._service.live.close(),
                    self._service.draining.drain(patience_s),
                    *(worker.stop() for worker in self._workers),
                )
        except TimeoutError:
            log.warning("stopped_in_the_middle", seconds=patience_s)
        await self._service.readiness.close()
        self.should_exit = True
        log.info("stopped", seconds=round(monotonic() - began, 2))


def url_of(listener: socket.socket) -> str:
    """Where a service is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
