"""The verbs about waits: `waits list`, `why`, `reset`, `pause` and `resume`."""

from typing import TYPE_CHECKING, Any

import click

from infrastructure.cli.options import db_option, dry_run_option, json_option, opened
from infrastructure.cli.rooms import changing, rooms_of, tell
from infrastructure.cli.text import Column, note, say, say_json, table
from infrastructure.text import counted, short, shown, when

if TYPE_CHECKING:
    from application.rooms import HeldLane, Reason
    from domain.breaker import HostBreaker


@click.group()
def waits() -> None:
    """Tell why rooms are not pulled at the moment, and change it.

    LANE is `list`, for the room's list of sessions, or a session's id, for its messages; without it every
    lane of the room is meant.
    """


@waits.command("list")
@json_option
@db_option
def list_(as_json: bool) -> None:
    """List the lanes that wait or are paused, and the hosts that are down."""
    with opened() as ledger:
        lanes, hosts = rooms_of(ledger).held_lanes(), rooms_of(ledger).breakers()
    if as_json:
        for lane in lanes:
            say_json(_lane_object(lane))
        for host in hosts:
            say_json(_host_object(host))
        return
    if not lanes and not hosts:
        note("nothing waits")
        return
    columns = (
        Column("ROOM OR HOST"),
        Column("LANE"),
        Column("STATE"),
        Column("FAILURES", right=True),
        Column("UNTIL"),
    )
    table(columns, [*map(_lane_cells, lanes), *map(_host_cells, hosts)])


def _lane_object(lane: "HeldLane") -> dict[str, Any]:
    wait = lane.wait
    told = {"room": lane.room, "lane": lane.lane, "state": lane.state}
    if wait is None:
        return told
    return {
        **told,
        "kind": wait.kind,
        "status": wait.status,
        "failures": wait.failures + wait.refusals,
        "stepSeconds": wait.step_s,
        "untilUnixMs": wait.until,
    }


def _host_object(host: "HostBreaker") -> dict[str, Any]:
    return {
        "host": host.host,
        "state": "down",
        "kind": host.kind,
        "status": host.status,
        "sinceUnixMs": host.since,
        "untilUnixMs": host.until,
    }


def _lane_cells(lane: "HeldLane") -> tuple[str, ...]:
    wait = lane.wait
    failures = str(wait.failures + wait.refusals) if wait else "-"
    until = "resumed" if lane.is_paused else when(wait.until) if wait else "-"
    return (shown(lane.room), shown(lane.lane) or "every lane", lane.state, failures, until)


def _host_cells(host: "HostBreaker") -> tuple[str, ...]:
    return (shown(host.host), "every room", "down", "-", when(host.until))


@waits.command()
@click.argument("room")
@click.argument("session", default="")
@json_option
@db_option
def why(room: str, session: str, as_json: bool) -> None:
    """Tell what keeps ROOM from being listed, or SESSION from being read: which event, and what ends it."""
    with opened() as ledger:
        reasons = rooms_of(ledger).why(room, session)
    for reason in reasons:
        if as_json:
            say_json(_reason_object(reason))
        else:
            _say_reason(reason)
    if not reasons and not as_json:
        note("nothing holds it: it is pulled at its next turn")


def _reason_object(reason: "Reason") -> dict[str, Any]:
    hold, event = reason.hold, reason.event
    return {
        "why": hold.why,
        "lane": hold.lane,
        "untilUnixMs": hold.until or None,
        "endedBy": hold.ends,
        "aggregate": hold.kind,
        "key": hold.key,
        "version": hold.version,
        "topic": event.topic if event else None,
        "recordedAtUnixMs": event.recorded_at if event else None,
        "position": event.position if event else None,
        "reason": reason.told,
    }


def _say_reason(reason: "Reason") -> None:
    hold, event = reason.hold, reason.event
    until = f"until {when(hold.until)}" if hold.until else "until somebody acts"
    if hold.why == "refused":
        until = "tried at its next turn"
    say(f"{hold.why}: {shown(hold.lane) or 'every lane'}, {until}")
    if reason.told:
        say(f"  because {short(reason.told, 200)}")
    if event:
        say(
            f"  {event.topic}, version {event.version} of {hold.kind} {shown(hold.key)},"
            f" recorded {when(event.recorded_at)}"
        )
    say(f"  ended by {hold.ends}")


@waits.command()
@click.argument("room")
@click.argument("lane", default="")
@dry_run_option
@db_option
def reset(room: str, lane: str, dry_run: bool) -> None:
    """End the waits of ROOM, or of one LANE: it is tried at its next turn.

    Without LANE the wait of the room's host ends too. Pauses stay.
    """
    from application.rooms import lane_of

    with opened() as ledger:
        ended = changing(ledger, dry_run).reset(room, lane_of(lane))
    tell(ended > 0, f"ended: {counted(ended, 'wait')}", "nothing waits there", dry_run)


@waits.command()
@click.argument("room")
@click.argument("lane", default="")
@dry_run_option
@db_option
def pause(room: str, lane: str, dry_run: bool) -> None:
    """Pull ROOM, or one LANE, no more until `resume`."""
    from application.rooms import lane_of

    with opened() as ledger:
        was_paused = lane_of(lane) in rooms_of(ledger).waits(room).pauses
        changing(ledger, dry_run).pause(room, lane_of(lane))
    what = f"{shown(room)} {shown(lane)}".rstrip()
    tell(not was_paused, f"paused: {what}", f"{what} is paused already", dry_run)


@waits.command()
@click.argument("room")
@click.argument("lane", default="")
@dry_run_option
@db_option
def resume(room: str, lane: str, dry_run: bool) -> None:
    """Pull what was paused of ROOM again."""
    from application.rooms import lane_of

    with opened() as ledger:
        paused = rooms_of(ledger).waits(room).pauses
        changing(ledger, dry_run).resume(room, lane_of(lane))
    what = f"{shown(room)} {shown(lane)}".rstrip()
    was_paused = lane_of(lane) in paused if lane else bool(paused)
    tell(was_paused, f"resumed: {what}", f"{what} is not paused", dry_run)
