"""How sessions, turns, messages and interactions stand in the read models, and how they are looked up.

A message's row points to the events that say what the message says: to the one that added it, and
through message_parts to those that changed its text or payload. Content stands once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import itemgetter
from typing import Any, Final, cast

from domain import jsontext
from domain.event import Content
from domain.ids import MessageId, Position, RequestId, TurnId
from domain.interaction import Interaction
from domain.message import TEXT, Message, MessageAdded, MessageEvent, MessageExtended, Part, join_parts
from domain.pull import Pull
from domain.session import Purged, Session, TurnEnd
from domain.turn import Turn
from domain.work import Draft, added_text
from infrastructure.store.codec import pack, unpack
from infrastructure.store.records import shape_and_facts, unseal
from infrastructure.store.tables import (
    INTERACTIONS,
    MESSAGES,
    PARTS,
    SESSION_CONTENTS,
    SESSIONS,
    TURNS,
    Row,
    StoredRecord,
    Tables,
)
from infrastructure.store.topics import lifted

_TURN_COLUMNS: Final = frozenset(("turn_id", "version"))
_MESSAGE_COLUMNS: Final = frozenset(("message_id", "version", "turn_id", "sequence"))
_INTERACTION_COLUMNS: Final = frozenset(("turn_id", "request_id", "version"))


_CLOCKS: Final = frozenset(
    (
        "version",
        "updated_at",
        "last_event_at",
        "message_version",
        "sequence",
        "turn_count",
        "text_count",
        "tool_call_count",
        "usage",
    )
)
"""What a session counts, and when: kept in columns, since almost every commit changes them."""
_SESSION_COLUMNS: Final = _CLOCKS | {"room", "session", "own_version"}


def session_state(packed: dict[str, Any], **columns: Any) -> Session:
    """The session that `pack` packed, its inner values included."""
    end, pull = packed.pop("lastEnd", None), packed.pop("pull", None)
    inner = {"last_end": unpack(TurnEnd, end) if end else None, "pull": pull and unpack(Pull, pull)}
    return unpack(Session, packed, **columns, **inner)


def _clocks(session: Session) -> Row:
    """The values of tables.CLOCKS."""
    return (
        session.updated_at,
        session.version,
        session.last_event_at,
        session.message_version,
        session.sequence,
        session.turn_count,
        session.text_count,
        session.tool_call_count,
        jsontext.to_text(session.usage) if session.usage else "",
    )


def session_row(key: int, session: Session) -> Row:
    return (
        key,
        session.room,
        session.session,
        session.own_version,
        _facts(session, _SESSION_COLUMNS),
        session.root_session if session.is_child else session.session,
        session.provider_session_id,
        int(session.is_active),
        int(session.is_deleted),
        *_clocks(session),
    )


def session_of(row: Row) -> Session:
    return session_state(
        jsontext.from_bytes(row[4]),
        room=row[1],
        session=row[2],
        own_version=row[3],
        updated_at=row[9],
        version=row[10],
        last_event_at=row[11],
        message_version=row[12],
        sequence=row[13],
        turn_count=row[14],
        text_count=row[15],
        tool_call_count=row[16],
        usage=jsontext.from_bytes(row[17]) if row[17] else {},
    )


_lasting: Final = itemgetter(*(one.name for one in fields(Session) if one.name not in _CLOCKS))


def _differs_in_clocks_alone(before: Session, after: Session) -> bool:
    return before.opened and bool(_lasting(vars(before)) == _lasting(vars(after)))


def turn_row(key: int, turn: Turn) -> Row:
    return (key, turn.turn_id, turn.version, _facts(turn, _TURN_COLUMNS), _content(turn.content))


def turn_of_row(row: Row) -> Turn:
    return unpack(
        Turn,
        jsontext.from_bytes(row[3]),
        turn_id=TurnId(row[1]),
        version=row[2],
        content=_read_content(row[4]),
    )


def message_row(key: int, message: Message, position: Position) -> Row:
    return (
        key,
        message.message_id,
        message.version,
        message.turn_id,
        message.sequence,
        int(message.is_open_tool),
        int(message.is_assistant_text),
        position,
        _facts(message, _MESSAGE_COLUMNS),
    )


def message_of_row(row: Row) -> Message:
    return unpack(
        Message,
        jsontext.from_bytes(row[8]),
        message_id=MessageId(row[1]),
        version=row[2],
        turn_id=TurnId(row[3]),
        sequence=row[4],
    )


def interaction_row(key: int, interaction: Interaction) -> Row:
    return (
        key,
        interaction.turn_id,
        interaction.request_id,
        interaction.version,
        _facts(interaction, _INTERACTION_COLUMNS),
        _content(interaction.content),
    )


def interaction_of_row(row: Row) -> Interaction:
    return unpack(
        Interaction,
        jsontext.from_bytes(row[4]),
        turn_id=TurnId(row[1]),
        request_id=RequestId(row[2]),
        version=row[3],
        content=_read_content(row[5]),
    )


def _facts(value: Any, omit: frozenset[str]) -> str:
    return jsontext.to_text(pack(value, omit))


def _content(content: Content) -> str:
    return jsontext.to_text(content) if content else ""


def _read_content(text: str) -> Content:
    return jsontext.from_bytes(text) if text else {}


def payload_of(parts: Sequence[StoredRecord]) -> dict[str, Any]:
    """What a message's events say together; what was erased says nothing."""
    return join_parts([part for part in map(_part, parts) if part])


