"""The verb `doctor`: what may be wrong here, looked at one by one."""

import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import click

from infrastructure.cli.failures import EXIT_FAILED, failure_of
from infrastructure.cli.options import database, database_url, db_option, json_option, opened
from infrastructure.cli.remote import asked, service_url, told, url_option
from infrastructure.cli.text import note, say, say_json
from infrastructure.text import counted, shown

FREE_BYTES_MIN: Final = 2**30
CLOCK_SKEW_S_MAX: Final = 5.0


class Finding(NamedTuple):
    """What was looked at, whether it is well, and what there is to say."""

    name: str
    ok: bool
    detail: str


@click.command()
@url_option
@json_option
@db_option
def doctor(url: str | None, as_json: bool) -> None:
    """Look for what may be wrong: settings, store, schema, disk, clock, and the service at --url.

    The exit code is 1 when something is.
    """
    findings = []
    for name, look in (("settings", _settings), ("store", _store), ("disk", _disk), ("clock", _clock)):
        findings += _looked(name, look)
        if name == "settings" and not findings[-1].ok:
            break  # Nothing else can be asked for.
    else:
        if where := service_url(url):
            findings += _looked("service", lambda: _service(where))
    for one in findings:
        if as_json:
            say_json(one._asdict())
        else:
            say(f"{'ok ' if one.ok else 'BAD'}  {one.name:<8}  {shown(one.detail)}")
    if bad := sum(not one.ok for one in findings):
        note(f"{counted(bad, 'thing')} to look after")
        raise click.exceptions.Exit(EXIT_FAILED)


def _looked(name: str, look: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """What was found; trouble that is expected is a finding too."""
    try:
        return list(look())
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        return [Finding(name, False, line) for line in failure.lines]


def _settings() -> Iterator[Finding]:
    from infrastructure import configuration
    from infrastructure.settings import config_file

    configuration.resolve()
    there = "" if config_file().exists() else " (not there)"
    yield Finding("settings", True, f"they mean something; file {config_file()}{there}")


def _store() -> Iterator[Finding]:
    from infrastructure.configuration import masked_url

    with database() as tables:
        found, known = tables.schemas()
        with tables.write():
            yield Finding("store", True, f"{masked_url(database_url())} can be read and written")
    yield Finding("schema", found == known, f"the store has schema {found}, this release has {known}")


def _disk() -> Iterator[Finding]:
    from infrastructure.settings import database_file

    file = database_file(database_url())
    if file is None:
        return
    space = os.statvfs(file.parent)
    free = space.f_bavail * space.f_frsize
    yield Finding("disk", free >= FREE_BYTES_MIN, f"{free / 2**30:,.1f} GiB free beside {file}")


def _clock() -> Iterator[Finding]:
    from infrastructure.main import SystemClock

    with opened() as ledger:
        newest = ledger.sessions(deleted=True, limit=1)
        now = SystemClock().now_ms()
    ahead_s = (newest[0].updated_at_unix_ms - now) / 1_000 if newest else 0.0
    detail = (
        f"the newest record is {ahead_s:,.0f} s in the future" if ahead_s > 0 else "not behind the record"
    )
    yield Finding("clock", ahead_s <= CLOCK_SKEW_S_MAX, detail)


def _service(url: str) -> Iterator[Finding]:
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    with asked(url) as client:
        answer = client.get("/readyz")
        body = answer.json()
        yield Finding("service", answer.is_success, f"{url} is {body.get('status')}")
        for check in body.get("checks", ()):
            yield Finding(f"service: {check['name']}", check["status"] == "ok", check["detail"])
        told(client.get("/v1/status"))
        yield Finding("access", True, "the service lets us read")
        if said := answer.headers.get("date"):
            skew_s = abs((parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds())
            yield Finding("clocks", skew_s <= CLOCK_SKEW_S_MAX, f"{skew_s:,.0f} s from the service's")
