"""The verb `import`: takes in what agents left on disk."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from infrastructure.cli.failures import EXIT_FAILED
from infrastructure.cli.options import db_option, dry_run_option, json_option, opened
from infrastructure.cli.text import counted, note, say, say_json, shown

if TYPE_CHECKING:
    from application.importing import ImportResult
    from application.ledger import Ledger
    from infrastructure.transcripts.files import Found, Place

WARNINGS_SHOWN_MAX: Final = 20
"""Warnings written for people; --json has them all."""

Warned = dict[str, Any]


@click.command("import")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@click.option(
    "--room", default="", metavar="ROOM", help="Put all sessions into this room, not each in its folder's."
)
@dry_run_option
@json_option
@db_option
@click.pass_context
def import_(context: click.Context, paths: tuple[Path, ...], room: str, dry_run: bool, as_json: bool) -> None:
    """Take in transcripts of coding agents.

    A PATH is a transcript, or a folder that is searched for *.jsonl files. Without one the agents' own
    folders are searched: ~/.claude/projects. What was taken in before makes no news; a transcript that
    grew brings the difference. A file that cannot be read or is no transcript is named and left out; the
    others are taken in, and the exit code is 1.
    """
    from infrastructure.transcripts.files import find_in_places, find_transcripts

    found = find_transcripts(paths) if paths else find_in_places(_agents_folders())
    with opened(makes=True, tries=dry_run) as ledger:
        result, warned, left_out = _take_in(ledger, found, room, dry_run)
    if as_json:
        say_json(_counts(result) | {"warnings": warned})
    else:
        _tell(result, warned, files=len(found.files), dry_run=dry_run)
    if left_out:
        context.exit(EXIT_FAILED)


def _agents_folders() -> "list[Place]":
    from domain.errors import NotFound
    from infrastructure.transcripts.files import missing_places, places

    found = places(os.environ, Path.home())
    if not found:
        looked = missing_places(os.environ, Path.home())
        raise NotFound(f"no agent has left transcripts in {looked}; say where they are")
    return found


def _take_in(
    ledger: "Ledger", found: "Found", room: str, dry_run: bool
) -> tuple["ImportResult", list[Warned], int]:
    """Each file's news added up, the warnings with their files, and how many files were left out."""
    from application.importing import ImportResult, import_transcript
    from domain.errors import Malformed, Rejected
    from infrastructure.collector import spared
    from infrastructure.transcripts.files import UnreadableTranscript, read_transcript

    result, warned = ImportResult(), [_trouble(error) for error in found.troubles]
    left_out = len(found.troubles)
    with _progress(tuple(file.path for file in found.files)) as went_on:
        for path, format_ in ((file.path, file.format) for file in found.files):
            try:
                read = read_transcript(path, format_)
                with spared():
                    news = import_transcript(
                        ledger,
                        read.transcript,
                        import_id=read.import_id,
                        digest=read.digest,
                        room=room,
                        dry_run=dry_run,
                    )
            except UnreadableTranscript as error:
                warned.append(_trouble(error))
                left_out += 1
            except (Malformed, Rejected) as error:
                warned.append({"code": "refused", "text": f"{path}: {error}"})
                left_out += 1
            else:
                result += news
                warned += [_warned(path, remark) for remark in news.warnings]
            went_on(path)
    return result, warned, left_out


def _trouble(error: Exception) -> Warned:
    return {"code": "unreadable", "text": str(error)}


def _warned(path: Path, remark: Any) -> Warned:
    place = {"offset": remark.place.offset, "length": remark.place.length} if remark.place else {}
    return {"code": remark.code, "text": remark.text, "file": str(path), **place}


def _counts(result: "ImportResult") -> dict[str, int]:
    names = ("sessions", "messages", "turns", "events", "damaged", "unknown", "duplicates")
    return {name: getattr(result, name) for name in names}


def _tell(result: "ImportResult", warned: list[Warned], *, files: int, dry_run: bool) -> None:
    for warning in warned[:WARNINGS_SHOWN_MAX]:
        where = f"{warning['file']}: " if "file" in warning else ""
        at = f", at byte {warning['offset']}" if "offset" in warning else ""
        note(f"warning: {shown(where + warning['text'])} ({warning['code']}{at})")
    if len(warned) > WARNINGS_SHOWN_MAX:
        note(f"warning: {counted(len(warned) - WARNINGS_SHOWN_MAX, 'more')}; --json lists them")
    read = counted(files, "transcript")
    if result.events:
        news = ", ".join(
            (
                counted(result.sessions, "session"),
                counted(result.turns, "turn"),
                counted(result.messages, "message"),
            )
        )
        brought = "would bring" if dry_run else "brought"
        say(f"{read}: {brought} {news} ({counted(result.events, 'new event')})")
    else:
        say(f"{read}: nothing new")
    beside = [
        counted(result.damaged, "damaged line") if result.damaged else "",
        counted(result.unknown, "unknown record") if result.unknown else "",
        counted(result.duplicates, "repeated record") if result.duplicates else "",
    ]
    if any(beside):
        say(f"on the way: {', '.join(filter(None, beside))}")


@contextmanager
def _progress(files: tuple[Path, ...]) -> Iterator[Callable[[Path], None]]:
    """Say how far the import is, by bytes, when a person looks at stderr."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    sizes = {path: _size(path) for path in files}
    columns = (TextColumn("importing"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=sum(sizes.values()))
        yield lambda path: progress.advance(task, sizes[path])


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
