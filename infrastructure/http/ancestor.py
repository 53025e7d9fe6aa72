"""The other routes that the ancestor's clients call: the list of a room, messages, delete, stand-ins."""

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from application import commands
from application.ledger import PAGE_LIMIT_MAX
from application.views import Agents, MessagePage
from infrastructure.http import problems
from infrastructure.http.access import caller_of, needs
from infrastructure.http.bodies import idempotency_key, read_object
from infrastructure.http.openapi import IDEMPOTENCY_KEY, described
from infrastructure.http.problems import CONFLICT, Problem
from infrastructure.http.replies import json_reply, view_reply
from infrastructure.http.routing import Room, SessionInPath
from infrastructure.http.state import ledger_of, settings_of

router = APIRouter(tags=["ancestor"])

VERSION_MAX: Final = 2**63 - 1
SESSION: Final = "/rooms/{room}/agents/sessions/{session}"
READING: Final = problems.documented(
    problems.BAD_REQUEST, problems.NOT_FOUND, problems.INVALID, problems.UNAVAILABLE
)

Origin = Annotated[str, Query(description="Only sessions of this origin; blank means all.")]
Version = Annotated[int, Query(ge=0, le=VERSION_MAX, description="A message version.")]
Limit = Annotated[int, Query(ge=1, description=f"How many; more than {PAGE_LIMIT_MAX} count as that.")]


@router.get(
    "/rooms/{room}/agents/list",
    dependencies=[needs("read")],
    responses=READING,
    openapi_extra=described(None, Agents, "The room's sessions, the ones that changed last first."),
)
async def agents(
    room: Room, request: Request, session_origin: Origin = "", user_id: str = "", device_id: str = ""
) -> Response:
    """List the sessions of a room, without deleted ones."""
    asked = (session_origin.strip(), user_id.strip(), device_id.strip())
    return view_reply(Agents(sessions=await ledger_of(request).agents(room, *asked)))


@router.get(
    SESSION + "/messages",
    dependencies=[needs("read")],
    responses=READING,
    openapi_extra=described(None, MessagePage, "A page; poll on from its latestVersion."),
)
async def messages(
    room: Room,
    session: SessionInPath,
    request: Request,
    after_version: Version = 0,
    before_version: Version = 0,
    order: Literal["", "asc", "desc"] = "",
    limit: Limit = 100,
) -> Response:
    """Read messages: the lowest versions above a cursor, or the highest below one (SPEC M10).

    Descending is asked for by `order`, or by `before_version` alone; 0 there means from the end.
    """
    descends = order == "desc" or (not order and before_version > 0)
    page = await ledger_of(request).messages(
        room, session, after_version, limit, before=before_version if descends else None
    )
    return view_reply(page)


@router.delete(
    "/rooms/{room}/agents/{session}",
    dependencies=[needs("operate")],
    status_code=204,
    responses=problems.documented(
        problems.BAD_REQUEST,
        problems.READ_ONLY,
        problems.KEY_REUSED,
        problems.INVALID,
        problems.OVERLOADED,
        problems.UNAVAILABLE,
    ),
    openapi_extra={"parameters": [dict(IDEMPOTENCY_KEY)]},
)
async def delete(room: Room, session: SessionInPath, request: Request) -> Response:
    """Delete a session with all its descendants; one that is not known is none already."""
    command = commands.delete(room, session, idempotency_key(request))
    await ledger_of(request).do(command, caller=caller_of(request))
    return Response(status_code=204)


# The ancestor's goals are not kept; these answers let its clients go on without them.

_GOALS: Final = problems.documented(
    problems.BAD_REQUEST,
    problems.READ_ONLY,
    CONFLICT,
    problems.TOO_LARGE,
    problems.UNSUPPORTED_TYPE,
    problems.INVALID,
)
_ANY_OBJECT: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": ["object", "null"]}}},
    }
}


@router.post(
    SESSION + "/goal-provenance/lookup",
    dependencies=[needs("report")],
    responses=_GOALS,
    openapi_extra=_ANY_OBJECT,
)
async def lookup_goal(room: Room, session: SessionInPath, request: Request) -> Response:
    """Say that no goal is known here."""
    await _ignored(room, session, request=request)
    return json_reply({"found": False})


@router.post(
    SESSION + "/goal-provenance/bind",
    dependencies=[needs("report")],
    responses=_GOALS,
    openapi_extra=_ANY_OBJECT,
)
async def bind_goal(room: Room, session: SessionInPath, request: Request) -> Response:
    """Refuse to bind a goal, because goals are not kept."""
    await _ignored(room, session, request=request)
    raise Problem(CONFLICT, "goals are not kept here; go on without binding one", code="goals_not_kept")


@router.post(
    SESSION + "/goal-reconcile-required",
    dependencies=[needs("report")],
    responses=_GOALS,
    openapi_extra=_ANY_OBJECT,
)
async def reconcile_goal(room: Room, session: SessionInPath, request: Request) -> Response:
    """Say that a wish to reconcile a goal was not taken."""
    await _ignored(room, session, request=request)
    return json_reply({"Accepted": False})


async def _ignored(*_: str, request: Request) -> None:
    """Read a body that nothing is done with, so that a wrong one is refused all the same."""
    await read_object(request, settings_of(request).body_bytes_max)
