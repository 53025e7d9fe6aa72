"""The verbs about a session's whole history as a file: `evidence export` and `evidence verify`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import click

from infrastructure.cli.failures import EXIT_FAILED, EXIT_NOT_FOUND, Failure
from infrastructure.cli.options import db_option, json_option, opened, room_of, room_option
from infrastructure.cli.remote import asked, downloaded, service_url, told, url_option
from infrastructure.cli.text import note, say, say_json
from infrastructure.text import shown

STDOUT: Final = "-"


@click.group()
def evidence() -> None:
    """A session's whole history as a file that others can check, without Reprise."""


@evidence.command()
@click.argument("session")
@room_option
@click.option(
    "--output", metavar="FILE", default="", help="Where to; - is stdout.  [default: SESSION.evidence.zip]"
)
@url_option
@db_option
def export(session: str, room: str, output: str, url: str | None) -> None:
    """Write what is recorded of SESSION into a zip: events, states, deliveries, and what checks them.

    `evidence verify`, or the verify.py in it, checks it. A file that is there already is kept.
    """
    target = output or f"{session.replace('/', '_')}.evidence.zip"
    with _asked(url, session, room) if service_url(url) else _looked_up(session, room) as bundle:
        if target == STDOUT:
            for chunk in bundle:
                sys.stdout.buffer.write(chunk)
            return
        _write_whole(Path(target), bundle)
    note(f"written: {shown(target)}")


def _write_whole(target: Path, bundle: Iterator[bytes]) -> None:
    """Write a file that was not there, whole or not at all."""
    with target.open("xb") as file:
        try:
            file.writelines(bundle)
        except BaseException:
            target.unlink()
            raise


@contextmanager
def _looked_up(session: str, room: str) -> Iterator[Iterator[bytes]]:
    from infrastructure.evidence.bundle import bundle_of, chunks

    with opened() as ledger, bundle_of(ledger, room_of(ledger, session, room), session) as bundle:
        yield chunks(bundle)


@contextmanager
def _asked(url: str | None, session: str, room: str) -> Iterator[Iterator[bytes]]:
    with asked(service_url(url)) as client:
        if not room:
            found = told(client.get("/v1/sessions", params={"q": session, "limit": 1_000})).json()["items"]
            rooms = sorted({one["room"] for one in found if one["session"] == session})
            if not rooms:
                raise Failure(f"the service has no session {shown(session)}", exit_code=EXIT_NOT_FOUND)
            if len(rooms) > 1:
                raise click.UsageError(
                    f"several rooms have a session {session}: {', '.join(map(shown, rooms))}; add --room"
                )
            room = rooms[0]
        place = f"/v1/rooms/{quote(room, safe='')}/sessions/{quote(session, safe='')}/evidence"
        yield downloaded(client, place)


@evidence.command()
@click.argument("bundle", metavar="FILE", type=click.Path(path_type=Path, exists=True))
@json_option
def verify(bundle: Path, as_json: bool) -> None:
    """Check a bundle, or the folder it was unpacked to, and name the first thing that does not hold.

    The exit code is 1 when something does not.
    """
    from infrastructure.evidence.verify import Broken, check

    try:
        checked = check(bundle)
    except Broken as error:
        if as_json:
            say_json({"ok": False, "problem": str(error)})
        else:
            say(f"BROKEN: {shown(str(error))}")
        raise click.exceptions.Exit(EXIT_FAILED) from None
    if as_json:
        say_json({"ok": True, **checked._asdict()})
    else:
        say(shown(checked.told()))
