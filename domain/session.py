"""A session, the aggregate: its own events, its state, and how every event of its stream folds into it.

The state is what rules need at any moment and stays small: facts of the session, its live turn, what is
queued and pending, counters. Turns, messages and interactions are looked up by id where a rule needs one.
The rules themselves: session_rules, turn_rules, message_rules, interaction_rules, tree_rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, assert_never

from domain.event import Event, Reported, earliest, seen_at
from domain.ids import MessageVersion, RequestId, RoomId, SessionId, TurnId
from domain.interaction import (
    InteractionAnswered,
    InteractionEvent,
    InteractionReopened,
    InteractionRequested,
    InteractionSuperseded,
)
from domain.message import MessageAdded, MessageChanged, MessageEvent, MessageExtended, counts_as_text
from domain.pull import EpochStarted, Pull, Pulled, PullEvent, Reappeared, RowParked, Vanished, evolve_pull
from domain.turn import (
    ProviderTurnReported,
    TurnAdvanced,
    TurnAnnotated,
    TurnCancelRequested,
    TurnEvent,
    TurnRevived,
    TurnSettled,
    TurnStarted,
)
from domain.vocabulary import DisplayStatus, display_of, lifecycle_end

# Events of the session itself.


RELATIONS = ("kind", "root_session", "root_turn", "parent_session", "parent_turn", "parent_tool_call")
"""What a session is to others: each field is written once, blank means unknown (SPEC S8)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relating(Reported):
    """What every event says that tells a session's kind and relations."""

    kind: str = ""
    root_session: SessionId = SessionId("")
    root_turn: TurnId = TurnId("")
    parent_session: SessionId = SessionId("")
    parent_turn: TurnId = TurnId("")
    parent_tool_call: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened(Relating):
    """The session was reported for the first time."""

    TOPIC: ClassVar[str] = "session.opened"
    origin: str = ""
    user_id: str = ""
    agent_target_id: str = ""
    device_id: str = ""
    provider: str = ""
    provider_session_id: str = ""
    created_at: int
    forked_from_session: str = ""
    forked_from_turn: str = ""
    home: str = ""
    """Where a session lives that was pulled; blank: here (SPEC P6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Related(Relating):
    """The session's kind or relations became known; all of them as they are now."""

    TOPIC: ClassVar[str] = "session.related"


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailsReported(Reported):
    """Details changed; what is blank or None stays. Content: `cwd`, `settings`."""

    TOPIC: ClassVar[str] = "session.details_reported"
    origin: str = ""
    user_id: str = ""
    agent_target_id: str = ""
    device_id: str = ""
    provider: str = ""
    provider_session_id: str = ""
    model: str = ""
    capabilities: tuple[str, ...] | None = None
    forked_from_session: str = ""
    forked_from_turn: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextChanged(Reported):
    """The runtime context changed. Content: `set` and `unset` of top-level keys, or `replaced`, the whole."""

    TOPIC: ClassVar[str] = "session.context_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Titled(Reported):
    """The title changed; explicit: by a person, so reports no longer do. Content: `title`."""

    TOPIC: ClassVar[str] = "session.titled"
    explicit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusReported(Reported):
    """Status or phase changed; what is blank stays. Content: `lastError`."""

    TOPIC: ClassVar[str] = "session.status_reported"
    lifecycle_status: str = ""
    current_phase: str = ""
    pulled: bool = False
    """The host where the session lives shows it so; nobody reported it here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """A newer turn began after the session had ended: status and phase are open again."""

    TOPIC: ClassVar[str] = "session.resumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed(Reported):
    """The session's start or end became known, or an earlier start, or a later end; 0 stays."""

    TOPIC: ClassVar[str] = "session.timed"
    started_at: int = 0
    ended_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned(Event):
    """Somebody pinned the session."""

    TOPIC: ClassVar[str] = "session.pinned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpinned(Event):
    """Somebody took the pin away."""

    TOPIC: ClassVar[str] = "session.unpinned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted(Event):
    """The session was deleted, with all that was deleted together with it under one deletion id."""

    TOPIC: ClassVar[str] = "session.deleted"
    deletion_id: str
    anchor: SessionId
    """The session that the command named."""
    root_session: SessionId = SessionId("")
    root_turn: TurnId = TurnId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored(Event):
    """A deletion was taken back."""

    TOPIC: ClassVar[str] = "session.restored"
    deletion_id: str
    root_session: SessionId = SessionId("")
    root_turn: TurnId = TurnId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged(Event):
    """The session's content was destroyed for good; these facts remain."""

    TOPIC: ClassVar[str] = "session.purged"
    deletion_id: str
    turns: int = 0
    messages: int = 0
    root_session: SessionId = SessionId("")
    root_turn: TurnId = TurnId("")


