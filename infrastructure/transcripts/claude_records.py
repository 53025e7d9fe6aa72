"""What one record of a Claude Code transcript is: its kind, and the fields that most kinds share.

The format has no published schema and grows with every release.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from application.transcript import Json, Place
from infrastructure.transcripts.drafts import Usage
from infrastructure.transcripts.fields import as_count, as_object, as_text, content_blocks, joined_text
from infrastructure.transcripts.lines import Record
from infrastructure.transcripts.times import time_ms

SYNTHETIC_MODEL = "<synthetic>"
"""The model of a text that the client wrote by itself."""

TASK_NOTIFICATION = "task-notification"

INTERRUPT_MARKERS = frozenset(
    {"[Request interrupted by user]", "[Request interrupted by user for tool use]"},
)
"""Compared with the whole text: prompts and hook messages quote them."""

REFUSALS = (
    "The user doesn't want to proceed with this tool use.",
    "The user doesn't want to take this action right now.",
    "Permission prompt was aborted.",
    "Permission to use ",
    "Claude requested permissions to ",
)
"""How the result of a tool begins that was not allowed to run."""
REFUSED_RESULT = "User rejected tool use"

QUIET_TYPES = frozenset(
    {
        "agent-color",
        "agent-name",
        "agent-setting",
        "ai-title",
        "atis-latch",
        "attachment",
        "bridge-session",
        "custom-title",
        "file-history-snapshot",
        "frame-link",
        "last-prompt",
        "mode",
        "permission-mode",
        "pr-link",
        "progress",
        "queue-operation",
        "relocated",
        "result",
        "started",
        "summary",
        "tag",
        "worktree-state",
    },
)
"""Known types that are no part of the conversation: titles, telemetry, state of the client."""

QUIET_SUBTYPES = frozenset(
    {
        "api_error",
        "api_refusal",
        "error",
        "informational",
        "init",
        "microcompact_boundary",
        "model_refusal_fallback",
        "session_start",
        "stop_hook_summary",
    },
)
"""The same for records of type `system`."""

_COMMAND_STARTS = ("<command-name>", "<command-message>")
_COMMAND_OUTPUT_STARTS = ("<local-command-stdout>", "<local-command-stderr>")
_LOCAL_STARTS = (
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<local-command-caveat>",
    "<user-memory-input>",
)
_HOOK_START = "Operation stopped by hook:"


class Kind(Enum):
    """What a record is to the conversation."""

    PROMPT = auto()
    """The user asks for something: a turn starts."""
    STEERING = auto()
    """A prompt typed while the agent worked, handed over inside its turn."""
    COMMAND = auto()
    """A slash command: the client runs it, or the agent answers it."""
    COMMAND_OUTPUT = auto()
    """What the client itself answered to a command."""
    TASK_NOTE = auto()
    """News of a background task: the agent may wake up over it."""
    NOTE = auto()
    """Another text that the client put in."""
    INTERRUPT = auto()
    """The user stopped the turn."""
    RESULTS = auto()
    """Tool results, as a user record carries them."""
    REPLY = auto()
    """A row of what the model wrote."""
    API_ERROR = auto()
    """The client gave up on the model's API; the text is for display."""
    OLD_CALL = auto()
    """A tool call as a record of its own, before 2.0."""
    OLD_RESULT = auto()
    """Its result."""
    TURN_END = auto()
    """The client says that the turn is over."""
    QUIET = auto()
    """Known, and no part of the conversation."""
    UNKNOWN = auto()


@dataclass(slots=True)
class Row:
    """A record of type object, with the fields that most kinds share."""

    fields: dict[str, Json]
    place: Place
    raw: bytes
    type: str
    uuid: str
    parent: str
    session_id: str
    at_ms: int
    message: Mapping[str, Json]
    blocks: list[Mapping[str, Json]]
    """The content blocks of the message; a bare text counts as one text block."""

    @classmethod
    def of(cls, record: Record) -> "Row":
        fields = record.value
        message = as_object(fields.get("message"))
        return cls(
            fields=fields,
            place=record.place,
            raw=record.raw,
            type=as_text(fields.get("type")),
            uuid=as_text(fields.get("uuid")),
            parent=as_text(fields.get("parentUuid")),
            session_id=as_text(fields.get("sessionId")),
            at_ms=time_ms(fields.get("timestamp")),
            message=message,
            blocks=content_blocks(message.get("content")),
        )

    @property
    def forked_from(self) -> str:
        """The session this record was copied from when a session was branched off."""
        origin = self.fields.get("forkedFrom")
        return as_text(as_object(origin).get("sessionId")) if origin else ""

    @property
    def agent_id(self) -> str:
        return as_text(self.fields.get("agentId"))

    @property
    def sidechain(self) -> bool:
        return self.fields.get("isSidechain") is True

    @property
    def subtype(self) -> str:
        return as_text(self.fields.get("subtype"))

    @property
    def model(self) -> str:
        return as_text(self.message.get("model"))

    @property
    def text(self) -> str:
        """The text blocks, joined by a blank line."""
        return joined_text(self.blocks)

    @property
    def queued_prompt(self) -> Json:
        """The prompt of a queued command, None for every other attachment."""
        attachment = as_object(self.fields.get("attachment"))
        return attachment.get("prompt") if attachment.get("type") == "queued_command" else None

    @property
    def error_code(self) -> str:
        """What an API error calls itself: a word, else the HTTP status."""
        error, status = self.fields.get("error"), self.fields.get("apiErrorStatus")
        return as_text(error) or (str(status) if status else "") or "api_error"


