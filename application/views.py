"""What readers and reporters are answered, as data."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from application.ports import MessageRow, RoomRow, SessionRow
from domain.delta import CommittedDelta
from domain.ids import session_number
from domain.interaction import Interaction
from domain.session import display_status
from domain.turn import Turn


class View(BaseModel):
    """Published data: camelCase, closed, frozen. `to_dict` gives it without what is unknown."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
    )

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, exclude_none=True)


class OutcomeView(View):
    """What became of one part of a command."""

    part: str
    id: str
    outcome: str
    reason: str | None = None
    word: str | None = None
    expected_offset: int | None = None


class Reply(View):
    """The answer to any command."""

    transaction_id: str = ""
    """Blank when the command made no news."""
    outcomes: tuple[OutcomeView, ...] = ()
    delta: CommittedDelta | None = Field(default=None, exclude=True)
    replayed: bool = Field(default=False, exclude=True)
    """Whether it was given before, to the command with the same id."""

    @property
    def applied(self) -> bool:
        """Whether anything was stored."""
        return bool(self.transaction_id)


class StateReply(Reply):
    """The answer to a state report (SPEC S10)."""

    accepted: bool
    state_applied: bool
    last_event_at_unix_ms: int
    message_version: int


class MessageReply(Reply):
    """The answer to a message report (SPEC M11)."""

    accepted_count: int
    latest_version: int


class TurnView(View):
    """A turn as readers see it."""

    turn_id: str
    phase: str
    outcome: str | None = None
    cause: str | None = None
    provisional: bool | None = None
    origin: str | None = None
    error: str | None = None
    error_code: str | None = None
    file_changes: Any = None
    completed_command: Mapping[str, Any] | None = None
    capability_refs: tuple[Mapping[str, str], ...] = ()
    provider_turn: Mapping[str, Any] | None = None
    started_at_unix_ms: int = 0
    settled_at_unix_ms: int | None = None
    cancel_requested_at_unix_ms: int | None = None
    final_assistant_message_id: str | None = None
    data: Mapping[str, Any] | None = None
    version: int


class InteractionView(View):
    """An approval, question or plan as readers see it."""

    turn_id: str
    request_id: str
    kind: str
    status: str
    tool_name: str | None = None
    input: Any = None
    output: Any = None
    metadata: Any = None
    requested_at_unix_ms: int
    ended_at_unix_ms: int | None = None
    version: int


class SessionSummary(View):
    """One line of a list of sessions."""

    room: str
    session: str
    kind: str
    parent: str
    status: str
    title: str
    provider: str
    turns: int
    messages: int
    tool_calls: int
    usage: Mapping[str, int]
    message_version: int
    version: int
    updated_at_unix_ms: int


class RoomSummary(View):
    """One line of a list of rooms."""

    room: str
    sessions: int
    updated_at_unix_ms: int


class SessionView(SessionSummary):
    """A session as it is now, with its turns and interactions."""

    stream_version: int
    """Of its last event; commands can be meant for it."""

    root: str | None = None
    root_turn: str | None = None
    parent_turn: str | None = None
    parent_tool_call: str | None = None
    forked_from: Mapping[str, str] | None = None
    origin: str | None = None
    user_id: str | None = None
    agent_target_id: str | None = None
    device_id: str | None = None
    provider_session_id: str | None = None
    model: str | None = None
    capabilities: tuple[str, ...] | None = None
    settings: Any = None
    runtime_context: Any = None
    cwd: str | None = None
    lifecycle_status: str | None = None
    current_phase: str | None = None
    last_error: str | None = None
    active_turn_id: str | None = None
    last_event_at_unix_ms: int = 0
    started_at_unix_ms: int = 0
    ended_at_unix_ms: int = 0
    created_at_unix_ms: int = 0
    pinned_at_unix_ms: int | None = None
    deleted_at_unix_ms: int | None = None
    turn_list: tuple[TurnView, ...] = ()
    interaction_list: tuple[InteractionView, ...] = ()


