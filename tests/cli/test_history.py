"""Every kind of event has words."""

from dataclasses import MISSING, fields
from typing import Any

import pytest

from application.ports import StoredEvent
from domain.event import Event
from domain.ids import Position, RoomId, SessionId, TransactionId
from infrastructure.cli.history import ERASED, as_json_object, in_words
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
