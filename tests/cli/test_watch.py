"""`reprise import --watch` says each message as it is written, whatever happens to the files."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.infrastructure.transcripts.script import SESSION, Script

PATIENCE_S = 60
"""A watcher that says nothing for so long is killed, and the test fails."""


class Watcher:
    """The command, watching a folder in a process of its own."""

    def __init__(self, cli: Cli, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.cli.command", "--db", cli.url]
        self.process = subprocess.Popen(
            [*command, "import", "--watch", "--json", "--no-redact", str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        self._alarm = Timer(PATIENCE_S, self.process.kill)
        self._alarm.start()
        assert self.process.stderr
        assert any(line.startswith(b"watching ") for line in self.process.stderr)

    def said(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, list[Any]]:
        self.process.send_signal(how)
        out, _ = self.process.communicate()
        self._alarm.cancel()
        return self.process.returncode, [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def watcher(cli: Cli, folder: Path) -> Iterator[Watcher]:
    watcher = Watcher(cli, folder)
    yield watcher
    if watcher.process.poll() is None:
        watcher.stop(signal.SIGKILL)


def append(path: Path, script: Script, since: int) -> None:
    with path.open("ab") as file:
        file.write(b"".join(row + b"\n" for row in script.rows[since:]))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_each_message_is_a_line_and_the_watch_stops_cleanly(
    cli: Cli, folder: Path, watcher: Watcher, how: signal.Signals
) -> None:
    script = Script()
    script.user("hello")
    append(folder / f"{SESSION}.jsonl", script, 0)
    assert watcher.said()["payload"] == {"text": "hello"}
    script.text("msg_1", "hi")
    append(folder / f"{SESSION}.jsonl", script, 1)
    assert watcher.said()["payload"] == {"text": "hi"}
    # While a file is being watched, the turn at its end goes on.
    assert cli.run("sessions", "list", "--json").objects[0]["status"] == "working"

    code, (counts,) = watcher.stop(how)

    assert (code, counts["sessions"], counts["messages"]) == (0, 1, 2)
    assert cli.run("sessions", "list", "--json").objects[0]["status"] == "idle"


def test_rotated_cut_and_torn_files_are_followed(folder: Path, watcher: Watcher) -> None:
    script = Script()
    path = folder / f"{SESSION}.jsonl"
    script.user("one")
    append(path, script, 0)
    assert watcher.said()["payload"] == {"text": "one"}
    # Put anew in its place.
    script.text("msg_1", "two")
    (folder / "new").write_bytes(script.data)
    (folder / "new").replace(path)
    assert watcher.said()["payload"] == {"text": "two"}
    # Cut, then written on with what it had and more.
    path.write_bytes(script.rows[0] + b"\n")
    script.user("three")
    path.write_bytes(script.data)
    assert watcher.said()["payload"] == {"text": "three"}
    # A line in two pieces.
    script.text("msg_2", "four")
    with path.open("ab") as file:
        file.write(script.rows[-1][:40])
        file.flush()
        file.write(script.rows[-1][40:] + b"\n")
    assert watcher.said()["payload"] == {"text": "four"}
    # In a folder that was not there.
    other = Script("5e550000-0000-4000-8000-000000000002")
    other.user("five")
    (folder / "deep").mkdir()
    append(folder / "deep" / f"{other.session_id}.jsonl", other, 0)
    assert watcher.said()["payload"] == {"text": "five"}


def test_a_watch_that_died_goes_on_where_it_was(cli: Cli, folder: Path, watcher: Watcher) -> None:
    script = Script()
    path = folder / f"{SESSION}.jsonl"
    script.user("one")
    append(path, script, 0)
    assert watcher.said()["payload"] == {"text": "one"}
    watcher.stop(signal.SIGKILL)
    script.text("msg_1", "two")
    append(path, script, 1)

    again = Watcher(cli, folder)
    script.user("three")
    append(path, script, 2)

    assert again.said()["payload"] == {"text": "three"}
    assert again.stop()[0] == 0
    said = [one["payload"]["text"] for one in cli.run("messages", SESSION, "--json").objects]
    assert said == ["one", "two", "three"]
