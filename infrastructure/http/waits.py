"""The routes about the waits of a room that is pulled in: what holds it, and how to let it go."""

from collections.abc import Callable
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from application.rooms import HeldLane, Reason, Rooms, lane_of
from application.views import View
from infrastructure.http.access import caller_of, needs
from infrastructure.http.asking import MEANT_PROBLEMS, READ_PROBLEMS, said
from infrastructure.http.openapi import IF_MATCH, described_change, described_reading, with_parameters
from infrastructure.http.replies import json_reply
from infrastructure.http.routing import Room
from infrastructure.http.state import ledger_of
from infrastructure.http.times import as_read
from infrastructure.http.versions import etag, version_meant

reading = APIRouter(tags=["waits"], dependencies=[needs("read")])
operating = APIRouter(tags=["waits"], dependencies=[needs("operate")])


class HeldLaneView(View):
    """A lane that waits, is parked, or was paused."""

    lane: str
    """`list`, or `messages:` and a session; blank: every lane of the room."""
    state: str
    kind: str | None = None
    """What the last failure was, such as `status` or `timeout`."""
    status: int | None = None
    failures: int | None = None
    until_unix_ms: int | None = None


class HoldView(View):
    """One thing that holds the room, and the event that says so."""

    why: str
    lane: str
    until_unix_ms: int | None = None
    ended_by: str
    aggregate: str
    version: int
    topic: str | None = None
    recorded_at_unix_ms: int | None = None
    reason: str | None = None


class BackoffView(View):
    """The waits of a room."""

    room: str
    version: int
    """Of the aggregate's stream; it is the ETag."""
    lanes: tuple[HeldLaneView, ...]
    held_by: tuple[HoldView, ...]
    """What keeps the room from being listed now; nothing: it is next."""


class LaneBody(View):
    """Which lane is meant: `list`, or a session; blank: every lane."""

    lane: str = ""


CHANGE: Final = with_parameters(described_change(LaneBody, BackoffView), IF_MATCH)


@reading.get(
    "/rooms/{room}/backoff",
    responses=READ_PROBLEMS,
    openapi_extra=described_reading(BackoffView, "The room's waits."),
)
async def backoff(room: Room, request: Request) -> Response:
    """Show which lanes of a room wait, and what holds it."""
    return await _shown(room, request)


@operating.post(
    "/rooms/{room}/backoff/reset",
    responses=MEANT_PROBLEMS,
    openapi_extra=with_parameters(described_change(LaneBody, BackoffView), IF_MATCH),
)
async def reset(room: Room, request: Request) -> Response:
    """End the waits of a lane, or of the whole room and its host: it is tried at its next turn."""
    return await _change(room, request, Rooms.reset)


@operating.post(
    "/rooms/{room}/backoff/pause",
    responses=MEANT_PROBLEMS,
    openapi_extra=with_parameters(described_change(LaneBody, BackoffView), IF_MATCH),
)
async def pause(room: Room, request: Request) -> Response:
    """Call a lane, or the whole room, no more until it is resumed."""
    return await _change(room, request, Rooms.pause)


@operating.post(
    "/rooms/{room}/backoff/resume",
    responses=MEANT_PROBLEMS,
    openapi_extra=with_parameters(described_change(LaneBody, BackoffView), IF_MATCH),
)
async def resume(room: Room, request: Request) -> Response:
    """Call a paused lane again, or all that was paused in the room."""
    return await _change(room, request, Rooms.resume)


async def _change(room: str, request: Request, change: Callable[..., Any]) -> Response:
    lane, meant = lane_of((await said(request, LaneBody)).lane), version_meant(request)
    await ledger_of(request).with_rooms(
        lambda rooms: change(rooms, room, lane, if_version=meant), caller_of(request)
    )
    return await _shown(room, request)


async def _shown(room: str, request: Request) -> Response:
    version, lanes, reasons = await ledger_of(request).with_rooms(
        lambda rooms: (rooms.waits(room).version, rooms.held_lanes_of(room), rooms.why(room))
    )
    view = BackoffView(
        room=room, version=version, lanes=tuple(map(_lane, lanes)), held_by=tuple(map(_reason, reasons))
    )
    return json_reply(as_read(view.to_dict()), headers={"ETag": etag(version)})


def _lane(held: HeldLane) -> HeldLaneView:
    wait = held.wait
    if wait is None:
        return HeldLaneView(lane=held.lane, state=held.state)
    return HeldLaneView(
        lane=held.lane,
        state=held.state,
        kind=wait.kind,
        status=wait.status or None,
        failures=wait.failures + wait.refusals,
        until_unix_ms=wait.until,
    )


def _reason(reason: Reason) -> HoldView:
    hold, event = reason.hold, reason.event
    return HoldView(
        why=hold.why,
        lane=hold.lane,
        until_unix_ms=hold.until or None,
        ended_by=hold.ends,
        aggregate=hold.kind,
        version=hold.version,
        topic=event.topic if event else None,
        recorded_at_unix_ms=event.recorded_at if event else None,
        reason=reason.told or None,
    )
