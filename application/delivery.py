"""Hands deltas over to observers: at least once, in commit order inside a room (SPEC section 8)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from application.ports import Deliveries, Observer
from domain.delta import CommittedDelta
from domain.errors import NotFound
from domain.ids import Position, RoomId

PAGE_MAX = 100
"""Deltas read from the outbox at once."""

OnFailure = Callable[[str, CommittedDelta, Exception], None]
"""Is told of each failed attempt: the subscription, the delta, what the observer raised."""


class Lock(Protocol):
    """A lock that the thread which has it may take again."""

    def acquire(self, blocking: bool = True) -> bool: ...

    def release(self) -> None: ...


@dataclass
class Delivery:
    """The observers of this process, each with a subscription of its name that outlives it."""

    deliveries: Deliveries
    on_failure: OnFailure
    lock: Lock
    """Held while observers are called, by one thread at a time; that thread may take it again."""
    crashpoint: Callable[[str], object] = field(kw_only=True, default=str)
    """Is told where the process may die; nothing happens there unless a test wants it."""
    _is_calling: bool = False
    _is_wanted: bool = False
    """Something was committed since the thread that calls observers last looked."""
    _observers: dict[str, Observer] = field(default_factory=dict)
    _seen: dict[str, Position] = field(default_factory=dict)
    """How far each observer was handed, or refused, what came live."""
    _held: dict[str, set[RoomId]] = field(default_factory=dict)
    """Rooms of which something is pending for an observer, so that nothing later may overtake it."""

    def subscribe(self, name: str, observer: Observer, after: Position | None) -> None:
        """Hand the observer every delta from here on, live, and what is pending when asked to redeliver.

        A new subscription begins behind `after`, by default at the end.
        """
        # In this order, so that what is committed meanwhile comes live and holds nothing up.
        self._seen[name] = self.deliveries.end()
        self.deliveries.subscribe(name, after)
        self._held[name] = self._waiting(name)
        self._observers[name] = observer

    @property
    def has_observers(self) -> bool:
        return bool(self._observers)

    def notify(self) -> None:
        """Hand over what was committed since the last time.

        A delta never overtakes a pending one of its room. What an observer itself commits meanwhile is
        handed over when it has returned. Where another thread is calling observers, that one goes on with
        what is new, and nobody waits for it.
        """
        self._is_wanted = True
        while self._is_wanted and self.lock.acquire(blocking=False):
            try:
                if self._is_calling:
                    return
                with self._calling():
                    while self._is_wanted:
                        self._is_wanted = False
                        self._notify_all()
            finally:
                self.lock.release()

    def _notify_all(self) -> None:
        while any(self._notify(name, observer) for name, observer in list(self._observers.items())):
            pass  # One of them may have committed after another had its turn.

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """While observers are called; what they commit themselves has to wait until they have returned."""
        self.lock.acquire()
        was_calling, self._is_calling = self._is_calling, True
        try:
            yield
        finally:
            self._is_calling = was_calling
            self.lock.release()

    def _notify(self, name: str, observer: Observer) -> bool:
        """Hand over a page of what is new; whether there was any."""
        page = self.deliveries.pending(name, self._seen[name], PAGE_MAX)
        for delta in page:
            self._seen[name] = delta.last_position
            if delta.room not in self._held[name]:
                self._hand_over(name, observer, delta)
        return bool(page)

    def redeliver(self, name: str) -> int:
        """Hand over all that is pending, oldest first; how many deltas were taken.

        The first failure of a room holds the rest of that room, and no other.
        """
        with self._calling():
            taken = self._redeliver(name, self._observer(name))
        self.notify()
        return taken

    def _redeliver(self, name: str, observer: Observer) -> int:
        held = self._held[name] = set()
        taken = 0
        for delta in self._pending(name):
            self._seen[name] = max(self._seen[name], delta.last_position)
            taken += delta.room not in held and self._hand_over(name, observer, delta)
        return taken

    def redeliver_one(self, name: str, delta: CommittedDelta) -> bool:
        """Hand over one delta, whether or not it was before; marks it if it was its room's next."""
        observer = self._observer(name)
        with self._calling():
            next_ = next((one for one in self._pending(name) if one.room == delta.room), None)
            is_next = next_ is not None and next_.transaction_id == delta.transaction_id
            taken = self._hand_over(name, observer, delta, marks=is_next)
            self._held[name] = self._waiting(name)
        self.notify()
        return taken

    def _waiting(self, name: str) -> set[RoomId]:
        """The rooms of which something that is not new any more is pending."""
        seen = self._seen[name]
        return {delta.room for delta in self._pending(name) if delta.last_position <= seen}

    def _pending(self, name: str) -> Iterator[CommittedDelta]:
        """All that the subscription has not had, oldest first."""
        after = Position(0)
        while page := self.deliveries.pending(name, after, PAGE_MAX):
            yield from page
            after = page[-1].last_position

    def _observer(self, name: str) -> Observer:
        if name not in self._observers:
            raise NotFound(f"no observer is subscribed as {name!r} here; subscribe it first")
        return self._observers[name]

    def _hand_over(self, name: str, observer: Observer, delta: CommittedDelta, *, marks: bool = True) -> bool:
        self.crashpoint("outbox.before_send")
        try:
            observer(delta)
        except Exception as error:
            self.on_failure(name, delta, error)
            self._held[name].add(delta.room)
            self.deliveries.failed(name, delta.room, str(error) or type(error).__name__)
            return False
        self.crashpoint("outbox.after_send")
        if marks:
            self.deliveries.delivered(name, delta.room, delta.last_position)
            self.crashpoint("outbox.after_mark")
        return True
