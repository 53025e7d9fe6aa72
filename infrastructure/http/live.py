"""One follower of the commits for all readers of a process, each with a bounded buffer of its own.

A reader is first given what is kept behind its position, from the outbox; then it joins the others, whom
the follower hands each delta as it is committed, already spelled. It joins before it reads the last piece,
and leaves out what it has had, so that nothing comes twice and nothing is missed.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog
from fastapi.sse import format_sse_event

from application.ports import Extent
from domain.delta import CommittedDelta
from domain.errors import Overloaded, StoreError, Trimmed
from domain.ids import Position, RoomId
from infrastructure.cloud_events import structured

READERS_MAX: Final = 1_000
"""Streams of one process; one more is refused with Overloaded."""
BUFFER_BYTES_MAX: Final = 4 * 2**20
"""What may wait for one reader. The bytes are shared, so many slow readers wait for the same ones."""
KEEP_ALIVE_S: Final = 15.0
RETRY_MS: Final = 2_000
"""After how long a reader that was cut off is asked to come again."""
PAGE_MAX: Final = 50
"""Deltas read from the outbox at once for a reader who catches up."""

log = structlog.get_logger("reprise.stream")

Accepts = Callable[[RoomId], bool]
"""Whether a reader is to see what happens in a room."""


class Commits(Protocol):
    """What there is to follow: `AsyncLedger`, as far as it is needed here."""

    async def extent(self) -> Extent: ...

    async def deltas_page(self, after: int, limit: int) -> Sequence[CommittedDelta]: ...

    def follow(self, after: int) -> AsyncIterator[CommittedDelta]: ...


@dataclass(frozen=True, slots=True)
class Frame:
    """A commit as a server-sent event."""

    position: Position
    room: RoomId
    text: bytes


def frame_of(committed: CommittedDelta) -> Frame:
    position = committed.last_position
    text = format_sse_event(id=str(position), event="commit", data_str=structured(committed).decode())
    return Frame(position, committed.room, text)


def reset(kept_behind: Position) -> bytes:
    """Tells that what a reader has had does not lead to what comes now, which begins behind `earliest`."""
    return format_sse_event(
        id=str(kept_behind), event="reset", data_str=json.dumps({"earliest": kept_behind})
    )


@dataclass(eq=False, slots=True)
class Reader:
    """Who reads along: what waits for it, and how it ends."""

    accepts: Accepts
    waiting: deque[Frame] = field(default_factory=deque)
    waiting_bytes: int = 0
    seen: Position = Position(0)
    """Everything up to here was handed to it, or is not for it."""
    is_lagged: bool = False
    is_ended: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def hand(self, frame: Frame) -> None:
        """Let a frame wait, if it is for this reader; one that reads too slowly gets nothing more."""
        if self.is_ended:
            return
        self.seen = frame.position
        if not self.accepts(frame.room):
            return
        if self.waiting and self.waiting_bytes + len(frame.text) > BUFFER_BYTES_MAX:
            self.is_lagged = True
            self.end()
            self.waiting.clear()
            return
        self.waiting.append(frame)
        self.waiting_bytes += len(frame.text)
        self.news.set()

    def take(self) -> Frame:
        frame = self.waiting.popleft()
        self.waiting_bytes -= len(frame.text)
        return frame

    def end(self) -> None:
        self.is_ended = True
        self.news.set()


class Live:
    """The streams of this process."""

    def __init__(self, commits: Commits, *, keep_alive_s: float = KEEP_ALIVE_S) -> None:
        self._commits = commits
        self._keep_alive_s = keep_alive_s
        self._readers: set[Reader] = set()
        self._open = 0
        self._follower: asyncio.Task[None] | None = None
        self._position = Position(0)
        """Everything up to here was handed to who had joined."""
        self._is_closed = False
        self._starting = asyncio.Lock()

    @property
    def clients(self) -> int:
        """Streams that are open."""
        return self._open

    @property
    def is_following(self) -> bool:
        """Whether the follower runs; it does from the first reader on."""
        return self._follower is not None and not self._follower.done()

    async def stream(self, after: int | None, accepts: Accepts) -> AsyncGenerator[bytes]:
        """Begin a stream behind a position, or from now on; it ends with `close`, or when it lags.

        Raises Overloaded and StoreError before anything was sent.
        """
        if self._open >= READERS_MAX:
            raise Overloaded(f"{READERS_MAX} streams are open; try again later")
        extent = await self._commits.extent()
        start = extent.end if after is None else Position(after)
        return self._counted(self._frames(start, extent, accepts))

    async def _counted(self, frames: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        self._open += 1
        try:
            async with aclosing(frames):
                async for frame in frames:
                    yield frame
        except StoreError as error:
            # The answer has begun, so all there is to do is to end it: the reader comes again.
            log.warning("stream_ended", error=str(error))
        finally:
            self._open -= 1

    async def _frames(self, start: Position, extent: Extent, accepts: Accepts) -> AsyncGenerator[bytes]:
        # The id comes with the first word, so that whoever is cut off before a commit knows where to go on.
        yield format_sse_event(id=str(start), retry=RETRY_MS)
        reader, had, joined_at = Reader(accepts), start, None
        if had > extent.end:  # A store that was restored: what the reader had is not what is here.
            had = extent.kept_behind
            yield reset(had)
        try:
            while not self._is_closed:
                try:
                    page = await self._commits.deltas_page(had, PAGE_MAX)
                except Trimmed as told:
                    had = Position(told.earliest)
                    yield reset(had)
                    continue
                for committed in page:
                    if committed.last_position > had:
                        had = committed.last_position
                        if accepts(committed.room):
                            yield frame_of(committed).text
                is_last = len(page) < PAGE_MAX
                if is_last and joined_at is None:
                    joined_at = await self._join(reader)
                    is_last = False
                if joined_at is not None and (is_last or had >= joined_at):
                    break
            live = self._live(reader, had)
            async with aclosing(live):
                async for text in live:
                    yield text
        finally:
            self._readers.discard(reader)

    async def _join(self, reader: Reader) -> Position:
        """Hand a reader what is committed from now on: behind the position that is given."""
        await self._follow()
        self._readers.add(reader)
        return self._position

    async def _live(self, reader: Reader, had: Position) -> AsyncGenerator[bytes]:
        """What waits, as it comes; `had` was given already."""
        reader.seen = max(reader.seen, had)
        while True:
            while reader.waiting:
                frame = reader.take()
                if frame.position > had:
                    had = frame.position
                    yield frame.text
            if reader.is_ended or self._is_closed:
                break
            reader.news.clear()
            seen = reader.seen
            try:
                async with asyncio.timeout(self._keep_alive_s):
                    await reader.news.wait()
            except TimeoutError:
                # With an id, so that a reader of a quiet room does not begin far behind the next time.
                yield format_sse_event(comment="keep-alive", id=str(seen))
        if reader.is_lagged:
            yield format_sse_event(event="lagged", data_str=json.dumps({"position": had}))

    # The follower.

    async def _follow(self) -> None:
        """Start the follower, unless it runs."""
        async with self._starting:
            if not self.is_following and not self._is_closed:
                self._position = (await self._commits.extent()).end
                self._follower = asyncio.create_task(self._fan_out(self._position), name="reprise-stream")

    async def _fan_out(self, after: Position) -> None:
        try:
            async for committed in self._commits.follow(after):
                frame = frame_of(committed)
                self._position = frame.position
                for reader in tuple(self._readers):
                    reader.hand(frame)
        except StoreError as error:
            log.warning("follower_failed", error=str(error))
        finally:
            for reader in tuple(self._readers):  # They come again, and the first one starts it anew.
                reader.end()

    async def close(self) -> None:
        """End every stream, after what waits for its reader, and the follower."""
        self._is_closed = True
        for reader in tuple(self._readers):
            reader.end()
        if self._follower is not None:
            self._follower.cancel()
            with suppress(asyncio.CancelledError):
                await self._follower
