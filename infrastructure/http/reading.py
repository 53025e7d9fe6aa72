"""The routes that read what is: rooms, sessions, one session now or at any of its versions, its messages."""

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from application.finding import Wanted
from application.views import MessageView, RoomSummary, SessionSummary, SessionView
from domain.errors import NotFound
from infrastructure.http import problems
from infrastructure.http.access import needs
from infrastructure.http.ancestor import VERSION_MAX
from infrastructure.http.openapi import described_page, described_reading
from infrastructure.http.pages import Cursor, Limit, page, place_of
from infrastructure.http.replies import json_reply
from infrastructure.http.routing import Room, SessionInPath
from infrastructure.http.state import ledger_of
from infrastructure.http.times import TIME, as_read, asked
from infrastructure.http.versions import etag, is_unchanged

router = APIRouter(tags=["reading"], dependencies=[needs("read")])

LIST_PROBLEMS = problems.documented(
    problems.BAD_REQUEST, problems.CURSOR_INVALID, problems.INVALID, problems.UNAVAILABLE
)
ONE_PROBLEMS = problems.documented(
    problems.BAD_REQUEST,
    problems.CURSOR_INVALID,
    problems.NOT_FOUND,
    problems.INVALID,
    problems.UNAVAILABLE,
)
NOT_MODIFIED: Final[dict[int | str, Any]] = {304: {"description": "The caller has this version already."}}
IMMUTABLE = {"Cache-Control": "private, max-age=31536000, immutable"}
"""A version never changes; what it said may be destroyed by a purge, which a private cache outlives."""

Text = Annotated[str, Query(max_length=512)]
At = Annotated[str, Query(description="RFC 3339, or Unix milliseconds.", json_schema_extra={"pattern": TIME})]
Version = Annotated[int | None, Query(ge=1, le=VERSION_MAX, description="A stream version.")]


class Filter(BaseModel):
    """Which sessions of a list are wanted; blank means any."""

    status: Literal["", "working", "waiting", "idle", "completed", "failed", "canceled"] = ""
    provider: str = Field(default="", max_length=512)
    kind: Literal["", "root", "child"] = ""
    since: str = Field(
        default="",
        description="Changed last at or behind this time.",
        json_schema_extra={"pattern": TIME},
    )
    until: str = Field(
        default="",
        description="Changed last at or before this time.",
        json_schema_extra={"pattern": TIME},
    )
    q: str = Field(default="", max_length=512, description="Stands in the title or the id, in any case.")

    def wanted(self) -> Wanted:
        return Wanted(
            status=self.status,
            provider=self.provider.strip(),
            kind=self.kind,
            text=self.q.strip(),
            since_ms=asked(self.since, "since") if self.since.strip() else 0,
            until_ms=asked(self.until, "until") if self.until.strip() else 0,
        )


@router.get("/rooms", responses=LIST_PROBLEMS, openapi_extra=described_page(RoomSummary))
async def rooms(request: Request, limit: Limit = 100, cursor: Cursor = "") -> Response:
    """List the rooms that have sessions, by name."""
    place = place_of(request, cursor, (str,))
    found = await ledger_of(request).rooms(place[0] if place else "", limit + 1)
    items = [as_read(room.to_dict()) for room in found[:limit]]
    return page(request, items, (found[limit - 1].room,) if len(found) > limit else None)


@router.get("/sessions", responses=LIST_PROBLEMS, openapi_extra=described_page(SessionSummary))
async def all_sessions(
    request: Request, wanted: Annotated[Filter, Query()], limit: Limit = 100, cursor: Cursor = ""
) -> Response:
    """List the sessions of all rooms, the ones that changed last first."""
    return await _sessions(request, wanted.wanted(), None, limit, cursor)


@router.get("/rooms/{room}/sessions", responses=LIST_PROBLEMS, openapi_extra=described_page(SessionSummary))
async def sessions(
    room: Room,
    request: Request,
    wanted: Annotated[Filter, Query()],
    limit: Limit = 100,
    cursor: Cursor = "",
) -> Response:
    """List the sessions of a room, the ones that changed last first.

    A page may have fewer items than asked for and still a `next`.
    """
    return await _sessions(request, wanted.wanted(), room, limit, cursor)


async def _sessions(request: Request, wanted: Wanted, room: str | None, limit: int, cursor: str) -> Response:
    place = place_of(request, cursor, (int, str, str))
    after = (place[0], place[1], place[2]) if place else None
    found = await ledger_of(request).find(wanted, room, after, limit)
    return page(request, [as_read(one.to_dict()) for one in found.items], found.next)


@router.get(
    "/rooms/{room}/sessions/{session}",
    responses={**ONE_PROBLEMS, **NOT_MODIFIED},
    openapi_extra=described_reading(SessionView, "The session, its turns and what it asked."),
)
async def session(
    room: Room, session: SessionInPath, request: Request, version: Version = None, at: At = ""
) -> Response:
    """Show a session as it is, or as it was at a stream version or a time."""
    if version is not None or at.strip():
        at_ms = asked(at, "at") if at.strip() else None
        view = await ledger_of(request).session_at(room, session, version=version, at_ms=at_ms)
        headers = IMMUTABLE if version is not None else {}
    else:
        now = await ledger_of(request).session(room, session)
        if now is None:
            raise NotFound(f"no session {session} in room {room}; of a purged one, its events are left")
        view, headers = now, {}
    headers = {**headers, "ETag": etag(view.stream_version)}
    if is_unchanged(request, view.stream_version):
        return Response(status_code=304, headers=headers)
    return json_reply(as_read(view.to_dict()), headers=headers)


@router.get(
    "/rooms/{room}/sessions/{session}/messages",
    responses=ONE_PROBLEMS,
    openapi_extra=described_page(MessageView),
)
async def messages(
    room: Room, session: SessionInPath, request: Request, limit: Limit = 100, cursor: Cursor = ""
) -> Response:
    """Read a session's messages in the order in which they changed last; a page may end early."""
    place = place_of(request, cursor, (int,))
    found = await ledger_of(request).messages(room, session, place[0] if place else 0, limit)
    items = [as_read(message.to_dict()) for message in found.messages]
    return page(request, items, (found.latest_version,) if found.has_more else None)
