"""The verbs about destinations: `subscriptions add`, `list`, `show`, `test`, `rotate` and the others."""

from typing import TYPE_CHECKING

import click

from infrastructure.cli.desk import desk_at
from infrastructure.cli.destinations import rotate, test
from infrastructure.cli.options import db_option, dry_run_option, json_option
from infrastructure.cli.remote import url_option
from infrastructure.cli.text import Column, note, say, say_json, table
from infrastructure.cli.writing import may_ask
from infrastructure.text import short, shown, when

if TYPE_CHECKING:
    from application.delivery_views import SubscriptionView

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
@url_option
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
    url: str | None,
) -> None:
    """Add a destination, known as NAME.

    A webhook is signed for with a secret of its own, which is shown for its receiver.
    """
    from domain.subscription import Added
    from infrastructure.sinks.targets import BadTarget

    wanted = Added(
        name=name,
        kind=kind,
        target=target,
        rooms=rooms,
        entity_kinds=entities,
        from_position=0,
        on_parked=on_parked,
    )
    with desk_at(url, makes=not dry_run, tries=dry_run) as desk:
        there = {one.name for one in desk.subscriptions()}
        try:
            added = desk.add(wanted, after, dry_run=dry_run)
        except BadTarget as error:
            raise click.UsageError(str(error)) from error
    if name in there:
        note(f"nothing to do: {shown(name)} is there already")
    else:
        where = f"behind position {added.from_position}"
        say(f"{_would(dry_run)}added: {shown(name)} delivers what is committed {where}")
    if added.secret:
        say(f"secret: {added.secret}")


@subscriptions.command("list")
@url_option
@json_option
@db_option
def list_(url: str | None, as_json: bool) -> None:
    """List the destinations, and what waits for each."""
    with desk_at(url) as desk:
        found, observers = desk.subscriptions(), desk.observers()
    if as_json:
        for one in found:
            say_json(one.to_dict())
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
    rows = [_row(one) for one in found]
    table(columns, [*rows, *((shown(name), "in_process", "active", "-", "-", "") for name in observers)])


def _row(one: "SubscriptionView") -> tuple[str, ...]:
    counts = one.deliveries or {}
    return (
        shown(one.name),
        shown(one.kind),
        one.status,
        str(sum(counts.get(state, 0) for state in ("pending", "claimed", "waiting"))),
        str(counts.get("parked", 0)),
        shown(one.target),
    )


@subscriptions.command()
@name_argument
@url_option
@json_option
@db_option
def show(name: str, url: str | None, as_json: bool) -> None:
    """Show a destination, what waits for it, and what happened to it."""
    with desk_at(url) as desk:
        one, history = desk.subscription(name), desk.history(name)
    if as_json:
        say_json(one.to_dict() | {"history": list(history)})
        return
    say(f"{shown(one.name)}: {one.status}, a {shown(one.kind)} {shown(one.target)}".rstrip())
    if one.reason:
        say(f"  because: {short(one.reason)}")
    say(f"  rooms: {', '.join(map(shown, one.rooms)) or 'all'}")
    say(f"  entities: {', '.join(one.entity_kinds) or 'all'}")
    say(f"  from: behind position {one.from_position}")
    say(f"  behind a parked delta a room {'stops' if one.on_parked == 'stop' else 'goes on'}")
    stand = [f"{number} {word}" for word, number in (one.deliveries or {}).items() if number]
    say(f"  deliveries: {', '.join(stand) or 'none'}")
    for event in history:
        by = f" (by {shown(event['actor'])})" if event.get("actor") else ""
        say(f"  {when(event['recordedAtUnixMs'])}  {event['words']}{by}")


@subscriptions.command()
@name_argument
@reason_option
@dry_run_option
@url_option
@db_option
def pause(name: str, reason: str, dry_run: bool, url: str | None) -> None:
    """Deliver nothing to NAME until it is resumed; what is committed meanwhile stays pending."""
    with desk_at(url) as desk:
        was = desk.subscription(name).version
        is_news = desk.pause(name, reason, dry_run=dry_run) > was
    _tell("paused", name, is_news, dry_run)


@subscriptions.command()
@name_argument
@reason_option
@dry_run_option
@url_option
@db_option
def resume(name: str, reason: str, dry_run: bool, url: str | None) -> None:
    """Deliver to NAME again, whether it was paused or its destination said that it is gone."""
    with desk_at(url) as desk:
        was = desk.subscription(name).version
        is_news = desk.resume(name, reason, dry_run=dry_run) > was
    _tell("resumed", name, is_news, dry_run)


@subscriptions.command()
@name_argument
@yes_option
@dry_run_option
@url_option
@db_option
def remove(name: str, yes: bool, dry_run: bool, url: str | None) -> None:
    """Take NAME away, with what waits for it; its history stays."""
    with desk_at(url) as desk:
        if not dry_run and not yes:
            if not may_ask():
                raise click.UsageError("remove asks before it forgets, and nobody can answer here; add --yes")
            click.confirm(f"Forget what waits for {shown(name)}?", abort=True, err=True)
        desk.remove(name, dry_run=dry_run)
    _tell("removed", name, True, dry_run)


def _would(dry_run: bool) -> str:
    return "would be " if dry_run else ""


def _tell(done: str, name: str, is_news: bool, dry_run: bool) -> None:
    if is_news:
        say(f"{_would(dry_run)}{done}: {shown(name)}")
    else:
        note(f"nothing to do: {shown(name)} is so already")
