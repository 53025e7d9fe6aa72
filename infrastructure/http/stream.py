"""The routes of what is committed, as it is committed: server-sent events.

The framework's own event streams spell each event for each reader; here one spelling is sent to all.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Final

import structlog
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from infrastructure.http import problems
from infrastructure.http.access import caller_in, needs
from infrastructure.http.live import Live
from infrastructure.http.problems import Problem
from infrastructure.http.routing import Room

SEND_TIMEOUT_S: Final = 30.0
"""How long a reader may take nothing at all before its connection is given up."""
POSITION_MAX: Final = 2**63 - 1
POSITION_DIGITS: Final = 19
HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx would wait for more
}

log = structlog.get_logger("reprise.stream")
router = APIRouter(tags=["live"])

After = Annotated[
    int | None,
    Query(
        ge=0,
        le=POSITION_MAX,
        description="The position behind which to begin; without one, from now on."
        " The header Last-Event-ID goes before it.",
    ),
]
ANSWERS: Final = {
    200: {
        "description": "Events `commit` (a CloudEvent, its id the position), `reset` (what was had does not"
        " lead to what comes, which begins behind `earliest`) and `lagged` (read too slowly; come again).",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
    **problems.documented(
        problems.BAD_REQUEST,
        problems.INVALID,
        problems.OVERLOADED,
        problems.UNAVAILABLE,
    ),
}


class EventStream(StreamingResponse):
    """A stream that is closed with its connection, and gives up a reader who takes nothing."""

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncGenerator[bytes]) -> None:
        super().__init__(frames, headers=HEADERS)
        self._frames = frames

    async def stream_response(self, send: Send) -> None:
        async def timely(message: Message) -> None:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await send(message)

        async with aclosing(self._frames):
            try:
                await super().stream_response(timely)
            except TimeoutError:
                log.warning("reader_stuck", timeout_s=SEND_TIMEOUT_S)


@router.get(
    "/stream",
    status_code=200,
    response_class=EventStream,
    responses=ANSWERS,
    dependencies=[needs("read", chooses=True)],
)
async def stream(request: Request, after: After = None) -> EventStream:
    """Follow what is committed in every room, or in those that the token is for."""
    return await _begin(request, after, None)


@router.get(
    "/rooms/{room}/stream",
    status_code=200,
    response_class=EventStream,
    responses=ANSWERS,
    dependencies=[needs("read")],
)
async def room_stream(room: Room, request: Request, after: After = None) -> EventStream:
    """Follow what is committed in a room."""
    return await _begin(request, after, room)


async def _begin(request: Request, after: int | None, room: str | None) -> EventStream:
    live: Live = request.app.state.live
    caller = caller_in(request)
    last = _last_event_id(request)
    position = after if last is None else last
    accepts = caller.reaches if room is None else room.__eq__
    return EventStream(await live.stream(position, accepts))


def _last_event_id(request: Request) -> int | None:
    """Where the reader was cut off; None when it was not."""
    said = request.headers.get("last-event-id", "").strip()
    if not said:
        return None
    if not (said.isascii() and said.isdigit() and len(said) < POSITION_DIGITS):
        raise Problem(problems.BAD_REQUEST, "Last-Event-ID: expected the id of an event, which is a number")
    return int(said)