def kind_of(row: Row) -> Kind:
    match row.type:
        case "assistant":
            return _assistant_kind(row)
        case "user":
            return _user_kind(row)
        case "attachment" if row.queued_prompt is not None:
            return _queued_kind(row)
        case "system":
            return _system_kind(row.subtype)
        case "tool_use":
            return Kind.OLD_CALL
        case "tool_result":
            return Kind.OLD_RESULT
        case quiet if quiet in QUIET_TYPES:
            return Kind.QUIET
        case _:
            return Kind.UNKNOWN


def _assistant_kind(row: Row) -> Kind:
    if row.fields.get("isApiErrorMessage") is True:
        return Kind.API_ERROR
    if not row.blocks:
        return Kind.UNKNOWN
    return Kind.NOTE if row.model == SYNTHETIC_MODEL else Kind.REPLY


def _user_kind(row: Row) -> Kind:
    blocks = row.blocks
    text = joined_text(blocks)
    if text in INTERRUPT_MARKERS:
        return Kind.INTERRUPT
    if any(block.get("type") == "tool_result" for block in blocks):
        return Kind.RESULTS
    if not blocks:
        return Kind.UNKNOWN
    if row.fields.get("isCompactSummary") is True or row.fields.get("isMeta") is True:
        return Kind.NOTE
    if as_object(row.fields.get("origin")).get("kind") == TASK_NOTIFICATION:
        return Kind.TASK_NOTE
    return _typed_kind(text, Kind.PROMPT)


def _queued_kind(row: Row) -> Kind:
    attachment = as_object(row.fields.get("attachment"))
    if attachment.get("commandMode") == TASK_NOTIFICATION:
        return Kind.TASK_NOTE
    return _typed_kind(joined_text(content_blocks(row.queued_prompt)), Kind.STEERING)


def _typed_kind(text: str, otherwise: Kind) -> Kind:
    """Tell what the client wrote in the user's place from what the user typed."""
    start = text.lstrip()
    if start.startswith("<task-notification>"):
        return Kind.TASK_NOTE
    if start.startswith(_COMMAND_STARTS):
        return Kind.COMMAND
    if start.startswith(_COMMAND_OUTPUT_STARTS):
        return Kind.COMMAND_OUTPUT
    if start.startswith((*_LOCAL_STARTS, _HOOK_START)):
        return Kind.NOTE
    return otherwise


def _system_kind(subtype: str) -> Kind:
    if subtype == "turn_duration":
        return Kind.TURN_END
    if subtype in {"compact_boundary", "local_command"}:
        return Kind.NOTE
    return Kind.QUIET if subtype in QUIET_SUBTYPES else Kind.UNKNOWN


def note_source(row: Row, kind: Kind) -> str:
    """Which part of the client wrote a note."""
    match kind:
        case Kind.TASK_NOTE:
            return "task_notification"
        case Kind.COMMAND | Kind.COMMAND_OUTPUT:
            return "command"
        case Kind.INTERRUPT:
            return "interrupt"
        case _ if row.type == "system":
            return row.subtype
        case _ if row.fields.get("isCompactSummary") is True:
            return "compact_summary"
        case _ if row.fields.get("isMeta") is True:
            return "meta"
        case _ if row.text.startswith(_HOOK_START):
            return "hook"
        case _:
            return "client"


def note_text(row: Row) -> str:
    if row.type == "system":
        return as_text(row.fields.get("content"))
    if row.type == "attachment":
        return joined_text(content_blocks(row.queued_prompt))
    return row.text


def is_refusal(row: Row, text: str) -> bool:
    """Whether a failed tool result says that the tool was not allowed to run."""
    return (
        bool(as_text(row.fields.get("toolDenialKind")))
        or row.fields.get("toolUseResult") == REFUSED_RESULT
        or text.startswith(REFUSALS)
    )


def usage_of(row: Row) -> Usage:
    """What the row says its API message cost; input may be written to the cache or not."""
    usage = as_object(row.message.get("usage"))
    return Usage(
        input=as_count(usage.get("input_tokens")) + as_count(usage.get("cache_creation_input_tokens")),
        cached_input=as_count(usage.get("cache_read_input_tokens")),
        output=as_count(usage.get("output_tokens")),
    )
