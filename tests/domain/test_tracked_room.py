"""Rooms that live elsewhere: tracked, pulled from another place, hidden sessions."""

import pytest

from domain.ids import RoomId, SessionId
from domain.tracked_room import (
    ROOM,
    RemoteChanged,
    RoomEvent,
    SessionHidden,
    SessionUnhidden,
    Tracked,
    TrackedRoom,
    Untracked,
    hide,
    host_of,
    track,
    unhide,
    untrack,
)

URL = "https://far.example"
SESSION = SessionId("s")


def given(*events: RoomEvent) -> TrackedRoom:
    room = ROOM.empty("r")
    for event in events:
        room = ROOM.evolve(room, event, 0)
    return room


def test_a_room_is_tracked_once() -> None:
    """A tracked room has a remote and names a token, which is never stored."""
    assert track(given(), URL, token_ref="FAR") == (Tracked(url=URL, token_ref="FAR"),)
    assert track(given(Tracked(url=URL, token_ref="FAR")), URL, token_ref="FAR") == ()


def test_another_remote_token_or_user_is_news() -> None:
    room = given(Tracked(url=URL, token_ref="FAR", user_id="mira"))

    assert track(room, URL, token_ref="NEAR") == (RemoteChanged(url=URL, token_ref="NEAR"),)
    assert given(Tracked(url=URL), RemoteChanged(url="http://b", allows_private=True)) == TrackedRoom(
        RoomId("r"), 2, is_tracked=True, tracked_version=2, url="http://b", allows_private=True
    )


def test_untracking_twice_is_once_and_tracking_again_is_news() -> None:
    tracked, untracked = given(Tracked(url=URL)), given(Tracked(url=URL), Untracked())

    assert untrack(tracked) == (Untracked(),)
    assert (untrack(untracked), untrack(given())) == ((), ())
    assert track(untracked, URL) == (Tracked(url=URL),)


def test_hiding_and_unhiding_twice_is_once_and_outlives_untracking() -> None:
    """Hiding is durable, and knows which event did it."""
    hidden = given(Tracked(url=URL), SessionHidden(session=SESSION), Untracked())

    assert hidden.hidden == {SESSION: 2}
    assert (hide(given(), SESSION), hide(hidden, SESSION)) == ((SessionHidden(session=SESSION),), ())
    assert (unhide(hidden, SESSION), unhide(given(), SESSION)) == ((SessionUnhidden(session=SESSION),), ())
    assert given(SessionHidden(session=SESSION), SessionUnhidden(session=SESSION)).hidden == {}


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Far.Example", "far.example:443"),
        ("http://far.example/path", "far.example:80"),
        ("http://user:secret@far.example:8080", "far.example:8080"),
        ("http://[::1]:4000", "::1:4000"),
        ("far", "far"),
        ("http://far:port", "http://far:port"),
    ],
)
def test_a_host_is_name_and_port(url: str, host: str) -> None:
    assert host_of(url) == host