def _part(stored: StoredRecord) -> Part | None:
    """What one stored event says of its message, read without the rest: a message may have thousands."""
    record = stored.record
    if record.content is None:
        return None
    content = jsontext.from_bytes(record.content)
    if record.topic != MessageExtended.TOPIC:
        return Part("whole" if record.topic == MessageAdded.TOPIC else "change", "", content)
    facts = lifted(MessageExtended.TOPIC, *shape_and_facts(record.facts))
    return Part("growth", facts.get("field", TEXT), content)


def unsealed(stored: StoredRecord) -> MessageEvent:
    return cast("MessageEvent", unseal(stored.record.topic, stored.record.facts, stored.record.content).event)


def records_of(tables: Tables, key: int, rows: Sequence[Row]) -> list[list[StoredRecord]]:
    """For each row of MESSAGES the events that say what the message says, oldest first."""
    positions = {row[1]: [row[7]] for row in rows}
    for part in tables.parts(key, list(positions)):
        positions[part[1]].append(part[2])
    wanted = [position for of_message in positions.values() for position in of_message]
    records = {stored.position: stored for stored in tables.part_records(wanted)}
    return [[records[Position(one)] for one in sorted(positions[row[1]])] for row in rows]


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The stored rows of one session: what domain.work.Stored asks for."""

    tables: Tables
    key: int
    """0: the session has none."""
    known_payload: Callable[[int, MessageId, int], Mapping[str, Any] | None] | None = None
    """What is known, without asking the tables, that a message says at a version."""

    def content(self) -> Content:
        row = self.tables.get(SESSION_CONTENTS, self.key)
        return _read_content(row[1]) if row else {}

    def turn(self, turn: TurnId) -> Turn | None:
        row = self.tables.get(TURNS, self.key, turn)
        return turn_of_row(row) if row else None

    def message(self, message: MessageId) -> Message | None:
        row = self.tables.get(MESSAGES, self.key, message)
        return message_of_row(row) if row else None

    def messages(self, messages: Sequence[MessageId]) -> Sequence[Message]:
        if not self.key:
            return []
        return [message_of_row(row) for row in self.tables.messages_of(self.key, messages)]

    def payload(self, message: MessageId) -> Mapping[str, Any]:
        row = self.tables.get(MESSAGES, self.key, message)
        if row is None:
            return {}
        known = self.known_payload(self.key, message, row[2]) if self.known_payload else None
        if known is not None:
            return known
        return payload_of(*records_of(self.tables, self.key, [row]))

    def appended(self, message: MessageId, occurred_at: int) -> Sequence[str]:
        row = self.tables.get(MESSAGES, self.key, message)
        if row is None:
            return []
        positions = [part[2] for part in self.tables.parts(self.key, [message]) if part[3] == occurred_at]
        events = [unsealed(part) for part in self.tables.part_records([row[7], *positions])]
        texts = [
            added_text(event, event.content)
            for event in events
            if event.content and event.occurred_at == occurred_at
        ]
        return [text for text in texts if text is not None]

    def interaction(self, turn: TurnId, request: RequestId) -> Interaction | None:
        row = self.tables.get(INTERACTIONS, self.key, turn, request)
        return interaction_of_row(row) if row else None

    def interactions(self, turn: TurnId) -> Sequence[Interaction]:
        return [interaction_of_row(row) for row in self.tables.interactions(self.key, turn)]

    def open_tools(self, turn: TurnId) -> Sequence[Message]:
        return [message_of_row(row) for row in self.tables.open_tools(self.key, turn)]

    def last_assistant_text(self, turn: TurnId, after: int) -> Message | None:
        row = self.tables.last_assistant_text(self.key, turn, after)
        return message_of_row(row) if row else None


def write_rows(tables: Tables, key: int, draft: Draft, events: Sequence[tuple[Position, Any]]) -> None:
    """Bring a session's rows to where its draft stands; `events` are its new ones with their positions."""
    if any(isinstance(event, Purged) for _, event in events):
        tables.remove_session(key)
        return
    if not draft.state.opened:
        return
    changed = draft.changed
    if _differs_in_clocks_alone(draft.loaded, draft.state):
        tables.put_clocks(key, _clocks(draft.state))
    else:
        tables.put(SESSIONS, session_row(key, draft.state))
    if changed.content is not None:
        tables.put(SESSION_CONTENTS, (key, _content(changed.content)))
    for turn in changed.turns.values():
        tables.put(TURNS, turn_row(key, turn))
    for interaction in changed.interactions.values():
        tables.put(INTERACTIONS, interaction_row(key, interaction))
    if changed.messages:
        _write_messages(tables, key, draft, events)


def _write_messages(tables: Tables, key: int, draft: Draft, events: Sequence[tuple[Position, Any]]) -> None:
    added: dict[MessageId, Position] = {}
    for position, event in events:
        if isinstance(event, MessageAdded):
            added[event.message_id] = position
        elif event.content is not None and hasattr(event, "message_id"):
            tables.put(PARTS, (key, event.message_id, position, event.occurred_at))
    for message_id, message in draft.changed.messages.items():
        tables.put(
            MESSAGES, message_row(key, message, added.get(message_id) or _base(tables, key, message_id))
        )


def _base(tables: Tables, key: int, message_id: MessageId) -> Position:
    """Where the event stands that added a stored message."""
    row = tables.get(MESSAGES, key, message_id)
    assert row is not None, "a changed message has been added before"
    return Position(row[7])
