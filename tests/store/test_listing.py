"""Sessions are listed in pages, the ones that changed last first."""

import pytest

from application import commands
from application.finding import Wanted
from application.ledger import Ledger
from domain.errors import Outdated, Rejected
from tests.store.place import START_MS, Place

RUNNING = {"state": {"turn": {"turnId": "t1", "phase": "running"}}}
TOLD = (
    ("room-1", "a", 0),
    ("room-2", "a", 0),
    ("room-1", "b", 0),
    ("room-1", "Ä", 1),
    ("room-2", "c", 1),
    ("room-1", "d", 2),
)
"""Rooms, sessions, and how many milliseconds after the start each changed last."""
LISTED = [
    ("room-1", "d"),
    ("room-1", "Ä"),
    ("room-2", "c"),
    ("room-1", "a"),
    ("room-1", "b"),
    ("room-2", "a"),
]


@pytest.fixture
def ledger(place: Place) -> Ledger:
    ledger = place.ledger()
    start = place.clock.now
    for room, session, later in TOLD:
        place.clock.now = start + later
        ledger.report_state(RUNNING, room=room, session=session)
    return ledger


def paged(ledger: Ledger, room: str | None, limit: int, *, deleted: bool = False) -> list[tuple[str, str]]:
    """All sessions, page by page."""
    found: list[tuple[str, str]] = []
    page = ledger.sessions(room, deleted=deleted, limit=limit)
    while page:
        assert len(page) <= limit
        found += [(one.room, one.session) for one in page]
        page = ledger.sessions(room, deleted=deleted, limit=limit, after=page[-1])
    return found


@pytest.mark.parametrize("limit", [1, 2, 5, 6, 100])
def test_pages_together_are_the_list(ledger: Ledger, limit: int) -> None:
    assert paged(ledger, None, limit) == LISTED
    assert paged(ledger, "room-1", limit) == [one for one in LISTED if one[0] == "room-1"]
    assert paged(ledger, "no such room", limit) == []


def test_deleted_sessions_take_no_place_on_a_page(ledger: Ledger) -> None:
    ledger.delete("room-1", "Ä")

    assert len(ledger.sessions(limit=3)) == 3
    assert paged(ledger, None, 2) == [one for one in LISTED if one != ("room-1", "Ä")]
    assert len(paged(ledger, None, 2, deleted=True)) == len(LISTED)


def test_a_limit_is_at_least_one(ledger: Ledger) -> None:
    with pytest.raises(Rejected, match="limit is 0; give at least 1, or none for all"):
        ledger.sessions(limit=0)


def test_rooms_are_listed_by_name_without_those_whose_sessions_are_deleted(ledger: Ledger) -> None:
    assert [(one.room, one.sessions) for one in ledger.rooms()] == [("room-1", 4), ("room-2", 2)]
    assert [one.room for one in ledger.rooms("room-1")] == ["room-2"]
    assert [one.room for one in ledger.rooms(limit=1)] == ["room-1"]
    for session in ("a", "c"):
        ledger.delete("room-2", session)
    assert [one.room for one in ledger.rooms()] == ["room-1"]


@pytest.mark.parametrize("limit", [1, 2, 6])
def test_what_is_wanted_is_found_page_by_page(ledger: Ledger, limit: int) -> None:
    wanted = Wanted(status="working", text="A", until_ms=START_MS + 1)
    page = ledger.find(wanted, limit=limit)
    found = [*page.items]
    while page.next:
        page = ledger.find(wanted, after=page.next, limit=limit)
        assert len(page.items) <= limit
        found += page.items
    assert [(one.room, one.session) for one in found] == [("room-1", "a"), ("room-2", "a")]
    assert ledger.find(Wanted(since_ms=START_MS + 2)).items[0].session == "d"


def test_a_command_meant_for_another_version_is_not_done(ledger: Ledger) -> None:
    """Decided under the lock of the store, so nothing comes in between."""
    view = ledger.session("room-1", "a")
    assert view is not None
    title = commands.set_title("room-1", "a", "Harbour", "")
    assert ledger.do(title, if_version=view.stream_version).applied
    with pytest.raises(Outdated) as error:
        ledger.do(title, if_version=view.stream_version)
    assert error.value.current == view.stream_version + 1
