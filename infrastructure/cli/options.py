"""What verbs have in common: which store, which session, JSON or text."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from infrastructure import settings

if TYPE_CHECKING:
    from application.ledger import Ledger
    from infrastructure.main import ObserverFailures
    from infrastructure.store.tables import Database

_DB: Final = "reprise.db"
SUGGESTIONS_MAX: Final = 3


def _remember(context: click.Context, _: click.Parameter, url: str | None) -> None:
    if url is not None:
        context.meta[_DB] = url


db_option = click.option(
    "--db",
    metavar="URL",
    expose_value=False,
    callback=_remember,
    help="The store, such as sqlite:///path/to/file.db or postgresql://user@host/database; may stand before"
    " or behind the verb.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON, one object per line.")
room_option = click.option(
    "--room", default="", metavar="ROOM", help="The session's room; needed only when several have its id."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would happen, and store nothing.")


def database_url() -> str:
    """The store that the command line or the environment names."""
    return settings.database_url(db_flag())


def db_flag() -> str | None:
    """What --db says, before or behind the verb; None when it says nothing."""
    url: str | None = click.get_current_context().meta.get(_DB)
    return url


@contextmanager
def opened(
    *, makes: bool = False, tries: bool = False, failures: "ObserverFailures | None" = None
) -> "Iterator[Ledger]":
    """The ledger, as long as the verb runs.

    A store that is not there is started only by a verb that `makes` one; a verb that `tries` what another
    run will do gets an empty one that is gone afterwards.
    """
    from infrastructure.main import open_ledger

    log_to_stderr()
    url = store_place(makes=makes, tries=tries)
    with open_ledger(url, failures=failures) as ledger:
        yield ledger


@contextmanager
def database(*, makes: bool = False) -> "Iterator[Database]":
    """The store's tables, without a ledger on them, as long as the verb runs."""
    from infrastructure.main import open_database

    opened = open_database(store_place(makes=makes))
    try:
        yield opened
    finally:
        opened.close()


def store_place(*, makes: bool = False, tries: bool = False) -> str:
    """The address of the store; raises NotFound where there is none and the verb does not make one."""
    from domain.errors import NotFound
    from infrastructure.main import missing_store

    url = database_url()
    if missing := missing_store(url):
        if tries:
            return settings.MEMORY
        if not makes:
            raise NotFound(f"{missing}: no store there; `reprise import` makes one")
        if missing == str(default := settings.default_database()):
            default.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return url


def decides_only(ledger: "Ledger") -> "Ledger":
    """The same ledger, whose commands answer what they would do and store nothing."""
    from dataclasses import replace

    from application import dry_run

    return replace(ledger, store=dry_run.decides_only(ledger.store))


def room_of(ledger: "Ledger", session: str, room: str) -> str:
    """The room of the session that a verb names; raises NotFound, with ids that look like it."""
    from domain.errors import NotFound
    from domain.ids import SessionId

    rooms = ledger.store.rooms_of(SessionId(session))
    # Of a purged session the history is all that is left.
    if room in rooms or (room and any(True for _ in ledger.events(room, session))):
        return room
    if rooms and not room:
        return ledger.room_of(session)
    if rooms:
        raise NotFound(f"no session {session} in room {room}; it is in {', '.join(rooms)}")
    like = _like(ledger, session)
    raise NotFound(f"no session {session}" + (f"; is it {' or '.join(like)}?" if like else ""))


def _like(ledger: "Ledger", session: str) -> list[str]:
    from difflib import get_close_matches

    ids = [summary.session for summary in ledger.sessions(deleted=True)]
    begun = [id_ for id_ in ids if session and id_.startswith(session)]
    return (begun or get_close_matches(session, ids))[:SUGGESTIONS_MAX]


def log_to_stderr() -> None:
    """Log lines are JSON, or coloured text when a person looks at them."""
    from infrastructure.logs import configure

    configure(sys.stderr)
