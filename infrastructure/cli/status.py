"""The verb `status`: one screen, and whether anything is behind."""

from typing import TYPE_CHECKING

import click

from infrastructure.cli.failures import EXIT_FAILED
from infrastructure.cli.options import db_option, json_option, opened
from infrastructure.cli.remote import asked, service_url, told, url_option
from infrastructure.cli.text import say, say_json
from infrastructure.text import counted, shown

if TYPE_CHECKING:
    from application.status import StatusView


@click.command()
@url_option
@json_option
@db_option
def status(url: str | None, as_json: bool) -> None:
    """Say how things are: sessions, commits, and who is behind.

    The exit code is 1 when a subscription is more than REPRISE_LAG_SECONDS_MAX seconds behind.
    """
    from infrastructure import configuration

    threshold_s = configuration.resolve().lag_seconds_max
    found = _asked(where) if (where := service_url(url)) else _looked_up()
    behind = set(found.behind(threshold_s))
    if as_json:
        say_json(found.to_dict() | {"lagSecondsMax": threshold_s, "behind": sorted(behind)})
    else:
        parts = [f"{count:,} {status}" for status, count in found.sessions.items()]
        say(f"sessions {', '.join(parts) or 'none'} | commits up to {found.position:,}")
        for one in found.subscriptions:
            state = f"BEHIND {one.lag_seconds:,.0f} s" if one.name in behind else "ok"
            limit = f" (threshold {threshold_s:g} s)" if one.name in behind else ""
            parked = f", {one.parked:,} parked" if one.parked else ""
            waiting = f"{counted(one.pending, 'delta')} pending"
            say(f"subscription {shown(one.name)}  {state}, {waiting}{parked}{limit}")
        if found.waits or found.hosts_down:
            rooms = [f"{rooms:,} {state}" for state, rooms in found.waits.items()]
            down = [f"{counted(found.hosts_down, 'host')} down"] if found.hosts_down else []
            say(f"rooms pulled in: {', '.join(rooms + down)}")
    if behind:
        raise click.exceptions.Exit(EXIT_FAILED)


def _looked_up() -> "StatusView":
    from application.status import status_of

    with opened() as ledger:
        return status_of(ledger)


def _asked(url: str) -> "StatusView":
    from application.status import StatusView

    with asked(url) as client:
        return StatusView.model_validate(told(client.get("/v1/status")).json())
