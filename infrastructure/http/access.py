"""Who may do what: every route names the scope it needs."""

from typing import Any, Final, Literal

from fastapi import Depends
from starlette.requests import Request

from application.access import Scope
from infrastructure.http.guard import Caller, Guard
from infrastructure.http.problems import READ_ONLY, Problem
from infrastructure.http.routing import id_in_path
from infrastructure.http.settings import HttpSettings

READING: Final = frozenset(("GET", "HEAD"))


class Needs:
    """A route's dependency that lets in who has its scope, in the room that the address names.

    A route without a room is about all of them, so a token for some does not do; unless the route chooses
    itself what such a caller gets.
    """

    def __init__(self, scope: Scope, *, chooses: bool = False) -> None:
        self.scope = scope
        self.chooses = chooses

    async def __call__(self, request: Request) -> None:
        guard: Guard | None = request.app.state.guard
        caller = await guard.caller(request) if guard else Caller()
        named = request.path_params.get("room")
        if named is not None:
            caller.refuse_unless(self.scope, id_in_path(named))
        elif self.chooses:
            caller.refuse_unless(self.scope)
        else:
            caller.refuse_unless(self.scope, None)
        settings: HttpSettings = request.app.state.settings
        if settings.read_only and request.method not in READING:
            raise Problem(READ_ONLY, READ_ONLY.advice)
        request.state.caller = caller


def needs(scope: Literal["report", "read", "operate"], *, chooses: bool = False) -> Any:
    """What to put into a route's `dependencies`."""
    return Depends(Needs(Scope(scope), chooses=chooses))


def caller_of(request: Request) -> str:
    """Who calls, as far as known; command ids are remembered for each caller (SPEC C4)."""
    caller = request.scope.get("reprise.caller", "")
    assert isinstance(caller, str)
    return caller


def caller_in(request: Request) -> Caller:
    """Who calls, once a route's dependency has found out."""
    caller: Caller = request.state.caller
    return caller