# Events of a root about its children, so that what a root decides rests on its own stream (SPEC C7).


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLinked(Event):
    """A child names this session as its root, or names the root's turn at last."""

    TOPIC: ClassVar[str] = "session.child_linked"
    child: SessionId
    parent: SessionId = SessionId("")
    root_turn: TurnId = TurnId("")
    tool_call: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildActive(Event):
    """A child has a live or queued turn again."""

    TOPIC: ClassVar[str] = "session.child_active"
    child: SessionId
    root_turn: TurnId = TurnId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildQuiet(Event):
    """A child has no live or queued turn any more."""

    TOPIC: ClassVar[str] = "session.child_quiet"
    child: SessionId


# Events of an import.


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKept(Event):
    """Bytes of a transcript that are no known record, kept as they are. Content: `raw`."""

    TOPIC: ClassVar[str] = "session.record_kept"
    import_id: str
    offset: int
    length: int
    reason: str
    """unknown, damaged or conflict."""
    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported(Event):
    """A transcript brought news up to `read_to`, bytes from the start of the file."""

    TOPIC: ClassVar[str] = "session.imported"
    import_id: str
    digest: str
    read_from: int = 0
    read_to: int
    records: int = 0
    damaged: int = 0
    unknown: int = 0
    duplicates: int = 0


OwnEvent = (
    Opened
    | Related
    | DetailsReported
    | ContextChanged
    | Titled
    | StatusReported
    | Resumed
    | Timed
    | Pinned
    | Unpinned
    | Deleted
    | Restored
    | Purged
    | RecordKept
    | Imported
)
ChildEvent = ChildLinked | ChildActive | ChildQuiet
SessionEvent = OwnEvent | ChildEvent | PullEvent | TurnEvent | MessageEvent | InteractionEvent


# State.


@dataclass(frozen=True, kw_only=True)
class TurnEnd:
    """How the turn that ended last did end."""

    turn_id: TurnId
    outcome: str
    settled_at: int
    provisional: bool = False


