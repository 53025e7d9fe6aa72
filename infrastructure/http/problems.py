"""What goes wrong as a client is told it: `application/problem+json`, each kind with a page of its own.

One table says which errors are which problem. A body carries the members of RFC 9457, a stable `code`, and
`error`, which the ancestor's clients read (SPEC W2). It never repeats what a programmer's mistake said.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from domain import jsontext
from domain.errors import (
    Malformed,
    NotFound,
    Outdated,
    Overloaded,
    Rejected,
    RepriseError,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Trimmed,
    VersionConflict,
)
from infrastructure.http.routing import methods_of

MEDIA_TYPE: Final = "application/problem+json"
DETAIL_LENGTH_MAX: Final = 1_000
"""Characters of a detail; what is longer repeats what was sent."""

log = structlog.get_logger("reprise")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem; its slug is its address and never changes."""

    slug: str
    status: int
    title: str
    advice: str
    """What to do, for the page."""
    retryable: bool = False
    """Whether the same request can succeed later."""

    @property
    def code(self) -> str:
        """The word that stands for it where nothing more exact is known."""
        return self.slug.replace("-", "_")


BAD_REQUEST: Final = Kind(
    "bad-request",
    400,
    "The request cannot be read",
    "The body is no JSON, is nested too deep or holds numbers that cannot be kept, or an id is blank, too"
    " long or contradicts the address. Correct what the detail names; repeating the request does not help.",
)
CURSOR_INVALID: Final = Kind(
    "cursor-invalid",
    400,
    "The cursor belongs to another list",
    "A cursor goes with the filters it was given for. Begin again without one.",
)
CURSOR_EXPIRED: Final = Kind(
    "cursor-expired",
    410,
    "What was asked for is no longer kept",
    "Read the sessions as they are, then go on behind the position `earliest`.",
)
UNAUTHORIZED: Final = Kind(
    "unauthorized",
    401,
    "The service does not know who asks",
    "Send a token: Authorization: Bearer reprise_…. `reprise tokens create` makes one.",
)
FORBIDDEN: Final = Kind(
    "forbidden",
    403,
    "The caller may not do this",
    "The token lacks the scope or the room, or a page of another origin asks. `reprise tokens create` makes"
    " a token with --scope and --room.",
)
WRONG_HOST: Final = Kind(
    "unknown-host",
    421,
    "The service has another name",
    "The request was sent to a name that is not the service's. Use localhost, or let whoever runs it add the"
    " name to REPRISE_ALLOWED_HOSTS.",
)
READ_ONLY: Final = Kind(
    "read-only-mode",
    403,
    "This service only reads",
    "It was started with --read-only. Send reports and commands to one that was not.",
)
NOT_FOUND: Final = Kind(
    "not-found",
    404,
    "There is no such thing",
    "The address names nothing, or something that is not there (any more). Ids in an address are"
    " percent-encoded: a room /a/b is /v1/rooms/%2Fa%2Fb.",
)
METHOD_NOT_ALLOWED: Final = Kind(
    "method-not-allowed",
    405,
    "The address does not take this method",
    "The header Allow lists the methods it takes.",
)
CONFLICT: Final = Kind(
    "conflict",
    409,
    "It contradicts what is stored",
    "Somebody answered otherwise, or what the command is about is gone for good. Read the state and decide"
    " again; repeating the request does not help.",
)
KEY_REUSED: Final = Kind(
    "idempotency-key-reused",
    409,
    "The Idempotency-Key was used for another request",
    "A key stands for one request on one session. Take a new key for a new request.",
)
VERSION_CONFLICT: Final = Kind(
    "version-conflict",
    412,
    "It is no longer at that version",
    "If-Match names a version that is not the current one; the header ETag of this answer has the current"
    " one. Read it and decide again.",
)
TOO_LARGE: Final = Kind(
    "payload-too-large",
    413,
    "It is too large to be stored",
    "A body has at most 5 MiB, one update 4 MiB, one merged message 8 MiB. Split it.",
)
UNSUPPORTED_TYPE: Final = Kind(
    "unsupported-media-type",
    415,
    "The body is of a kind that is not read",
    "Send application/json (imports: application/x-ndjson) in UTF-8 without a Content-Encoding.",
)
INVALID: Final = Kind(
    "invalid-request",
    422,
    "The request means nothing here",
    "It can be read, but a value is none that is known, or it names something that was never reported."
    " Correct what the detail names; repeating the request does not help.",
)
PRECONDITION_REQUIRED: Final = Kind(
    "precondition-required",
    428,
    "The command has to say which version it means",
    "Send If-Match with the ETag of what is to be changed.",
)
INTERNAL: Final = Kind(
    "internal",
    500,
    "The service made a mistake",
    "What happened is in the service's log under the traceId of this answer.",
)
OVERLOADED: Final = Kind(
    "overloaded",
    503,
    "Too many commands are waiting",
    "It was not taken. Send it again after the seconds that Retry-After names.",
    retryable=True,
)
STOPPING: Final = Kind(
    "stopping",
    503,
    "The service is about to stop",
    "Nothing of the request was done. Send it again; another process may take it.",
    retryable=True,
)
NOT_READY: Final = Kind(
    "not-ready",
    503,
    "The service is not ready",
    "A check is not well; the answer names it.",
    retryable=True,
)
UNAVAILABLE: Final = Kind(
    "store-unavailable",
    503,
    "The store cannot do its work",
    "Send the request again after the seconds that Retry-After names, with the same Idempotency-Key if it"
    " is a report or a command.",
    retryable=True,
)

KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        kind.slug: kind
        for kind in (
            BAD_REQUEST,
            UNAUTHORIZED,
            FORBIDDEN,
            WRONG_HOST,
            CURSOR_INVALID,
            CURSOR_EXPIRED,
            READ_ONLY,
            NOT_FOUND,
            METHOD_NOT_ALLOWED,
            CONFLICT,
            KEY_REUSED,
            VERSION_CONFLICT,
            TOO_LARGE,
            UNSUPPORTED_TYPE,
            INVALID,
            PRECONDITION_REQUIRED,
            INTERNAL,
            OVERLOADED,
            STOPPING,
            NOT_READY,
            UNAVAILABLE,
        )
    }
)
"""Every kind of problem, by its slug."""

REJECTED: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "invalid_id": BAD_REQUEST,
        "id_mismatch": BAD_REQUEST,
        "missing_identity": BAD_REQUEST,
        "malformed": BAD_REQUEST,
        "unknown_session": NOT_FOUND,
        "unknown_interaction": NOT_FOUND,
        "conflict": CONFLICT,
        "purged": CONFLICT,
        "too_large": TOO_LARGE,
    }
)
"""Which problem a rejection is by its reason; the others are INVALID (SPEC C1: never 429 or 5xx)."""

ERRORS: Final[Mapping[type[RepriseError], Kind]] = MappingProxyType(
    {
        NotFound: NOT_FOUND,
        Malformed: BAD_REQUEST,
        Overloaded: OVERLOADED,
        StoreBusy: UNAVAILABLE,
        StoreFull: UNAVAILABLE,
        StoreUnavailable: UNAVAILABLE,
        VersionConflict: UNAVAILABLE,
        Trimmed: CURSOR_EXPIRED,
        StoreError: INTERNAL,
        RepriseError: INTERNAL,
    }
)
"""Which problem an error of the domain is; its nearest ancestor counts."""

STATUSES: Final[Mapping[int, Kind]] = MappingProxyType(
    {
        400: BAD_REQUEST,
        404: NOT_FOUND,
        405: METHOD_NOT_ALLOWED,
        413: TOO_LARGE,
        415: UNSUPPORTED_TYPE,
        422: INVALID,
    }
)
"""Which problem the framework's own refusals are."""


