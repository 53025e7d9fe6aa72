"""The verbs about single deliveries: `deliveries list`, `show`, `why`, `redeliver` and `skip`."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from time import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from infrastructure.cli.desk import Chosen, Desk, desk_at
from infrastructure.cli.failures import EXIT_NOT_FOUND, Failure
from infrastructure.cli.options import db_option, dry_run_option, json_option
from infrastructure.cli.remote import url_option
from infrastructure.cli.text import Column, note, say, say_json, table
from infrastructure.cli.writing import may_ask
from infrastructure.text import counted, short, shown, when

if TYPE_CHECKING:
    from application.delivery_views import ChosenView, DeliveryView

STATES: Final = ("pending", "claimed", "waiting", "delivered", "parked", "skipped")
UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
C = TypeVar("C", bound=Callable[..., Any])

to_option = click.option(
    "--to", "name", metavar="NAME", default="", help="The subscription; needed when there are several."
)


def _since(_: click.Context, __: click.Parameter, text: str) -> tuple[int, int]:
    """A time as ms, or how long ago as ms."""
    if not text:
        return 0, 0
    if ago := re.fullmatch(r"(\d{1,9})([smhd])", text):
        return 0, int(ago[1]) * UNIT_MS[ago[2]]
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise click.BadParameter("give a time such as 2026-03-01T09:00:00Z, or an age: 90s, 30m, 24h, 7d")
    return round(at.timestamp() * 1_000), 0


def choosing(command: C) -> C:
    """The options that choose deliveries."""
    for option in (
        click.option("--room", default="", metavar="ROOM", help="Those of one room."),
        click.option(
            "--since", default="", callback=_since, metavar="TIME", help="Committed since a time, or 24h ago."
        ),
        click.option(
            "--state", "states", multiple=True, type=click.Choice(STATES), help="In this state; repeat it."
        ),
        to_option,
    ):
        command = option(command)
    return command


@click.group()
def deliveries() -> None:
    """Look at what was delivered and what was not, and change it.

    A delta is pending, claimed by a worker, waiting after a failure, delivered, parked when it was given
    up, or skipped.
    """


@deliveries.command("list")
@choosing
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="How many at the most.")
@url_option
@json_option
@db_option
def list_(
    name: str,
    states: tuple[str, ...],
    since: tuple[int, int],
    room: str,
    limit: int,
    url: str | None,
    as_json: bool,
) -> None:
    """List what has become of deltas, oldest first."""
    with desk_at(url) as desk:
        chosen = Chosen((), room, _since_ms(since), states)
        rows = [row for one in _names(desk, name) for row in desk.deliveries(one, chosen, limit + 1)]
    rows.sort(key=lambda one: one.position)
    if as_json:
        for one in rows[:limit]:
            say_json(one.to_dict())
    elif rows:
        _table(rows[:limit])
    else:
        note("no deliveries like this")
    if len(rows) > limit:
        note(f"there are more than {counted(limit, 'delivery', 'deliveries')}; raise --limit")


@deliveries.command()
@click.argument("transaction")
@to_option
@url_option
@json_option
@db_option
def show(transaction: str, name: str, url: str | None, as_json: bool) -> None:
    """Show what has become of the delta of TRANSACTION."""
    with desk_at(url) as desk:
        for one in _of_transaction(desk, transaction, name):
            if as_json:
                say_json(one.to_dict())
            else:
                _say_lines(one)


@deliveries.command()
@click.argument("transaction")
@to_option
@url_option
@json_option
@db_option
def why(transaction: str, name: str, url: str | None, as_json: bool) -> None:
    """Tell why the delta of TRANSACTION stands where it does, and what would move it."""
    with desk_at(url) as desk:
        for one in _of_transaction(desk, transaction, name):
            if as_json:
                say_json(one.model_copy(update={"delta": None}).to_dict())
            else:
                say(f"{shown(one.subscription)}: {one.why}")


def _changing(command: C) -> C:
    """The options of verbs that change deliveries."""
    for option in (
        db_option,
        url_option,
        dry_run_option,
        click.option("--yes", is_flag=True, help="Do not ask; needed when nobody can be asked."),
        click.option(
            "--expect", type=click.IntRange(0), metavar="N", help="Change nothing unless so many are chosen."
        ),
        choosing,
        click.argument("transactions", nargs=-1, metavar="[TRANSACTION]..."),
    ):
        command = option(command)
    return command


@deliveries.command()
@_changing
def redeliver(**given: Any) -> None:
    """Deliver deltas again: these, or those of a room, since a time, in a state.

    What waits is tried at once.
    """
    _change("redeliver", "redelivered", **given)


@deliveries.command()
@_changing
def skip(**given: Any) -> None:
    """Leave deltas out that are unfinished or parked: these, or those of a room, since a time, in a state."""
    _change("skip", "skipped", **given)


def _change(
    verb: str,
    done: str,
    *,
    transactions: tuple[str, ...],
    name: str,
    states: tuple[str, ...],
    since: tuple[int, int],
    room: str,
    expect: int | None,
    yes: bool,
    dry_run: bool,
    url: str | None,
) -> None:
    if not (transactions or states or room or any(since)):
        raise click.UsageError(f"name transactions to {verb}, or choose by --room, --since or --state")
    with desk_at(url) as desk:
        name = _only(desk, name)
        chosen = Chosen(transactions, room, _since_ms(since), states)
        found = desk.change(verb, name, chosen, expect, dry_run=True)
        if not found.count:
            note("no deliveries like this: nothing to do")
            return
        if dry_run:
            say(f"would be {done}: {_told(found)}")
            note(f"run it again with --yes --expect {found.count}")
            return
        if not yes:
            _ask(verb, found)
        changed = desk.change(verb, name, chosen, found.count, dry_run=False)
    say(f"{done}: {_told(changed)}")


def _ask(verb: str, found: "ChosenView") -> None:
    if not may_ask():
        raise click.UsageError(
            f"{verb} asks before it changes anything, and nobody can answer here; add --yes"
        )
    for one in found.sample:
        note(f"  {one['transactionId']}  {one['state']}  {shown(one['room'])}")
    if found.count > len(found.sample):
        note(f"  and {found.count - len(found.sample):,} more")
    click.confirm(f"{verb.capitalize()} {_told(found)}?", abort=True, err=True)


def _told(found: "ChosenView") -> str:
    first, last = found.first_position, found.last_position
    where = f"position {first}" if first == last else f"positions {first} to {last}"
    return f"{counted(found.count, 'delta')} for {shown(found.subscription)}, {where}"


def _since_ms(since: tuple[int, int]) -> int:
    at, ago = since
    return round(time() * 1_000) - ago if ago else at


def _names(desk: Desk, name: str) -> Sequence[str]:
    """The subscriptions that are meant; when none is named, all."""
    return [desk.subscription(name).name] if name else [one.name for one in desk.subscriptions()]


def _only(desk: Desk, name: str) -> str:
    """The subscription that is meant; when none is named, the only one there is."""
    names = _names(desk, name)
    if len(names) != 1:
        raise click.UsageError(f"there are {len(names)} subscriptions; name one with --to")
    return names[0]


def _of_transaction(desk: Desk, transaction: str, name: str) -> "Sequence[DeliveryView]":
    found = [one for each in _names(desk, name) if (one := desk.delivery(each, transaction))]
    if not found:
        whose = f"{shown(name)} has no" if name else "no subscription has a"
        raise Failure(f"{whose} delivery of transaction {transaction}", exit_code=EXIT_NOT_FOUND)
    return found


def _table(rows: "Sequence[DeliveryView]") -> None:
    columns = (
        Column("POSITION", right=True),
        Column("COMMITTED", from_width=110),
        Column("TO"),
        Column("STATE"),
        Column("ATTEMPTS", right=True),
        Column("TRANSACTION"),
        Column("ROOM", fold_at=24),
        Column("ERROR", cut=True),
    )
    table(
        columns,
        [
            (
                str(one.position),
                when(one.recorded_at_unix_ms),
                shown(one.subscription),
                one.state,
                str(one.attempts),
                one.transaction_id,
                shown(one.room),
                short(one.error or ""),
            )
            for one in rows
        ],
    )


def _say_lines(one: "DeliveryView") -> None:
    mutations = one.delta["mutations"] if one.delta else ()
    say(f"{shown(one.subscription)}: {one.state}")
    say(f"  transaction {one.transaction_id}, position {one.position}")
    say(f"  room {shown(one.room)}, committed {when(one.recorded_at_unix_ms)}")
    say(f"  {counted(len(mutations), 'mutation')}, {counted(one.attempts, 'failed attempt')}")
    if one.error:
        say(f"  error: {short(one.error)}")
    if one.next_attempt_at_unix_ms:
        say(f"  next attempt {when(one.next_attempt_at_unix_ms)}")
    if one.redeliveries:
        say(f"  redelivered {counted(one.redeliveries, 'time')}")