class AgentView(View):
    """A session as the ancestor's list names it (WIRE), with our extra keys at the end (SPEC W1)."""

    id: int
    """A number of the session; the ancestor's clients read no text here."""
    agent_session_id: str
    agent_target_id: str | None = None
    device_id: str | None = None
    presence_id: int = 0
    """Presences are not kept."""
    user_id: str
    provider: str
    provider_session_id: str
    session_origin: str | None = None
    cwd: str
    status: str
    effective_status: str
    lifecycle_status: str | None = None
    turn_phase: str | None = None
    title: str | None = None
    started_at_unix_ms: int
    ended_at_unix_ms: int
    last_event_at_unix_ms: int
    created_at_unix_ms: int
    updated_at_unix_ms: int
    pinned_at_unix_ms: int | None = None
    kind: str
    relations: Mapping[str, str]
    message_version: int
    version: int
    epoch: str
    """Changes when a poller has to begin again: when the store was restored (SPEC P8)."""
    home: str
    """The store in which the session was reported (SPEC P6)."""


class Agents(View):
    """The sessions of a room as the ancestor's clients list them."""

    presences: tuple[Mapping[str, Any], ...] = ()
    sessions: tuple[AgentView, ...]


class MessageView(View):
    """A message as the ancestor's list names it (WIRE), with our extra fields."""

    id: int
    agent_session_id: str
    message_id: str
    turn_id: str | None = None
    role: str
    kind: str
    status: str | None = None
    semantics: Mapping[str, Any] | None = None
    payload: Mapping[str, Any]
    usage: Mapping[str, int] | None = None
    rewound: bool | None = None
    occurred_at_unix_ms: int
    started_at_unix_ms: int | None = None
    completed_at_unix_ms: int | None = None
    created_at_unix_ms: int
    updated_at_unix_ms: int
    version: int


class MessagePage(View):
    """A page of messages (SPEC M10)."""

    messages: tuple[MessageView, ...]
    latest_version: int
    has_more: bool


def turn_view(turn: Turn) -> TurnView:
    provider = {
        "providerTurnId": turn.provider_turn_id,
        "phase": turn.provider_phase,
        "outcome": turn.provider_outcome,
        "binding": turn.content.get("binding"),
        "error": turn.content.get("providerError"),
        "errorCode": turn.provider_error_code,
        "completedCommand": turn.provider_completed_command,
    }
    known = {key: value for key, value in provider.items() if value}
    return TurnView(
        turn_id=turn.turn_id,
        phase=turn.phase,
        outcome=turn.outcome,
        cause=turn.cause or None,
        provisional=turn.provisional or None,
        origin=turn.origin or None,
        error=turn.content.get("error"),
        error_code=turn.error_code or None,
        file_changes=turn.content.get("fileChanges"),
        completed_command=turn.completed_command,
        capability_refs=tuple({"capability": ref[0], "source": ref[1]} for ref in turn.capability_refs),
        provider_turn=known or None,
        started_at_unix_ms=turn.started_at,
        settled_at_unix_ms=turn.settled_at or None,
        cancel_requested_at_unix_ms=turn.cancel_requested_at or None,
        final_assistant_message_id=turn.final_message_id,
        data=turn.data,
        version=turn.version,
    )


def interaction_view(interaction: Interaction) -> InteractionView:
    content = interaction.content
    return InteractionView(
        turn_id=interaction.turn_id,
        request_id=interaction.request_id,
        kind=interaction.kind,
        status=interaction.status,
        tool_name=content.get("toolName"),
        input=content.get("input"),
        output=content.get("output"),
        metadata=content.get("metadata"),
        requested_at_unix_ms=interaction.requested_at,
        ended_at_unix_ms=interaction.ended_at or None,
        version=interaction.version,
    )


def room_summary(row: RoomRow) -> RoomSummary:
    return RoomSummary(room=row.room, sessions=row.sessions, updated_at_unix_ms=row.updated_at)


def session_summary(row: SessionRow) -> SessionSummary:
    return SessionSummary(**_summary(row))


