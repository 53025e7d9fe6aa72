"""A real service, in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

WAIT_S = 60.0
"""How long a test waits for a process before it fails."""


@dataclass
class Served:
    """A service that runs; what it logs is kept."""

    process: "subprocess.Popen[str]"
    url: str = ""
    lines: list[str] = field(default_factory=list)
    _reading: Thread | None = None

    def read_on(self) -> None:
        """Take what it writes, so that it never waits for somebody to read."""
        assert self.process.stderr
        self._reading = Thread(target=self.lines.extend, args=(self.process.stderr,))
        self._reading.start()

    def told(self, signal_: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; the exit code."""
        self.process.send_signal(signal_)
        return self.ended()

    def ended(self) -> int:
        code = self.process.wait(WAIT_S)
        if self._reading:
            self._reading.join(WAIT_S)
        return code

    @property
    def log(self) -> list[dict[str, Any]]:
        """What it logged, once it has ended."""
        return [json.loads(line) for line in self.lines]


def started(*options: str, environment: Mapping[str, str] | None = None) -> Served:
    """Start `reprise serve`; what it says on its way is read with the process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.command", "serve", "--port", "0", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**clean_environment(), **(environment or {})},
    )
    return Served(process)


def clean_environment() -> dict[str, str]:
    """The environment without what is set for Reprise."""
    return {name: value for name, value in os.environ.items() if not name.startswith("REPRISE_")}


@contextmanager
def served(url: str, *options: str, environment: Mapping[str, str] | None = None) -> Iterator[Served]:
    """A service on a store, ready for requests; killed in the end if it still runs."""
    service = started("--db", url, *options, environment=environment)
    try:
        assert service.process.stderr
        for line in service.process.stderr:
            service.lines.append(line)
            said = json.loads(line) if line.startswith("{") else {}
            if said.get("event") == "serving":
                service.url = said["url"]
                break
        assert service.url, "".join(service.lines)
        service.read_on()
        yield service
    finally:
        if service.process.poll() is None:
            service.process.kill()
        service.ended()
        if service.process.stderr is not None:
            service.process.stderr.close()
