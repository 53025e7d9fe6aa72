"""What other processes do to a store; each is killed, or ends, as its test wants."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from multiprocessing.synchronize import Barrier
from typing import Any

from domain.delta import CommittedDelta
from infrastructure import crashpoints
from infrastructure.main import open_ledger

ROOM = "room-1"
SHARED = "shared"
SUBSCRIPTION = "writer"


def context() -> ForkServerContext:
    """Starts processes that have imported everything and opened nothing."""
    chosen = multiprocessing.get_context("forkserver")
    chosen.set_forkserver_preload(["tests.store.writer_process", "infrastructure.store.postgres"])
    return chosen


class Child:
    """A process at work, and the end of the pipe on which it says what it was answered."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        chosen = context()
        self._receiver, sender = chosen.Pipe(duplex=False)
        self.process: ForkServerProcess = chosen.Process(target=work, args=(sender, *arguments), daemon=True)
        self.process.start()
        sender.close()

    def lines(self, count: int) -> list[str]:
        """The next lines it says; fewer when it has ended."""
        said: list[str] = []
        try:
            while len(said) < count:
                said.append(self._receiver.recv_bytes().decode())
        except EOFError:
            pass
        return said

    def end(self) -> list[str]:
        """Wait for its end; what it had still to say."""
        rest = self.lines(2**31)
        self.process.join()
        self._receiver.close()
        return rest

    def kill(self) -> list[str]:
        """End it without a warning; what it had said before."""
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGKILL)
        return self.end()


def say(pipe: Connection, line: str) -> None:
    """One write, so that a line is there whole or not at all."""
    pipe.send_bytes(line.encode())


def _report(ledger: Any, session: str, title: str, command_id: str = "") -> str:
    body = {"state": {"title": title}}
    return str(ledger.report_state(body, room=ROOM, session=session, command_id=command_id).transaction_id)


def report_both(pipe: Connection, url: str, name: str, count: int, start: Barrier | None = None) -> None:
    """Report by turns about a session of its own and the shared one; say each answered transaction."""
    if start:
        start.wait()
    with open_ledger(url) as ledger:
        for number in range(count):
            session = name if number % 2 else SHARED
            say(pipe, _report(ledger, session, f"{name} {number}"))


def report_same(pipe: Connection, url: str, start: Barrier) -> None:
    """Report one session at the same moment as others do; say the transaction, blank for none."""
    start.wait()
    with open_ledger(url) as ledger:
        say(pipe, _report(ledger, SHARED, "the same for all"))


def end_child(pipe: Connection, url: str, child: str, rounds: int, start: Barrier) -> None:
    """In each round end a child of its root, at the same moment as somebody else ends the other one."""
    with open_ledger(url) as ledger:
        for number in range(rounds):
            turn = {"turnId": "t1", "phase": "completed"}
            start.wait()
            ledger.report_state({"state": {"turn": turn}}, room=ROOM, session=f"{child}-{number}")


def die_at(pipe: Connection, url: str, crash_point: str, deaths_after: int, titles: Sequence[str]) -> None:
    """Report and deliver until a crash point has been passed so often; say what was handed over."""
    passed = 0

    def die() -> None:
        nonlocal passed
        passed += 1
        if passed > deaths_after:
            os.kill(os.getpid(), signal.SIGKILL)

    crashpoints.arm(crash_point, die)

    def observer(delta: CommittedDelta) -> None:
        say(pipe, f"handed {delta.transaction_id}")

    with open_ledger(url) as ledger:
        ledger.subscribe(observer, SUBSCRIPTION)
        ledger.redeliver(SUBSCRIPTION)
        for title in titles:
            say(pipe, f"answered {_report(ledger, SHARED, title, command_id=title)}")
