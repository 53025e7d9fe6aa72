"""A turn: its events, its state, and how the one folds into the other."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, assert_never

from domain.event import Content, Event, Reported, earliest, seen_at
from domain.ids import MessageId, TurnId
from domain.vocabulary import EndCause, Outcome, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted(Reported):
    """A turn was seen for the first time. Active: it is the live one."""

    TOPIC: ClassVar[str] = "session.turn_started"
    turn_id: TurnId
    phase: Phase
    active: bool = False
    origin: str = ""
    started_at: int = 0
    after_message: int = 0
    """The session's message version when the turn was first seen: its messages lie above."""
    queued_turn_id: TurnId = TurnId("")
    """The merely submitted turn that was live and goes back to the queue."""
    queued_began: int = 0
    backfilled: bool = False
    """Nobody told of the turn itself: a message that was pulled names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAdvanced(Reported):
    """A turn went on to another phase. Active: it is the live one from here on."""

    TOPIC: ClassVar[str] = "session.turn_advanced"
    turn_id: TurnId
    phase: Phase
    active: bool = False
    queued_turn_id: TurnId = TurnId("")
    """The merely submitted turn that was live and goes back to the queue."""
    queued_began: int = 0
    pulled: bool = False
    """Its home shows it so; nobody reported it here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSettled(Reported):
    """A turn ended. Content: `error`, the message.

    Provisional: the turn itself did not report this end, and its own report may replace it.
    """

    TOPIC: ClassVar[str] = "session.turn_settled"
    turn_id: TurnId
    outcome: Outcome
    settled_at: int
    cause: EndCause = "reported"
    provisional: bool = False
    final_message_id: MessageId | None = None
    next_turn_id: TurnId = TurnId("")
    """The queued turn that becomes live."""
    is_past: bool = False
    """A later turn has ended since: the session's last end stays what it is."""
    error_code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRevived(Reported):
    """A turn that had ended provisionally is live again."""

    TOPIC: ClassVar[str] = "session.turn_revived"
    turn_id: TurnId
    phase: Phase
    queued_turn_id: TurnId = TurnId("")
    """The merely submitted turn that was live and goes back to the queue."""
    queued_began: int = 0
    awaiting: bool = False
    """Its provider part is completed: it waits for its children."""
    pulled: bool = False
    """Its home shows it so; nobody reported it here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAnnotated(Reported):
    """Something about a turn became known that is no phase. Content: `error`, `fileChanges`."""

    TOPIC: ClassVar[str] = "session.turn_annotated"
    turn_id: TurnId
    origin: str = ""
    started_at: int = 0
    completed_command: Mapping[str, Any] | None = None
    capability_refs_added: tuple[tuple[str, str], ...] = ()
    error_code: str = ""
    data: Mapping[str, Any] | None = None
    """Fields of the wire that are kept and decide nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCancelRequested(Event):
    """Somebody asked for the turn's end; the runtime's own report settles it."""

    TOPIC: ClassVar[str] = "session.turn_cancel_requested"
    turn_id: TurnId
    requested_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTurnReported(Reported):
    """The root provider's own turn behind a turn moved. Content: `error`, `binding`."""

    TOPIC: ClassVar[str] = "session.provider_turn_reported"
    root_turn_id: TurnId
    provider_turn_id: str
    phase: str = ""
    """running, completed, or blank: only the binding changed."""
    outcome: str = ""
    completed_command: Mapping[str, Any] | None = None
    error_code: str = ""
    awaiting: bool = False
    """The turn has not settled and now waits for its children, if it has any at work."""


