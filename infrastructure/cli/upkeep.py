"""The verbs of upkeep: `rebuild` and `verify`."""

import click

from infrastructure.cli.failures import EXIT_FAILED
from infrastructure.cli.options import db_option, json_option, opened
from infrastructure.cli.text import counted, say, say_json, shown


@click.command()
@db_option
def rebuild() -> None:
    """Make the read models anew from the events.

    Others may read and write meanwhile.
    """
    with opened() as ledger:
        events = ledger.rebuild()
    say(f"rebuilt from {counted(events, 'event')}")


@click.command()
@json_option
@db_option
@click.pass_context
def verify(context: click.Context, as_json: bool) -> None:
    """Check that all that is stored fits together.

    Events, outbox and read models are compared, nothing is changed. Exit code 1 means that something is
    wrong.
    """
    with opened() as ledger:
        found = ledger.verify()
    if as_json:
        problems = [{"where": problem.where, "what": problem.what} for problem in found.problems]
        say_json(
            {
                "ok": found.ok,
                "streams": found.streams,
                "events": found.events,
                "outbox": found.outbox,
                "problems": problems,
            }
        )
    else:
        for problem in found.problems:
            say(f"problem: {shown(problem.where)}: {shown(problem.what)}")
        read = ", ".join(
            (
                counted(found.streams, "stream"),
                counted(found.events, "event"),
                counted(found.outbox, "delta"),
            )
        )
        say(f"{'ok' if found.ok else counted(len(found.problems), 'problem')}: {read}")
    if not found.ok:
        context.exit(EXIT_FAILED)
