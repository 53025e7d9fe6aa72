"""The verb `pull`: reads rooms at the hosts they live on, once or for as long as it runs."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import click

from infrastructure.cli.failures import EXIT_INTERRUPTED, EXIT_NOT_FOUND, EXIT_REMOTE, EXIT_TRY_AGAIN, Failure
from infrastructure.cli.options import database_url, db_option, opened
from infrastructure.cli.rooms import rooms_of
from infrastructure.cli.text import note, say
from infrastructure.text import counted, short, shown, when

if TYPE_CHECKING:
    from application.rooms import Rooms
    from infrastructure.pulls import Told

ROUNDS_MAX: Final = 100
"""A single pass ends behind so many rounds, each of 200 messages a session: a remote may never end."""
WORDS: Final = {
    "read": "read",
    "waits": "waits",
    "refused": "refused",
    "parked": "parked",
    "cleared": "works again",
    "down": "down",
    "up": "up again",
    "vanished": "no longer listed",
    "unreadable": "a row of the list cannot be read",
    "failed": "failed",
}


@dataclass
class Summary:
    """What a run has come to."""

    events: int = 0
    messages: int = 0
    sessions: set[tuple[str, str]] = field(default_factory=set)
    whats: "Counter[str]" = field(default_factory=Counter)

    def tell(self, told: "Told") -> None:
        """Write a line for a change, and count it."""
        self.events += told.events
        self.messages += told.messages
        self.whats[told.what] += 1
        if told.what == "read" and told.session:
            self.sessions.add((told.room, told.session))
        where = f"host {told.host}" if told.host else f"{told.room} {told.session or ''}".rstrip()
        say(f"{shown(where)}: {WORDS[told.what]}{_details(told)}")

    def close(self) -> None:
        """Say what it came to."""
        failures = sum(self.whats[what] for what in ("failed", "waits", "refused", "parked"))
        stored = [counted(self.messages, "message")] if self.messages else []
        stored += [counted(self.events, "event")]
        told = "nothing new"
        if self.events:
            told = f"stored {', '.join(stored)} of {counted(len(self.sessions), 'session')}"
        note(told + (f", {counted(failures, 'failure')}" if failures else ""))


def _details(told: "Told") -> str:
    details = ""
    if told.messages:
        details = f" {counted(told.messages, 'message')}"
    elif told.events:
        details = f" {counted(told.events, 'event')}"
    if told.until and told.what != "refused":
        details += f" until {when(told.until)}"
    return details + (f": {short(told.reason, 160)}" if told.reason else "")


@click.command()
@click.argument("room", default="")
@click.option("--once", is_flag=True, help="Read what there is now, and end.")
@click.option("--all", "everything", is_flag=True, help="Every tracked room, until Ctrl-C.")
@db_option
def pull(room: str, once: bool, everything: bool) -> None:
    """Pull ROOM in from the host it lives on, until Ctrl-C; a line for each change.

    A room that waits after a failure is not asked before its time: `reprise waits why ROOM` tells more, and
    `reprise waits reset ROOM` ends the wait.
    """
    if bool(room) == everything:
        raise click.UsageError("name a ROOM, or give --all")
    with opened() as ledger:
        known = rooms_of(ledger)
        tracked = {one.room for one in known.tracked()}
        if room and room not in tracked:
            what = f"room {room} is not tracked; `reprise rooms track {room} --remote URL` does"
            raise Failure(what, exit_code=EXIT_NOT_FOUND)
        if not tracked:
            what = "no room is tracked; `reprise rooms track ROOM --remote URL` begins"
            raise Failure(what, exit_code=EXIT_NOT_FOUND)
        chosen: list[str] = [room] if room else sorted(tracked)
        waiting = _tell_waiting(known, chosen)
    if once and len(waiting) == len(chosen):
        raise Failure("nobody is asked before the time", exit_code=EXIT_TRY_AGAIN)
    if not once:
        note(f"pulling {counted(len(chosen), 'room')}; Ctrl-C ends it")
    summary = Summary()
    end = _run(room, summary, once=once)
    summary.close()
    if once:
        _judge(end, waiting, chosen)


def _judge(end: "End", waiting: list[str], chosen: list[str]) -> None:
    """What a single pass has left undone, if anything."""
    if end.is_stopped:
        raise Failure("interrupted; what came is stored", exit_code=EXIT_INTERRUPTED)
    if end.failures:
        raise Failure("the remote did not give all of it; what came is stored", exit_code=EXIT_REMOTE)
    if not end.is_complete:
        raise Failure("there is more; run it again", exit_code=EXIT_TRY_AGAIN)
    with opened() as ledger:
        left = waiting or _lanes_left(rooms_of(ledger), chosen)
    if left:
        raise Failure(f"not asked before the time: {', '.join(left)}", exit_code=EXIT_TRY_AGAIN)


def _tell_waiting(known: "Rooms", rooms: list[str]) -> list[str]:
    """Say which rooms are held, and by what; their names."""
    held = []
    for room in rooms:
        for hold in [one.hold for one in known.why(room) if one.hold.why != "refused"][:1]:
            until = f"until {when(hold.until)}" if hold.until else "until somebody acts"
            note(f"{shown(room)}: {hold.why} {until}; `reprise waits why {shown(room)}` tells more")
            held.append(room)
    return held


def _lanes_left(known: "Rooms", rooms: list[str]) -> list[str]:
    """The sessions that wait after an earlier failure, so that they were not read."""
    lanes = [lane for lane in known.held_lanes() if lane.room in rooms and lane.wait and not lane.is_paused]
    return [shown(f"{lane.room} {lane.lane.removeprefix('messages:')}") for lane in lanes]


@dataclass(frozen=True)
class End:
    """How a run ended."""

    failures: int
    is_complete: bool
    is_stopped: bool


def _run(room: str, summary: Summary, *, once: bool) -> End:
    """Pull until nothing is left, or until somebody stops it."""
    import asyncio
    import signal

    from application.pull_schedule import service_schedule
    from domain.ids import RoomId
    from infrastructure.main import SystemClock, open_ledger_async
    from infrastructure.pulls import PullLoop
    from infrastructure.remote import HttpRemoteActivity

    async def pulling() -> End:
        clock = SystemClock()
        async with open_ledger_async(database_url()) as ledger, HttpRemoteActivity(clock) as activity:
            schedule = service_schedule((await ledger.store_ids())[-1])
            only = RoomId(room) if room else None
            loop = PullLoop(ledger, activity, schedule, clock, only=only, tell=summary.tell)
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, loop.stop)
            is_complete = True
            if once:
                is_complete = await loop.drain(ROUNDS_MAX)
            else:
                await loop.run()
            return End(loop.failures, is_complete, loop.is_stopped)

    return asyncio.run(pulling())
