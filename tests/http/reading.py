"""Reads server-sent events as a browser does."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ServerSent:
    """An event as it was sent; `id` is the last one that was named, here or before."""

    event: str
    id: str
    data: Any


class EventReader:
    """Takes a stream apart, in whatever pieces it comes."""

    def __init__(self) -> None:
        self.last_id = ""
        self.retry_ms: int | None = None
        self.comments = 0
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[ServerSent]:
        """The events that are whole with this piece."""
        *blocks, self._rest = (self._rest + piece).split(b"\n\n")
        for block in blocks:
            event, data = "message", []
            for line in block.decode().split("\n"):
                name, _, value = line.partition(": ")
                match name:
                    case "id":
                        self.last_id = value
                    case "event":
                        event = value
                    case "data":
                        data.append(value)
                    case "retry":
                        self.retry_ms = int(value)
                    case _:
                        self.comments += 1
            if data:
                yield ServerSent(event, self.last_id, json.loads("\n".join(data)))


def read_all(pieces: Iterable[bytes]) -> list[ServerSent]:
    """The events of a stream that has ended."""
    reader = EventReader()
    return [one for piece in pieces for one in reader.feed(piece)]


async def until(condition: Callable[[], bool]) -> None:
    """Let others work until something holds; a test that waits in vain fails."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.001)
