"""The verb `serve`: the service in the foreground, until it is told to stop."""

import sys

import click

from infrastructure.cli.options import db_flag, db_option, store_place


@click.command()
@click.option("--host", default=None, metavar="ADDRESS", help="Where to listen.  [default: 127.0.0.1]")
@click.option(
    "--port", default=None, type=int, metavar="PORT", help="At which port; 0 is any.  [default: 8765]"
)
@click.option("--read-only", is_flag=True, help="Refuse reports and commands.")
@click.option("--no-workers", is_flag=True, help="Do nothing in the background; another process does.")
@db_option
def serve(host: str | None, port: int | None, read_only: bool, no_workers: bool) -> None:
    """Run the service: reports in over HTTP, sessions, history and live commits out.

    Callers on this machine need no token. For an address that others can reach there has to be one first:
    `reprise tokens create`. Ends with success on Ctrl-C or SIGTERM, once what has begun is finished.
    """
    import asyncio

    from infrastructure import configuration, logs
    from infrastructure.serving import serve as run

    logs.configure(sys.stderr)
    logs.adopt_libraries(sys.stderr)
    settings = configuration.resolve(
        database_url=db_flag(),
        host=host,
        port=port,
        read_only=read_only or None,
        workers=False if no_workers else None,
    )
    store_place(makes=True)
    asyncio.run(run(settings))
