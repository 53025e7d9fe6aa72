"""The verbs about who may use the service: `tokens create`, `list` and `revoke`."""

import click

from infrastructure.cli.desk import token_desk_at
from infrastructure.cli.failures import EXIT_NOT_FOUND, Failure
from infrastructure.cli.options import db_option, dry_run_option, json_option
from infrastructure.cli.remote import url_option
from infrastructure.cli.text import Column, note, say, say_json, table
from infrastructure.text import short, shown, when


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
@dry_run_option
@url_option
@json_option
@db_option
def create(
    scopes: tuple[str, ...], rooms: tuple[str, ...], text: str, dry_run: bool, url: str | None, as_json: bool
) -> None:
    """Make a token and show it, this once.

    The store keeps a digest of it. Send it as `Authorization: Bearer TOKEN`.
    """
    if dry_run:
        where = f"in {', '.join(map(shown, rooms))}" if rooms else "in every room"
        say(f"would be made: a token to {' and '.join(scopes)} {where}")
        return
    with token_desk_at(url, makes=True) as desk:
        made = desk.create(scopes, rooms, text)
    if as_json:
        say_json(made.to_dict())
        return
    say(made.token or "")
    note(f"this is token {made.id}; it is not shown again")


@tokens.command("list")
@url_option
@json_option
@db_option
def list_(url: str | None, as_json: bool) -> None:
    """List tokens, the revoked ones too; what they are is not kept."""
    with token_desk_at(url) as desk:
        found = desk.all()
    if as_json:
        for token in found:
            say_json(token.to_dict())
        return
    if not found:
        note("no token; `reprise tokens create --scope read` makes one")
        return
    columns = [Column("ID"), Column("SCOPES"), Column("ROOMS", fold_at=30), Column("MADE"), Column("REVOKED")]
    rows = [
        (
            token.id,
            " ".join(token.scopes),
            ", ".join(map(shown, token.rooms)) or "all",
            when(token.created_at_unix_ms),
            when(token.revoked_at_unix_ms or 0),
            short(token.note),
        )
        for token in found
    ]
    table([*columns, Column("NOTE", cut=True)], rows)


@tokens.command("revoke")
@click.argument("token", metavar="ID")
@dry_run_option
@url_option
@db_option
def revoke(token: str, dry_run: bool, url: str | None) -> None:
    """Make a token good for nothing; services know it within seconds.

    ID is the one that `tokens list` shows.
    """
    with token_desk_at(url) as desk:
        if not dry_run:
            desk.revoke(token)
        elif token not in {one.id for one in desk.all()}:
            what = f"no token {shown(token)}; `reprise tokens list` lists them"
            raise Failure(what, exit_code=EXIT_NOT_FOUND)
    say(f"{'would be ' if dry_run else ''}revoked: {shown(token)}")
