"""What the writer keeps between commands, each trusted only for the version it was kept at."""

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from domain.ids import MessageId, StreamId
from domain.message import Message
from domain.session import Session

STATES_MAX: Final = 1_000
"""Sessions whose state is kept between commands."""
PAYLOADS_MAX: Final = 64
"""Messages whose payload is kept between commands, because they are growing."""
PAYLOAD_CHARACTERS_MAX: Final = 2**21
"""A longer text is joined anew each time, so that what is kept stays bounded."""

K = TypeVar("K")
V = TypeVar("V")


class _Last(Generic[K, V]):
    """The values used last, so many of them at the most."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._size_max:
                self._values.popitem(last=False)

    def drop(self, keys: "list[K]") -> None:
        with self._lock:
            for key in keys:
                self._values.pop(key, None)

    def held(self) -> "list[K]":
        with self._lock:
            return list(self._values)


class States:
    """The states of the sessions used last, each as of a version."""

    def __init__(self, size_max: int = STATES_MAX) -> None:
        self._states: _Last[StreamId, Session] = _Last(size_max)

    def get(self, stream: StreamId) -> Session | None:
        return self._states.get(stream)

    def put(self, stream: StreamId, state: Session) -> None:
        self._states.put(stream, state)


class Payloads:
    """What messages say that grew last, so that a growing one is not joined anew for every report."""

    def __init__(self, size_max: int = PAYLOADS_MAX) -> None:
        self._payloads: _Last[tuple[int, MessageId], tuple[int, Mapping[str, Any]]] = _Last(size_max)

    def get(self, key: int, message: MessageId, version: int) -> Mapping[str, Any] | None:
        """What the message says, if that is known of this very version of it."""
        kept = self._payloads.get((key, message))
        return kept[1] if kept and kept[0] == version else None

    def put(self, key: int, message: Message, payload: Mapping[str, Any]) -> None:
        if message.text_length <= PAYLOAD_CHARACTERS_MAX:
            self._payloads.put((key, message.message_id), (message.version, payload))

    def forget(self, key: int) -> None:
        """Forget the messages of a session, because they were destroyed."""
        self._payloads.drop([one for one in self._payloads.held() if one[0] == key])