TurnEvent = (
    TurnStarted
    | TurnAdvanced
    | TurnSettled
    | TurnRevived
    | TurnAnnotated
    | TurnCancelRequested
    | ProviderTurnReported
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn as its events left it. Content: `error`, `fileChanges`, `binding`, `providerError`."""

    turn_id: TurnId
    phase: Phase
    ended_phase: str = ""
    """The phase it was in when it settled."""
    outcome: Outcome | None = None
    cause: str = ""
    provisional: bool = False
    origin: str = ""
    backfilled: bool = False
    """Only pulls have told of it: a report makes it a turn of this host (SPEC P6)."""
    after_message: int = 0
    """Message version of the session when it was first seen: its messages lie above."""
    started_at: int = 0
    first_seen_at: int = 0
    phase_at: int = 0
    settled_at: int = 0
    cancel_requested_at: int = 0
    final_message_id: MessageId | None = None
    completed_command: Mapping[str, Any] | None = None
    capability_refs: tuple[tuple[str, str], ...] = ()
    error_code: str = ""
    data: Mapping[str, Any] | None = None
    provider_turn_id: str = ""
    provider_phase: str = ""
    provider_outcome: str = ""
    provider_completed_command: Mapping[str, Any] | None = None
    provider_error_code: str = ""
    provider_at: int = 0
    """When the provider's part was reported last, as far as it said."""
    version: int = 0
    """Stream version of its last event."""
    content: Content = field(default_factory=dict)

    @property
    def is_settled(self) -> bool:
        return self.phase == "settled"

    @property
    def is_final(self) -> bool:
        return self.phase == "settled" and not self.provisional

    @property
    def began(self) -> int:
        """When it started, for comparisons: never later than when it was first seen (SPEC R4)."""
        return seen_at(self.started_at, self.first_seen_at)


def evolve_turn(turn: Turn | None, event: TurnEvent, version: int, at: int) -> Turn:
    """Fold one event, recorded at `at` ms as `version` of the stream, into the turn it is about."""
    if isinstance(event, TurnStarted):
        return Turn(
            turn_id=event.turn_id,
            phase=event.phase,
            origin=event.origin,
            backfilled=event.backfilled,
            after_message=event.after_message,
            started_at=event.started_at,
            first_seen_at=at,
            phase_at=seen_at(event.occurred_at, at),
            version=version,
        )
    assert turn is not None, "a turn's first event starts it"
    match event:
        case TurnAdvanced():
            return replace(
                turn,
                phase=event.phase,
                backfilled=turn.backfilled and event.pulled,
                phase_at=max(turn.phase_at, seen_at(event.occurred_at, at)),
                version=version,
            )
        case TurnSettled():
            return replace(
                turn,
                phase="settled",
                ended_phase=turn.ended_phase if turn.is_settled else turn.phase,
                outcome=event.outcome,
                cause=event.cause,
                provisional=event.provisional,
                settled_at=event.settled_at,
                final_message_id=event.final_message_id,
                error_code=event.error_code or turn.error_code,
                content={**turn.content, **(event.content or {})},
                version=version,
            )
        case TurnRevived():
            return replace(
                turn,
                phase=event.phase,
                backfilled=turn.backfilled and event.pulled,
                ended_phase="",
                phase_at=max(turn.phase_at, seen_at(event.occurred_at, at)),
                outcome=None,
                cause="",
                provisional=False,
                settled_at=0,
                final_message_id=None,
                version=version,
            )
        case TurnAnnotated():
            return replace(
                turn,
                origin=turn.origin or event.origin,
                started_at=earliest(turn.started_at, event.started_at),
                completed_command=event.completed_command or turn.completed_command,
                capability_refs=turn.capability_refs + event.capability_refs_added,
                error_code=event.error_code or turn.error_code,
                data={**(turn.data or {}), **event.data} if event.data else turn.data,
                content={**turn.content, **(event.content or {})},
                version=version,
            )
        case TurnCancelRequested():
            return replace(turn, cancel_requested_at=event.requested_at, version=version)
        case ProviderTurnReported():
            return _evolve_provider(turn, event, version, at)
        case _:
            assert_never(event)


def _evolve_provider(turn: Turn, event: ProviderTurnReported, version: int, at: int) -> Turn:
    written = event.content or {}
    content = dict(turn.content)
    if "binding" in written:
        content["binding"] = written["binding"]
    if "error" in written:
        content["providerError"] = written["error"]
    is_other = event.provider_turn_id != turn.provider_turn_id
    return replace(
        turn,
        provider_turn_id=event.provider_turn_id,
        provider_phase=event.phase or ("" if is_other else turn.provider_phase),
        provider_outcome=event.outcome or ("" if is_other else turn.provider_outcome),
        provider_completed_command=event.completed_command
        or (None if is_other else turn.provider_completed_command),
        provider_error_code=event.error_code or ("" if is_other else turn.provider_error_code),
        provider_at=seen_at(event.occurred_at, at),
        content=content,
        version=version,
    )
