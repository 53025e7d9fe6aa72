"""Spares the garbage collector what it would only walk over."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

COLLECT_EVERY_BYTES: Final = 8 * 2**20


class Sweeper:
    """Collects what refers to itself in a circle, once so many bytes have been worked on.

    What `spared` left alone counts as old afterwards, and the collector seldom looks at what is old: without
    this the contents of thousands of commits would wait for it.
    """

    def __init__(self) -> None:
        self._bytes = 0

    def worked_on(self, size: int) -> None:
        self._bytes += size
        if self._bytes >= COLLECT_EVERY_BYTES:
            self._bytes = 0
            gc.collect()


def settle_in() -> None:
    """Let the collector pass over what a process that has just started keeps until it ends.

    That is mostly code: without this each of its full rounds walks over all of it, in the middle of requests.
    """
    gc.collect()
    gc.freeze()


@contextmanager
def spared() -> Iterator[None]:
    """Leave alone what is alive now, such as a transcript of many records, while something works on it.

    The collector would walk over all of it again and again and find nothing: a fifth of an import's time.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
