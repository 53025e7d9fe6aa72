"""The routes by which hosts report; they are called most, so they read and write JSON once each."""

from typing import Any, Final

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from application.views import MessageReply, StateReply
from domain.reports import MessageReport, StateReport
from infrastructure.http import problems
from infrastructure.http.access import caller_of, needs
from infrastructure.http.bodies import idempotency_key, read_object
from infrastructure.http.openapi import DEVICE_ID, IDEMPOTENCY_KEY, SESSION_ORIGIN, described, with_parameters
from infrastructure.http.replies import command_reply
from infrastructure.http.routing import DirectRoute, Room, SessionInPath
from infrastructure.http.state import ledger_of, settings_of

router = APIRouter(tags=["reports"], dependencies=[needs("report")], route_class=DirectRoute)

REFUSALS: Final = problems.documented(
    problems.BAD_REQUEST,
    problems.READ_ONLY,
    problems.KEY_REUSED,
    problems.CONFLICT,
    problems.TOO_LARGE,
    problems.UNSUPPORTED_TYPE,
    problems.INVALID,
    problems.OVERLOADED,
    problems.UNAVAILABLE,
)


def _report(body: type[BaseModel], reply: type[BaseModel]) -> dict[str, Any]:
    """What a report says of itself in the OpenAPI document."""
    return with_parameters(described(body, reply), IDEMPOTENCY_KEY, SESSION_ORIGIN, DEVICE_ID)


@router.post(
    "/rooms/{room}/agents/sessions/{session}/state",
    responses=REFUSALS,
    openapi_extra=_report(StateReport, StateReply),
)
async def report_state(room: Room, session: SessionInPath, request: Request) -> Response:
    """Take one atomic report of a session: itself, turns, interactions and messages."""
    report = await _read(request)
    reply = await ledger_of(request).report_state(
        report,
        room=room,
        session=session,
        command_id=idempotency_key(request),
        caller=caller_of(request),
    )
    return command_reply(reply)


@router.post(
    "/rooms/{room}/agents/sessions/{session}/messages",
    responses=REFUSALS,
    openapi_extra=_report(MessageReport, MessageReply),
)
async def report_messages(room: Room, session: SessionInPath, request: Request) -> Response:
    """Take a batch of message updates of a session, in the order in which they apply."""
    report = await _read(request)
    reply = await ledger_of(request).report_messages(
        report,
        room=room,
        session=session,
        command_id=idempotency_key(request),
        caller=caller_of(request),
    )
    return command_reply(reply)


async def _read(request: Request) -> dict[str, Any]:
    """The body of a report, with the origin and device that the address names where the body does not."""
    body = await read_object(request, settings_of(request).body_bytes_max)
    if not request.url.query:
        return body
    asked = request.query_params
    body = _filled(body, "sessionOrigin", "session_origin", asked.get("session_origin", ""))
    return _filled(body, "deviceId", "device_id", asked.get("device_id", ""))


def _filled(body: dict[str, Any], name: str, other_name: str, value: str) -> dict[str, Any]:
    """A report with a value from outside of it, unless it or its source says one itself."""
    source = body.get("source")
    said = [body.get(name), body.get(other_name)]
    if isinstance(source, dict):
        said += [source.get(name), source.get(other_name)]
    return {**body, name: value} if value.strip() and not any(said) else body
