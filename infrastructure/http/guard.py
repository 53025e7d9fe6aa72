"""Who calls, and what they may do: the token of a request, looked up once in a while.

Without a token a caller is let in when the service listens on this machine alone, was reached under one of
its names, and nobody passed the request on: what a proxy sends may come from anywhere.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from time import monotonic
from typing import Final

from starlette.requests import Request

from application.access import Scope, Token, digest_of
from infrastructure.http.gate import LOCAL_NAMES, host_of
from infrastructure.http.problems import FORBIDDEN, UNAUTHORIZED, Problem

TOKEN_KEPT_S: Final = 5.0
"""Seconds for which a good token is not looked up again; so long it may still be good once revoked."""
TOKENS_KEPT_MAX: Final = 1_000
FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""Headers by which proxies say that they are."""
ANY_ROOM: Final = ""
CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="reprise"'}


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request; without a token it is somebody on this machine, who may do everything."""

    token: Token | None = None

    @property
    def id(self) -> str:
        """Names the caller in logs, and for command ids (SPEC C4)."""
        return self.token.id if self.token else ""

    def reaches(self, room: str) -> bool:
        return self.token is None or self.token.reaches(room)

    def refuse_unless(self, scope: Scope, room: str | None = ANY_ROOM) -> None:
        """Raise a problem unless the caller may do it: in any room, in this one, or (None) in all of them."""
        if self.token is None:
            return
        if not self.token.allows(scope):
            raise Problem(FORBIDDEN, f"the token lacks the scope {scope}")
        if room is None and self.token.rooms:
            raise Problem(FORBIDDEN, "the token is for some rooms only, and this is about all of them")
        if room and not self.token.reaches(room):
            raise Problem(FORBIDDEN, "the token is not for this room")


class Guard:
    """Finds out who calls."""

    def __init__(
        self,
        find: Callable[[str], Awaitable[Token | None]],
        *,
        is_local: bool,
        origins: Collection[str] = (),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._find = find
        self._is_local = is_local
        """Whether callers without a token are let in who are on this machine."""
        self._origins = frozenset(origins)
        """Whose pages may call, beside the service's own."""
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, Token]] = OrderedDict()

    async def caller(self, request: Request) -> Caller:
        """Who sent a request; raises a problem when that cannot be told."""
        said = request.headers.get("authorization")
        if said is None:
            if self._is_local and is_from_here(request):
                self._refuse_other_pages(request)
                return Caller()
            raise Problem(UNAUTHORIZED, UNAUTHORIZED.advice, headers=CHALLENGE)
        kind, _, text = said.strip().partition(" ")
        token = await self._known(text.strip()) if kind.lower() == "bearer" and text else None
        if token is None:
            challenge = {"WWW-Authenticate": f'{CHALLENGE["WWW-Authenticate"]}, error="invalid_token"'}
            raise Problem(UNAUTHORIZED, "the token is not good, or no longer", headers=challenge)
        request.scope["reprise.caller"] = token.id
        return Caller(token)

    def _refuse_other_pages(self, request: Request) -> None:
        """A browser sends some requests for any page; one without a token must come from a page of ours."""
        origin, host = request.headers.get("origin"), request.headers.get("host", "")
        if origin is not None and origin not in {f"http://{host}", f"https://{host}", *self._origins}:
            raise Problem(FORBIDDEN, "pages of other origins may not call this service")

    async def _known(self, text: str) -> Token | None:
        key, now = digest_of(text), self._clock()
        until, token = self._kept.get(key, (0.0, None))
        if token is not None and now < until:
            return token
        token = await self._find(text)
        self._kept.pop(key, None)
        if token is not None:  # What is no token is not kept: there is no end to those.
            self._kept[key] = (now + TOKEN_KEPT_S, token)
            if len(self._kept) > TOKENS_KEPT_MAX:
                self._kept.popitem(last=False)
        return token


def is_from_here(request: Request) -> bool:
    """Whether a request that came over loopback was sent on this machine, to this machine."""
    return host_of(request) in LOCAL_NAMES and not any(name in request.headers for name in FORWARDED)
