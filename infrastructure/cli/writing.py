"""The verbs that change what is recorded: `settle`, `delete`, `restore`, `purge`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from infrastructure.cli.options import db_option, decides_only, dry_run_option, opened, room_of, room_option
from infrastructure.cli.text import note, say
from infrastructure.cli.upkeep import restore_file
from infrastructure.text import counted, shown

if TYPE_CHECKING:
    from application.ledger import Ledger
    from application.views import OutcomeView, Reply

SQLITE_BEGINS: Final = b"SQLite format 3\0"
"""The first bytes of every SQLite database."""


@click.command()
@click.argument("room")
@dry_run_option
@db_option
def settle(room: str, dry_run: bool) -> None:
    """End the turns that a dead host left over in ROOM.

    For the host that owns the room, before it starts its agents again. The turns end as interrupted, and
    provisionally: what a turn itself reports later counts.
    """
    from domain.errors import NotFound

    with opened() as ledger:
        if not ledger.sessions(room, deleted=True, limit=1):
            raise NotFound(f"no session in room {room}")
        replies = (decides_only(ledger) if dry_run else ledger).settle(room)
    turns = [outcome for reply in replies for outcome in reply.outcomes]
    for turn in turns:
        say(f"{'would settle' if dry_run else 'settled'} turn {shown(turn.id)}")
    if not turns:
        note("no turn was left over")


@click.command()
@click.argument("session", metavar="ID")
@room_option
@dry_run_option
@db_option
def delete(session: str, room: str, dry_run: bool) -> None:
    """Delete a session with its sub-agents.

    `restore` brings them back.
    """
    with opened() as ledger:
        where = room_of(ledger, session, room)
        reply = (decides_only(ledger) if dry_run else ledger).delete(where, session)
    _tell("deleted", reply, dry_run)


@click.command()
@click.argument("what", metavar="ID-OR-FILE")
@room_option
@dry_run_option
@db_option
def restore(what: str, room: str, dry_run: bool) -> None:
    """Bring back what was deleted with a session, or make the store from a backup.

    ID is a session's. FILE was written by `backup`; the store that --db names must not be there yet, and
    gets an id of its own.
    """
    if not room and is_database(what):
        if dry_run:
            raise click.UsageError("--dry-run is for sessions; a backup is restored beside everything else")
        restore_file(Path(what))
        return
    with opened() as ledger:
        where = room_of(ledger, what, room)
        reply = (decides_only(ledger) if dry_run else ledger).restore(where, what)
    _tell("restored", reply, dry_run)


def is_database(name: str) -> bool:
    """Whether it is a file with an SQLite database, rather than a session's id."""
    try:
        with Path(name).open("rb") as file:
            return file.read(len(SQLITE_BEGINS)) == SQLITE_BEGINS
    except (OSError, ValueError):
        return False


@click.command()
@click.argument("session", metavar="ID")
@room_option
@click.option("--yes", is_flag=True, help="Do not ask; needed when nobody can be asked.")
@dry_run_option
@db_option
def purge(session: str, room: str, yes: bool, dry_run: bool) -> None:
    """Destroy the content of a session for good.

    What people and agents wrote in it and in its sub-agents goes; that it happened, and when, stays.
    """
    with opened() as ledger:
        where = room_of(ledger, session, room)
        if not dry_run and not yes:
            _ask(ledger, decides_only(ledger).purge(where, session), where)
        reply = (decides_only(ledger) if dry_run else ledger).purge(where, session)
    _tell("purged", reply, dry_run)


def _ask(ledger: "Ledger", preview: "Reply", room: str) -> None:
    sessions = _touched(preview)
    if not sessions:
        return
    if not may_ask():
        raise click.UsageError("purge asks before it destroys, and nobody can answer here; add --yes")
    views = [ledger.session(room, one.id) for one in sessions]
    lost = sum(view.messages + view.tool_calls for view in views if view)
    for one in sessions:
        note(f"  {shown(one.id)}")
    what = f"{counted(len(sessions), 'session')} with {counted(lost, 'message')}"
    click.confirm(f"Destroy the content of {what} for good?", abort=True, err=True)


def may_ask() -> bool:
    """Whether somebody is there who can answer."""
    return sys.stdin.isatty()


def _touched(reply: "Reply") -> "Sequence[OutcomeView]":
    return [outcome for outcome in reply.outcomes if outcome.outcome == "applied"]


NOTHING = {
    ("deleted", "deleted"): "it is deleted already",
    ("restored", "duplicate"): "it is not deleted",
    ("purged", "duplicate"): "it is purged already",
}


def _tell(done: str, reply: "Reply", dry_run: bool) -> None:
    for outcome in reply.outcomes:
        if outcome.outcome == "applied":
            say(f"{'would be ' if dry_run else ''}{done}: {shown(outcome.id)}")
        else:
            why = NOTHING.get((done, outcome.reason or ""), outcome.reason)
            note(f"nothing to do for {shown(outcome.id)}: {why}")
