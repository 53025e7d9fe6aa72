"""What `./dev run` does: the sample of this checkout imported, delivered, listed, and served."""

import asyncio
import os
import shlex
import sys
from pathlib import Path
from typing import Final
from urllib.parse import quote

import click

from infrastructure.cli import reprise
from infrastructure.settings import AddressTaken

CHECKOUT: Final = Path(__file__).resolve().parents[1]
SAMPLE: Final = CHECKOUT / "tests" / "data" / "sample"
FOLDER: Final = CHECKOUT / ".reprise"
ROOM: Final = "/home/dev/tidewatch"
INTERESTING: Final = "5e550002-7a11-4c0d-8e57-000000000002"
"""The sample session with a sub-agent."""


def show(sample: Path, folder: Path) -> str:
    """Run the verbs on the sample, in a store and a file in `folder` that begin anew each time; the store."""
    database, deltas = folder / "sample.db", folder / "deltas.jsonl"
    folder.mkdir(exist_ok=True)
    for earlier in (deltas, *folder.glob(f"{database.name}*")):
        earlier.unlink(missing_ok=True)
    url = f"sqlite:///{database}"
    for verb in (("import", str(sample)), ("redeliver", "--to", str(deltas)), ("sessions", "list")):
        click.echo(click.style(f"$ reprise {shlex.join(verb)}", dim=True), err=True)
        run("--db", url, *verb)
        click.echo(err=True)
    command = f"./dev reprise --db {shlex.quote(url)}"
    click.echo(
        f"""The store is {database}, the deltas are lines of {deltas}.
Type next, in another terminal:
  {command} sessions show {INTERESTING}
  {command} sessions events {INTERESTING}
  {command} verify
Your own sessions, into a store of your own:
  ./dev reprise import && ./dev reprise serve"""
    )
    return url


def run(*arguments: str) -> None:
    """Run a verb; trouble ends the demonstration with the verb's exit code."""
    code = reprise.main(arguments, prog_name="reprise", standalone_mode=False)
    if isinstance(code, int) and code:
        sys.exit(code)


def serve(database_url: str) -> None:
    """Serve the store until Ctrl-C; at another port when the usual one is taken."""
    from domain.errors import RepriseError
    from infrastructure import configuration, logs
    from infrastructure.serving import serve

    logs.configure(sys.stderr)
    logs.adopt_libraries(sys.stderr)
    try:
        try:
            asyncio.run(serve(configuration.resolve(database_url=database_url), announce=tell))
        except AddressTaken:
            asyncio.run(serve(configuration.resolve(database_url=database_url, port=0), announce=tell))
    except RepriseError as error:
        sys.exit(f"error: {error}")


def tell(address: str) -> None:
    """Say where the service is, and what to ask it."""
    room = quote(ROOM, safe="")
    click.echo(
        f"""
The service is at {address}, and Ctrl-C ends it. Ask it, in another terminal:
  curl {address}/readyz
  curl {address}/v1/rooms/{room}/agents/list
  curl -N '{address}/v1/stream?after=0'
  ./dev reprise commits tail --follow --url {address}
"""
    )


def main() -> None:
    if sys.argv[1:]:
        sys.exit("usage: ./dev run")
    if not SAMPLE.is_dir():
        sys.exit(f"error: {SAMPLE} is missing; the demonstration needs a checkout")
    serve(show(*(Path(os.path.relpath(path)) for path in (SAMPLE, FOLDER))))


if __name__ == "__main__":
    main()
