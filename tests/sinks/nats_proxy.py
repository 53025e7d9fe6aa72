"""Stands between a client and a NATS server, and answers in its stead when it is told to.

It also takes the ids off by which a server tells repetitions, as if its duplicate window were always over.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Final

MESSAGE_ID: Final = b"Nats-Msg-Id:"
UNKNOWN_ID: Final = b"Once-Msg-Id:"
"""A header of the same length that means nothing to a server."""
NOWHERE: Final = b"nobody.asked"
STREAM_BYTES_MAX: Final = 2**24

Refuse = Callable[[str], dict[str, object] | None]
"""What to answer to a message for a subject; None to let it pass, nothing to pass it on without an answer."""


class NatsProxy:
    """Any number of connections to one server."""

    def __init__(self, refuse: Refuse) -> None:
        self.server_port = 0
        self._refuse = refuse
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=STREAM_BYTES_MAX)
        self.port = self._server.sockets[0].getsockname()[1]

    def hold(self) -> None:
        """Pass on no answer of the server."""
        self._open.clear()

    def let_go(self) -> None:
        self._open.set()

    async def close(self) -> None:
        self._server.close()
        self.let_go()
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            below, above = await asyncio.open_connection(
                "127.0.0.1", self.server_port, limit=STREAM_BYTES_MAX
            )
        except OSError:
            writer.close()
            return
        self._writers |= {writer, above}
        downward = asyncio.create_task(self._down(below, writer))
        with suppress(OSError, asyncio.IncompleteReadError):
            await self._up(reader, above, writer)
        above.close()
        writer.close()
        with suppress(OSError):
            await downward

    async def _down(self, below: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await below.read(STREAM_BYTES_MAX):
            if data.startswith((b"MSG", b"HMSG")):
                await self._open.wait()
            writer.write(data)
            await writer.drain()
        writer.close()

    async def _up(
        self, reader: asyncio.StreamReader, above: asyncio.StreamWriter, writer: asyncio.StreamWriter
    ) -> None:
        inboxes: dict[bytes, bytes] = {}
        while line := await reader.readline():
            words = line.split()
            if words and words[0] == b"SUB":
                inboxes[words[1].removesuffix(b"*")] = words[-1]
            if not words or words[0] not in {b"PUB", b"HPUB"}:
                above.write(line)
                continue
            message = await reader.readexactly(int(words[-1]) + 2)
            answer = self._refuse(words[1].decode())
            if answer is None:
                above.write(line + message.replace(MESSAGE_ID, UNKNOWN_ID, 1))
            elif not answer:
                above.write(line.replace(words[2], NOWHERE) + message.replace(MESSAGE_ID, UNKNOWN_ID, 1))
            else:
                inbox = words[2]
                sid = next(sid for prefix, sid in inboxes.items() if inbox.startswith(prefix))
                data = json.dumps(answer).encode()
                writer.write(b"MSG %b %b %d\r\n%b\r\n" % (inbox, sid, len(data), data))
