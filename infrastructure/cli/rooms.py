"""The verbs about rooms that are pulled in: `rooms track`, `untrack`, `list`, `sessions hide`, `unhide`."""

import os
from typing import TYPE_CHECKING

import click

from infrastructure.cli.options import db_option, json_option, opened, room_of, room_option
from infrastructure.cli.text import Column, note, say, say_json, shown, table

if TYPE_CHECKING:
    from application.ledger import Ledger
    from application.rooms import Rooms


def rooms_of(ledger: "Ledger") -> "Rooms":
    """What can be done about rooms on a ledger's store."""
    from application.rooms import Rooms

    return Rooms(ledger.store, ledger.clock, actor="command line")


@click.group()
def rooms() -> None:
    """Say which rooms are pulled in from other hosts."""


@rooms.command()
@click.argument("room")
@click.option(
    "--remote", required=True, metavar="URL", help="The host it lives on, such as https://host:8443."
)
@click.option(
    "--token-env", default="", metavar="NAME", help="The environment variable that holds the token."
)
@click.option("--user", default="", metavar="ID", help="Who asks, as the remote knows it.")
@click.option("--allow-private", is_flag=True, help="Private and link-local addresses may be called.")
@db_option
def track(room: str, remote: str, token_env: str, user: str, allow_private: bool) -> None:
    """Pull ROOM in from a remote, or from another one than before.

    The token itself is not stored: whoever pulls reads it from the environment.
    """
    from infrastructure.remote import BadRemote, base_url

    try:
        base_url(remote)
    except BadRemote as error:
        raise click.UsageError(f"--remote {shown(remote)}: {error}") from None
    with opened(makes=True) as ledger:
        known = rooms_of(ledger).tracked()
        tracked = rooms_of(ledger).track(
            room, remote, token_ref=token_env, user_id=user, allows_private=allow_private
        )
    if tracked in known:
        note(f"nothing to do: room {shown(room)} is tracked already")
    else:
        say(f"tracked: {shown(room)} from {shown(remote)}")
    if token_env and not os.environ.get(token_env):
        note(f"{token_env} is not set here; set it where the room is pulled")


@rooms.command()
@click.argument("room")
@db_option
def untrack(room: str) -> None:
    """Pull ROOM in no more; what was pulled stays, and tracking it again goes on from there."""
    with opened() as ledger:
        rooms_of(ledger).untrack(room)
    say(f"untracked: {shown(room)}")


@rooms.command("list")
@json_option
@db_option
def list_(as_json: bool) -> None:
    """List the rooms that are pulled in."""
    with opened() as ledger:
        tracked = rooms_of(ledger).tracked()
        if as_json:
            for room in tracked:
                say_json(
                    {
                        "room": room.room,
                        "remote": room.url,
                        "tokenEnv": room.token_ref,
                        "user": room.user_id,
                        "allowPrivate": room.allows_private,
                        "hidden": sorted(room.hidden),
                        "version": room.version,
                    }
                )
        elif tracked:
            columns = (Column("ROOM"), Column("REMOTE"), Column("TOKEN FROM"), Column("HIDDEN", right=True))
            table(
                columns,
                [
                    (shown(room.room), shown(room.url), shown(room.token_ref) or "-", str(len(room.hidden)))
                    for room in tracked
                ],
            )
        else:
            note("no room is tracked; `reprise rooms track ROOM --remote URL` begins")


@click.command()
@click.argument("session", metavar="ID")
@room_option
@db_option
def hide(session: str, room: str) -> None:
    """Pull a session no more, until `unhide`; what is known of it stays."""
    with opened() as ledger:
        rooms_of(ledger).hide(room_of(ledger, session, room), session)
    say(f"hidden: {shown(session)}")


@click.command()
@click.argument("session", metavar="ID")
@room_option
@db_option
def unhide(session: str, room: str) -> None:
    """Pull a hidden session again, from where it was left."""
    with opened() as ledger:
        rooms_of(ledger).unhide(room_of(ledger, session, room), session)
    say(f"no longer hidden: {shown(session)}")
