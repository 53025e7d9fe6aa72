"""What a pull asks of the host a room lives on, and every way in which it may be answered.

Nothing raises: a page, or a `Failure` that says whether it is worth another try. Only a call that is itself
cancelled ends with the caller's cancellation. (SPEC section 10, WIRE "Message list", "Agents list")
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar, Final, Protocol

from pydantic import AliasChoices, AliasGenerator, AliasPath, ConfigDict, Field
from pydantic.alias_generators import to_camel

from domain.ids import RemoteCursor, RoomId, SessionId
from domain.reports import Id, Integer, JsonObject, Prose, Time, Trimmed, Word

TOO_MANY_REQUESTS: Final = 429
SERVER_ERRORS: Final = 500
"""The lowest status that says the server is at fault."""


class FailureKind(StrEnum):
    """What kept a call from its page."""

    STATUS = "status"
    """An answer that is no success; redirects are not followed and count."""
    TIMEOUT = "timeout"
    TRANSPORT = "transport"
    """No connection, or one that broke."""
    PROTOCOL = "protocol"
    """An answer that is not the expected object (SPEC P4)."""
    TOO_LARGE = "too_large"
    CANCELED = "canceled"
    """The transport gave the call up, not its caller."""
    MALFORMED = "malformed"
    """The remote's settings cannot work: a bad URL, an untrusted certificate."""
    REFUSED_ADDRESS = "refused_address"
    """The remote's name leads to an address that may not be called (SPEC P9)."""


_WORTH_ANOTHER_TRY: Final = frozenset(
    (FailureKind.TIMEOUT, FailureKind.TRANSPORT, FailureKind.PROTOCOL, FailureKind.TOO_LARGE)
)


def is_retryable(kind: FailureKind, status: int = 0) -> bool:
    """Whether the same call may succeed later without anybody changing settings (SPEC B3)."""
    if kind is FailureKind.STATUS:
        return status == TOO_MANY_REQUESTS or status >= SERVER_ERRORS
    return kind in _WORTH_ANOTHER_TRY


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no page."""

    kind: FailureKind
    retryable: bool
    reason: str
    """For a person; without token and without what the remote wrote."""
    status: int = 0
    """The HTTP status, if there was an answer."""
    retry_after_s: float | None = None
    """How long the remote wants to be left alone, at most an hour; None if it does not say (SPEC B6)."""


def failure(kind: FailureKind, reason: str, status: int = 0, retry_after_s: float | None = None) -> Failure:
    """A failure that is retryable by the rule of B3."""
    return Failure(kind, is_retryable(kind, status), reason, status, retry_after_s)


@dataclass(frozen=True, slots=True)
class Remote:
    """A host to pull from, and who asks."""

    url: str
    """Scheme, host and perhaps port and path, without the prefix of the routes."""
    token: str = field(default="", repr=False)
    user_id: str = ""
    allows_private: bool = False
    """Whether the room may be pulled from private and link-local addresses; loopback always may (SPEC P9)."""


def _both_spellings(name: str) -> AliasChoices:
    return AliasChoices(to_camel(name), name)


LENIENT: Final = ConfigDict(extra="ignore", alias_generator=AliasGenerator(validation_alias=_both_spellings))
"""Names in camelCase or snake_case, the former wins; what is unknown is ignored (WIRE)."""


def _related(name: str) -> AliasChoices:
    """A relation stands among the session's own names or in its `relations`."""
    return AliasChoices(
        to_camel(name), name, AliasPath("relations", to_camel(name)), AliasPath("relations", name)
    )


