"""The verbs about destinations: `subscriptions add`, `list`, `show`, `test`, `rotate` and the others."""

from typing import TYPE_CHECKING, Any

import click

from infrastructure.cli.destinations import destinations_of, rotate, test
from infrastructure.cli.options import (
    db_option,
    decides_only,
    dry_run_option,
    json_option,
    opened,
)
from infrastructure.cli.text import Column, note, say, say_json, table
from infrastructure.cli.writing import may_ask
from infrastructure.text import short, shown, when

if TYPE_CHECKING:
    from application.ledger import Ledger
    from application.ports import StoredEvent
    from domain.subscription import Subscription

name_argument = click.argument("name")
reason_option = click.option("--reason", default="", metavar="TEXT", help="Why; it is kept in the history.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask; needed when nobody can be asked.")


@click.group()
def subscriptions() -> None:
    """Say where deltas go, and see how it goes.

    A worker, such as the one of a running service, delivers to them: in commit order inside a room, each
    delta at least once.
    """


subscriptions.add_command(test)
subscriptions.add_command(rotate)


@subscriptions.command()
@name_argument
@click.option(
    "--kind",
    required=True,
    metavar="KIND",
    help="Which sort of destination it is: webhook, jetstream or file.",
)
@click.option(
    "--target",
    required=True,
    metavar="URL",
    help="Where it is: https://host/path, nats://host:4222/prefix or file:///path.",
)
@click.option("--room", "rooms", multiple=True, metavar="ROOM", help="Only deltas of this room; repeat it.")
@click.option(
    "--entity",
    "entities",
    multiple=True,
    metavar="ENTITY",
    help="Only deltas that name one of these: session, turn, message, interaction; repeat it.",
)
@click.option("--after", type=click.IntRange(0), help="Begin behind this position; by default at the end.")
@click.option(
    "--on-parked",
    type=click.Choice(["go_on", "stop"]),
    default="go_on",
    show_default=True,
    help="What a room does behind a delta that was given up.",
)
@dry_run_option
@db_option
def add(
    *,
    name: str,
    kind: str,
    target: str,
    rooms: tuple[str, ...],
    entities: tuple[str, ...],
    after: int | None,
    on_parked: str,
    dry_run: bool,
) -> None:
    """Add a destination, known as NAME.

    A webhook is signed for with a secret of its own, which is shown for its receiver.
    """
    from domain.subscription import Added
    from infrastructure.sinks.targets import BadTarget

    added = Added(
        name=name,
        kind=kind,
        target=target,
        rooms=rooms,
        entity_kinds=entities,
        from_position=0,
        on_parked=on_parked,
    )
    with opened(makes=not dry_run, tries=dry_run) as ledger:
        there = {held.key for held in ledger.subscriptions.all()}
        begins = after if after is not None else ledger.delivery.deliveries.end()
        try:
            secret = destinations_of(ledger, dry_run=dry_run).add(added, after=after)
        except BadTarget as error:
            raise click.UsageError(str(error)) from error
    if name in there:
        note(f"nothing to do: {shown(name)} is there already")
    else:
        say(f"{_would(dry_run)}added: {shown(name)} delivers what is committed behind position {begins}")
    if secret and not dry_run:
        say(f"secret: {secret}")


@subscriptions.command("list")
@json_option
@db_option
def list_(as_json: bool) -> None:
    """List the destinations, and what waits for each."""
    with opened() as ledger:
        found = [(held.state, _counts(ledger, held.key)) for held in ledger.subscriptions.all()]
        observers = ledger.subscriptions.observers()
    if as_json:
        for state, counts in found:
            say_json(_object(state) | {"deliveries": counts})
        for name in observers:
            say_json({"name": name, "kind": "in_process", "status": "active"})
        return
    if not found and not observers:
        note("nobody subscribed; `reprise subscriptions add` does")
        return
    columns = (
        Column("NAME"),
        Column("KIND"),
        Column("STATUS"),
        Column("UNFINISHED", right=True),
        Column("PARKED", right=True),
        Column("TARGET", cut=True),
    )
    rows = [
        (
            shown(state.name),
            shown(state.kind),
            state.status,
            str(sum(counts[one] for one in ("pending", "claimed", "waiting"))),
            str(counts["parked"]),
            shown(state.target),
        )
        for state, counts in found
    ]
    table(columns, [*rows, *((shown(name), "in_process", "active", "-", "-", "") for name in observers)])