class Problem(Exception):
    """A request that is answered with a problem, raised where it shows."""

    def __init__(
        self,
        kind: Kind,
        detail: str,
        *,
        code: str = "",
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.code = code or kind.code
        self.headers = dict(headers or {})
        self.members = dict(members or {})


def problem_of(error: RepriseError, retry_after_s: int = 1) -> Problem:
    """The problem that an error of the domain is; what a damaged store says stays in the log."""
    if isinstance(error, Outdated):
        return Problem(VERSION_CONFLICT, str(error), headers={"ETag": f'"{error.current}"'})
    if isinstance(error, Rejected):
        kind = REJECTED.get(error.reason, INVALID)
        code = error.reason
        if error.reason == "conflict" and error.part == "command":
            kind, code = KEY_REUSED, KEY_REUSED.code
        named = {name: said for name, said in (("part", error.part), ("id", error.id)) if said}
        return Problem(kind, error.detail, code=code, members=named)
    if isinstance(error, Trimmed):
        return Problem(CURSOR_EXPIRED, str(error), members={"earliest": error.earliest})
    kind = next(ERRORS[base] for base in type(error).__mro__ if base in ERRORS)
    if kind is INTERNAL:
        return Problem(kind, kind.advice)
    headers = {"Retry-After": str(retry_after_s)} if kind.status == 503 else {}
    return Problem(kind, _safe(error, kind), headers=headers)


def _safe(error: RepriseError, kind: Kind) -> str:
    """What may be said of it: what the store says may name places and is for the log alone."""
    return kind.advice if isinstance(error, StoreError) else str(error)


def members_of(problem: Problem, instance: str = "", trace_id: str = "") -> dict[str, Any]:
    """The body of a problem, as data."""
    kind = problem.kind
    detail = problem.detail[:DETAIL_LENGTH_MAX]
    ours = {"instance": instance, "traceId": trace_id}
    return {
        "type": f"/problems/{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        **{name: said for name, said in ours.items() if said},
        "code": problem.code,
        **problem.members,
        "error": {"code": problem.code, "message": detail, "retryable": kind.retryable},
    }


def respond(request: Request, problem: Problem) -> Response:
    """The answer that tells a problem."""
    address = request.scope.get("raw_path") or request.scope["path"].encode()
    body = members_of(problem, address.split(b"?", 1)[0].decode("latin-1"), trace_id_of(request))
    return Response(jsontext.to_bytes(body), problem.kind.status, problem.headers, media_type=MEDIA_TYPE)


def trace_id_of(request: Request) -> str:
    """The trace that the caller's `traceparent` names, else a new one; the same for the whole request."""
    known = request.scope.get("reprise.trace_id")
    if isinstance(known, str):
        return known
    parts = request.headers.get("traceparent", "").split("-")
    given = parts[1] if len(parts) >= 4 and len(parts[1]) == 32 else ""
    is_hex = bool(given) and set(given) <= set("0123456789abcdef") and set(given) != {"0"}
    trace_id = given if is_hex else os.urandom(16).hex()
    request.scope["reprise.trace_id"] = trace_id
    return trace_id


# Which exceptions become which problem.


def install(app: FastAPI, retry_after_s: int) -> None:
    """Let every refusal and every mistake of an application be told as a problem."""

    async def raised(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return respond(request, error)

    async def expected(request: Request, error: Exception) -> Response:
        assert isinstance(error, RepriseError)
        problem = problem_of(error, retry_after_s)
        if isinstance(error, StoreError):
            log.warning(
                "store_error", error=f"{type(error).__name__}: {error}", trace_id=trace_id_of(request)
            )
        return respond(request, problem)

    app.add_exception_handler(Problem, raised)
    app.add_exception_handler(RepriseError, expected)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _mistaken)


async def _refused(request: Request, error: Exception) -> Response:
    """What the framework refuses: an unknown address, another method."""
    assert isinstance(error, HTTPException)
    kind = STATUSES.get(error.status_code, INTERNAL if error.status_code >= 500 else BAD_REQUEST)
    headers = dict(error.headers or {})
    detail = kind.advice
    if kind is METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(methods_of(request.app, request.scope))
        detail = f"use {headers['Allow']}"
    elif kind is NOT_FOUND:
        detail = "no route has this address; /openapi.json lists them"
    return respond(request, Problem(kind, detail, headers=headers))


async def _invalid(request: Request, error: Exception) -> Response:
    """Parameters of the address that cannot be read as what they are."""
    assert isinstance(error, RequestValidationError)
    errors = parameter_errors(error.errors())
    detail = "; ".join(f"{one['pointer'].removeprefix('/query/')}: {one['message']}" for one in errors)
    return respond(request, Problem(INVALID, detail, members={"errors": errors}))


def parameter_errors(errors: Sequence[Any]) -> list[dict[str, str]]:
    """Mistakes as pydantic found them, without the values, which may be private."""
    return [
        {
            "pointer": "/" + "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in one["loc"]),
            "message": str(one["msg"]),
            "code": str(one["type"]),
        }
        for one in errors
    ]


async def _gone(request: Request, _: Exception) -> Response:
    """Nobody is left to read the answer."""
    return respond(request, Problem(BAD_REQUEST, "the connection ended before the body did"))


async def _mistaken(request: Request, _: Exception) -> Response:
    """A programmer's mistake; the framework raises it again behind the answer, for the log."""
    return respond(request, Problem(INTERNAL, INTERNAL.advice))


# For the OpenAPI document.

SCHEMA: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "type": "object",
        "title": "Problem",
        "description": "RFC 9457, with a stable code and the member that clients of the ancestor read.",
        "required": ["type", "title", "status", "detail", "code", "error"],
        "properties": {
            "type": {"type": "string", "description": "Address of a page about this kind of problem."},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string", "description": "What is wrong and what to do."},
            "instance": {"type": "string"},
            "traceId": {"type": "string"},
            "code": {"type": "string", "description": "A word that stays the same."},
            "part": {"type": "string", "description": "Which part of a report was refused."},
            "id": {"type": "string", "description": "That part's own id."},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["pointer", "message", "code"],
                    "properties": {
                        "pointer": {"type": "string"},
                        "message": {"type": "string"},
                        "code": {"type": "string"},
                    },
                },
            },
            "error": {
                "type": "object",
                "required": ["code", "message", "retryable"],
                "properties": {
                    "code": {"type": "string"},
                    "message": {"type": "string"},
                    "retryable": {"type": "boolean"},
                },
            },
        },
    }
)


EVERYWHERE: Final = (UNAUTHORIZED, FORBIDDEN, WRONG_HOST, STOPPING, INTERNAL)
"""What any operation may answer, whatever it does."""


def documented(*kinds: Kind) -> dict[int | str, dict[str, Any]]:
    """What an operation may answer with these problems, for its `responses`."""
    by_status: dict[int | str, list[Kind]] = {}
    for kind in dict.fromkeys((*kinds, *EVERYWHERE)):
        by_status.setdefault(kind.status, []).append(kind)
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {
            "description": "; or: ".join(f"{kind.title} (`{kind.slug}`)" for kind in found),
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status, found in by_status.items()
    }
