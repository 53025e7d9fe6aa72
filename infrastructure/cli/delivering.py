"""The verbs about single deliveries: `deliveries list`, `show`, `why`, `redeliver` and `skip`."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from infrastructure.cli.failures import EXIT_CONFLICT, Failure
from infrastructure.cli.options import db_option, dry_run_option, json_option, opened
from infrastructure.cli.text import Column, note, say, say_json, table
from infrastructure.cli.writing import may_ask
from infrastructure.text import counted, short, shown, when

if TYPE_CHECKING:
    from application.lanes import Choice, Delivered
    from application.ledger import Ledger

STATES: Final = ("pending", "claimed", "waiting", "delivered", "parked", "skipped")
UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SAMPLE: Final = 5
"""Deliveries that are shown of those that were chosen."""
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
@json_option
@db_option
def list_(
    name: str, states: tuple[str, ...], since: tuple[int, int], room: str, limit: int, as_json: bool
) -> None:
    """List what has become of deltas, oldest first."""
    with opened() as ledger:
        names = [name] if name else [held.key for held in ledger.subscriptions.all()]
        choice = _choice(ledger, (), room, since, states)
        found = [list(islice(ledger.subscriptions.list(one, choice), limit + 1)) for one in names]
    rows = sorted((one for rows in found for one in rows), key=lambda one: one.committed.last_position)
    if as_json:
        for one in rows[:limit]:
            say_json(_object(one))
    elif rows:
        _table(rows[:limit])
    else:
        note("no deliveries like this")
    if len(rows) > limit:
        note(f"there are more than {counted(limit, 'delivery', 'deliveries')}; raise --limit")


@deliveries.command()
@click.argument("transaction")
@to_option
@json_option
@db_option
def show(transaction: str, name: str, as_json: bool) -> None:
    """Show what has become of the delta of TRANSACTION."""
    with opened() as ledger:
        for one in _of_transaction(ledger, transaction, name):
            if as_json:
                say_json(_object(one) | {"delta": one.committed.delta.model_dump(mode="json", by_alias=True)})
                continue
            _say_lines(one)


@deliveries.command()
@click.argument("transaction")
@to_option
@json_option
@db_option
def why(transaction: str, name: str, as_json: bool) -> None:
    """Tell why the delta of TRANSACTION stands where it does, and what would move it."""
    with opened() as ledger:
        for one in _of_transaction(ledger, transaction, name):
            before = ledger.subscriptions.before(one)
            status = ledger.subscriptions.show(one.subscription).state
            reason = _reason(one, before, status.status, status.reason)
            if as_json:
                told = {"why": reason, "waitsFor": before.committed.transaction_id if before else None}
                say_json(_object(one) | told)
            else:
                say(f"{shown(one.subscription)}: {reason}")


def _reason(one: "Delivered", before: "Delivered | None", status: str, because: str) -> str:
    match one.state:
        case "delivered":
            again = f", and {counted(one.redelivery, 'time')} again" if one.redelivery else ""
            return f"it was delivered{again}"
        case "parked":
            tried = counted(one.attempts, "attempt")
            return f"it was given up after {tried}: {short(one.error)}; redeliver or skip it"
        case "skipped":
            return "somebody skipped it; redeliver it if it is wanted after all"
    if status != "active":
        told = f" ({short(because)})" if because else ""
        return f"the subscription is {status}{told}; resume it"
    if before:
        which = f"{before.committed.transaction_id} of its room, which is {before.state}"
        told = f" until {when(before.due_at)}: {short(before.error)}" if before.due_at else ""
        return f"it comes behind {which}{told}"
    match one.state:
        case "claimed":
            return f"worker {one.owner} is delivering it"
        case "waiting" if one.attempts:
            return (
                f"attempt {one.attempts} failed: {short(one.error)}; the next one is at {when(one.due_at)},"
                " or when another room gets through"
            )
        case "waiting":
            return "its room stopped behind a delta that was parked; redeliver or skip that one"
        case _:
            return "a worker will take it; is one running?"


def _changing(command: C) -> C:
    """The options of verbs that change deliveries."""
    for option in (
        db_option,
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
) -> None:
    from application.subscriptions import skippable
    from domain.errors import Rejected

    if not (transactions or states or room or any(since)):
        raise click.UsageError(f"name transactions to {verb}, or choose by --room, --since or --state")
    with opened() as ledger:
        name = _only(ledger, name)
        choice = _choice(ledger, transactions, room, since, states)
        if verb == "skip":
            choice = skippable(choice)
        rows = ledger.subscriptions.chosen(name, choice)
        if expect is not None and len(rows) != expect:
            raise Failure(
                f"{counted(len(rows), 'delta')} chosen, not {expect}; look again", exit_code=EXIT_CONFLICT
            )
        if not rows:
            note("no deliveries like this: nothing to do")
            return
        if dry_run:
            say(f"would be {done}: {_told(name, rows)}")
            note(f"run it again with --yes --expect {len(rows)}")
            return
        if not yes:
            _ask(verb, name, rows)
        change = ledger.subscriptions.skip if verb == "skip" else ledger.subscriptions.redeliver
        try:
            rows = change(name, choice, expected=len(rows))
        except Rejected as error:
            raise Failure(str(error), exit_code=EXIT_CONFLICT) from error
    say(f"{done}: {_told(name, rows)}")


def _ask(verb: str, name: str, rows: "Sequence[Delivered]") -> None:
    if not may_ask():
        raise click.UsageError(
            f"{verb} asks before it changes anything, and nobody can answer here; add --yes"
        )
    for one in rows[:SAMPLE]:
        note(f"  {one.committed.transaction_id}  {one.state}  {shown(one.committed.room)}")
    if len(rows) > SAMPLE:
        note(f"  and {len(rows) - SAMPLE:,} more")
    click.confirm(f"{verb.capitalize()} {_told(name, rows)}?", abort=True, err=True)


def _told(name: str, rows: "Sequence[Delivered]") -> str:
    first, last = rows[0].committed.last_position, rows[-1].committed.last_position
    where = f"position {first}" if first == last else f"positions {first} to {last}"
    return f"{counted(len(rows), 'delta')} for {shown(name)}, {where}"


def _choice(
    ledger: "Ledger",
    transactions: Sequence[str],
    room: str,
    since: tuple[int, int],
    states: Sequence[str],
) -> "Choice":
    from application.lanes import Choice, State
    from domain.ids import TransactionId

    at, ago = since
    return Choice(
        transactions=tuple(map(TransactionId, transactions)),
        room=room,
        since=ledger.clock.now_ms() - ago if ago else at,
        states=frozenset(map(State, states)),
    )


def _only(ledger: "Ledger", name: str) -> str:
    """The subscription that is meant; when none is named, the only one there is."""
    if name:
        return ledger.subscriptions.show(name).key
    names = [held.key for held in ledger.subscriptions.all()]
    if len(names) != 1:
        raise click.UsageError(f"there are {len(names)} subscriptions; name one with --to")
    return names[0]


def _of_transaction(ledger: "Ledger", transaction: str, name: str) -> "list[Delivered]":
    from domain.errors import NotFound

    names = [name] if name else [held.key for held in ledger.subscriptions.all()]
    found = []
    for one in names:
        try:
            found.append(ledger.subscriptions.delivery(one, transaction))
        except NotFound:
            if name:
                raise
    if not found:
        raise NotFound(f"no subscription has a delivery of transaction {transaction}")
    return found


def _table(rows: "Sequence[Delivered]") -> None:
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
                str(one.committed.last_position),
                when(one.committed.recorded_at),
                shown(one.subscription),
                str(one.state),
                str(one.attempts),
                one.committed.transaction_id,
                shown(one.committed.room),
                short(one.error),
            )
            for one in rows
        ],
    )


def _say_lines(one: "Delivered") -> None:
    committed = one.committed
    say(f"{shown(one.subscription)}: {one.state}")
    say(f"  transaction {committed.transaction_id}, position {committed.last_position}")
    say(f"  room {shown(committed.room)}, committed {when(committed.recorded_at)}")
    say(f"  {counted(len(committed.delta.mutations), 'mutation')}, {counted(one.attempts, 'failed attempt')}")
    if one.error:
        say(f"  error: {short(one.error)}")
    if one.due_at:
        say(f"  next attempt {when(one.due_at)}")
    if one.redelivery:
        say(f"  redelivered {counted(one.redelivery, 'time')}")


def _object(one: "Delivered") -> dict[str, Any]:
    committed = one.committed
    told: dict[str, Any] = {
        "subscription": one.subscription,
        "transactionId": committed.transaction_id,
        "position": committed.last_position,
        "room": committed.room,
        "recordedAtUnixMs": committed.recorded_at,
        "state": str(one.state),
        "attempts": one.attempts,
        "redeliveries": one.redelivery,
    }
    if one.due_at:
        told["nextAttemptAtUnixMs"] = one.due_at
    if one.error:
        told["error"] = one.error
    if one.owner:
        told["worker"] = one.owner
    return told
