"""What people do about pulled rooms, as far as it touches their waits."""

import pytest

from application.aggregates import change
from application.rooms import Rooms
from domain.backoff import BACKOFF, LIST_LANE, Trouble, fail
from domain.backoff_policy import SERVICE_POLICY
from infrastructure.store.memory import MemoryDatabase
from tests.store.place import Place

REFUSED = Trouble("status", False, "the remote answered 401", 401)


@pytest.fixture
def rooms() -> Rooms:
    """A room that its remote refuses, and has parked for that."""
    database = MemoryDatabase()
    place = Place(lambda: database)
    rooms = Rooms(place.store(), place.clock)
    rooms.track("r", "http://h", token_ref="OLD")
    for _ in range(3):
        change(
            rooms.store,
            BACKOFF,
            "r",
            lambda state: fail(state, LIST_LANE, REFUSED, SERVICE_POLICY, place.clock.now),
            place.clock.now,
        )
    return rooms


def test_another_token_begins_without_waits(rooms: Rooms) -> None:
    """B5: Whoever mends what was refused does not wait for an hour."""
    rooms.track("r", "http://h", token_ref="NEW")

    assert rooms.held_lanes() == []
    assert [one.topic for one in rooms.store.history(BACKOFF, "r")][-1] == "backoff.cleared"


def test_the_same_remote_again_keeps_the_waits(rooms: Rooms) -> None:
    """B5: Nothing was mended."""
    rooms.track("r", "http://h", token_ref="OLD")

    assert [lane.lane for lane in rooms.held_lanes()] == [LIST_LANE]


def test_why_gives_the_reason_as_the_remote_was_heard(rooms: Rooms) -> None:
    """B9: The text stands in the event that holds the room."""
    (reason,) = rooms.why("r")

    assert (reason.hold.why, reason.told) == ("parked", "the remote answered 401")
