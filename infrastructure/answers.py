"""How a writer's answers come to an event loop: all of a commit with one wake-up."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

from application.ports import Committed


class Answers:
    """What callers on one event loop wait for.

    `asyncio.wrap_future` wakes the loop for each answer by itself, which costs a system call and hands the
    interpreter to and fro between the writer and the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, notice: Callable[[], None] = lambda: None) -> None:
        """`notice` is called on the loop when deltas are among the answers, once for all of them."""
        self.loop = loop
        self._notice = notice
        self._given: deque[tuple[asyncio.Future[Committed], Future[Committed]]] = deque()

    def awaited(self, answer: "Future[Committed]") -> "asyncio.Future[Committed]":
        """The answer, once `wake` was called behind it; who no longer awaits it takes the command back."""
        awaited: asyncio.Future[Committed] = self.loop.create_future()
        answer.add_done_callback(partial(self._give, awaited))
        awaited.add_done_callback(partial(_take_back, answer))
        return awaited

    def _give(self, awaited: "asyncio.Future[Committed]", answer: "Future[Committed]") -> None:
        self._given.append((awaited, answer))

    def wake(self) -> None:
        """Let the loop tell its callers all that was answered; called by the writer."""
        with suppress(RuntimeError):  # The loop was closed, so nobody waits any more.
            self.loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        has_delta = False
        while self._given:
            awaited, answer = self._given.popleft()
            if answer.cancelled():
                continue  # Its caller took the command back.
            error = answer.exception()
            has_delta = has_delta or (error is None and answer.result().delta is not None)
            if awaited.done():
                continue  # Its caller went away meanwhile.
            if error:
                awaited.set_exception(error)
            else:
                awaited.set_result(answer.result())
        if has_delta:
            self._notice()


def _take_back(answer: "Future[Committed]", awaited: "asyncio.Future[Committed]") -> None:
    if awaited.cancelled():
        answer.cancel()
