"""What goes to the terminal: lines, JSON, tables."""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from infrastructure.json_lines import json_line

GAP: Final = "  "
CUT_WIDTH_MIN: Final = 8
WIDE: Final = 110
"""Columns from which on a line has room for everything."""
STATUS_STYLES: Final[Mapping[str, str]] = {
    "working": "cyan",
    "waiting": "yellow",
    "completed": "green",
    "failed": "red",
    "canceled": "dim",
}


def say(line: str = "") -> None:
    """A line of data."""
    click.echo(line)


def note(line: str) -> None:
    """A line beside the data."""
    click.echo(line, err=True)


def say_json(value: Any) -> None:
    """One JSON object on one line, in UTF-8 whatever the locale is."""
    click.echo(json_line(value), nl=False)


def on_terminal() -> bool:
    """Whether a person looks at stdout; FORCE_COLOR says so too."""
    return sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))


def on_narrow_terminal() -> bool:
    """Whether a person looks at stdout who has no room for everything on one line."""
    return on_terminal() and shutil.get_terminal_size().columns < WIDE


def wrapped(text: str, indent: str) -> list[str]:
    """The text as indented lines: wrapped on a terminal, whole elsewhere."""
    if not on_terminal():
        return [indent + text]
    import textwrap

    width = max(shutil.get_terminal_size().columns, 2 * len(indent))
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    right: bool = False
    fold_at: int = 0
    """On a terminal it is no wider; what is longer goes on below."""
    from_width: int = 0
    """On terminals narrower than this it is left out."""
    cut: bool = False
    """On a terminal it takes the room that the others leave."""
    styles: Mapping[str, str] | None = None
    """How to paint which value."""


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """A table: fitted to the terminal, or plain and whole when stdout goes elsewhere."""
    if on_terminal():
        _fitted_table(columns, rows)
    else:
        for line in aligned(columns, rows):
            say(line)


def aligned(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """The lines of a plain table."""
    lines = [[column.title for column in columns], *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        cells = (
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        )
        yield GAP.join(cells).rstrip()


def _fitted_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    kept = [index for index, column in enumerate(columns) if console.width >= column.from_width]
    columns = [columns[index] for index in kept]
    rows = [[row[index] for index in kept] for row in rows]
    widths = []
    for column, *cells in zip(columns, *rows, strict=True):
        width = max(map(cell_len, (column.title, *cells)))
        widths.append(min(width, column.fold_at or width))
    others = sum(width + len(GAP) for column, width in zip(columns, widths, strict=True) if not column.cut)
    room = max(console.width - others, CUT_WIDTH_MIN)
    drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, len(GAP), 0, 0))
    for column, width in zip(columns, widths, strict=True):
        drawn.add_column(
            column.title,
            width=min(width, room) if column.cut else width,
            justify="right" if column.right else "left",
            no_wrap=column.cut or column.right,
            overflow="ellipsis" if column.cut else "fold",
        )
    for row in rows:
        styles = ((column.styles or {}).get(cell, "") for column, cell in zip(columns, row, strict=True))
        drawn.add_row(*map(Text, row, styles))
    console.print(drawn)
