"""Every kind of event has words."""

from dataclasses import MISSING, fields
from typing import Any

import pytest

from application.ports import StoredEvent
from domain.backoff import Cleared, Delayed, Parked, Paused, Refused
from domain.breaker import BreakerOpened
from domain.event import Event
from domain.ids import Position, RoomId, SessionId, TransactionId
from domain.tracked_room import SessionHidden
from infrastructure.history import ERASED, as_json_object, in_words
from infrastructure.store.topics import KINDS


def an_event(kind: type[Event]) -> Event:
    """An event with its required fields filled with what their annotations ask for."""
    required: dict[str, Any] = {
        field.name: 1 if int in (field.type, getattr(field.type, "__supertype__", str)) else "x"
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    }
    return kind(**required)


def stored(event: Event, *, is_erased: bool) -> StoredEvent:
    return StoredEvent(
        position=Position(7),
        version=3,
        topic=event.TOPIC,
        recorded_at=1,
        room=RoomId("r"),
        session=SessionId("s"),
        transaction=TransactionId("t"),
        event=event,
        is_erased=is_erased,
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.TOPIC)
def test_an_event_has_words_even_without_its_content(kind: type[Event]) -> None:
    kept, erased = (stored(an_event(kind), is_erased=is_erased) for is_erased in (False, True))

    assert in_words(kept)
    assert in_words(erased) == f"{in_words(kept)} {ERASED}"
    assert as_json_object(erased)["content"] is None
    assert "content" not in as_json_object(kept)


T0 = 1_772_355_600_000
SLOW = {"reason": "no answer in 30 s"}


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            Delayed(lane="list", kind="timeout", step_s=10.0, until=T0, content=SLOW),
            "list failed (timeout) and waits until 2026-03-01 09:00:00Z because no answer in 30 s",
        ),
        (
            Refused(lane="messages:s", kind="status", status=404, count=2),
            "messages:s was refused (status 404), 2 in a row",
        ),
        (
            Parked(lane="list", kind="status", status=404, count=3, next_probe=T0),
            "list is parked (status 404); tried again 2026-03-01 09:00:00Z",
        ),
        (Cleared(lane="list", by="host"), "list does not wait any more, by host"),
        (Paused(), "every lane is paused"),
        (
            BreakerOpened(kind="transport", since=T0, step_s=5.0, until=T0),
            "the host is down (transport); next probe 2026-03-01 09:00:00Z",
        ),
        (SessionHidden(session=SessionId("s\x1b")), "session s\\x1b is hidden"),
    ],
    ids=lambda value: getattr(value, "TOPIC", ""),
)
def test_what_happens_to_pulls_has_words(event: Event, words: str) -> None:
    assert in_words(stored(event, is_erased=False)) == words
