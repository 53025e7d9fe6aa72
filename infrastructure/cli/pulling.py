"""The verb `pull`: reads rooms at the hosts they live on, once or for as long as it runs."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import click

from infrastructure.cli.failures import EXIT_NOT_FOUND, EXIT_REMOTE, EXIT_TRY_AGAIN, Failure
from infrastructure.cli.options import database_url, db_option, opened
from infrastructure.cli.rooms import rooms_of
from infrastructure.cli.text import counted, note, say, short, shown, when

if TYPE_CHECKING:
    from application.rooms import Rooms
    from infrastructure.pulls import PullLoop, Told

WORDS: Final = {
    "read": "read",
    "waits": "waits",
    "parked": "parked",
    "cleared": "works again",
    "down": "host down",
    "up": "host up again",
    "vanished": "no longer listed",
    "failed": "failed",
}


@dataclass
class Summary:
    """What a run has come to."""

    events: int = 0
    sessions: set[tuple[str, str]] = field(default_factory=set)
    whats: "Counter[str]" = field(default_factory=Counter)

    def tell(self, told: "Told") -> None:
        """Write a line for a change, and count it."""
        self.events += told.events
        self.whats[told.what] += 1
        if told.what == "read" and told.session:
            self.sessions.add((told.room, told.session))
        where = f"{shown(told.room)} {shown(told.session or '')}".rstrip()
        more = [counted(told.events, "event")] if told.events else []
        more += [f"until {when(told.until)}"] if told.until and told.what != "up" else []
        more += [short(told.reason, 160)] if told.reason else []
        say(f"{where}: {WORDS[told.what]}{', ' if more else ''}{', '.join(more)}")

    def close(self) -> None:
        """Say what it came to."""
        failures = self.whats["failed"] + self.whats["waits"] + self.whats["parked"]
        note(
            f"{counted(self.events, 'event')} of {counted(len(self.sessions), 'session')}"
            f" stored, {counted(failures, 'failure')}"
        )


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
        if once and room:
            _refuse_waiting(known, room)
    summary = Summary()
    failures = _run(room, summary, _drain(room) if once else _serve)
    summary.close()
    if once and failures:
        raise Failure("the remote did not give all of it; what came is stored", exit_code=EXIT_REMOTE)


def _refuse_waiting(known: "Rooms", room: str) -> None:
    for reason in known.why(room):
        until = f"until {when(reason.hold.until)}" if reason.hold.until else "until somebody acts"
        raise Failure(
            f"room {room} is not asked {until} ({reason.hold.why}); `reprise waits why {room}` tells more",
            exit_code=EXIT_TRY_AGAIN,
        )


def _drain(room: str) -> "Callable[[PullLoop], Awaitable[None]]":
    async def drain(loop: "PullLoop") -> None:
        from domain.ids import RoomId

        loop.has_more = True
        while loop.has_more and not loop.failures:
            loop.has_more = False
            await loop.refresh()
            for one in [RoomId(room)] if room else loop.rooms:
                loop.trigger(one)
            await loop.once()

    return drain


async def _serve(loop: "PullLoop") -> None:
    await loop.run()


def _run(room: str, summary: Summary, drive: "Callable[[PullLoop], Awaitable[None]]") -> int:
    """Drive a loop until it is done or somebody stops it; how many calls failed."""
    import asyncio
    import signal

    from application.pull_schedule import PullSchedule
    from domain.ids import RoomId
    from infrastructure.main import SystemClock, open_ledger_async
    from infrastructure.pulls import PullLoop
    from infrastructure.remote import HttpRemoteActivity

    async def pulling() -> int:
        clock = SystemClock()
        async with open_ledger_async(database_url()) as ledger, HttpRemoteActivity(clock) as activity:
            loop = PullLoop(
                ledger,
                activity,
                PullSchedule(seed=(await ledger.store_ids())[-1]),
                clock,
                only=RoomId(room) if room else None,
                tell=summary.tell,
            )
            task = asyncio.ensure_future(drive(loop))
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, _stop, loop, task)
            try:
                await task
            except asyncio.CancelledError:
                await loop.end()
            return loop.failures

    return asyncio.run(pulling())


def _stop(loop: "PullLoop", task: "object") -> None:
    """End a loop that runs; cancel one that drains."""
    if loop.is_running:
        loop.stop()
    else:
        task.cancel()  # type: ignore[attr-defined]  # a future, whose type would be imported early
