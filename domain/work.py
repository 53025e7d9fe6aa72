"""One command at work: what is stored, and on top of it what the command has decided so far.

A decision reads a Draft and adds events to it; the next decision of the same command sees them. Nothing
here is stored until the whole command has been decided.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from domain.errors import Rejected
from domain.event import Content
from domain.ids import MessageId, MessageVersion, RequestId, RoomId, SessionId, TurnId
from domain.interaction import (
    Interaction,
    InteractionAnswered,
    InteractionEvent,
    InteractionReopened,
    InteractionRequested,
    InteractionSuperseded,
    evolve_interaction,
)
from domain.message import (
    Message,
    MessageAdded,
    MessageChanged,
    MessageEvent,
    MessageExtended,
    Part,
    evolve_message,
    join_parts,
    part_of,
)
from domain.session import (
    ContextChanged,
    DetailsReported,
    Session,
    SessionEvent,
    StatusReported,
    Titled,
    evolve,
)
from domain.turn import (
    ProviderTurnReported,
    Turn,
    TurnAdvanced,
    TurnAnnotated,
    TurnCancelRequested,
    TurnEvent,
    TurnRevived,
    TurnSettled,
    TurnStarted,
    evolve_turn,
)

TURN_EVENTS = (
    TurnStarted,
    TurnAdvanced,
    TurnSettled,
    TurnRevived,
    TurnAnnotated,
    TurnCancelRequested,
    ProviderTurnReported,
)
MESSAGE_EVENTS = (MessageAdded, MessageExtended, MessageChanged)
INTERACTION_EVENTS = (InteractionRequested, InteractionAnswered, InteractionSuperseded, InteractionReopened)


def turn_of(event: TurnEvent) -> TurnId:
    """The turn that a turn event is about."""
    return event.root_turn_id if isinstance(event, ProviderTurnReported) else event.turn_id


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one part of a command: applied, or ignored for a reason (SPEC C1)."""

    part: str
    id: str
    outcome: str = "applied"
    reason: str = ""
    word: str = ""
    """The word nobody knows, with unknown_phase."""
    expected_offset: int | None = None
    """Where the stored text ends, with gap."""


def applied(part: str, id_: str) -> Outcome:
    """The part made news."""
    return Outcome(part, id_)


def ignored(part: str, id_: str, reason: str) -> Outcome:
    """The part made none; the reason is a stable word."""
    return Outcome(part, id_, "ignored", reason)


class Stored(Protocol):
    """The stored rows of one session, exact as of the version its state was loaded at."""

    def content(self) -> Content:
        """The session's `cwd`, `title`, `settings`, `runtimeContext` and `lastError`."""

    def turn(self, turn: TurnId) -> Turn | None: ...

    def message(self, message: MessageId) -> Message | None: ...

    def messages(self, messages: Sequence[MessageId]) -> Sequence[Message]:
        """Those of them that there are, in any order."""

    def payload(self, message: MessageId) -> Mapping[str, Any]:
        """What the message says, its parts joined."""

    def appended(self, message: MessageId, occurred_at: int) -> Sequence[str]:
        """The texts that reports of that very time added to the message's text."""

    def interaction(self, turn: TurnId, request: RequestId) -> Interaction | None: ...

    def interactions(self, turn: TurnId) -> Sequence[Interaction]:
        """Those of one turn, by request id."""

    def open_tools(self, turn: TurnId) -> Sequence[Message]:
        """The turn's tool calls that have not ended, by sequence."""

    def last_assistant_text(self, turn: TurnId, after: int) -> Message | None:
        """The turn's assistant text with the highest version; all of its messages lie above `after`."""


def evolve_content(content: Content, event: SessionEvent) -> Content:
    """Fold an event into what the session's row says in texts and objects."""
    written = event.content
    if written is None:
        return content
    match event:
        case ContextChanged():
            if "replaced" in written:
                return {**content, "runtimeContext": written["replaced"]}
            context = {**content.get("runtimeContext", {}), **written.get("set", {})}
            for key in written.get("unset", ()):
                context.pop(key, None)
            return {**content, "runtimeContext": context}
        case DetailsReported() | Titled() | StatusReported():
            return {**content, **written}
        case _:
            return content


@dataclass(frozen=True, slots=True)
class Source:
    """Where an imported event comes from (SPEC J6)."""

    name: str
    import_id: str = ""
    digest: str = ""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Decided:
    """An event that a command has decided on, and the session it belongs to."""

    session: SessionId
    event: SessionEvent
    source: Source | None = None