@dataclass(frozen=True, kw_only=True)
class Session:
    """A session as the facts of its stream left it. Times are ms since 1970, 0 for unknown."""

    room: RoomId
    session: SessionId
    version: int = 0
    """Stream version of the last event."""
    own_version: int = 0
    """Stream version of the last event that changed the session's own row (SPEC D4)."""
    opened: bool = False
    """False while only children have named it."""
    kind: str = ""
    root_session: SessionId = SessionId("")
    root_turn: TurnId = TurnId("")
    parent_session: SessionId = SessionId("")
    parent_turn: TurnId = TurnId("")
    parent_tool_call: str = ""
    origin: str = ""
    user_id: str = ""
    agent_target_id: str = ""
    device_id: str = ""
    provider: str = ""
    provider_session_id: str = ""
    model: str = ""
    capabilities: tuple[str, ...] | None = None
    forked_from_session: str = ""
    forked_from_turn: str = ""
    home: str = ""
    """Where it lives, if it was pulled from there."""
    title_latched: bool = False
    lifecycle_status: str = ""
    current_phase: str = ""
    phase_version: int = 0
    status_at: int = 0
    status_pulled: bool = False
    """Status and phase are what its home shows, and no report here has told any since."""
    active_turn: TurnId = TurnId("")
    live_phase: str = ""
    queue: tuple[tuple[int, TurnId], ...] = ()
    """Submitted turns that wait for the live one, as (when it began, id), earliest first."""
    awaiting: tuple[TurnId, ...] = ()
    """Turns whose provider part is completed and that wait for children at work."""
    pending: tuple[tuple[TurnId, RequestId], ...] = ()
    last_end: TurnEnd | None = None
    last_end_version: int = 0
    active_children: Mapping[SessionId, TurnId] = field(default_factory=dict)
    """Children at work, with the turn of this root that each names."""
    message_version: MessageVersion = MessageVersion(0)
    sequence: int = 0
    turn_count: int = 0
    text_count: int = 0
    tool_call_count: int = 0
    usage: Mapping[str, int] = field(default_factory=dict)
    last_event_at: int = 0
    started_at: int = 0
    ended_at: int = 0
    created_at: int = 0
    updated_at: int = 0
    pinned_at: int = 0
    deleted_at: int = 0
    deletion_id: str = ""
    purged: bool = False
    imports: Mapping[str, int] = field(default_factory=dict)
    """How far each transcript was read, by import id."""
    kept: Mapping[str, int] = field(default_factory=dict)
    """Up to where each transcript's odd bytes were kept, by import id."""
    pull: Pull | None = None
    """How far it was read at another host; None when it never was."""

    @property
    def is_deleted(self) -> bool:
        return self.deleted_at > 0 or self.purged

    @property
    def is_child(self) -> bool:
        return self.kind == "child"

    @property
    def is_active(self) -> bool:
        """Whether it holds the root turn it names (SPEC T8)."""
        return bool(self.active_turn or self.queue)

    @property
    def has_ended(self) -> bool:
        """Whether status and phase are frozen (SPEC S5)."""
        return lifecycle_end(self.lifecycle_status) is not None

    def with_(self, **changes: Any) -> Self:
        """A copy with some fields changed; `dataclasses.replace` costs five times as much here."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__.update(changes)
        return copy


def display_status(session: Session) -> DisplayStatus:
    """What people see: live turn, then end of life, then phase, then last turn, then lifecycle (SPEC S6)."""
    if session.active_turn:
        return "waiting" if session.live_phase == "waiting" else "working"
    if end := lifecycle_end(session.lifecycle_status):
        return end
    phase = display_of(session.current_phase)
    if phase and session.phase_version > session.last_end_version:
        return phase
    if session.last_end:
        return "failed" if session.last_end.outcome == "failed" else "idle"
    return display_of(session.lifecycle_status) or "idle"


# Folding.


def evolve(session: Session, event: SessionEvent, at: int) -> Session:
    """Fold the next event of the stream, recorded at `at` ms. Only assigns: events carry results."""
    version = session.version + 1
    changes: dict[str, Any] = {"version": version, "updated_at": max(at, session.updated_at + 1)}
    occurred_at = getattr(event, "occurred_at", 0)
    if occurred_at:
        changes["last_event_at"] = max(session.last_event_at, seen_at(occurred_at, at))
    match event:
        case MessageAdded() | MessageExtended() | MessageChanged():
            changes |= _message_changes(session, event)
        case (
            TurnStarted()
            | TurnAdvanced()
            | TurnSettled()
            | TurnRevived()
            | TurnAnnotated()
            | TurnCancelRequested()
            | ProviderTurnReported()
        ):
            changes |= _turn_changes(session, event, version, at)
        case InteractionRequested() | InteractionReopened():
            changes["pending"] = (*session.pending, (event.turn_id, event.request_id))
        case InteractionAnswered() | InteractionSuperseded():
            gone = (event.turn_id, event.request_id)
            changes["pending"] = tuple(pair for pair in session.pending if pair != gone)
        case ChildLinked() | ChildActive() | ChildQuiet():
            changes["active_children"] = _children(session, event)
        case Pulled() | EpochStarted() | RowParked() | Vanished() | Reappeared():
            changes["pull"] = evolve_pull(session.pull or Pull(), event)
        case _:
            changes |= _own_changes(session, event, version, at)
    return session.with_(**changes)


def _message_changes(session: Session, event: MessageEvent) -> dict[str, Any]:
    changes: dict[str, Any] = {"message_version": event.version}
    match event:
        case MessageAdded():
            changes["sequence"] = max(event.sequence, session.sequence)
            changes["text_count"] = session.text_count + counts_as_text(event.role, event.kind)
            changes["tool_call_count"] = session.tool_call_count + (event.kind == "tool_call")
            if event.usage:
                changes["usage"] = added_usage(session.usage, event.usage)
        case MessageChanged():
            changes["text_count"] = session.text_count + event.texts_added
            changes["tool_call_count"] = session.tool_call_count + event.tool_calls_added
            if event.usage_added:
                changes["usage"] = added_usage(session.usage, event.usage_added)
        case MessageExtended():
            pass
        case _:
            assert_never(event)
    return changes


def added_usage(total: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Token counts added up, key by key."""
    return {key: total.get(key, 0) + more.get(key, 0) for key in {**total, **more}}


