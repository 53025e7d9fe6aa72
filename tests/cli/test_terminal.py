"""On a terminal there are tables that fit it, painted unless somebody minds."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from tests.cli.conftest import PARENT, Cli

PAINT = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(cli: Cli, *arguments: str, columns: int = 80, **environment: str) -> str:
    """What the command writes when stdout is a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.command", "--db", cli.url, *arguments],
        stdout=theirs,
        env={**env, "TERM": "xterm", **environment},
    )
    os.close(theirs)
    written = b""
    try:
        while piece := os.read(ours, 65_536):
            written += piece
    except OSError:
        pass  # the other end is closed
    os.close(ours)
    assert process.wait() == 0
    return written.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("verb", [["sessions", "list"], ["sessions", "events", PARENT]])
def test_lines_fit(filled: Cli, columns: int, verb: list[str]) -> None:
    lines = PAINT.sub("", on_terminal(filled, *verb, columns=columns)).splitlines()

    assert lines
    assert max(map(len, lines)) <= columns


def test_rooms_are_headings_and_ids_stay_whole(filled: Cli) -> None:
    text = PAINT.sub("", on_terminal(filled, "sessions", "list"))

    assert text.startswith("room /home/dev/tidewatch\n")
    assert f" {PARENT} " in text


def test_a_title_that_is_too_long_is_cut_with_a_mark(filled: Cli) -> None:
    with filled.ledger() as ledger:
        ledger.report_state({"state": {"title": "漢字 and more of it " * 9}}, room="r", session="s")

    text = PAINT.sub("", on_terminal(filled, "sessions", "list"))

    assert any("漢字 and more" in line and line.rstrip().endswith("…") for line in text.splitlines())


def test_paint_is_left_out_when_somebody_minds(filled: Cli) -> None:
    assert PAINT.search(on_terminal(filled, "sessions", "list"))
    assert not PAINT.search(on_terminal(filled, "sessions", "list", TERM="dumb"))
    plain = on_terminal(filled, "sessions", "list", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", plain)


def test_colour_can_be_forced_through_a_pipe(filled: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")

    assert PAINT.search(filled.run("sessions", "list").out)
