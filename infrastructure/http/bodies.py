"""What comes in: bodies read up to their limit and parsed once, and the header Idempotency-Key."""

import re
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.requests import Request

from domain import jsontext
from infrastructure.http.problems import BAD_REQUEST, TOO_LARGE, UNSUPPORTED_TYPE, Problem

KEY_LENGTH_MAX: Final = 255
"""Characters of an Idempotency-Key."""
_JSON: Final = re.compile(r"application/(?:json|[\w.-]+\+json)\Z", re.ASCII)
KEY: Final = r'^("([ !#-\[\]-~]|\\["\\]){1,255}"|[!#-~]([ !#-~]{0,253}[!#-~])?)$'
"""An Idempotency-Key as it is sent: a quoted string of a structured field, or the bare text."""


async def read_object(request: Request, bytes_max: int, *, may_be_absent: bool = False) -> dict[str, Any]:
    """The JSON object of a body; null is the empty one, and so is no body where it `may_be_absent`."""
    require_json(request)
    data = await read(request, bytes_max)
    value = jsontext.parse(data) if data or not may_be_absent else None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Problem(BAD_REQUEST, "body: expected a JSON object")
    return value


async def read(request: Request, bytes_max: int) -> bytes:
    """A body, unless it is too large; of one that is, no more is read than shows it (SPEC W3)."""
    return b"".join([chunk async for chunk in bounded(request, bytes_max)])


async def bounded(request: Request, bytes_max: int) -> AsyncIterator[bytes]:
    """A body as it comes; ends with a problem where it gets too large."""
    announced = request.headers.get("content-length", "")
    left = bytes_max - (int(announced) if announced.isdigit() else 0)
    if left >= 0:
        left = bytes_max
        async for chunk in request.stream():
            left -= len(chunk)
            if left < 0:
                break
            yield chunk
    if left < 0:
        detail = f"the body has more than {bytes_max} bytes; split it"
        raise Problem(TOO_LARGE, detail, headers={"Connection": "close"})


def require_json(request: Request) -> None:
    """Refuse a body that says it is something else than JSON in UTF-8; one that says nothing is taken."""
    require_type(request, _JSON, "application/json")


def require_type(request: Request, pattern: re.Pattern[str], expected: str) -> None:
    """Refuse a body of another type or charset, or one that is compressed."""
    said = request.headers.get("content-type", "").lower()
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if not said and encoding == "identity":
        return
    media, _, parameters = said.partition(";")
    charset = re.search(r'charset\s*=\s*"?([^\s;"]+)', parameters)
    if said and not pattern.match(media.strip()):
        raise Problem(UNSUPPORTED_TYPE, f"send {expected}")
    if charset and charset[1] not in ("utf-8", "utf8", "us-ascii"):
        raise Problem(UNSUPPORTED_TYPE, f"send {expected} in UTF-8")
    if encoding != "identity":
        raise Problem(UNSUPPORTED_TYPE, f"send {expected} without a Content-Encoding")


def idempotency_key(request: Request) -> str:
    """The command id of the header Idempotency-Key: a structured-field string, or the bare text.

    Both spell the same key. Blank without the header.
    """
    said = request.headers.get("idempotency-key")
    if said is None:
        return ""
    if not re.fullmatch(KEY, said):
        detail = f"Idempotency-Key: expected 1 to {KEY_LENGTH_MAX} printable ASCII characters, quoted or bare"
        raise Problem(BAD_REQUEST, detail, code="invalid_idempotency_key")
    return re.sub(r"\\(.)", r"\1", said[1:-1]) if said[0] == '"' else said
