"""Who may do what: every route names the scope it needs."""

from typing import Any, Final, Literal

from fastapi import Depends
from starlette.requests import Request

from infrastructure.http.problems import READ_ONLY, Problem
from infrastructure.http.settings import HttpSettings

Scope = Literal["report", "read", "operate"]
READING: Final = frozenset(("GET", "HEAD"))


class Needs:
    """A route's dependency that lets in who has its scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    async def __call__(self, request: Request) -> None:
        settings: HttpSettings = request.app.state.settings
        if settings.read_only and request.method not in READING:
            raise Problem(READ_ONLY, READ_ONLY.advice)


def needs(scope: Scope) -> Any:
    """What to put into a route's `dependencies`."""
    return Depends(Needs(scope))


def caller_of(request: Request) -> str:
    """Who calls, as far as known; command ids are remembered for each caller (SPEC C4)."""
    caller = request.scope.get("reprise.caller", "")
    assert isinstance(caller, str)
    return caller
