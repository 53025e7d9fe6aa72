"""Deltas as they are committed: what is there first, then what comes, without a gap."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from application.ports import Store
from domain.delta import CommittedDelta
from domain.ids import Position

PAGE_MAX: Final = 500
"""Deltas read at once."""
PATIENCE_S: Final = 0.25
"""Seconds after which it looks whether it was told to stop."""


class Following:
    """Every delta from the position behind `after`, in commit order, each once; waits for more until stopped.

    Whoever follows keeps the position it has come to (`CommittedDelta.last_position`) and begins there the
    next time. Raises StoreError when the store cannot be read any more.
    """

    def __init__(self, store: Store, after: Position) -> None:
        self._store = store
        self._read_to = after
        self._watch = store.watch()
        self._is_stopped = False

    def __iter__(self) -> Iterator[CommittedDelta]:
        while page := self.page():
            for delta in page:
                if self._is_stopped:
                    return
                yield delta

    def page(self) -> Sequence[CommittedDelta]:
        """The next deltas, as soon as there are some; none when stopped."""
        while not self._is_stopped:
            page = list(islice(self._store.deltas(self._read_to), PAGE_MAX))
            if page:
                self._read_to = page[-1].last_position
                return page
            self._watch.wait(PATIENCE_S)
        return ()

    def stop(self) -> None:
        """End the iteration soon; may be called from another thread or a signal handler."""
        self._is_stopped = True

    def close(self) -> None:
        """Stop, and let go of what was needed to wait."""
        self.stop()
        self._watch.close()

    def __enter__(self) -> "Following":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
