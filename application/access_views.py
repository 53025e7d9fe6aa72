"""What operators are told of tokens."""

from application.access import Token
from application.views import View


class TokenView(View):
    """A token as it is kept, or, when it was just made, with what it is."""

    id: str
    scopes: tuple[str, ...]
    rooms: tuple[str, ...]
    """None: every room."""
    note: str
    created_at_unix_ms: int
    revoked_at_unix_ms: int | None = None
    token: str | None = None
    """Told once, when it is made."""


def token_view(token: Token, text: str = "") -> TokenView:
    """A token for lists; `text` is the token itself."""
    return TokenView(
        id=token.id,
        scopes=tuple(sorted(token.scopes)),
        rooms=token.rooms,
        note=token.note,
        created_at_unix_ms=token.created_at,
        revoked_at_unix_ms=token.revoked_at or None,
        token=text or None,
    )
