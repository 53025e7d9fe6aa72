"""Text for people: hostile characters made visible, times, counts, tables."""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click

GAP: Final = "  "
WIDE: Final = 110
"""Columns from which on a line has room for everything."""
STATUS_STYLES: Final[Mapping[str, str]] = {
    "working": "cyan",
    "waiting": "yellow",
    "completed": "green",
    "failed": "red",
    "canceled": "dim",
}


def shown(text: str, *, lines: bool = False) -> str:
    r"""The text without anything a terminal would obey: control characters, changes of direction, halves
    of characters stand as escapes such as \x1b. With `lines`, line ends and tabs stay."""
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(char if char.isprintable() or char in kept else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def short(text: str, width: int = 72) -> str:
    """The text on one line, cut where it is longer."""
    line = " ".join(text[: 4 * width].split())
    return shown(line if len(line) <= width else line[: width - 1] + "…")


def when(unix_ms: int | None) -> str:
    """The time in UTC; a dash when it is unknown."""
    if not unix_ms:
        return "-"
    try:
        return f"{datetime.fromtimestamp(unix_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"
    except (OverflowError, ValueError, OSError):
        return f"{unix_ms} ms"


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its word."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def say(line: str = "") -> None:
    """A line of data."""
    click.echo(line)


def note(line: str) -> None:
    """A line beside the data."""
    click.echo(line, err=True)


def say_json(value: Any) -> None:
    """One JSON object on one line, in UTF-8 whatever the locale is."""
    from domain import jsontext

    click.echo(jsontext.to_bytes(value))


def on_terminal() -> bool:
    """Whether a person looks at stdout; FORCE_COLOR says so too."""
    return sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))


def terminal_width() -> int:
    return shutil.get_terminal_size().columns


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    right: bool = False
    from_width: int = 0
    """On terminals narrower than this it is left out."""
    cut: bool = False
    """It gives way when there is no room for everything."""
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
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    fits = [console.width >= column.from_width for column in columns]
    drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, len(GAP), 0, 0))
    for column, is_drawn in zip(columns, fits, strict=True):
        if is_drawn:
            drawn.add_column(
                column.title,
                justify="right" if column.right else "left",
                no_wrap=column.cut or column.right,
                overflow="ellipsis" if column.cut else "fold",
            )
    for row in rows:
        cells = zip(columns, row, fits, strict=True)
        drawn.add_row(*(Text(cell, (col.styles or {}).get(cell, "")) for col, cell, fit in cells if fit))
    console.print(drawn)
