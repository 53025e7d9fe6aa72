"""What goes out: JSON, spelled once."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from application.views import Reply, View
from domain import jsontext

REPLAYED: Final = "Idempotency-Replayed"
"""Says that an answer was given before, to the request that had the same Idempotency-Key."""


def json_reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A value as JSON; what UTF-8 cannot carry stands as an escape (SPEC X1)."""
    return Response(jsontext.to_bytes(value), status, headers, media_type="application/json")


def command_reply(reply: Reply, headers: Mapping[str, str] | None = None) -> Response:
    """What a report or command is answered."""
    replayed = {REPLAYED: "true"} if reply.replayed else {}
    return json_reply(reply.to_dict(), headers={**(headers or {}), **replayed})


def view_reply(view: View, headers: Mapping[str, str] | None = None) -> Response:
    """What a reader is answered, without what is unknown."""
    return json_reply(view.to_dict(), headers=headers)
