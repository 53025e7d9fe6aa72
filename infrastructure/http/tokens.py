"""The routes about who may use the service. Only who may do everything everywhere reaches them."""

import secrets

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from application import access
from application.access import Scope
from application.access_views import TokenView, token_view
from application.views import View
from domain.errors import Rejected
from infrastructure.http.access import needs
from infrastructure.http.asking import CHANGE_PROBLEMS, READ_PROBLEMS, said
from infrastructure.http.openapi import described_change, described_page
from infrastructure.http.replies import json_reply
from infrastructure.http.state import ledger_of
from infrastructure.http.times import as_read

operating = APIRouter(tags=["tokens"], dependencies=[needs("operate")])


class TokenBody(View):
    """A token to be made."""

    scopes: tuple[str, ...] = Field(min_length=1)
    """Some of `report`, `read`, `operate`."""
    rooms: tuple[str, ...] = ()
    """The rooms it is good for; none: every room."""
    note: str = ""
    """Who has it."""


@operating.get("/tokens", responses=READ_PROBLEMS, openapi_extra=described_page(TokenView))
async def tokens(request: Request) -> Response:
    """List tokens, the revoked ones too; what they are is not kept."""
    found = await ledger_of(request).tokens()
    return json_reply({"items": [as_read(token_view(one).to_dict()) for one in found]})


@operating.post(
    "/tokens",
    status_code=201,
    responses=CHANGE_PROBLEMS,
    openapi_extra=described_change(TokenBody, TokenView, "The token, told this once."),
)
async def create(request: Request) -> Response:
    """Make a token; the store keeps a digest of it."""
    body = await said(request, TokenBody)
    try:
        scopes = [Scope(one) for one in body.scopes]
    except ValueError:
        raise Rejected("invalid", "command", "", f"scopes: give some of {', '.join(Scope)}") from None
    random = secrets.token_bytes(access.SECRET_BYTES)
    text, token = await ledger_of(request).with_tokens(
        lambda kept, now: access.create(kept, random, scopes, body.rooms, body.note, now)
    )
    return json_reply(as_read(token_view(token, text).to_dict()), 201)


@operating.delete("/tokens/{token}", status_code=204, responses=CHANGE_PROBLEMS)
async def revoke(token: str, request: Request) -> Response:
    """Make a token good for nothing; once is enough."""
    await ledger_of(request).with_tokens(lambda kept, now: access.revoke(kept, token, now))
    return Response(status_code=204)
