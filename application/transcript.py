"""What an importer says a transcript tells: neutral facts, in file order, with their place in the file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Json = Any
"""Any value JSON can carry."""

MessageStatus = Literal["running", "completed", "failed", "canceled"]
TurnOutcome = Literal["completed", "failed", "canceled", "interrupted"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the file something stands: bytes from its start."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class TurnStart:
    """A turn begins: a real prompt, or whatever the agent began by itself."""

    turn_id: str
    at_ms: int
    place: Place
    origin: Literal["user_prompt", "provider_initiated"] = "user_prompt"


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """A turn ends: on evidence in the file, or because the file ends (then provisional)."""

    turn_id: str
    outcome: TurnOutcome
    at_ms: int
    place: Place
    provisional: bool = False
    error_message: str = ""
    error_code: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the whole file tells it: its rows joined, its tool result attached."""

    message_id: str
    turn_id: str | None
    role: Literal["user", "assistant", "tool", "system"]
    kind: str
    status: MessageStatus
    payload: Mapping[str, Json]
    at_ms: int
    place: Place
    usage: Mapping[str, int] | None = None
    completed_at_ms: int = 0
    rewound: bool = False


@dataclass(frozen=True, slots=True)
class Interaction:
    """A question the file shows together with its answer, or still open (output is None)."""

    turn_id: str
    request_id: str
    kind: Literal["approval", "question", "plan"]
    tool_name: str
    input: Mapping[str, Json]
    output: Mapping[str, Json] | None
    at_ms: int
    place: Place


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """Bytes that are no known record, or that contradict an earlier one: kept as they are."""

    place: Place
    reason: Literal["unknown", "damaged", "conflict"]
    type: str
    raw: bytes


Entry = TurnStart | TurnEnd | Message | Interaction | KeptRecord


@dataclass(frozen=True, slots=True)
class Session:
    """One session of a transcript; a sub-agent is a session of its own that names its parent."""

    session_id: str
    provider: str
    entries: tuple[Entry, ...]
    provider_session_id: str = ""
    parent_session_id: str = ""
    parent_turn_id: str = ""
    parent_tool_call_id: str = ""
    root_session_id: str = ""
    root_turn_id: str = ""
    forked_from_session_id: str = ""
    cwd: str = ""
    title: str = ""
    model: str = ""
    started_at_ms: int = 0
    last_at_ms: int = 0

    @property
    def is_child(self) -> bool:
        return bool(self.parent_session_id)


@dataclass(frozen=True, slots=True)
class Remark:
    """Something a person may want to look at, with a stable code such as `unknown_parent`."""

    code: str
    text: str
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """All that one file tells."""

    sessions: tuple[Session, ...]
    """Parents before children."""
    records: int
    """Whole records read, the recovered ones included."""
    read_to: int
    """Offset behind the last whole line: a torn tail is read again when the file has grown."""
    torn: bool = False
    damaged: int = 0
    duplicates: int = 0
    unknown: Mapping[str, int] = field(default_factory=dict)
    """Records of a type that has no meaning here, by type."""
    warnings: tuple[Remark, ...] = ()