@subscriptions.command()
@name_argument
@json_option
@db_option
def show(name: str, as_json: bool) -> None:
    """Show a destination, what waits for it, and what happened to it."""
    from infrastructure.history import as_json_object, in_words

    with opened() as ledger:
        state = ledger.subscriptions.show(name).state
        counts = _counts(ledger, name)
        history = list(ledger.subscriptions.history(name))
    if as_json:
        events = [as_json_object(one) for one in history]
        say_json(_object(state) | {"deliveries": counts, "history": events})
        return
    say(f"{shown(state.name)}: {state.status}, a {shown(state.kind)} {shown(state.target)}".rstrip())
    if state.reason:
        say(f"  because: {short(state.reason)}")
    say(f"  rooms: {', '.join(map(shown, state.rooms)) or 'all'}")
    say(f"  entities: {', '.join(state.entity_kinds) or 'all'}")
    say(f"  from: behind position {state.from_position}")
    say(f"  behind a parked delta a room {'stops' if state.on_parked == 'stop' else 'goes on'}")
    stand = [f"{number} {word}" for word, number in counts.items() if number]
    say(f"  deliveries: {', '.join(stand) or 'none'}")
    for one in history:
        say(_line(one, in_words(one)))


def _line(stored: "StoredEvent", words: str) -> str:
    by = f" (by {shown(stored.actor)})" if stored.actor else ""
    return f"  {when(stored.recorded_at)}  {words}{by}"


@subscriptions.command()
@name_argument
@reason_option
@dry_run_option
@db_option
def pause(name: str, reason: str, dry_run: bool) -> None:
    """Deliver nothing to NAME until it is resumed; what is committed meanwhile stays pending."""
    with opened() as ledger:
        was = ledger.subscriptions.show(name).version
        held = _tried(ledger, dry_run).subscriptions.pause(name, reason)
    _tell("paused", name, held.version > was, dry_run)


@subscriptions.command()
@name_argument
@reason_option
@dry_run_option
@db_option
def resume(name: str, reason: str, dry_run: bool) -> None:
    """Deliver to NAME again, whether it was paused or its destination said that it is gone."""
    with opened() as ledger:
        was = ledger.subscriptions.show(name).version
        held = _tried(ledger, dry_run).subscriptions.resume(name, reason)
    _tell("resumed", name, held.version > was, dry_run)


@subscriptions.command()
@name_argument
@yes_option
@dry_run_option
@db_option
def remove(name: str, yes: bool, dry_run: bool) -> None:
    """Take NAME away, with what waits for it; its history stays."""
    with opened() as ledger:
        if not dry_run and not yes:
            if not may_ask():
                raise click.UsageError("remove asks before it forgets, and nobody can answer here; add --yes")
            click.confirm(f"Forget what waits for {shown(name)}?", abort=True, err=True)
        destinations_of(ledger, dry_run=dry_run).remove(name)
    _tell("removed", name, True, dry_run)


def _tried(ledger: "Ledger", dry_run: bool) -> "Ledger":
    return decides_only(ledger) if dry_run else ledger


def _would(dry_run: bool) -> str:
    return "would be " if dry_run else ""


def _tell(done: str, name: str, is_news: bool, dry_run: bool) -> None:
    if is_news:
        say(f"{_would(dry_run)}{done}: {shown(name)}")
    else:
        note(f"nothing to do: {shown(name)} is so already")


def _counts(ledger: "Ledger", name: str) -> dict[str, int]:
    return {str(state): number for state, number in ledger.subscriptions.counts(name).items()}


def _object(state: "Subscription") -> dict[str, Any]:
    return {
        "name": state.name,
        "kind": state.kind,
        "target": state.target,
        "status": state.status,
        "reason": state.reason,
        "rooms": list(state.rooms),
        "entityKinds": list(state.entity_kinds),
        "fromPosition": state.from_position,
        "onParked": state.on_parked,
        "secretRef": state.secret_ref,
        "addedAtUnixMs": state.added_at,
    }
