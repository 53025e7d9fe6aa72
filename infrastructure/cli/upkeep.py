"""The verbs of upkeep: `rebuild`, `verify`, `backup`, `copy`, and what `restore` does with a file."""

from pathlib import Path

import click

from infrastructure import settings
from infrastructure.cli.failures import EXIT_FAILED
from infrastructure.cli.options import database_url, db_option, json_option, opened
from infrastructure.cli.text import note, say, say_json
from infrastructure.text import counted, shown


@click.command()
@db_option
def rebuild() -> None:
    """Make the read models anew from the events.

    Others may read and write meanwhile.
    """
    with opened() as ledger:
        events = ledger.rebuild()
    say(f"rebuilt from {counted(events, 'event')}")


@click.command()
@json_option
@db_option
@click.pass_context
def verify(context: click.Context, as_json: bool) -> None:
    """Check that all that is stored fits together.

    Events, outbox and read models are compared, nothing is changed. Exit code 1 means that something is
    wrong.
    """
    with opened() as ledger:
        found = ledger.verify()
    if as_json:
        problems = [{"where": problem.where, "what": problem.what} for problem in found.problems]
        say_json(
            {
                "ok": found.ok,
                "streams": found.streams,
                "events": found.events,
                "outbox": found.outbox,
                "problems": problems,
            }
        )
    else:
        for problem in found.problems:
            say(f"problem: {shown(problem.where)}: {shown(problem.what)}")
        read = ", ".join(
            (
                counted(found.streams, "stream"),
                counted(found.events, "event"),
                counted(found.outbox, "delta"),
            )
        )
        say(f"{'ok' if found.ok else counted(len(found.problems), 'problem')}: {read}")
    if not found.ok:
        context.exit(EXIT_FAILED)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@db_option
def backup(file: Path) -> None:
    """Write the whole store into FILE, while others use it.

    `restore FILE` makes a store of it again. For stores in an SQLite file.
    """
    from infrastructure.store.backup import backup as write_backup

    written = write_backup(_database_file(), file)
    say(f"backed up to {shown(str(file))}: position {written.position}, sha256 {written.sha256}")


def restore_file(file: Path) -> None:
    """Make the store that --db names from a backup."""
    from infrastructure.store.backup import restore

    store = _database_file()
    read = restore(file, store)
    say(f"restored to {shown(str(store))}: position {read.position}, sha256 of the backup {read.sha256}")


def _database_file() -> Path:
    file = settings.database_file(database_url())
    if file is None:
        raise click.UsageError(
            "a backup is made of an SQLite file; name one with --db sqlite:///path/to/file.db, or see copy"
        )
    return file


@click.command()
@click.option("--from", "source", metavar="URL", required=True, help="The store to copy.")
@click.option("--to", "target", metavar="URL", required=True, help="Where to; a store is made there.")
def copy(source: str, target: str) -> None:
    """Copy a store into another database.

    Events keep their bytes and positions, and their hashes are checked. Run it again to go on after an
    interruption, or to take over what has come since; the copy must not have been written to.
    """
    from contextlib import closing

    from domain.errors import NotFound
    from infrastructure.main import missing_store, open_database
    from infrastructure.store.copying import copy as copy_store

    urls = settings.store_url("--from", source), settings.store_url("--to", target)
    if missing := missing_store(urls[0]):
        raise NotFound(f"{missing}: no store there; name the one to copy with --from")
    with closing(open_database(urls[0])) as there, closing(open_database(urls[1])) as here:
        copied = copy_store(there, here, lambda events: note(f"copied {counted(events, 'event')}"))
    say(
        f"{counted(copied.events, 'event')} copied; both end at position {copied.end};"
        f" the new store's id is {copied.store_id}"
    )
