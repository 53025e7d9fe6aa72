"""Publishes deltas to NATS JetStream and waits until its stream has them (SPEC L6)."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from application.sinks import Parcel, Receipt, Trouble
from infrastructure.sinks.nats_messages import Message, messages_of

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js.client import JetStreamContext

SEND_TIMEOUT_S: Final = 15.0
"""For all messages of one delta, connecting included."""
ACK_TIMEOUT_S: Final = 5.0
"""For the server to say that one message is stored."""
RECONNECT_TIMEOUT_S: Final = 5.0
"""How long a delta waits for a server that is away, so that its restart costs no attempt."""
CONNECT_TIMEOUT_S: Final = 3
CONNECT_PAUSE_S: Final = 0.1
"""Between two tries to connect."""
PING_INTERVAL_S: Final = 10
"""How often the server is asked whether it is there; two answers may be missing."""
NO_ANSWER_RETRIES: Final = 2
"""A server that has just started takes connections before it knows its streams."""
NO_ANSWER_PAUSE_S: Final = 0.25
MESSAGE_TOO_LARGE: Final = 10_054
"""The server's code for a message that is larger than its stream allows."""


class NatsMissing(Exception):
    """What speaks to NATS is not installed."""

    def __init__(self, error: ImportError) -> None:
        super().__init__(f"JetStream needs one more package ({error}); install reprise[nats]")


@dataclass(slots=True)
class _Connection:
    """A connection, until it breaks."""

    client: "Client"
    stream: "JetStreamContext"
    is_lost: bool = False
    waiting: set[asyncio.Timeout] = field(default_factory=set)
    """Of those who wait for an answer that will not come once the connection is lost."""

    async def lose(self) -> None:
        self.is_lost = True
        for timeout in self.waiting:
            if not timeout.expired():
                timeout.reschedule(0)


class JetStreamSink:
    """One connection to a NATS server whose streams store what is published.

    A connection that broke is replaced when it is needed. What was not answered is published again under
    its id: the server drops it as a duplicate or, past its duplicate window, a consumer does by `ce-id`.
    """

    def __init__(self, server: str, prefix: str, credentials: str = "") -> None:
        """Raises NatsMissing. `credentials` are a token or `user:password`."""
        try:
            import nats.aio.client
            import nats.js.errors
        except ImportError as error:
            raise NatsMissing(error) from error
        self._nats = nats
        self._server = server
        self._prefix = prefix
        self._login = _login(credentials)
        self._attempt: asyncio.Task[_Connection | Receipt] | None = None

    async def send(self, parcel: Parcel) -> Receipt:
        """Publish the delta's messages, each once the one before it is stored."""
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                for message in messages_of(parcel, self._prefix):
                    receipt = await self._publish(message)
                    if receipt.trouble:
                        return receipt
        except TimeoutError:
            return self._trouble(f"not stored within {SEND_TIMEOUT_S:g} s")
        return Receipt()

    async def close(self) -> None:
        """Close the connection."""
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        attempt.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            connection = await attempt
            if isinstance(connection, _Connection):
                await connection.client.close()

    async def _publish(self, message: Message) -> Receipt:
        """Until there is an answer, whatever it is; `send` bounds it."""
        no_answers = 0
        while True:
            connection = await self._connected()
            if isinstance(connection, Receipt):
                return connection
            if message.size > connection.client.max_payload:
                limit = connection.client.max_payload
                return self._trouble(f"{message.size} bytes, and the server takes {limit}", Trouble.MESSAGE)
            try:
                await self._store(connection, message)
            except self._nats.js.errors.NoStreamResponseError:
                no_answers += 1
                if no_answers > NO_ANSWER_RETRIES:
                    return self._trouble(
                        f"no stream takes {message.subject}; make one for the subjects {self._prefix}.>"
                    )
                await asyncio.sleep(NO_ANSWER_PAUSE_S)
            except self._nats.js.errors.APIError as error:
                is_large = error.err_code == MESSAGE_TOO_LARGE
                return self._trouble(
                    f"{error.description} ({error.err_code})",
                    Trouble.MESSAGE if is_large else Trouble.ENDPOINT,
                    error.code or 0,
                )
            except (self._nats.errors.Error, OSError, TimeoutError) as error:
                if not connection.is_lost:
                    return self._trouble(_plain(error) or f"no answer within {ACK_TIMEOUT_S:g} s")
            else:
                return Receipt()

    async def _store(self, connection: _Connection, message: Message) -> None:
        """Publish and wait for the answer. A duplicate is a success: the stream has the message."""
        async with asyncio.timeout(ACK_TIMEOUT_S) as timeout:
            connection.waiting.add(timeout)
            try:
                await connection.stream.publish(
                    message.subject, message.body, headers=dict(message.headers), timeout=2 * ACK_TIMEOUT_S
                )
            finally:
                connection.waiting.discard(timeout)

    async def _connected(self) -> "_Connection | Receipt":
        """The connection, or why there is none; everybody who needs one waits for the same try."""
        if self._attempt is None or _is_over(self._attempt):
            self._attempt = asyncio.create_task(self._connect())
        return await asyncio.shield(self._attempt)

    async def _connect(self) -> "_Connection | Receipt":
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + RECONNECT_TIMEOUT_S
        while True:
            troubles: list[Exception] = []
            connection = await self._open(troubles)
            if connection is not None:
                return connection
            if self._is_refused(troubles) or loop.time() > give_up_at:
                return self._trouble(next(filter(None, map(_plain, troubles)), "no connection"))
            await asyncio.sleep(CONNECT_PAUSE_S)

    async def _open(self, troubles: list[Exception]) -> _Connection | None:
        """One try to connect; what goes wrong is added to `troubles`."""
        client = self._nats.aio.client.Client()
        connection = _Connection(client, client.jetstream())

        async def note(error: Exception) -> None:
            troubles.append(error)
            del troubles[:-10]  # It is kept as long as the connection.

        try:
            await client.connect(
                self._server,
                name="reprise",
                error_cb=note,
                disconnected_cb=connection.lose,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=CONNECT_TIMEOUT_S,
                ping_interval=PING_INTERVAL_S,
                **self._login,
            )
        except (self._nats.errors.Error, OSError, TimeoutError) as error:
            await note(error)
            await client.close()
            return None
        return connection

    def _is_refused(self, troubles: Sequence[Exception]) -> bool:
        """Whether the server does not want us, so that asking it again is of no use."""
        return any("authorization" in _plain(one).lower() for one in troubles)

    def _trouble(self, reason: str, trouble: Trouble = Trouble.ENDPOINT, status: int = 0) -> Receipt:
        return Receipt(trouble, f"{self._server}: {reason}", status)


def _is_over(attempt: "asyncio.Task[_Connection | Receipt]") -> bool:
    """Whether a try to connect has led to nothing, or its connection is lost by now."""
    if not attempt.done():
        return False
    if attempt.cancelled():
        return True
    connection = attempt.result()
    return isinstance(connection, Receipt) or connection.is_lost


def _login(credentials: str) -> dict[str, Any]:
    user, colon, password = credentials.partition(":")
    if not credentials:
        return {}
    return {"user": user, "password": password} if colon else {"token": credentials}


def _plain(error: Exception) -> str:
    """What went wrong, without the library's prefix; blank when it is told better elsewhere."""
    if isinstance(error, OSError) and not isinstance(error, TimeoutError):
        return error.strerror or str(error)
    return str(error).removeprefix("nats: ")
