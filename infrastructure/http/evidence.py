"""The route of a session's evidence: its whole history as a file that others can check."""

from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from infrastructure.evidence.bundle import bundle_of, chunks
from infrastructure.http.access import caller_of, needs
from infrastructure.http.reading import ONE_PROBLEMS
from infrastructure.http.routing import Room, SessionInPath
from infrastructure.http.state import ledger_of

router = APIRouter(tags=["history"], dependencies=[needs("read")])

MEDIA_TYPE = "application/zip"


@router.get(
    "/rooms/{room}/sessions/{session}/evidence",
    response_class=Response,
    responses={
        200: {"description": "The bundle.", "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}},
        **ONE_PROBLEMS,
    },
)
async def evidence(room: Room, session: SessionInPath, request: Request) -> Response:
    """Export all that is recorded of a session, also of a deleted or purged one, with what checks it."""
    by = caller_of(request)
    bundle = await ledger_of(request).with_ledger(lambda ledger: bundle_of(ledger, room, session, by=by))
    name = quote(f"{session}.evidence.zip", safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return StreamingResponse(chunks(bundle), media_type=MEDIA_TYPE, headers=headers)
