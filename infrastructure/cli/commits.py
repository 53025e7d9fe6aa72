"""The verb `commits tail`: what was committed last, and what is from then on."""

import json
from collections import Counter, deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from time import sleep
from typing import TYPE_CHECKING, Any, Final

import click

from infrastructure.cli.options import db_option, json_option, opened
from infrastructure.cli.remote import asked, service_url, streamed, told, url_option
from infrastructure.cli.text import GAP, on_narrow_terminal, say, say_json
from infrastructure.text import shown

if TYPE_CHECKING:
    from application.ledger import Ledger
    from domain.delta import CommittedDelta

TAIL: Final = 10
"""Commits that are shown when nothing says where to begin."""
AGAIN_S: Final = 2.0
WINDOW: Final = 500
"""Positions that are looked through for them at first."""


@click.group()
def commits() -> None:
    """What was committed, in the order of the store."""


@commits.command()
@click.option(
    "--after",
    type=click.IntRange(0),
    default=None,
    metavar="POSITION",
    help=f"Begin behind this position.  [default: the last {TAIL}]",
)
@click.option("--follow", is_flag=True, help="Go on with each commit as it comes, until Ctrl-C.")
@url_option
@json_option
@db_option
def tail(after: int | None, follow: bool, url: str | None, as_json: bool) -> None:
    """Show what commits changed, oldest first.

    A line of --json is a CloudEvent, as streams and webhooks have it; its sequence is what --after takes.
    """
    found = _asked(where, after, follow) if (where := service_url(url)) else _looked_up(after, follow)
    try:
        with closing(found):
            for event in found:
                if as_json:
                    say_json(event)
                else:
                    say(_line(event))
    except KeyboardInterrupt:
        if not follow:
            raise


def _looked_up(after: int | None, follow: bool) -> Generator[dict[str, Any]]:
    from infrastructure.cloud_events import structured

    with opened() as ledger:
        position = 0
        for committed in _last(ledger) if after is None else ledger.deltas(after):
            position = committed.last_position
            yield json.loads(structured(committed))
        if follow:
            # Deltas are as the last one says, or there were none.
            with ledger.follow(max(position, after or 0)) as following:
                for committed in following:
                    yield json.loads(structured(committed))


def _last(ledger: "Ledger") -> "Iterator[CommittedDelta]":
    """The last commits; positions count events, so it looks through more and more of them."""
    window, end = WINDOW, ledger.store.extent().end
    while True:
        found = deque(ledger.deltas(max(0, end - window)), TAIL)
        if len(found) == TAIL or window >= end:
            return iter(found)
        window *= 8


def _asked(url: str, after: int | None, follow: bool) -> Generator[dict[str, Any]]:
    """The same from a service: its stream, up to where it is now or for as long as it goes on."""
    with asked(url) as client:
        extent = told(client.get("/v1/status")).json()
        end, window = extent["position"], WINDOW
        if after is None:
            found = list(streamed(client, max(0, end - window), end))
            while len(found) < TAIL and window < end:
                window *= 8
                found = list(streamed(client, max(0, end - window), end))
            yield from found[-TAIL:]
        else:
            yield from streamed(client, after, end)
        while follow:
            for event in streamed(client, max(end, after or 0), None):
                end = int(event["sequence"])
                yield event
            sleep(AGAIN_S)


def _line(event: Mapping[str, Any]) -> str:
    mutations = Counter(f"{one['entityKind']}:{one['operation']}" for one in event["data"]["mutations"])
    kinds = ", ".join(f"{kind} x{count}" if count > 1 else kind for kind, count in mutations.items())
    cells = (
        f"{int(event['sequence']):>7}",
        event["time"][:19].replace("T", " ") + "Z",
        "" if on_narrow_terminal() else event["id"],
        shown(event["partitionkey"]),
        shown(event["subject"]),
        kinds,
    )
    return GAP.join(filter(None, cells))
