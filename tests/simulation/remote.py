"""A host with rooms, as a function of time: what it would answer at any instant, and how long that takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from application.pull_calls import Listed
from domain.backoff import Trouble
from domain.chance import chance
from domain.ids import RoomId, SessionId
from domain.tracked_room import host_of

URL = "https://far.example"
HOST = host_of(URL)
PAGE = 20
"""Messages of a page."""


@dataclass(frozen=True)
class Fault:
    """From when until when calls fail, how, and for which rooms; none named: for all."""

    start: int
    end: int
    trouble: Trouble
    latency_ms: int = 20
    rooms: frozenset[RoomId] = frozenset()

    def hits(self, room: RoomId, now: int) -> bool:
        return self.start <= now < self.end and (not self.rooms or room in self.rooms)


@dataclass(frozen=True)
class Session:
    """One session at the remote: messages come at even distances from its beginning on."""

    session: SessionId
    is_live: bool
    every_ms: int
    offset_ms: int

    def messages(self, now: int, start: int) -> int:
        """How many messages it has."""
        return max(0, (now - start - self.offset_ms) // self.every_ms + 1)

    def written_at(self, number: int, start: int) -> int:
        """When its message of this number, from 1, was written."""
        return start + self.offset_ms + (number - 1) * self.every_ms


@dataclass
class Remote:
    """Answers calls as its faults let it."""

    seed: str
    start: int
    rooms: Mapping[RoomId, list[Session]]
    faults: list[Fault] = field(default_factory=list)

    def fault(self, room: RoomId, now: int) -> Fault | None:
        return next((fault for fault in self.faults if fault.hits(room, now)), None)

    def latency_ms(self, room: RoomId, now: int) -> int:
        """A good answer takes 30 to 70 ms."""
        return 30 + int(40 * chance(self.seed, "latency", room, str(now)))

    def list(self, room: RoomId, now: int) -> list[Listed]:
        return [
            Listed(one.session, one.written_at(one.messages(now, self.start), self.start), one.is_live)
            for one in self.rooms[room]
        ]

    def session(self, room: RoomId, session: SessionId) -> Session:
        return next(one for one in self.rooms[room] if one.session == session)


def rooms(seed: str, count: int, sessions: int, live: int = 1) -> dict[RoomId, list[Session]]:
    """Rooms whose live sessions say something every five seconds, the others every ten minutes."""
    made = {}
    for number in range(count):
        room = RoomId(f"room-{number:03}")
        made[room] = [
            Session(
                SessionId(f"s-{index}"),
                index < live,
                every := 5_000 if index < live else 600_000,
                int(every * chance(seed, room, str(index))),
            )
            for index in range(sessions)
        ]
    return made
