"""What `./dev run` shows: the sample sessions of this checkout imported, delivered and listed."""

import os
import shlex
import sys
from pathlib import Path
from typing import Final

import click

from infrastructure.cli import reprise

CHECKOUT: Final = Path(__file__).resolve().parents[1]
SAMPLE: Final = CHECKOUT / "tests" / "data" / "sample"
FOLDER: Final = CHECKOUT / ".reprise"
INTERESTING: Final = "5e550002-7a11-4c0d-8e57-000000000002"
"""The sample session with a sub-agent."""


def show(sample: Path, folder: Path) -> None:
    """Run the verbs on the sample, in a store and a file in `folder` that begin anew each time."""
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
Type next:
  {command} sessions show {INTERESTING}
  {command} sessions events {INTERESTING}
  {command} messages {INTERESTING}
  {command} verify
Your own sessions, into a store of your own:
  ./dev reprise import && ./dev reprise sessions list"""
    )


def run(*arguments: str) -> None:
    """Run a verb; trouble ends the demonstration with the verb's exit code."""
    code = reprise.main(arguments, prog_name="reprise", standalone_mode=False)
    if isinstance(code, int) and code:
        sys.exit(code)


def main() -> None:
    if sys.argv[1:]:
        sys.exit("usage: ./dev run")
    if not SAMPLE.is_dir():
        sys.exit(f"error: {SAMPLE} is missing; the demonstration needs a checkout")
    show(*(Path(os.path.relpath(path)) for path in (SAMPLE, FOLDER)))


if __name__ == "__main__":
    main()
