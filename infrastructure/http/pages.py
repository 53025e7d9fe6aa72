"""Pages of a list: opaque cursors that belong to their filters, and the link to the next page."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from domain import jsontext
from domain.errors import Malformed
from domain.reports import is_name
from infrastructure.http.problems import CURSOR_INVALID, Problem
from infrastructure.http.replies import json_reply

LIMIT_MAX: Final = 1_000
_FORM: Final = 1
"""Of a cursor; one of another form is refused."""
_NO_FILTERS: Final = frozenset(("cursor", "limit"))

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Items of one page.")]
Cursor = Annotated[str, Query(description="The `next` of the page before.", max_length=4_096)]


def cursor_of(request: Request, place: Sequence[Any]) -> str:
    """The cursor behind a place in the list that a request asks for."""
    said = jsontext.to_bytes([_FORM, _filters(request), *place])
    return base64.urlsafe_b64encode(said).decode().rstrip("=")


def place_of(request: Request, cursor: str, kinds: Sequence[type]) -> list[Any] | None:
    """The place that a cursor names, None without one; raises a problem for a cursor of another list."""
    if not cursor:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        form, filters, *said = jsontext.parse(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, UnicodeError, Malformed, ValueError, TypeError):
        form, filters, said = 0, "", []
    place: list[Any] = list(said)
    fits = form == _FORM and list(map(type, place)) == list(kinds)
    if not fits or not all(map(_can_be_a_place, place)) or filters != _filters(request):
        raise Problem(CURSOR_INVALID, CURSOR_INVALID.advice)
    return place


def _can_be_a_place(value: str | int) -> bool:
    """Whether a database can compare with it, since whoever makes up a cursor can write anything."""
    return is_name(value) if isinstance(value, str) else abs(value) < 2**63


def page(request: Request, items: Sequence[Any], place: Sequence[Any] | None) -> Response:
    """A page of items, and where the next one begins."""
    if place is None:
        return json_reply({"items": items})
    cursor = cursor_of(request, place)
    return json_reply({"items": items, "next": cursor}, headers=next_link(request, {"cursor": cursor}))


def next_link(request: Request, changed: Mapping[str, Any]) -> dict[str, str]:
    """The header that leads to the next page of the same list."""
    query = urlencode({**request.query_params, **changed}, errors="replace")
    return {"Link": f'<?{query}>; rel="next"'}


def _filters(request: Request) -> str:
    """What the list is narrowed to, and which list it is."""
    asked = {name: value for name, value in request.query_params.items() if name not in _NO_FILTERS}
    return jsontext.digest([request.scope["path"], asked])[:16]
