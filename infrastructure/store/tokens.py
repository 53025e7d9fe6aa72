"""The tokens of a store, in its table `tokens`."""

import json
from collections.abc import Sequence

from application.access import Scope, Token
from infrastructure.store.tables import TOKENS, Database, Row, in_transaction


class StoredTokens:
    """application.access.Tokens over a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, token: Token) -> None:
        in_transaction(self._database, lambda tables: tables.put(TOKENS, _row(token)))

    def get(self, id_: str) -> Token | None:
        with self._database.read() as tables:
            row = tables.get(TOKENS, id_)
        return _token(row) if row else None

    def all(self) -> Sequence[Token]:
        with self._database.read() as tables:
            found = [_token(row) for row in tables.rows(TOKENS)]
        return sorted(found, key=lambda token: (token.created_at, token.id))


def _row(token: Token) -> Row:
    return (
        token.id,
        token.digest,
        " ".join(sorted(token.scopes)),
        json.dumps(token.rooms),
        json.dumps(token.note),
        token.created_at,
        token.revoked_at,
    )


def _token(row: Row) -> Token:
    id_, digest, scopes, rooms, note, created_at, revoked_at = row
    return Token(
        id_,
        digest,
        frozenset(map(Scope, scopes.split())),
        tuple(json.loads(rooms)),
        json.loads(note),
        created_at,
        revoked_at,
    )
