"""What the writer keeps between commands, each thing trusted only for the version it was kept at."""

from collections import Counter, OrderedDict
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

MessageKey = tuple[int, MessageId]
"""A session's key in the read models, and a message of it."""
Said = tuple[int, Mapping[str, Any]]
"""A message version, and what the message says then."""


class Last(Generic[K, V]):
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

    def drop(self, key: K) -> None:
        with self._lock:
            self._values.pop(key, None)

    def held(self) -> list[K]:
        """The keys, the one used last at the end."""
        with self._lock:
            return list(self._values)


class Kept:
    """States of sessions, and what messages say that are growing."""

    def __init__(self, states_max: int = STATES_MAX, payloads_max: int = PAYLOADS_MAX) -> None:
        self.states: Last[StreamId, Session] = Last(states_max)
        self.payloads: Last[MessageKey, Said] = Last(payloads_max)


class Staged:
    """What is kept, and on top of it what a transaction has made of it; nothing stays of one that fails."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._states: dict[StreamId, Session] = {}
        self._payloads: dict[MessageKey, Said] = {}
        self._destroyed: set[int] = set()
        self.appended: Counter[tuple[str, str]] = Counter()
        """How many events of which aggregate and topic the transaction stores."""

    def state(self, stream: StreamId) -> Session | None:
        """The state kept of a stream, at whatever version."""
        return self._states.get(stream) or self._kept.states.get(stream)

    def keep_state(self, stream: StreamId, state: Session) -> None:
        self._states[stream] = state

    def payload(self, key: int, message: MessageId, version: int) -> Mapping[str, Any] | None:
        """What a message says, if that is known of this very version of it."""
        said = self._payloads.get((key, message)) or self._kept.payloads.get((key, message))
        return said[1] if said and said[0] == version else None

    def keep_payload(self, key: int, message: Message, payload: Mapping[str, Any]) -> None:
        if message.text_length <= PAYLOAD_CHARACTERS_MAX:
            self._payloads[key, message.message_id] = (message.version, payload)

    def forget_payloads(self, key: int) -> None:
        """Keep nothing that the messages of a session said, because they were destroyed."""
        self._destroyed.add(key)

    def publish(self) -> None:
        """Keep it for the commands to come: the transaction has committed."""
        for stream, state in self._states.items():
            self._kept.states.put(stream, state)
        for key, said in self._payloads.items():
            self._kept.payloads.put(key, said)
        for key in self._kept.payloads.held() if self._destroyed else ():
            if key[0] in self._destroyed:
                self._kept.payloads.drop(key)
