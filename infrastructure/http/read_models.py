"""The routes about read models: how far they are, and making them anew from the log."""

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from application.views import View
from domain.errors import NotFound
from infrastructure.http.access import needs
from infrastructure.http.asking import CHANGE_PROBLEMS, READ_PROBLEMS
from infrastructure.http.openapi import described_change, described_page
from infrastructure.http.replies import json_reply
from infrastructure.http.state import ledger_of

reading = APIRouter(tags=["read-models"], dependencies=[needs("read")])
operating = APIRouter(tags=["read-models"], dependencies=[needs("operate")])

SESSIONS: Final = "sessions"
"""All there is: sessions with their turns, messages and interactions, and the other aggregates. They are
written in the transaction that stores their events, and made anew together."""


class ReadModelRead(View):
    """A read model, which is never behind."""

    name: str
    position: int
    head: int
    """Of the log."""
    lag_events: int


class RebuiltRead(View):
    """What a rebuild came to."""

    name: str
    events: int
    """That were read."""


@reading.get("/read-models", responses=READ_PROBLEMS, openapi_extra=described_page(ReadModelRead))
async def read_models(request: Request) -> Response:
    """List the read models, and how far they are."""
    end = (await ledger_of(request).extent()).end
    one = ReadModelRead(name=SESSIONS, position=end, head=end, lag_events=0)
    return json_reply({"items": [one.to_dict()]})


@operating.post(
    "/read-models/{name}/rebuild",
    responses=CHANGE_PROBLEMS,
    openapi_extra=described_change(None, RebuiltRead, "It was swapped for the one made anew."),
)
async def rebuild(name: str, request: Request) -> Response:
    """Make a read model anew beside the live one, swap it, and answer then.

    Reports go on meanwhile; each waits for one batch of the rebuild at the most.
    """
    if name != SESSIONS:
        raise NotFound(f"no read model {name}; there is {SESSIONS}")
    said: dict[str, Any] = RebuiltRead(name=name, events=await ledger_of(request).rebuild()).to_dict()
    return json_reply(said)