@dataclass
class Changes:
    """The rows of one session that a command changed, as they are now."""

    content: Content | None = None
    turns: dict[TurnId, Turn] = field(default_factory=dict)
    messages: dict[MessageId, Message] = field(default_factory=dict)
    interactions: dict[tuple[TurnId, RequestId], Interaction] = field(default_factory=dict)


@dataclass
class Draft:
    """One session within a command: its stored rows, and the rows as the command leaves them."""

    loaded: Session
    stored: Stored
    work: "Work"
    state: Session = field(init=False)
    changed: Changes = field(default_factory=Changes)
    _content: Content | None = None
    _turns: dict[TurnId, Turn] = field(default_factory=dict)
    _messages: dict[MessageId, Message] = field(default_factory=dict)
    _interactions: dict[tuple[TurnId, RequestId], Interaction] = field(default_factory=dict)
    _parts: dict[MessageId, list[tuple[MessageEvent, Content]]] = field(default_factory=dict)
    _payloads: dict[MessageId, Mapping[str, Any]] = field(default_factory=dict)
    _absent: set[MessageId] = field(default_factory=set)
    """Messages that are not stored, as far as somebody has asked."""
    gaps: dict[str, int] = field(default_factory=dict)
    """Messages of which this command missed a part, with the offset where their texts end (SPEC M5)."""

    def __post_init__(self) -> None:
        self.state = self.loaded

    @property
    def now(self) -> int:
        """The recorded time of everything this command decides, ms."""
        return self.work.now

    @property
    def next_message_version(self) -> MessageVersion:
        """The next of the session's message versions, handed out to accepted changes only (SPEC M2)."""
        return MessageVersion(self.state.message_version + 1)

    def add(self, event: SessionEvent) -> None:
        """Decide on an event: from here on the command sees it as happened."""
        if isinstance(event, TURN_EVENTS):
            self._add_turn(event)
        elif isinstance(event, MESSAGE_EVENTS):
            self._add_message(event)
        elif isinstance(event, INTERACTION_EVENTS):
            self._add_interaction(event)
        elif event.content is not None:
            self._content = self.changed.content = evolve_content(self.content(), event)
        self.state = evolve(self.state, event, self.now)
        self.work.decided.append(Decided(self.state.session, event, self.work.source))

    def _add_turn(self, event: TurnEvent) -> None:
        turn_id = turn_of(event)
        before = None if isinstance(event, TurnStarted) else self.turn(turn_id)
        turn = evolve_turn(before, event, self.state.version + 1, self.now)
        self._turns[turn_id] = self.changed.turns[turn_id] = turn

    def _add_message(self, event: MessageEvent) -> None:
        before = None if isinstance(event, MessageAdded) else self.message(event.message_id)
        if event.content is not None:
            self._parts.setdefault(event.message_id, []).append((event, event.content))
        message = evolve_message(before, event, self.now)
        self._messages[event.message_id] = self.changed.messages[event.message_id] = message

    def _add_interaction(self, event: InteractionEvent) -> None:
        key = (event.turn_id, event.request_id)
        before = None if isinstance(event, InteractionRequested) else self.interaction(*key)
        interaction = evolve_interaction(before, event, self.state.version + 1, self.now)
        self._interactions[key] = self.changed.interactions[key] = interaction

    # What stands now: stored rows, and what this command made of them.

    def content(self) -> Content:
        if self._content is None:
            self._content = self.stored.content()
        return self._content

    def turn(self, turn: TurnId) -> Turn | None:
        if turn not in self._turns:
            stored = self.stored.turn(turn)
            if stored is None:
                return None
            self._turns[turn] = stored
        return self._turns[turn]

    def known_turn(self, turn: TurnId, part: str, id_: str) -> Turn:
        """The turn, or the whole command is rejected (SPEC M4, I1)."""
        if found := self.turn(turn):
            return found
        raise self._unknown_turn(turn, part, id_)

    def require_turn(self, turn: TurnId, part: str, id_: str) -> TurnId:
        """The turn's id if it is known, or the whole command is rejected; the live one needs no look-up."""
        if turn != self.state.active_turn and self.turn(turn) is None:
            raise self._unknown_turn(turn, part, id_)
        return turn

    def _unknown_turn(self, turn: TurnId, part: str, id_: str) -> Rejected:
        detail = f"turn {turn!r} of session {self.state.session} is not known; report the turn first"
        return Rejected("unknown_turn", part, id_, detail)

    def message(self, message: MessageId) -> Message | None:
        if message not in self._messages:
            stored = None if message in self._absent else self.stored.message(message)
            if stored is None:
                self._absent.add(message)
                return None
            self._messages[message] = stored
        return self._messages[message]

    def look_up(self, messages: Sequence[str]) -> None:
        """Ask at once for messages that will be asked for one by one."""
        if len(messages) < 2:
            return
        wanted = [one for one in map(MessageId, dict.fromkeys(messages)) if one not in self._messages]
        found = {message.message_id: message for message in self.stored.messages(wanted)}
        self._messages.update(found)
        self._absent.update(one for one in wanted if one not in found)

    def payload(self, message: MessageId) -> dict[str, Any]:
        """What the message says now, as an object of the caller's own."""
        staged = [part_of(event, content) for event, content in self._parts.get(message, [])]
        if staged and staged[0].kind == "whole":
            return join_parts(staged)
        if message not in self._payloads:
            self._payloads[message] = self.stored.payload(message)
        return join_parts([Part("whole", "", {"payload": self._payloads[message]}), *staged])

    def joined(self) -> Iterator[tuple[Message, dict[str, Any]]]:
        """The changed messages whose payload this command had to join, with what they say now."""
        for message_id, message in self.changed.messages.items():
            if message_id in self._payloads:
                yield message, self.payload(message_id)

    def appended(self, message: MessageId, occurred_at: int) -> Sequence[str]:
        """The texts that reports of that very time added to the message's text."""
        staged = self._parts.get(message, [])
        is_new = bool(staged) and isinstance(staged[0][0], MessageAdded)
        stored = () if is_new else self.stored.appended(message, occurred_at)
        return [*stored, *_texts_at(staged, occurred_at)]

    def interaction(self, turn: TurnId, request: RequestId) -> Interaction | None:
        key = (turn, request)
        if key not in self._interactions:
            stored = self.stored.interaction(turn, request)
            if stored is None:
                return None
            self._interactions[key] = stored
        return self._interactions[key]

    def interactions(self, turn: TurnId) -> Sequence[Interaction]:
        """The turn's interactions, by request id."""
        found = {(row.turn_id, row.request_id): row for row in self.stored.interactions(turn)}
        found |= {key: row for key, row in self._interactions.items() if key[0] == turn}
        return [found[key] for key in sorted(found)]

    def open_tools(self, turn: TurnId) -> Sequence[Message]:
        """The turn's tool calls that have not ended, by sequence."""
        found = {row.message_id: row for row in self.stored.open_tools(turn)}
        found |= {key: row for key, row in self._messages.items() if row.turn_id == turn}
        return sorted((row for row in found.values() if row.is_open_tool), key=lambda row: row.sequence)

    def last_assistant_text(self, turn: TurnId) -> Message | None:
        """The turn's assistant text with the highest version (SPEC T4)."""
        known = self.turn(turn)
        stored = self.stored.last_assistant_text(turn, known.after_message) if known else None
        rows = [row for row in self._messages.values() if row.turn_id == turn and row.is_assistant_text]
        if stored and stored.message_id not in self._messages:
            rows.append(stored)
        return max(rows, key=lambda row: row.version, default=None)


