"""The verbs about what is handed out: `outbox` and `redeliver`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from infrastructure.cli.failures import EXIT_NO_ROOM, EXIT_OUTPUT_CLOSED, Failure
from infrastructure.cli.options import db_option, json_option, opened
from infrastructure.cli.text import GAP, note, on_narrow_terminal, say, say_json
from infrastructure.text import counted, shown, when

if TYPE_CHECKING:
    from domain.delta import CommittedDelta

STDOUT: Final = "-"


@click.command()
@click.option("--pending", is_flag=True, help="Only what a subscription has not had.")
@json_option
@db_option
def outbox(pending: bool, as_json: bool) -> None:
    """List what each commit changed, oldest first.

    Each line names the subscriptions that wait for it. As long as nobody has subscribed, everything is
    pending.
    """
    from infrastructure.delta_lines import line_of

    with opened() as ledger:
        has_subscribers = bool(ledger.delivery.deliveries.subscriptions())
        for entry in ledger.outbox(pending=pending and has_subscribers):
            delta = entry.committed
            if as_json:
                say_json(line_of(delta) | {"pending": list(entry.pending)})
                continue
            cells = (
                f"{delta.last_position:>7}",
                when(delta.recorded_at),
                "" if on_narrow_terminal() else delta.transaction_id,
                f"{counted(len(delta.delta.mutations), 'mutation'):<13}",
                shown(delta.room),
                f"pending for {', '.join(map(shown, entry.pending))}" if entry.pending else "",
            )
            say(GAP.join(filter(None, cells)))


@click.command()
@click.option(
    "--to",
    "target",
    default=STDOUT,
    metavar="FILE",
    show_default=True,
    help="Append to this file; - is stdout.",
)
@db_option
def redeliver(target: str) -> None:
    """Hand over what is pending, as JSON lines.

    A line is {"transactionId", "position", "recordedAt", "delta"}. Stdout and each file have a
    subscription of their own that remembers, from run to run, what it was given. A line is written before
    it is marked, so one may come twice and none is left out.
    """
    from infrastructure.delta_lines import DeltaFile
    from infrastructure.main import ObserverFailures

    failures = ObserverFailures()
    with opened(failures=failures) as ledger:
        if target == STDOUT:
            name = "stdout"
            ledger.subscribe(_write_out, name, after=0)
            taken = ledger.redeliver(name)
        else:
            with DeltaFile(Path(target)) as file:
                name = file.subscription
                ledger.subscribe(file, name, after=0)
                taken = ledger.redeliver(name)
    note(f"handed over {counted(taken, 'delta')} to {shown(target if target != STDOUT else name)}")
    if failed := failures.by_subscription[name]:
        raise Failure(
            f"{counted(failed, 'delta')} not taken, so still pending; try again", exit_code=EXIT_NO_ROOM
        )


def _write_out(delta: "CommittedDelta") -> None:
    from infrastructure.delta_lines import line_of

    try:
        say_json(line_of(delta))
    except BrokenPipeError:
        # Past everything that takes a failure for the observer's: the reader has had enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_OUTPUT_CLOSED)
