"""Addresses: ids that hold slashes, and which methods an address takes.

The id of a room may be a folder. In an address it is percent-encoded, but servers decode an address before
anybody splits it at its slashes. So what was `%2F` (and `%25`) stays encoded until a route has its ids.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import FastAPI, Path
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import AfterValidator
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from domain.errors import Rejected
from domain.ids import ID_LENGTH_MAX
from domain.reports import is_name


class EncodedSlashes:
    """Middleware that lets a `%2F` of an id be no slash of the address."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = scope.get("raw_path") if scope["type"] == "http" else None
        if raw and b"%" in raw:
            scope["path"] = _decoded(raw.split(b"?", 1)[0])
        await self._app(scope, receive, send)


def _decoded(raw: bytes) -> str:
    """The address with everything decoded but the slashes and percent signs of its ids.

    What is no UTF-8 becomes lone surrogates, which no id may hold.
    """
    kept = raw.decode("latin-1").replace("%25", "%2525").replace("%2F", "%252F").replace("%2f", "%252F")
    return unquote(kept, errors="surrogateescape")


def id_in_path(text: str) -> str:
    """An id out of an address; raises Rejected when it can name nothing (SPEC W3)."""
    decoded = unquote(text).strip() if "%" in text else text.strip()
    if not decoded or not is_name(decoded):
        detail = f"an id in an address is not blank, at most {ID_LENGTH_MAX} characters, without NUL"
        raise Rejected("invalid_id", "command", "", detail)
    return decoded


def _path_id(what: str) -> Any:
    return Path(description=what, json_schema_extra={"minLength": 1, "maxLength": ID_LENGTH_MAX})


Room = Annotated[str, AfterValidator(id_in_path), _path_id("A room (workspace); a slash in it is `%2F`.")]
SessionInPath = Annotated[str, AfterValidator(id_in_path), _path_id("A session of the room.")]
TurnInPath = Annotated[str, AfterValidator(id_in_path), _path_id("A turn of the session.")]
TransactionInPath = Annotated[str, AfterValidator(id_in_path), _path_id("A commit's transaction id.")]
RequestInPath = Annotated[str, AfterValidator(id_in_path), _path_id("A request of the turn.")]


class DirectRoute(APIRoute):
    """A route whose function gets the ids of the address and the request, and nothing else.

    The framework's own way costs as much as storing half a report, because it validates each parameter
    by itself; what such a route says of itself in the OpenAPI document is the same.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        endpoint = self.endpoint
        needed = [one.dependency for one in self.dependencies if one.dependency]

        async def handle(request: Request) -> Response:
            for need in needed:
                await need(request)
            ids = {name: id_in_path(text) for name, text in request.path_params.items()}
            answer: Response = await endpoint(request=request, **ids)
            return answer

        return handle


def methods_of(app: FastAPI, scope: Scope) -> Sequence[str]:
    """Every method that an address takes, whichever routes they are on.

    The framework names those of the first route that has the address.
    """
    found: set[str] = set()
    for context in iter_route_contexts(app.routes):
        if context.path and context.methods and compile_path(context.path)[0].match(scope["path"]):
            found |= context.methods
    return sorted(found)
