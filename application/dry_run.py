"""Tries commands out: they are decided on what is stored, answered, and not stored."""

from typing import Any, cast

from application.ports import Committed, Decide, Decision, Store


class _Undecided:
    """A store that changes nothing, and reads as the one behind it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def submit(self, decide: Decide) -> Committed:
        return self._store.submit(lambda load: Decision(decide(load).answer))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def decides_only(store: Store) -> Store:
    """The same store, whose commands are answered what they would do and change nothing."""
    return cast("Store", _Undecided(store))
