"""Starts the receiver, tells it how to answer, and reads what it was sent."""

import json
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

CHECKOUT = Path(__file__).parents[2]
ANSWER_TIMEOUT_S = 60.0
"""For a machine that is very busy; no answer is expected to take this long."""


class Posted(NamedTuple):
    """A request as the receiver got it."""

    connection: int
    path: str
    headers: dict[str, str]
    body: bytes
    answer: int
    """The status that was meant for it; 0 for none."""


class Receiving:
    """The receiver in a process of its own."""

    def __init__(self) -> None:
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def start(self) -> None:
        """Start, again on the port it had; what it was told and sent is forgotten."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sinks.receiver", "--port", str(self.port)],
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

    def answer(self, *answers: dict[str, Any]) -> None:
        """How to answer the next requests."""
        self._control("answers", answers)

    def always(self, **answer: Any) -> None:
        """How to answer from now on."""
        self._control("always", answer)

    def release(self) -> None:
        """Answer what is held."""
        self._control("release")

    def hold(self) -> None:
        """Answer nothing from now on."""
        self._control("hold")

    def let_go(self) -> None:
        """Answer again, first what was held."""
        self._control("let_go")

    def count(self) -> None:
        """Keep no more requests: there will be many."""
        self._control("count")

    def posted(self, at_least: int = 0) -> list[Posted]:
        """What was sent so far, oldest first; waits until there is enough of it."""
        return [
            Posted(
                one["connection"], one["path"], _headers(one["head"]), b64decode(one["body"]), one["answer"]
            )
            for one in self._control(f"requests/{at_least}")
        ]

    def _control(self, what: str, body: Any = None) -> Any:
        request = Request(f"http://127.0.0.1:{self.port}/control/{what}", data=json.dumps(body).encode())
        with urlopen(request, timeout=ANSWER_TIMEOUT_S) as answer:
            return json.load(answer)


def _headers(head: str) -> dict[str, str]:
    """Names in small letters; a name that comes twice would be a fault."""
    lines = [line.partition(": ") for line in head.split("\r\n")[1:] if line]
    headers = {name.lower(): value for name, _, value in lines}
    assert len(headers) == len(lines), head
    return headers


@contextmanager
def receiver() -> Iterator[Receiving]:
    """A receiver that is gone in the end."""
    receiving = Receiving()
    try:
        yield receiving
    finally:
        receiving.kill()
