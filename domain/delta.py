"""The commit delta: which entities a commit changed, as a pure function of its events (SPEC D1-D6)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from domain import jsontext
from domain.ids import Position, RoomId, SessionId, TransactionId
from domain.interaction import (
    InteractionAnswered,
    InteractionReopened,
    InteractionRequested,
    InteractionSuperseded,
)
from domain.message import MessageAdded, MessageChanged, MessageExtended
from domain.pull import EpochStarted, Pulled, Reappeared, RowParked, Vanished
from domain.session import (
    ChildActive,
    ChildLinked,
    ChildQuiet,
    Deleted,
    Imported,
    Purged,
    RecordKept,
    Restored,
    SessionEvent,
)
from domain.turn import (
    ProviderTurnReported,
    TurnAdvanced,
    TurnAnnotated,
    TurnCancelRequested,
    TurnRevived,
    TurnSettled,
    TurnStarted,
)

EntityKind = Literal["session", "turn", "message", "interaction", "interaction_tree"]
Operation = Literal["upsert", "settle", "delete", "restore", "purge", "dirty"]


class _Published(BaseModel):
    """What we publish: camelCase, closed, frozen."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class Mutation(_Published):
    """One entity that a commit changed."""

    mutation_id: str
    workspace_id: str
    agent_session_id: str
    root_agent_session_id: str | None = None
    root_turn_id: str | None = None
    entity_kind: EntityKind
    entity_id: str
    operation: Operation
    version: int


class CommitDelta(_Published):
    """What one commit changed; the same bytes live, from the outbox and from the log."""

    transaction_id: str
    workspace_id: str
    mutations: tuple[Mutation, ...]

    def to_json(self) -> str:
        """The stored and delivered spelling; ids have no text that UTF-8 cannot carry."""
        return self.model_dump_json(by_alias=True, exclude_none=True)

    @classmethod
    def from_json(cls, text: str) -> "CommitDelta":
        """Read what `to_json` wrote."""
        return cls.model_validate(jsontext.from_bytes(text))


@dataclass(frozen=True, slots=True)
class CommittedDelta:
    """A delta in its envelope: where its commit stands in the store's order, and when it was recorded."""

    delta: CommitDelta
    first_position: Position
    last_position: Position
    recorded_at: int
    """Unix milliseconds."""

    @property
    def transaction_id(self) -> TransactionId:
        return TransactionId(self.delta.transaction_id)

    @property
    def room(self) -> RoomId:
        return RoomId(self.delta.workspace_id)


@dataclass(frozen=True, slots=True)
class Committed:
    """An event as a commit stored it: what the delta is made from."""

    session: SessionId
    version: int
    position: Position
    event: SessionEvent


@dataclass(slots=True)
class _Entity:
    operation: Operation
    version: int
    roots: dict[str, str]


Named = tuple[EntityKind, str, Operation, int, dict[str, str]]

_RANK: dict[Operation, int] = {"upsert": 0, "dirty": 0, "settle": 1, "delete": 2, "restore": 2, "purge": 3}


def delta_of(transaction: TransactionId, room: RoomId, events: Sequence[Committed]) -> CommitDelta | None:
    """The delta of a commit's events, in their order; None when they change no entity (SPEC C9)."""
    found: dict[tuple[SessionId, EntityKind, str], _Entity] = {}
    for committed in events:
        for kind, id_, operation, version, roots in _named(committed, events[-1].position):
            session = SessionId(id_) if kind == "interaction_tree" else committed.session
            entity = found.setdefault((session, kind, id_), _Entity(operation, version, roots))
            entity.version = max(entity.version, version)
            entity.roots = roots or entity.roots
            if _RANK[operation] >= _RANK[entity.operation]:
                entity.operation = operation
    purged = {key[0] for key, entity in found.items() if entity.operation == "purge"}
    kept = [item for item in found.items() if item[0][0] not in purged or item[0][1] == "session"]
    if not kept:
        return None
    mutations = tuple(
        Mutation(
            mutation_id=f"{transaction}:{number}",
            workspace_id=room,
            agent_session_id=session,
            entity_kind=kind,
            entity_id=id_,
            operation=entity.operation,
            version=entity.version,
            root_agent_session_id=entity.roots.get("root_agent_session_id"),
            root_turn_id=entity.roots.get("root_turn_id"),
        )
        for number, ((session, kind, id_), entity) in enumerate(kept, start=1)
    )
    return CommitDelta(transaction_id=transaction, workspace_id=room, mutations=mutations)


def _named(committed: Committed, last: Position) -> Iterable[Named]:
    """The entities that one event changes."""
    event, version, session = committed.event, committed.version, committed.session
    match event:
        case MessageAdded() | MessageExtended() | MessageChanged():
            yield "message", event.message_id, "upsert", event.version, {}
        case TurnStarted() | TurnAdvanced() | TurnRevived():
            yield "turn", event.turn_id, "upsert", version, {}
            if isinstance(event, TurnRevived) or event.active:
                yield "session", session, "upsert", version, {}
        case TurnSettled():
            yield "turn", event.turn_id, "upsert" if event.cause == "reported" else "settle", version, {}
            if not event.is_past:
                yield "session", session, "upsert", version, {}
        case TurnAnnotated() | TurnCancelRequested():
            yield "turn", event.turn_id, "upsert", version, {}
        case ProviderTurnReported():
            yield "turn", event.root_turn_id, "upsert", version, {}
        case InteractionRequested() | InteractionAnswered() | InteractionSuperseded() | InteractionReopened():
            id_ = interaction_entity_id(event.turn_id, event.request_id)
            yield "interaction", id_, "upsert", version, {}
            root = event.root_session or session
            turn = event.root_turn if event.root_session else event.turn_id
            yield "interaction_tree", root, "dirty", last, _roots(root, turn)
        case Deleted():
            yield "session", session, "delete", version, _roots(event.root_session, event.root_turn)
        case Restored():
            yield "session", session, "restore", version, _roots(event.root_session, event.root_turn)
        case Purged():
            yield "session", session, "purge", version, _roots(event.root_session, event.root_turn)
        case ChildLinked() | ChildActive() | ChildQuiet() | RecordKept() | Imported():
            return
        case Pulled() | EpochStarted() | RowParked() | Vanished() | Reappeared():
            return
        case _:
            yield "session", session, "upsert", version, {}


def interaction_entity_id(turn: str, request: str) -> str:
    """The id of an interaction as JSON text, since request ids repeat across turns (SPEC D2)."""
    return jsontext.to_text([turn, request])


def _roots(root: str, turn: str) -> dict[str, str]:
    ids = {"root_agent_session_id": root, "root_turn_id": turn}
    return {name: id_ for name, id_ in ids.items() if id_}
