"""The routes of commands: title, pin, settings, answers, cancel, delete, restore, purge, settle."""

from typing import Any, Final, TypeVar

from fastapi import APIRouter
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from application import commands
from application.commands import Command
from application.views import Reply
from domain.errors import Rejected
from infrastructure.http import problems
from infrastructure.http.access import caller_of, needs
from infrastructure.http.bodies import idempotency_key, read_object
from infrastructure.http.documents import AnswerBody, PinBody, SettingsBody, SettledReply, TitleBody
from infrastructure.http.openapi import IDEMPOTENCY_KEY, IF_MATCH, described, with_parameters
from infrastructure.http.problems import INVALID, NOT_FOUND, Problem, parameter_errors
from infrastructure.http.replies import command_reply, json_reply
from infrastructure.http.routing import RequestInPath, Room, SessionInPath, TurnInPath
from infrastructure.http.state import ledger_of, settings_of
from infrastructure.http.versions import version_meant

router = APIRouter(tags=["commands"], dependencies=[needs("operate")])

SESSION: Final = "/rooms/{room}/sessions/{session}"
REFUSALS: Final = problems.documented(
    problems.BAD_REQUEST,
    problems.READ_ONLY,
    problems.NOT_FOUND,
    problems.CONFLICT,
    problems.KEY_REUSED,
    problems.VERSION_CONFLICT,
    problems.TOO_LARGE,
    problems.UNSUPPORTED_TYPE,
    problems.INVALID,
    problems.PRECONDITION_REQUIRED,
    problems.OVERLOADED,
    problems.UNAVAILABLE,
)
B = TypeVar("B", bound=BaseModel)


def _command(body: type[BaseModel] | None) -> dict[str, Any]:
    """What a command on a session says of itself in the OpenAPI document."""
    return with_parameters(described(body, Reply), IDEMPOTENCY_KEY, IF_MATCH)


@router.post(SESSION + "/title", responses=REFUSALS, openapi_extra=_command(TitleBody))
async def set_title(room: Room, session: SessionInPath, request: Request) -> Response:
    """Set a session's title for good; later reports do not change it."""
    body = await _said(request, TitleBody)
    return await _do(request, commands.set_title(room, session, body.title, idempotency_key(request)))


@router.post(SESSION + "/pin", responses=REFUSALS, openapi_extra=_command(PinBody))
async def set_pin(room: Room, session: SessionInPath, request: Request) -> Response:
    """Pin a session, or take the pin away."""
    body = await _said(request, PinBody)
    return await _do(request, commands.set_pin(room, session, idempotency_key(request), pinned=body.pinned))


@router.post(SESSION + "/settings", responses=REFUSALS, openapi_extra=_command(SettingsBody))
async def set_settings(room: Room, session: SessionInPath, request: Request) -> Response:
    """Replace a session's settings as a whole."""
    body = await _said(request, SettingsBody)
    return await _do(request, commands.set_settings(room, session, body.settings, idempotency_key(request)))


@router.post(
    SESSION + "/interactions/{turn}/{asked}/answer",
    responses=REFUSALS,
    openapi_extra=_command(AnswerBody),
)
async def answer(
    room: Room, session: SessionInPath, turn: TurnInPath, asked: RequestInPath, request: Request
) -> Response:
    """Answer a pending approval, question or plan; another answer than the first one is a conflict."""
    body = await _said(request, AnswerBody)
    key = idempotency_key(request)
    return await _do(request, commands.answer(room, session, turn, asked, body.output, key))


@router.post(SESSION + "/turns/{turn}/cancel", responses=REFUSALS, openapi_extra=_command(None))
async def request_cancel(room: Room, session: SessionInPath, turn: TurnInPath, request: Request) -> Response:
    """Record that a turn is wanted to end; the runtime's own report settles it."""
    return await _do(request, commands.request_cancel(room, session, turn, idempotency_key(request)))


@router.delete(SESSION, responses=REFUSALS, openapi_extra=_command(None))
async def delete(room: Room, session: SessionInPath, request: Request) -> Response:
    """Delete a session with all its descendants, and say what became of each."""
    return await _do(request, commands.delete(room, session, idempotency_key(request)))


@router.post(SESSION + "/restore", responses=REFUSALS, openapi_extra=_command(None))
async def restore(room: Room, session: SessionInPath, request: Request) -> Response:
    """Bring back exactly what was deleted together with a session."""
    return await _do(request, commands.restore(room, session, idempotency_key(request)))


@router.post(SESSION + "/purge", responses=REFUSALS, openapi_extra=_command(None))
async def purge(room: Room, session: SessionInPath, request: Request) -> Response:
    """Destroy the content of a session and its descendants for good; its facts stay."""
    return await _do(request, commands.purge(room, session, idempotency_key(request)))


@router.post("/rooms/{room}/settle", responses=REFUSALS, openapi_extra=described(None, SettledReply))
async def settle(room: Room, request: Request) -> Response:
    """Settle every turn that a host left over when it died; for the host that owns the room."""
    replies = await ledger_of(request).settle(room)
    return json_reply({"sessions": [reply.to_dict() for reply in replies]})


async def _said(request: Request, shape: type[B]) -> B:
    """What a command says; unknown keys are ignored."""
    body: dict[str, Any] = await read_object(request, settings_of(request).body_bytes_max)
    try:
        known = {name: body[name] for name in shape.model_fields if name in body}
        return shape.model_validate(known, strict=True)
    except ValidationError as error:
        errors = parameter_errors(error.errors())
        detail = "; ".join(f"{one['pointer']}: {one['message']}" for one in errors)
        raise Problem(INVALID, detail, members={"errors": errors}) from None


async def _do(request: Request, command: Command[Reply]) -> Response:
    """Do a command for the version that its caller means."""
    try:
        reply = await ledger_of(request).do(
            command, caller=caller_of(request), if_version=version_meant(request)
        )
    except Rejected as error:
        if error.reason == "unknown_turn":  # The address names it, unlike a report's turn.
            raise Problem(NOT_FOUND, error.detail, code=error.reason) from None
        raise
    return command_reply(reply)
