"""Why a lane is quiet: the events that hold it, until when, and what ends it."""

from domain import backoff, breaker, tracked_room
from domain.backoff import BACKOFF, LIST_LANE, Trouble, messages_lane
from domain.backoff_policy import SERVICE_POLICY
from domain.breaker import BREAKER, SERVICE_BREAKER
from domain.holding import Hold, holds
from domain.ids import RoomId, SessionId
from domain.tracked_room import ROOM

T0 = 1_772_355_600_000
SESSION = SessionId("s")
DOWN = Trouble("status", True, "the remote answered 503", 503)
GONE = Trouble("status", False, "the remote answered 404", 404)


class Held:
    """A room, its waits and its host, told by decisions a second apart."""

    def __init__(self) -> None:
        self.now = T0
        self.room = ROOM.empty("r")
        self.backoff = BACKOFF.empty("r")
        self.breaker = BREAKER.empty("h")
        self.track()

    def track(self) -> None:
        for event in tracked_room.track(self.room, "http://h"):
            self.room = ROOM.evolve(self.room, event, self.now)

    def untrack(self) -> None:
        for event in tracked_room.untrack(self.room):
            self.room = ROOM.evolve(self.room, event, self.now)

    def hide(self) -> None:
        for event in tracked_room.hide(self.room, SESSION):
            self.room = ROOM.evolve(self.room, event, self.now)

    def fail(self, lane: str, trouble: Trouble) -> None:
        for event in backoff.fail(self.backoff, lane, trouble, SERVICE_POLICY, self.now):
            self.backoff = BACKOFF.evolve(self.backoff, event, self.now)

    def pause(self, lane: str = "") -> None:
        for event in backoff.pause(self.backoff, lane):
            self.backoff = BACKOFF.evolve(self.backoff, event, self.now)

    def open(self) -> None:
        for event in breaker.open_breaker(self.breaker, self.now, DOWN, SERVICE_BREAKER, self.now):
            self.breaker = BREAKER.evolve(self.breaker, event, self.now)

    def probe(self) -> None:
        self.now = self.breaker.until
        for event in breaker.claim_probe(self.breaker, RoomId("r"), SERVICE_BREAKER, self.now):
            self.breaker = BREAKER.evolve(self.breaker, event, self.now)

    def close(self) -> None:
        for event in breaker.probe_answered(self.breaker, self.breaker.probes, SERVICE_BREAKER, self.now):
            self.breaker = BREAKER.evolve(self.breaker, event, self.now)

    def why(self, session: SessionId | None = None) -> list[tuple[str, int, str, str, int]]:
        """Kind, version, lane, why and until of what holds it."""
        found = holds(self.room, self.backoff, self.breaker, self.now, session)
        return [(one.kind, one.version, one.lane, one.why, one.until) for one in found]


def test_nothing_holds_a_healthy_lane() -> None:
    assert Held().why(SESSION) == []


def test_a_wait_is_named_with_its_event_and_its_end() -> None:
    """B9: Which event holds it, until when, and what ends it."""
    held = Held()
    held.fail(LIST_LANE, DOWN)
    until = held.backoff.waits[LIST_LANE].until

    assert holds(held.room, held.backoff, None, held.now) == (
        Hold("backoff", "r", 1, LIST_LANE, "delayed", until, "the time, or a reset"),
    )
    held.now = until
    assert held.why() == []


def test_a_session_is_held_by_what_holds_its_room() -> None:
    """B9: Its messages are read only after the room's list call."""
    held = Held()
    held.fail(LIST_LANE, DOWN)
    held.fail(messages_lane(SESSION), DOWN)

    assert [(version, lane) for _, version, lane, _, _ in held.why(SESSION)] == [
        (1, LIST_LANE),
        (2, messages_lane(SESSION)),
    ]
    assert [lane for _, _, lane, _, _ in held.why()] == [LIST_LANE]


def test_refusals_are_told_before_they_park_the_lane() -> None:
    """B9, B5: The reason can be seen from the first one on; a parked lane says when it is tried next."""
    held = Held()
    for version in (1, 2):
        held.fail(LIST_LANE, GONE)
        assert held.why() == [("backoff", version, LIST_LANE, "refused", T0)]
        assert held.backoff.allows(LIST_LANE, T0)
    held.fail(LIST_LANE, GONE)

    assert held.why() == [("backoff", 3, LIST_LANE, "parked", T0 + 3_600_000)]


def test_people_hold_a_lane_until_people_let_it_go() -> None:
    """B9: Untracked, hidden, paused: each with the event that did it, until somebody acts."""
    held = Held()
    held.hide()
    held.untrack()
    held.pause()
    held.pause(messages_lane(SESSION))

    assert held.why(SESSION) == [
        ("room", 3, "", "untracked", 0),
        ("room", 2, messages_lane(SESSION), "hidden", 0),
        ("backoff", 1, "", "paused", 0),
        ("backoff", 2, messages_lane(SESSION), "paused", 0),
    ]


def test_a_breaker_holds_all_rooms_of_its_host_through_all_its_stages() -> None:
    """B9, B7: Open, probing, and on the ramp."""
    held = Held()
    held.open()
    assert held.why() == [("breaker", 1, "", "open", held.breaker.until)]

    held.probe()
    assert held.breaker.probe
    assert held.why() == [("breaker", 2, "", "probing", held.breaker.probe.until)]

    held.close()
    place = held.breaker.place_of(RoomId("r"))
    assert held.why() == [("breaker", 3, "", "ramp", place)]
    held.now = place
    assert held.why() == []


def test_a_probe_that_nobody_settled_holds_no_longer_than_its_claim() -> None:
    held = Held()
    held.open()
    held.probe()
    assert held.breaker.probe
    held.now = held.breaker.probe.until

    assert [why for _, _, _, why, _ in held.why()] == ["open"]
