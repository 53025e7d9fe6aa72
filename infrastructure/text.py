"""Text for people: hostile characters made visible, times, counts."""

from datetime import UTC, datetime


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
