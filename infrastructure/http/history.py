"""The routes that tell what happened: events, differences, causes, commits."""

from collections.abc import Iterable
from typing import Annotated, Any, Final

import jsonpatch
from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from application.past import Comparison
from application.ports import StoredEvent
from domain.delta import CommittedDelta
from domain.errors import NotFound
from infrastructure.history import as_json_object
from infrastructure.http import problems
from infrastructure.http.access import needs
from infrastructure.http.ancestor import VERSION_MAX
from infrastructure.http.documents import CauseRead, CommitRead, DiffRead, EventRead
from infrastructure.http.openapi import described, described_page
from infrastructure.http.pages import Cursor, Limit, next_link, page, place_of
from infrastructure.http.reading import IMMUTABLE, LIST_PROBLEMS, ONE_PROBLEMS
from infrastructure.http.replies import json_reply
from infrastructure.http.routing import Room, SessionInPath, TransactionInPath
from infrastructure.http.state import ledger_of
from infrastructure.http.times import as_read, told

router = APIRouter(tags=["history"], dependencies=[needs("read")])

SESSION: Final = "/rooms/{room}/sessions/{session}"
EventVersion = Annotated[int, Path(ge=1, le=VERSION_MAX, description="A stream version.")]
LOOKED_AT_MAX: Final = 5_000
"""Events that are looked at for one page; a page that finds few of them ends there."""


class Filter(BaseModel):
    """Which events of a history are wanted; blank and 0 mean any."""

    type: str = Field(default="", max_length=512, description="Only events of this topic.")
    source: str = Field(
        default="", max_length=512, description="Only events from this source or import, or by this actor."
    )
    from_version: int = Field(default=0, ge=0, le=VERSION_MAX)
    to_version: int = Field(default=0, ge=0, le=VERSION_MAX)

    def fits(self, stored: StoredEvent) -> bool:
        source = (stored.source.name, stored.source.import_id) if stored.source else ()
        return self.type in ("", stored.topic) and self.source in ("", stored.actor, *source)


@router.get(SESSION + "/events", responses=ONE_PROBLEMS, openapi_extra=described_page(EventRead))
async def events(
    room: Room,
    session: SessionInPath,
    request: Request,
    wanted: Annotated[Filter, Query()],
    limit: Limit = 100,
    cursor: Cursor = "",
) -> Response:
    """Tell a session's history, oldest first, also of a deleted or purged one."""
    place = place_of(request, cursor, (int,))
    after = max(place[0] if place else 0, wanted.from_version - 1)
    items: list[Any] = []
    seen = after
    async for stored in ledger_of(request).events(room, session, after):
        if wanted.to_version and stored.version > wanted.to_version:
            return page(request, items, None)
        if len(items) == limit or seen - after >= LOOKED_AT_MAX:
            return page(request, items, (seen,))
        seen = stored.version
        if wanted.fits(stored):
            items.append(_event(stored))
    if not seen:
        raise NotFound(f"no session {session} in room {room}")
    return page(request, items, None)


def _event(stored: StoredEvent) -> dict[str, Any]:
    """All that is known of an event."""
    return as_read(as_json_object(stored))


@router.get(
    SESSION + "/events/{version}",
    responses=ONE_PROBLEMS,
    openapi_extra=described(None, EventRead, "The event."),
)
async def event(room: Room, session: SessionInPath, version: EventVersion, request: Request) -> Response:
    """Tell one event of a session."""
    found = ledger_of(request).events(room, session, version - 1)
    async for stored in found:
        if stored.version == version:
            return json_reply(_event(stored))
        break
    raise NotFound(f"session {session} in room {room} has no version {version}")


@router.get(
    SESSION + "/diff",
    responses=ONE_PROBLEMS,
    openapi_extra=described(None, DiffRead, "What changed, and which events changed it."),
)
async def diff(
    room: Room,
    session: SessionInPath,
    request: Request,
    from_: Annotated[int, Query(alias="from", ge=0, le=VERSION_MAX)],
    to: Annotated[int, Query(ge=0, le=VERSION_MAX)],
) -> Response:
    """Compare two stream versions of a session; version 0 is nothing.

    The documents that are compared have turns, interactions and messages under their ids.
    """
    compared = await ledger_of(request).compare(room, session, from_, to)
    patch = jsonpatch.make_patch(compared.before, compared.after).patch
    changes = list(_changes(compared, patch))
    return json_reply({"from": from_, "to": to, "patch": patch, "changes": changes}, headers=IMMUTABLE)


def _changes(compared: Comparison, patch: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Each operation of a patch with the event that made it."""
    for operation in patch:
        maker = compared.maker(tuple(jsonpatch.JsonPointer(operation["path"]).parts))
        yield {**operation, "event": _named(maker) if maker else None}


def _named(stored: StoredEvent) -> dict[str, Any]:
    """An event as it is referred to: everything but what was written."""
    said = _event(stored)
    kept = (
        "version",
        "position",
        "topic",
        "recordedAt",
        "transactionId",
        "words",
        "commandId",
        "actor",
        "source",
    )
    return {name: said[name] for name in kept if name in said}


@router.get(
    SESSION + "/why",
    responses=ONE_PROBLEMS,
    openapi_extra=described(None, CauseRead, "The status, and the events behind it, the newest first."),
)
async def why(room: Room, session: SessionInPath, request: Request) -> Response:
    """Tell why a session has its status: the event that made it so, and what led there."""
    cause = await ledger_of(request).why(room, session)
    chain = [{"role": link.role, "status": link.status, "event": _named(link.stored)} for link in cause.chain]
    said = {"room": room, "session": session, "status": cause.status, "version": cause.version}
    return json_reply({**said, "chain": chain})


@router.get(
    "/commits",
    responses={**LIST_PROBLEMS, **problems.documented(problems.CURSOR_EXPIRED)},
    openapi_extra=described_page(CommitRead, cursor="position"),
)
async def commits(
    request: Request,
    after: Annotated[int, Query(ge=0, le=VERSION_MAX, description="A commit position.")] = 0,
    limit: Limit = 100,
) -> Response:
    """Read what commits changed, in commit order; `next` is the position to ask behind for more."""
    found = await ledger_of(request).commits(after, limit)
    last = found[-1].last_position if found else after
    body = {"items": [_commit(one) for one in found], "next": last}
    return json_reply(body, headers=next_link(request, {"after": last}))


@router.get(
    "/commits/{transaction}",
    responses=ONE_PROBLEMS,
    openapi_extra=described(None, CommitRead, "The commit."),
)
async def commit(transaction: TransactionInPath, request: Request) -> Response:
    """Read what one commit changed."""
    return json_reply(_commit(await ledger_of(request).commit(transaction)))


def _commit(committed: CommittedDelta) -> dict[str, Any]:
    return {
        "position": committed.last_position,
        "firstPosition": committed.first_position,
        "recordedAt": told(committed.recorded_at),
        "room": committed.room,
        "transactionId": committed.transaction_id,
        "delta": committed.delta.model_dump(by_alias=True, exclude_none=True),
    }
