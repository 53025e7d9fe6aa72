"""The verbs about rooms that are pulled in: `rooms track`, `untrack`, `list`, `sessions hide`, `unhide`."""

import os
from typing import TYPE_CHECKING

import click

from infrastructure.cli.options import (
    db_option,
    decides_only,
    dry_run_option,
    json_option,
    opened,
    room_of,
    room_option,
)
from infrastructure.cli.text import Column, note, say, say_json, table
from infrastructure.text import shown

if TYPE_CHECKING:
    from application.ledger import Ledger
    from application.rooms import Rooms


def rooms_of(ledger: "Ledger") -> "Rooms":
    """What can be done about rooms on a ledger's store."""
    from application.rooms import Rooms

    return Rooms(ledger.store, ledger.clock, actor="command line")


def changing(ledger: "Ledger", dry_run: bool) -> "Rooms":
    """The same, on a ledger that stores nothing in a dry run."""
    return rooms_of(decides_only(ledger) if dry_run else ledger)


def tell(is_news: bool, done: str, already: str, dry_run: bool) -> None:
    """Say what was done, or would be, or why there was nothing to do."""
    if is_news:
        say(f"{'would be ' if dry_run else ''}{done}")
    else:
        note(f"nothing to do: {already}")


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
@dry_run_option
@db_option
def track(room: str, remote: str, token_env: str, user: str, allow_private: bool, dry_run: bool) -> None:
    """Pull ROOM in from a remote, or from another one than before.

    The token itself is not stored: whoever pulls reads it from the environment.
    """
    from infrastructure.remote import BadRemote, base_url

    try:
        base_url(remote)
    except BadRemote as error:
        raise click.UsageError(f"--remote: {error}") from None
    with opened(makes=not dry_run, tries=dry_run) as ledger:
        known = rooms_of(ledger).tracked()
        tracked = changing(ledger, dry_run).track(
            room, remote, token_ref=token_env, user_id=user, allows_private=allow_private
        )
    tell(
        tracked not in known,
        f"tracked: {shown(tracked.room)} from {shown(remote)}",
        f"room {shown(tracked.room)} is tracked already",
        dry_run,
    )
    if token_env and not os.environ.get(token_env):
        note(f"{token_env} is not set here; set it where the room is pulled")


@rooms.command()
@click.argument("room")
@dry_run_option
@db_option
def untrack(room: str, dry_run: bool) -> None:
    """Pull ROOM in no more; what was pulled stays, and tracking it again goes on from there."""
    with opened() as ledger:
        was_tracked = rooms_of(ledger).room(room).is_tracked
        changing(ledger, dry_run).untrack(room)
    tell(was_tracked, f"untracked: {shown(room)}", f"room {shown(room)} is not tracked", dry_run)


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
@dry_run_option
@db_option
def hide(session: str, room: str, dry_run: bool) -> None:
    """Pull a session no more, until `unhide`; what is known of it stays.

    With --room also one that was never pulled.
    """
    with opened() as ledger:
        where = _room_to_hide_in(ledger, session, room)
        was_hidden = session in rooms_of(ledger).room(where).hidden
        changing(ledger, dry_run).hide(where, session)
    tell(not was_hidden, f"hidden: {shown(session)}", f"{shown(session)} is hidden already", dry_run)


@click.command()
@click.argument("session", metavar="ID")
@room_option
@dry_run_option
@db_option
def unhide(session: str, room: str, dry_run: bool) -> None:
    """Pull a hidden session again, from where it was left."""
    with opened() as ledger:
        where = _room_to_hide_in(ledger, session, room)
        was_hidden = session in rooms_of(ledger).room(where).hidden
        changing(ledger, dry_run).unhide(where, session)
    tell(was_hidden, f"shown: {shown(session)}", f"{shown(session)} is not hidden", dry_run)


def _room_to_hide_in(ledger: "Ledger", session: str, room: str) -> str:
    """A tracked room that is named, whatever was pulled of it; else the room that has the session."""
    return room if room and rooms_of(ledger).room(room).url else room_of(ledger, session, room)