def _summary(row: SessionRow) -> dict[str, Any]:
    state = row.state
    return {
        "room": state.room,
        "session": state.session,
        "kind": state.kind,
        "parent": state.parent_session,
        "status": display_status(state),
        "title": row.content.get("title", ""),
        "provider": state.provider,
        "turns": state.turn_count,
        "messages": state.text_count,
        "tool_calls": state.tool_call_count,
        "usage": dict(state.usage),
        "message_version": state.message_version,
        "version": state.own_version,
        "updated_at_unix_ms": state.updated_at,
    }


def session_view(
    row: SessionRow, turns: tuple[TurnView, ...], asked: tuple[InteractionView, ...]
) -> SessionView:
    state, content = row.state, row.content
    forked = {"session": state.forked_from_session, "turn": state.forked_from_turn}
    return SessionView(
        **_summary(row),
        stream_version=state.version,
        root=state.root_session or None,
        root_turn=state.root_turn or None,
        parent_turn=state.parent_turn or None,
        parent_tool_call=state.parent_tool_call or None,
        forked_from={key: value for key, value in forked.items() if value} or None,
        origin=state.origin or None,
        user_id=state.user_id or None,
        agent_target_id=state.agent_target_id or None,
        device_id=state.device_id or None,
        provider_session_id=state.provider_session_id or None,
        model=state.model or None,
        capabilities=state.capabilities,
        settings=content.get("settings"),
        runtime_context=content.get("runtimeContext"),
        cwd=content.get("cwd"),
        lifecycle_status=state.lifecycle_status or None,
        current_phase=state.current_phase or None,
        last_error=content.get("lastError"),
        active_turn_id=state.active_turn or None,
        last_event_at_unix_ms=state.last_event_at,
        started_at_unix_ms=state.started_at,
        ended_at_unix_ms=state.ended_at,
        created_at_unix_ms=state.created_at,
        pinned_at_unix_ms=state.pinned_at or None,
        deleted_at_unix_ms=state.deleted_at or None,
        turn_list=turns,
        interaction_list=asked,
    )


def agent_view(row: SessionRow, home: str) -> AgentView:
    state, content = row.state, row.content
    status = display_status(state)
    relations = {
        "rootAgentSessionId": state.root_session,
        "rootTurnId": state.root_turn,
        "parentAgentSessionId": state.parent_session,
        "parentTurnId": state.parent_turn,
        "parentToolCallId": state.parent_tool_call,
    }
    return AgentView(
        id=session_number(state.room, state.session),
        agent_session_id=state.session,
        agent_target_id=state.agent_target_id or None,
        device_id=state.device_id or None,
        user_id=state.user_id,
        provider=state.provider,
        provider_session_id=state.provider_session_id,
        session_origin=state.origin or None,
        cwd=content.get("cwd", ""),
        status=status,
        effective_status=status,
        lifecycle_status=state.lifecycle_status or None,
        turn_phase=state.live_phase or state.current_phase or None,
        title=content.get("title") or None,
        started_at_unix_ms=state.started_at,
        ended_at_unix_ms=state.ended_at,
        last_event_at_unix_ms=state.last_event_at,
        created_at_unix_ms=state.created_at,
        updated_at_unix_ms=state.updated_at,
        pinned_at_unix_ms=state.pinned_at or None,
        kind=state.kind,
        relations={name: id_ for name, id_ in relations.items() if id_},
        message_version=state.message_version,
        version=state.own_version,
        epoch=home,
        home=state.home or home,
    )


def message_view(session: str, row: MessageRow) -> MessageView:
    message = row.message
    return MessageView(
        id=message.sequence,
        agent_session_id=session,
        message_id=message.message_id,
        turn_id=message.turn_id or None,
        role=message.role,
        kind=message.kind,
        status=message.status or None,
        semantics=message.semantics,
        payload=row.payload,
        usage=message.usage,
        rewound=message.rewound or None,
        occurred_at_unix_ms=message.occurred_at or message.created_at,
        started_at_unix_ms=message.started_at or None,
        completed_at_unix_ms=message.completed_at or None,
        created_at_unix_ms=message.created_at,
        updated_at_unix_ms=message.updated_at,
        version=message.version,
    )
