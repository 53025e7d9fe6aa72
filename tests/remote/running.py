"""Starts the reference remote, tells it what to do, and reads what it was asked."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.remote.faults import Call
from tests.remote.hosted import Step

CHECKOUT = Path(__file__).parents[2]
ANSWER_TIMEOUT_S = 60.0
"""For a machine that is very busy; no answer is expected to take this long."""


class RunningRemote:
    """The reference remote in a process of its own."""

    def __init__(self, steps: Sequence[Step], tls: tuple[Path, Path] | None = None) -> None:
        self._steps = list(steps)
        self._tls = ["--tls", *map(str, tls)] if tls else []
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, again on the port it had, with all it was told before.

        It forgets what it was asked, and rules count from 1 again.
        """
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.remote.server", "--port", str(self.port), *self._tls),
                json.dumps(self._steps),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=CHECKOUT,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        """End at once, connections and all."""
        self._process.kill()
        self._process.communicate()

    def do(self, *steps: Step) -> None:
        """Change what it serves, or how it fails."""
        self._steps += steps
        self._control("do", json.dumps(steps).encode())

    def calls(self, route: str | None = None) -> list[Call]:
        """What it was asked, oldest first."""
        calls = [Call(**call) for call in self._control("calls")]
        return [call for call in calls if route in (None, call.route)]

    def _control(self, what: str, body: bytes | None = None) -> Any:
        assert not self._tls, "the control routes are only asked over plain HTTP"
        request = Request(f"{self.url}/control/{what}", data=body)
        with urlopen(request, timeout=ANSWER_TIMEOUT_S) as answer:
            return json.load(answer)


@contextmanager
def running_remote(*steps: Step, tls: tuple[Path, Path] | None = None) -> Iterator[RunningRemote]:
    """A remote that is gone in the end."""
    remote = RunningRemote(steps, tls)
    try:
        yield remote
    finally:
        remote.kill()
