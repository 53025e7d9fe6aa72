"""Versions in headers: ETag goes out, If-Match and If-None-Match come in.

An ETag is the version of a stream: a session's, a subscription's or that of a room's waits. It changes with
whatever a reader is shown of the session.
"""

import re
from typing import Final

from starlette.requests import Request

from infrastructure.http.problems import BAD_REQUEST, PRECONDITION_REQUIRED, Problem
from infrastructure.http.state import settings_of

_TAG: Final = re.compile(r'(W/)?"([^"]*)"')
NEVER: Final = -1
"""The version of nothing."""


def etag(version: int) -> str:
    """The strong validator of a version."""
    return f'"{version}"'


def is_unchanged(request: Request, version: int) -> bool:
    """Whether the caller has this version already (If-None-Match)."""
    said = request.headers.get("if-none-match", "")
    return said.strip() == "*" or any(tag == str(version) for _, tag in _TAG.findall(said))


def version_meant(request: Request) -> int | None:
    """The version that a command is meant for (If-Match); None for any.

    Raises a problem when there has to be one and is none.
    """
    said = request.headers.get("if-match")
    if said is None:
        if settings_of(request).require_if_match:
            raise Problem(PRECONDITION_REQUIRED, PRECONDITION_REQUIRED.advice)
        return None
    if said.strip() == "*":
        return None
    tags = _TAG.findall(said)
    if len(tags) != 1:
        raise Problem(BAD_REQUEST, 'If-Match: expected one ETag such as "17"', code="invalid_if_match")
    weak, tag = tags[0]
    return int(tag) if not weak and tag.isascii() and tag.isdigit() and len(tag) < 19 else NEVER
