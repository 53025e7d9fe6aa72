"""How a writer's answers come to an event loop: all of a commit with one wake-up."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from application.ports import Committed
from infrastructure.store.writer import Done

_Awaited = asyncio.Future[Committed]


class Answers:
    """What callers on one event loop wait for.

    Futures of `concurrent.futures` would cost each command several locks, and wake the loop for each answer
    by itself, which hands the interpreter to and fro between the writer and the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, notice: Callable[[], None] = lambda: None) -> None:
        """`notice` is called on the loop when deltas are among the answers, once for all of them."""
        self.loop = loop
        self._notice = notice
        self._given: deque[tuple[_Awaited, Done]] = deque()

    def waiter(self) -> "LoopWaiter":
        """Who waits for the next command; its future is done once `wake` was called behind its answer."""
        return LoopWaiter(self.loop.create_future(), self._given)

    def wake(self) -> None:
        """Let the loop tell its callers all that was answered; called by the writer."""
        with suppress(RuntimeError):  # The loop was closed, so nobody waits any more.
            self.loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        has_delta = False
        while self._given:
            awaited, done = self._given.popleft()
            if isinstance(done, BaseException):
                if not awaited.done():
                    awaited.set_exception(done)
                continue
            has_delta = has_delta or done.delta is not None
            if not awaited.done():  # Else its caller went away meanwhile.
                awaited.set_result(done)
        if has_delta:
            self._notice()


class LoopWaiter:
    """Somebody who awaits a command on the event loop; cancelling `awaited` takes a waiting command back."""

    __slots__ = ("_given", "awaited")

    def __init__(self, awaited: _Awaited, given: deque[tuple[_Awaited, Done]]) -> None:
        self.awaited = awaited
        self._given = given

    def begins(self) -> bool:
        return not self.awaited.cancelled()

    def ends(self, done: Done) -> None:
        self._given.append((self.awaited, done))