def added_text(event: MessageEvent, content: Content) -> str | None:
    """The text that one event added to the message's text; None if it added none."""
    if isinstance(event, MessageExtended):
        return str(content["added"]) if event.field == "/text" else None
    if isinstance(event, MessageAdded):
        text = content["payload"].get("text")
        return text if isinstance(text, str) else None
    return None


def _texts_at(parts: Sequence[tuple[MessageEvent, Content]], occurred_at: int) -> list[str]:
    texts = (added_text(event, content) for event, content in parts if event.occurred_at == occurred_at)
    return [text for text in texts if text is not None]


Load = Callable[[RoomId, SessionId], tuple[Session, Stored]]
"""Gives a session's state and rows; an unknown session is one at version 0."""


@dataclass
class Work:
    """A whole command: the sessions of one room that it touches, and its events in the order of writing."""

    room: RoomId
    now: int
    load: Load
    actor: str = ""
    """Who gave the command, as far as known."""
    source: Source | None = None
    decided: list[Decided] = field(default_factory=list)
    drafts: dict[SessionId, Draft] = field(default_factory=dict)
    links: dict[SessionId, tuple[str, ...]] = field(default_factory=dict)
    """What this command has told the roots of children that it related."""

    def session(self, session: SessionId) -> Draft:
        """The draft of a session, loaded when first asked for."""
        if session not in self.drafts:
            state, stored = self.load(self.room, session)
            self.drafts[session] = Draft(state, stored, self)
        return self.drafts[session]

    @property
    def loaded_versions(self) -> Mapping[SessionId, int]:
        """What the decision rests on: the version of each session that was looked at."""
        return {session: draft.loaded.version for session, draft in self.drafts.items()}