@dataclass(frozen=True, slots=True)
class RemoteSession:
    """A session as the remote lists it; blank and 0 mean that the remote does not say."""

    __pydantic_config__: ClassVar[ConfigDict] = LENIENT

    id: Annotated[
        Id,
        Field(validation_alias=AliasChoices("agentSessionId", "agent_session_id", "agentId", "agent_id")),
    ] = ""
    origin: Annotated[Word, Field(validation_alias=AliasChoices("sessionOrigin", "session_origin"))] = ""
    user_id: Id = ""
    device_id: Id = ""
    agent_target_id: Id = ""
    provider: Word = ""
    provider_session_id: Id = ""
    cwd: Trimmed = ""
    title: Prose = ""
    status: Annotated[
        Word, Field(validation_alias=AliasChoices("status", "effectiveStatus", "effective_status"))
    ] = ""
    """The display status: `working`, `waiting`, … (SPEC S6)."""
    lifecycle_status: Word = ""
    turn_phase: Word = ""
    started_at_unix_ms: Time = 0
    ended_at_unix_ms: Time = 0
    created_at_unix_ms: Time = 0
    updated_at_unix_ms: Time = 0
    """Only to compare: whether there can be news (SPEC P3)."""

    # What a service of our own adds (SPEC W1).
    kind: Word = ""
    root_agent_session_id: Annotated[Id, Field(validation_alias=_related("root_agent_session_id"))] = ""
    root_turn_id: Annotated[Id, Field(validation_alias=_related("root_turn_id"))] = ""
    parent_agent_session_id: Annotated[Id, Field(validation_alias=_related("parent_agent_session_id"))] = ""
    parent_turn_id: Annotated[Id, Field(validation_alias=_related("parent_turn_id"))] = ""
    parent_tool_call_id: Annotated[Id, Field(validation_alias=_related("parent_tool_call_id"))] = ""
    message_version: Integer = 0
    version: Integer = 0
    epoch: Id = ""
    home: Id = ""
    """The store that the session was reported to first (SPEC P6)."""


@dataclass(frozen=True, slots=True)
class RemoteMessage:
    """A message as the remote has it now."""

    __pydantic_config__: ClassVar[ConfigDict] = LENIENT

    sequence: Annotated[Integer, Field(validation_alias=AliasChoices("id", "sequence"))] = 0
    """Only to tell messages of one time apart when they are shown (SPEC P5)."""
    message_id: Id = ""
    turn_id: Id = ""
    role: Word = ""
    kind: Word = ""
    status: Word = ""
    semantics: JsonObject = None
    payload: JsonObject = None
    occurred_at_unix_ms: Time = 0
    started_at_unix_ms: Time = 0
    completed_at_unix_ms: Time = 0
    created_at_unix_ms: Time = 0
    updated_at_unix_ms: Time = 0
    version: Integer = 0
    """Only a cursor at the remote (SPEC P5); at least 1."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row of a page that cannot be read."""

    index: int
    """Its place in the page, from 0."""
    raw: bytes
    """What the remote sent for it."""
    reason: str
    """Which field, and what was expected."""
    version: int | None = None
    """The row's version, if at least that can be read; None otherwise."""


@dataclass(frozen=True, slots=True)
class AgentsPage:
    """All sessions of a room at the remote, in its order."""

    rows: tuple[RemoteSession | BadRow, ...]
    epoch: str = ""
    """Blank if the remote does not say, as is `home`."""
    home: str = ""


@dataclass(frozen=True, slots=True)
class MessagesPage:
    """Messages of a session above a cursor, as the remote ordered them."""

    rows: tuple[RemoteMessage | BadRow, ...]
    latest_version: int
    """What the remote announces, which need not be true (SPEC P2)."""
    has_more: bool
    epoch: str = ""
    """Blank if the remote does not say, as is `home`."""
    home: str = ""


class RemoteActivity(Protocol):
    """Reads what other hosts recorded. Every outcome is a value."""

    async def list_agents(self, remote: Remote, room: RoomId) -> AgentsPage | Failure:
        """The sessions of a room."""

    async def list_messages(
        self, remote: Remote, room: RoomId, session: SessionId, after_version: RemoteCursor, limit: int
    ) -> MessagesPage | Failure:
        """The messages of a session with the lowest versions above a cursor, at most `limit`."""
