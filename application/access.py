"""Who may do what: tokens, what they are good for, and in which rooms."""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from typing import Final, Protocol

from domain.errors import NotFound, Rejected

PREFIX: Final = "reprise_"
"""Lets people, and programs that look for lost secrets, know a token when they see one."""
SECRET_BYTES: Final = 32
ID_LENGTH: Final = 12
NOTE_LENGTH_MAX: Final = 200
ROOMS_MAX: Final = 100


class Scope(StrEnum):
    """What a caller may do."""

    REPORT = "report"
    """Say what sessions do."""
    READ = "read"
    """See what was said."""
    OPERATE = "operate"
    """Both, and everything else: whoever may purge a session or send deltas elsewhere gains by reading
    nothing that could not be had anyway."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is kept: without its secret."""

    id: str
    """Names it in lists and logs; made of the digest, so it tells nothing."""
    digest: str
    scopes: frozenset[Scope]
    rooms: tuple[str, ...]
    """The only rooms it is good for; none for every room."""
    note: str
    created_at: int
    revoked_at: int = 0
    """Unix milliseconds; 0 while it is good."""

    def allows(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.OPERATE in self.scopes

    def reaches(self, room: str) -> bool:
        return not self.rooms or room in self.rooms


class Tokens(Protocol):
    """Where tokens are kept."""

    def put(self, token: Token) -> None:
        """Keep a token, in place of the one with its id."""

    def get(self, id_: str) -> Token | None: ...

    def all(self) -> Sequence[Token]:
        """Every token, revoked ones too, in the order they were made."""


def create(
    tokens: Tokens, secret: bytes, scopes: Iterable[Scope], rooms: Iterable[str], note: str, now: int
) -> tuple[str, Token]:
    """Make a token of SECRET_BYTES random bytes and keep it; its text, which is told this once, and itself.

    Raises Rejected when it would be good for nothing, or says more than is kept.
    """
    scopes, rooms, note = frozenset(scopes), tuple(dict.fromkeys(rooms)), note.strip()
    assert len(secret) == SECRET_BYTES
    if not scopes:
        raise Rejected("invalid", "command", "", "a token needs a scope")
    if not all(room == room.strip() and room for room in rooms) or len(rooms) > ROOMS_MAX:
        raise Rejected("invalid", "command", "", f"give up to {ROOMS_MAX} rooms, none of them blank")
    if len(note) > NOTE_LENGTH_MAX:
        raise Rejected("too_large", "command", "", f"a note has up to {NOTE_LENGTH_MAX} characters")
    text = PREFIX + urlsafe_b64encode(secret).rstrip(b"=").decode()
    token = Token(_id(text), digest_of(text), scopes, rooms, note, now)
    tokens.put(token)
    return text, token


def find(tokens: Tokens, text: str) -> Token | None:
    """The token that somebody shows, if it is good; looked up by its id and compared in constant time."""
    token = tokens.get(_id(text))
    if token is None or not compare_digest(token.digest, digest_of(text)) or token.revoked_at:
        return None
    return token


def revoke(tokens: Tokens, id_: str, now: int) -> Token:
    """Make a token good for nothing; once is enough. Raises NotFound."""
    token = tokens.get(id_)
    if token is None:
        raise NotFound(f"no token {id_}; `reprise tokens list` lists them")
    if not token.revoked_at:
        token = replace(token, revoked_at=now)
        tokens.put(token)
    return token


def digest_of(text: str) -> str:
    """What is kept of a token. A plain SHA-256 does: there are no guesses to slow down for 256 random bits,
    as there are for a password, and it is quick enough for every request."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def _id(text: str) -> str:
    return digest_of(text)[:ID_LENGTH]
