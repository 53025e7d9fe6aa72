"""A session as it was at any of its versions: the fold of the events up to there (SPEC A2).

Nothing is stored for it, and nothing is decided: events carry results.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from application.ports import SessionRow, StoredEvent
from application.views import SessionView, interaction_view, session_view, turn_view
from domain.delta import interaction_entity_id
from domain.errors import NotFound, Rejected
from domain.event import Content
from domain.ids import MessageId, RequestId, RoomId, SessionId, TurnId
from domain.interaction import Interaction, InteractionRequested, evolve_interaction
from domain.message import Message, MessageAdded, evolve_message
from domain.session import Session, SessionEvent, evolve
from domain.turn import Turn, TurnStarted, evolve_turn
from domain.work import INTERACTION_EVENTS, MESSAGE_EVENTS, TURN_EVENTS, evolve_content, turn_of

COMPARED_EVENTS_MAX: Final = 5_000
"""Events between two versions that are compared."""

Path = tuple[str, ...]
"""Where a field stands in a document, from the outside in."""


@dataclass
class Folding:
    """A session whose events are folded one by one."""

    room: RoomId
    session: SessionId
    state: Session = field(init=False)
    content: Content = field(default_factory=dict)
    turns: dict[TurnId, Turn] = field(default_factory=dict)
    interactions: dict[tuple[TurnId, RequestId], Interaction] = field(default_factory=dict)
    messages: dict[MessageId, Message] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.state = Session(room=self.room, session=self.session)

    def take(self, stored: StoredEvent) -> None:
        """Fold the next event."""
        event, at, version = cast("SessionEvent", stored.event), stored.recorded_at, stored.version
        if isinstance(event, TURN_EVENTS):
            turn = turn_of(event)
            before = None if isinstance(event, TurnStarted) else self.turns.get(turn)
            self.turns[turn] = evolve_turn(before, event, version, at)
        elif isinstance(event, MESSAGE_EVENTS):
            known = None if isinstance(event, MessageAdded) else self.messages.get(event.message_id)
            self.messages[event.message_id] = evolve_message(known, event, at)
        elif isinstance(event, INTERACTION_EVENTS):
            key = (event.turn_id, event.request_id)
            asked = None if isinstance(event, InteractionRequested) else self.interactions.get(key)
            self.interactions[key] = evolve_interaction(asked, event, version, at)
        elif event.content is not None:
            self.content = evolve_content(self.content, event)
        self.state = evolve(self.state, event, at)

    def view(self) -> SessionView:
        """What a reader saw then."""
        turns = sorted(
            self.turns.values(), key=lambda turn: (turn.started_at, turn.first_seen_at, turn.turn_id)
        )
        asked = sorted(
            self.interactions.values(), key=lambda one: (one.requested_at, one.turn_id, one.request_id)
        )
        row = SessionRow(self.state, self.content)
        return session_view(row, tuple(map(turn_view, turns)), tuple(map(interaction_view, asked)))


class Past:
    """A session's document, taken through its history event by event."""

    def __init__(self, room: RoomId, session: SessionId) -> None:
        self._folding = Folding(room, session)
        self._document = _Document(self._folding)

    def take(self, stored: StoredEvent) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Fold the next event; the document before and after it, without the parts it does not touch."""
        event = cast("SessionEvent", stored.event)
        before = self._document.around(event)
        self._folding.take(stored)
        return before, self._document.around(event)

    def document(self) -> Mapping[str, Any]:
        """The whole document as it is now."""
        return self._document.made()


def state_at(
    room: str, session: str, events: Iterable[StoredEvent], version: int | None, at_ms: int | None
) -> SessionView:
    """A session as of a version or a time; raises NotFound where there was none."""
    folding = Folding(RoomId(room), SessionId(session))
    for stored in events:
        if (version is not None and stored.version > version) or (
            at_ms is not None and stored.recorded_at > at_ms
        ):
            break
        folding.take(stored)
    if not folding.state.opened:
        raise NotFound(f"there was no session {session} in room {room} then")
    if version is not None and folding.state.version < version:
        last = folding.state.version
        raise NotFound(f"session {session} has no version {version} yet; its last is {last}")
    return folding.view()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two versions of a session as documents, and which event last touched each field that changed."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    touched: Mapping[Path, StoredEvent]

    def maker(self, path: Path) -> StoredEvent | None:
        """The event that made a field what it is in the later one; None for a field that did not change."""
        found = [
            stored
            for touched, stored in self.touched.items()
            if touched[: len(path)] == path or path[: len(touched)] == touched
        ]
        return max(found, key=lambda stored: stored.version, default=None)


def compare(room: str, session: str, events: Iterable[StoredEvent], first: int, second: int) -> Comparison:
    """Compare two versions of a session, version 0 being nothing (SPEC A2).

    Raises NotFound for a version that is not there and Rejected for too many events between them.
    """
    low, high = min(first, second), max(first, second)
    if high - low > COMPARED_EVENTS_MAX:
        detail = f"{high - low} events lie between them, at most {COMPARED_EVENTS_MAX} are compared"
        raise Rejected("invalid", "command", "", detail)
    folding = Folding(RoomId(room), SessionId(session))
    document = _Document(folding)
    touched: dict[Path, StoredEvent] = {}
    before = after = document.made()
    for stored in events:
        if stored.version > high:
            break
        folding.take(stored)
        if stored.version == low:
            before = after = document.made()
        elif stored.version > low:
            earlier, after = after, document.made()
            touched.update(dict.fromkeys(_changed(earlier, after), stored))
    if folding.state.version < high:
        last = folding.state.version
        raise NotFound(f"session {session} in room {room} has no version {high}; its last is {last}")
    return Comparison(before, after, touched) if first <= second else Comparison(after, before, touched)


class _Document:
    """A session as nested objects, whose parts are the same objects as long as they do not change."""

    def __init__(self, folding: Folding) -> None:
        self._folding = folding
        self._kept: dict[tuple[str, str], tuple[object, dict[str, Any]]] = {}

    def _own(self) -> dict[str, Any]:
        own = session_view(SessionRow(self._folding.state, self._folding.content), (), ()).to_dict()
        del own["turnList"], own["interactionList"]
        return own

    def around(self, event: SessionEvent) -> dict[str, Any]:
        """The document with no other parts than the one that an event is about."""
        folding = self._folding
        if not folding.state.version:
            return {}
        part: Turn | Interaction | Message | None = None
        name = id_ = ""
        if isinstance(event, TURN_EVENTS):
            name, id_ = "turns", turn_of(event)
            part = folding.turns.get(turn_of(event))
        elif isinstance(event, MESSAGE_EVENTS):
            name, id_ = "messages", event.message_id
            part = folding.messages.get(event.message_id)
        elif isinstance(event, INTERACTION_EVENTS):
            key = (event.turn_id, event.request_id)
            name, id_ = "interactions", interaction_entity_id(*key)
            part = folding.interactions.get(key)
        parts = {name: {id_: _part_document(part)}} if part else {}
        return {**self._own(), "turns": {}, "interactions": {}, "messages": {}, **parts}

    def made(self) -> dict[str, Any]:
        folding = self._folding
        if not folding.state.version:
            return {}
        return {
            **self._own(),
            "turns": {id_: self._part("turn", id_, turn) for id_, turn in folding.turns.items()},
            "interactions": {
                interaction_entity_id(*key): self._part("interaction", interaction_entity_id(*key), asked)
                for key, asked in folding.interactions.items()
            },
            "messages": {id_: self._part("message", id_, said) for id_, said in folding.messages.items()},
        }

    def _part(self, kind: str, id_: str, part: Turn | Interaction | Message) -> dict[str, Any]:
        known = self._kept.get((kind, id_))
        if known is None or known[0] is not part:
            known = self._kept[kind, id_] = (part, _part_document(part))
        return known[1]


def _part_document(part: Turn | Interaction | Message) -> dict[str, Any]:
    if isinstance(part, Turn):
        return turn_view(part).to_dict()
    if isinstance(part, Interaction):
        return interaction_view(part).to_dict()
    said = {"turnId": part.turn_id, "role": part.role, "kind": part.kind, "status": part.status}
    known = {name: value for name, value in said.items() if value}
    return {**known, "textLength": part.text_length, "version": part.version}


def _changed(before: Any, after: Any, path: Path = ()) -> Iterable[Path]:
    """The fields that differ; of an object that came or went, it alone."""
    if before is after:
        return
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        if before != after:
            yield path
        return
    for name in {**before, **after}:
        if name not in before or name not in after:
            yield (*path, name)
        else:
            yield from _changed(before[name], after[name], (*path, name))
