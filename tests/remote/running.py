"""Starts the reference remote, tells it what to do, and reads what it was asked."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.remote.faults import Call
from tests.remote.hosted import Step

CHECKOUT = Path(__file__).parents[2]
SECURE_NAME = "remote.example"
"""The name in the certificate of a secure remote."""
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


@contextmanager
def secure_remote(folder: Path) -> Iterator[tuple[RunningRemote, Path]]:
    """A remote whose certificate is its own authority, for the name and not for the address."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-subj", f"/CN={SECURE_NAME}", "-addext", f"subjectAltName=DNS:{SECURE_NAME}", "-days", "2"),
            *("-out", str(certificate), "-keyout", str(key)),
        ],
        check=True,
        capture_output=True,
    )
    step = {"do": "session", "room": "room", "session": "s"}
    with running_remote(step, tls=(certificate, key)) as server:
        yield server, certificate