def _turn_changes(session: Session, event: TurnEvent, version: int, at: int) -> dict[str, Any]:
    match event:
        case TurnStarted(active=True):
            return _live(session, event, version) | {"turn_count": session.turn_count + 1}
        case TurnStarted(phase="submitted"):
            began = seen_at(event.started_at, at)
            queue = tuple(sorted((*session.queue, (began, event.turn_id))))
            return {"turn_count": session.turn_count + 1, "queue": queue}
        case TurnStarted():
            return {"turn_count": session.turn_count + 1}
        case TurnAdvanced(active=True):
            return _live(session, event, version)
        case TurnSettled():
            return _settled(session, event, version)
        case TurnRevived():
            changes = _live(session, event, version)
            if event.awaiting:
                changes["awaiting"] = (*session.awaiting, event.turn_id)
            return changes
        case ProviderTurnReported():
            others = tuple(turn for turn in session.awaiting if turn != event.root_turn_id)
            stays = event.awaiting or (not event.phase and event.root_turn_id in session.awaiting)
            return {"awaiting": (*others, event.root_turn_id) if stays else others}
        case TurnAdvanced() | TurnAnnotated() | TurnCancelRequested():
            return {}
        case _:
            assert_never(event)


def _live(session: Session, event: TurnStarted | TurnAdvanced | TurnRevived, version: int) -> dict[str, Any]:
    queue = [entry for entry in session.queue if entry[1] != event.turn_id]
    if event.queued_turn_id:
        queue.append((event.queued_began, event.queued_turn_id))
    return {
        "active_turn": event.turn_id,
        "live_phase": event.phase,
        "queue": tuple(sorted(queue)),
        "own_version": version,
    }


def _settled(session: Session, event: TurnSettled, version: int) -> dict[str, Any]:
    gone = (event.turn_id, event.next_turn_id)
    changes: dict[str, Any] = {
        "queue": tuple(entry for entry in session.queue if entry[1] not in gone),
        "awaiting": tuple(turn for turn in session.awaiting if turn != event.turn_id),
    }
    if event.is_past:
        return changes
    changes["last_end"] = TurnEnd(
        turn_id=event.turn_id,
        outcome=event.outcome,
        settled_at=event.settled_at,
        provisional=event.provisional,
    )
    changes |= {"last_end_version": version, "own_version": version}
    if event.turn_id == session.active_turn:
        changes["active_turn"] = event.next_turn_id
        changes["live_phase"] = "submitted" if event.next_turn_id else ""
    return changes


def _children(session: Session, event: ChildEvent) -> dict[SessionId, TurnId]:
    children = dict(session.active_children)
    match event:
        case ChildLinked():
            if event.child in children and event.root_turn:
                children[event.child] = event.root_turn
        case ChildActive():
            children[event.child] = event.root_turn
        case ChildQuiet():
            children.pop(event.child, None)
        case _:
            assert_never(event)
    return children


def _own_changes(session: Session, event: OwnEvent, version: int, at: int) -> dict[str, Any]:
    match event:
        case RecordKept():
            return {"kept": {**session.kept, event.import_id: event.offset + event.length}}
        case Imported():
            return {"imports": {**session.imports, event.import_id: event.read_to}}
        case Opened():
            changes = _named(event) | {"opened": True}
        case Related() | DetailsReported():
            changes = _named(event)
        case ContextChanged():
            changes = {}
        case Titled():
            changes = {"title_latched": session.title_latched or event.explicit}
        case StatusReported():
            changes = _named(event)
            if event.lifecycle_status:
                changes["status_at"] = max(session.status_at, seen_at(event.occurred_at or at, at))
            if event.current_phase:
                changes["phase_version"] = version
            changes["status_pulled"] = changes.pop("pulled", False)
        case Resumed():
            changes = {"lifecycle_status": "", "current_phase": ""}
        case Timed():
            changes = {
                "started_at": earliest(session.started_at, event.started_at),
                "ended_at": max(session.ended_at, event.ended_at),
            }
        case Pinned():
            changes = {"pinned_at": at}
        case Unpinned():
            changes = {"pinned_at": 0}
        case Deleted():
            changes = {"deleted_at": at, "deletion_id": event.deletion_id}
        case Restored():
            changes = {"deleted_at": 0, "deletion_id": ""}
        case Purged():
            changes = {"purged": True, "deleted_at": session.deleted_at or at}
        case _:
            assert_never(event)
    return changes | {"own_version": version}


_NOT_FIELDS = frozenset(("content", "occurred_at"))


def _named(event: Event) -> dict[str, Any]:
    """The event's fields that say something, under the names the session has for them."""
    names = event.__dataclass_fields__
    values = {name: getattr(event, name) for name in names if name not in _NOT_FIELDS}
    return {name: value for name, value in values.items() if value not in ("", None, 0)}
