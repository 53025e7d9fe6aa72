"""An interaction (approval, question, plan): its events, its state, and how the one folds into the other."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, assert_never

from domain.event import Content, Reported
from domain.ids import RequestId, SessionId, TurnId
from domain.vocabulary import InteractionKind, InteractionStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionMoved(Reported):
    """What every interaction event names; the root only where it is another session."""

    turn_id: TurnId
    request_id: RequestId
    root_session: SessionId = SessionId("")
    root_turn: TurnId = TurnId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionRequested(InteractionMoved):
    """An agent waits for a person. Content: `toolName`, `input`, `metadata`."""

    TOPIC: ClassVar[str] = "session.interaction_requested"
    kind: InteractionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionAnswered(InteractionMoved):
    """Somebody answered. Content: `output`."""

    TOPIC: ClassVar[str] = "session.interaction_answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionSuperseded(InteractionMoved):
    """Nobody waits for the answer any more."""

    TOPIC: ClassVar[str] = "session.interaction_superseded"
    SHAPE: ClassVar[int] = 2
    cause: str
    """reported, turn_ended, or late: it was asked when its turn had ended."""
    provisional: bool = False
    """With the turn's end: it opens again when the turn is live again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionReopened(InteractionMoved):
    """The end of its turn was taken back, so the question is open again."""

    TOPIC: ClassVar[str] = "session.interaction_reopened"


InteractionEvent = InteractionRequested | InteractionAnswered | InteractionSuperseded | InteractionReopened


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """An interaction as its events left it. Content: `toolName`, `input`, `metadata`, `output`."""

    turn_id: TurnId
    request_id: RequestId
    kind: InteractionKind
    status: InteractionStatus = "pending"
    cause: str = ""
    provisional: bool = False
    requested_at: int = 0
    ended_at: int = 0
    version: int = 0
    content: Content = field(default_factory=dict)


def evolve_interaction(
    interaction: Interaction | None, event: InteractionEvent, version: int, at: int
) -> Interaction:
    """Fold one event, recorded at `at` ms as `version` of the stream, into the interaction it is about."""
    if isinstance(event, InteractionRequested):
        return Interaction(
            turn_id=event.turn_id,
            request_id=event.request_id,
            kind=event.kind,
            requested_at=event.occurred_at or at,
            version=version,
            content=event.content or {},
        )
    assert interaction is not None, "an interaction's first event requests it"
    match event:
        case InteractionAnswered():
            return replace(
                interaction,
                status="answered",
                ended_at=event.occurred_at or at,
                content={**interaction.content, **(event.content or {})},
                version=version,
            )
        case InteractionSuperseded():
            return replace(
                interaction,
                status="superseded",
                cause=event.cause,
                provisional=event.provisional,
                ended_at=event.occurred_at or at,
                version=version,
            )
        case InteractionReopened():
            return replace(
                interaction, status="pending", cause="", provisional=False, ended_at=0, version=version
            )
        case _:
            assert_never(event)
