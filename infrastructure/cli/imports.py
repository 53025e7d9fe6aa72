"""The verb `import`: takes in what agents left on disk."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from infrastructure.cli.failures import EXIT_FAILED
from infrastructure.cli.options import database_url, db_option, dry_run_option, json_option, opened
from infrastructure.cli.text import note
from infrastructure.text import counted, shown

if TYPE_CHECKING:
    from application.ledger import Ledger
    from infrastructure.cli.import_run import ImportRun
    from infrastructure.transcripts.files import Found, Place
    from infrastructure.transcripts.memo import Memo


@click.command("import")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@click.option(
    "--room", default="", metavar="ROOM", help="Put all sessions into this room, not each in its folder's."
)
@click.option("--watch", is_flag=True, help="Go on: take in what is written from now on, until interrupted.")
@click.option("--no-redact", is_flag=True, help="Store secrets as they stand in the transcripts.")
@dry_run_option
@json_option
@db_option
@click.pass_context
def import_(
    context: click.Context,
    paths: tuple[Path, ...],
    room: str,
    watch: bool,
    no_redact: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Take in transcripts of coding agents.

    A PATH is a transcript, or a folder that is searched for them. Without one the folders of Claude Code,
    Codex and Gemini CLI are searched. What was taken in before makes no news; a transcript that grew brings
    the difference. Secrets are replaced by a mark before anything is stored. A file that cannot be read or
    is no transcript is named and left out; the others are taken in, and the exit code is 1.
    """
    from infrastructure.cli.import_report import tell, tell_as_json
    from infrastructure.cli.import_run import ImportRun, deleting_agents

    if watch and dry_run:
        raise click.UsageError("--watch shows what it stores; leave out --dry-run")
    places = [] if paths else _agents_folders()
    found = _found(paths, places)
    with opened(makes=True, tries=dry_run) as ledger:
        run = ImportRun(
            ledger, _memo(ledger, room, no_redact), room=room, dry_run=dry_run, redacts=not no_redact
        )
        for trouble in found.troubles:
            run.trouble(str(trouble))
        run.warned += deleting_agents(os.environ, Path.home()) if places else []
        if places and not as_json:
            _tell_places(places, found)
        with _progress([file.path for file in found.files]) as went_on:
            run.take(found.files, went_on)
        if watch:
            _watch(run, paths, places, as_json=as_json)
    if as_json:
        tell_as_json(run)
    else:
        tell(run)
    if run.left_out:
        context.exit(EXIT_FAILED)


def _agents_folders() -> "list[Place]":
    from domain.errors import NotFound
    from infrastructure.transcripts.files import missing_places, places

    found = places(os.environ, Path.home())
    if not found:
        looked = missing_places(os.environ, Path.home())
        raise NotFound(f"no agent has left transcripts in {looked}: no such folder; say where they are")
    return found


def _found(paths: tuple[Path, ...], places: "list[Place]") -> "Found":
    from infrastructure.transcripts.files import find_in_places, find_transcripts

    return find_transcripts(paths) if paths else find_in_places(places)


def _memo(ledger: "Ledger", room: str, no_redact: bool) -> "Memo":
    """What was taken in before, into this store and in this way."""
    from importlib.metadata import version

    from infrastructure import settings
    from infrastructure.cli.import_run import holds
    from infrastructure.transcripts.memo import Memo, memo_path, open_memo

    detector = "" if no_redact else version("kingfisher-secret-scanner")
    how = f"{version('reprise')} {detector} {room}"
    file = settings.database_file(database_url())
    if file is None:
        return Memo(None, how)
    path = memo_path(settings.state_folder(), str(file.absolute()), how)
    return open_memo(path, how, lambda mark: holds(ledger, mark))


def _tell_places(places: "list[Place]", found: "Found") -> None:
    """Say what there is before it is taken in."""
    for place in places:
        inside = [file for file in found.files if file.path.is_relative_to(place.folder)]
        size = sum(_size(file.path) for file in inside)
        note(
            shown(
                f"{place.format.title}: {counted(len(inside), 'transcript')}, "
                f"{size / 1e6:,.1f} MB, in {place.folder}"
            )
        )


def _watch(run: "ImportRun", paths: tuple[Path, ...], places: "list[Place]", *, as_json: bool) -> None:
    from infrastructure.cli.watching import watch

    # Of a file its folder is watched, so that one put in its place is seen.
    named = [path if path.is_dir() else path.parent for path in paths]
    folders = list(dict.fromkeys([place.folder for place in places] or named))

    def find() -> "Found":
        # A file may be away for a moment.
        return _found(tuple(path for path in paths if path.exists()), places)

    watch(run, folders, find, as_json=as_json)


@contextmanager
def _progress(files: list[Path]) -> Iterator[Callable[[Path, int], None]]:
    """Say how far the import is, by bytes, how fast, and how long it takes, when a person looks at stderr."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    sizes = {path: _size(path) for path in files}
    columns = (
        TextColumn("importing"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TextColumn("{task.fields[records]:,} records"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=sum(sizes.values()), records=0)
        yield lambda path, records: progress.update(task, advance=sizes[path], records=records)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
