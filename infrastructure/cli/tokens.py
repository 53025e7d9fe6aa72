"""The verbs about who may use the service: `tokens create`, `list` and `revoke`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from infrastructure.cli.options import database, db_option, json_option
from infrastructure.cli.text import Column, note, say, say_json, table
from infrastructure.text import short, shown, when

if TYPE_CHECKING:
    from application.access import Token, Tokens


@click.group()
def tokens() -> None:
    """Tokens: who may use the service, and for what."""


@tokens.command("create")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice(["report", "read", "operate"]),
    help="What it is good for; may be given twice. To operate includes to report and to read.",
)
@click.option(
    "--room", "rooms", multiple=True, metavar="ROOM", help="A room it is good for; else all. May be repeated."
)
@click.option("--note", "text", default="", metavar="TEXT", help="Who has it, for the list.")
@json_option
@db_option
def create(scopes: tuple[str, ...], rooms: tuple[str, ...], text: str, as_json: bool) -> None:
    """Make a token and show it, this once.

    The store keeps a digest of it. Send it as `Authorization: Bearer TOKEN`.
    """
    import secrets

    from application import access
    from infrastructure.main import SystemClock

    with _kept(makes=True) as kept:
        random = secrets.token_bytes(access.SECRET_BYTES)
        token, made = access.create(
            kept, random, map(access.Scope, scopes), rooms, text, SystemClock().now_ms()
        )
    if as_json:
        say_json({"token": token} | _object(made))
        return
    say(token)
    note(f"this is token {made.id}; it is not shown again")


@tokens.command("list")
@json_option
@db_option
def list_(as_json: bool) -> None:
    """List tokens, the revoked ones too; what they are is not kept."""
    with _kept() as kept:
        found = kept.all()
    if as_json:
        for token in found:
            say_json(_object(token))
        return
    if not found:
        note("no token; `reprise tokens create --scope read` makes one")
        return
    columns = [Column("ID"), Column("SCOPES"), Column("ROOMS", fold_at=30), Column("MADE"), Column("REVOKED")]
    rows = [
        (
            token.id,
            " ".join(sorted(token.scopes)),
            ", ".join(map(shown, token.rooms)) or "all",
            when(token.created_at),
            when(token.revoked_at),
            short(token.note),
        )
        for token in found
    ]
    table([*columns, Column("NOTE", cut=True)], rows)


@tokens.command("revoke")
@click.argument("token", metavar="ID")
@db_option
def revoke(token: str) -> None:
    """Make a token good for nothing; services know it within seconds.

    ID is the one that `tokens list` shows.
    """
    from application import access
    from infrastructure.main import SystemClock

    with _kept() as kept:
        access.revoke(kept, token, SystemClock().now_ms())
    say(f"revoked: {shown(token)}")


@contextmanager
def _kept(*, makes: bool = False) -> "Iterator[Tokens]":
    from infrastructure.store.tokens import StoredTokens

    with database(makes=makes) as opened:
        yield StoredTokens(opened)


def _object(token: "Token") -> dict[str, Any]:
    return {
        "id": token.id,
        "scopes": sorted(token.scopes),
        "rooms": list(token.rooms),
        "note": token.note,
        "createdAtUnixMs": token.created_at,
        "revokedAtUnixMs": token.revoked_at or None,
    }
