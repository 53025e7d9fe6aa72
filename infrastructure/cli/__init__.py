"""The command `reprise`: what it can do, one module per group of verbs.

Only click is imported here and in the modules beside; each verb imports what it needs when it runs, so
that `reprise --help` is there at once.
"""

import os
import sys

import click

from infrastructure.cli.commits import commits
from infrastructure.cli.configuring import config
from infrastructure.cli.deliveries import outbox, redeliver
from infrastructure.cli.delivering import deliveries
from infrastructure.cli.doctor import doctor
from infrastructure.cli.evidence import evidence
from infrastructure.cli.failures import EXIT_CODES, EXIT_INTERRUPTED, EXIT_OUTPUT_CLOSED, failure_of
from infrastructure.cli.imports import import_
from infrastructure.cli.options import db_option
from infrastructure.cli.pulling import pull
from infrastructure.cli.reading import messages, sessions
from infrastructure.cli.rooms import hide, rooms, unhide
from infrastructure.cli.serving import serve
from infrastructure.cli.status import status
from infrastructure.cli.subscriptions import subscriptions
from infrastructure.cli.text import note
from infrastructure.cli.tokens import tokens
from infrastructure.cli.upkeep import backup, copy, rebuild, verify
from infrastructure.cli.waits import waits
from infrastructure.cli.writing import delete, purge, restore, settle
from infrastructure.settings import VARIABLES
from infrastructure.text import shown


class Verbs(click.Group):
    """Lists its verbs in the order they were added, and ends expected trouble with a message and a code."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader has had enough. What is still buffered must not fail again when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(EXIT_OUTPUT_CLOSED) from None
        except (Exception, KeyboardInterrupt) as error:
            failure = failure_of(error)
            if failure is None:
                raise
            if failure.exit_code == EXIT_INTERRUPTED:
                note("")  # a terminal shows ^C where the cursor stood
            for line in failure.lines:
                note(f"error: {shown(line)}")
            raise click.exceptions.Exit(failure.exit_code) from error


def _listed(title: str, lines: dict[str, str]) -> str:
    width = max(map(len, lines))
    return "\n".join(["\b", title, *(f"  {name:<{width}}  {text}" for name, text in lines.items())])


EPILOG = "\n\n".join(
    (
        _listed("Environment:", dict(VARIABLES)),
        _listed("Exit codes:", {str(code): text for code, text in EXIT_CODES.items()}),
    )
)


@click.group(cls=Verbs, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@db_option
@click.version_option(package_name="reprise", message="%(prog)s %(version)s")
def reprise() -> None:
    """Keep a record of what coding agents do: import transcripts, read sessions, hand out what changed.

    Data goes to stdout, everything else to stderr. With --json a verb writes one JSON object per line.
    """


for _verb in (
    serve,
    import_,
    status,
    sessions,
    messages,
    commits,
    outbox,
    redeliver,
    rooms,
    pull,
    waits,
    subscriptions,
    deliveries,
    evidence,
    settle,
    delete,
    restore,
    purge,
    rebuild,
    verify,
    backup,
    copy,
    tokens,
    config,
    doctor,
):
    reprise.add_command(_verb)

for _verb in (hide, unhide):
    sessions.add_command(_verb)


def main() -> None:
    """Run the command named by the arguments of this process."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a character gets its escape
            stream.reconfigure(errors="backslashreplace")
    reprise.main(prog_name="reprise")
