"""Gathers the commands of all callers for one writer thread, which commits them in groups."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from typing import Final, Protocol

from application.ports import Committed, Decide
from domain.errors import Overloaded, StoreError, StoreUnavailable
from infrastructure.store.writer import Done

BATCH_MAX: Final = 64
"""Commands in one commit at the most."""
QUEUE_MAX: Final = 1_024
"""Commands that may wait for the writer; one more is refused with Overloaded."""

Run = Callable[[Sequence[Decide]], Sequence[Done]]
Wake = Callable[[], None]


class Waiter(Protocol):
    """Who waits for what becomes of a command; called by the writer's thread."""

    def begins(self) -> bool:
        """Whether somebody still waits; if so, the command cannot be taken back any more."""

    def ends(self, done: Done) -> None:
        """What became of it."""


class _Blocked:
    """Somebody who waits on a thread of their own."""

    def __init__(self, answer: "Future[Committed]") -> None:
        self._answer = answer
        self.begins = answer.set_running_or_notify_cancel

    def ends(self, done: Done) -> None:
        if isinstance(done, BaseException):
            self._answer.set_exception(done)
        else:
            self._answer.set_result(done)


_Command = tuple[Decide, Waiter, Wake | None]


class GroupCommit:
    """One thread that takes what is waiting, has it stored with one commit, and then answers all of it."""

    def __init__(self, run: Run, *, batch_max: int = BATCH_MAX, queue_max: int = QUEUE_MAX) -> None:
        self._run = run
        self._batch_max = batch_max
        self._queue_max = queue_max
        self._waiting: SimpleQueue[_Command | None] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._is_closed = False

    def submit(self, decide: Decide) -> "Future[Committed]":
        """As `put`, for who waits on a thread."""
        answer: Future[Committed] = Future()
        self.put(decide, _Blocked(answer))
        return answer

    def put(self, decide: Decide, waiter: Waiter, wake: Wake | None = None) -> None:
        """Have a command decided and stored; its waiter is told when that is durable.

        `wake` is called by the writer's thread behind the answers of a commit, once for all that gave it.

        Raises Overloaded when too many are waiting already, StoreUnavailable after `close`, and StoreError
        for a decision that asks for another one, which would wait for itself.
        """
        if current_thread() is self._thread:
            raise StoreError("a decision may not write to the store it is made in")
        with self._lock:
            if self._is_closed:
                raise StoreUnavailable("the store was closed; open it again")
            if self._waiting.qsize() >= self._queue_max:
                raise Overloaded(f"{self._queue_max} commands are waiting; try again later")
            self._waiting.put((decide, waiter, wake))
            if self._thread is None:
                self._thread = Thread(target=self._work, name="reprise-writer", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Take no more, answer all that was taken, and stop."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        if thread is not None:
            self._waiting.put(None)
            thread.join()

    def _work(self) -> None:
        while batch := self._next_batch():
            running = [command for command in batch if command[1].begins()]
            try:
                done = self._run([decide for decide, _, _ in running])
            except BaseException as error:
                done = [error for _ in running]
            for (_, waiter, _), outcome in zip(running, done, strict=True):
                waiter.ends(outcome)
            for wake in {wake for _, _, wake in running if wake}:
                wake()
            del batch, running, done

    def _next_batch(self) -> list[_Command]:
        """What is waiting, once something is; empty when nothing more will come."""
        first = self._waiting.get()
        if first is None:
            return []
        batch = [first]
        while len(batch) < self._batch_max:
            try:
                command = self._waiting.get_nowait()
            except Empty:
                break
            if command is None:
                self._waiting.put(None)
                break
            batch.append(command)
        return batch
