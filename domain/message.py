"""A message: its events, its state, and how the one folds into the other.

What a message says stays in the contents of the events that said it. The message itself keeps only
what rules need; its payload is joined from its parts when somebody reads it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, NamedTuple, assert_never

from domain.event import Content, Reported, earliest, seen_at
from domain.ids import MessageId, MessageVersion, TurnId
from domain.jsontext import join_halves
from domain.vocabulary import MESSAGE_TERMINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageAdded(Reported):
    """A message was seen for the first time. Content: `payload`."""

    TOPIC: ClassVar[str] = "session.message_added"
    message_id: MessageId
    turn_id: TurnId = TurnId("")
    role: str
    kind: str
    status: str = ""
    semantics: Mapping[str, Any] | None = None
    started_at: int = 0
    completed_at: int = 0
    sequence: int
    version: MessageVersion
    text_length: int = 0
    """Code points of payload.text."""
    usage: Mapping[str, int] | None = None
    pulled: bool = False
    """Another host told it of a session that lives here; nobody reported it here (SPEC P6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageExtended(Reported):
    """A text of the payload grew by its end. Content: `added`."""

    TOPIC: ClassVar[str] = "session.message_extended"
    message_id: MessageId
    version: MessageVersion
    field: str = "/text"
    """JSON pointer of the text that grew."""
    offset: int
    """Code points of the text before it grew."""
    length_after: int
    status: str = ""
    started_at: int = 0
    completed_at: int = 0
    pulled: bool = False
    """The host that told the message says so; nobody reported it here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageChanged(Reported):
    """A message changed otherwise. Content: `set` and `unset`, by JSON pointer; the values are results."""

    TOPIC: ClassVar[str] = "session.message_changed"
    message_id: MessageId
    version: MessageVersion
    turn_id: TurnId = TurnId("")
    role: str = ""
    kind: str = ""
    status: str = ""
    provisional: bool = False
    """The status is the end of a turn that did not report it: the message's own report replaces it."""
    semantics: Mapping[str, Any] | None = None
    rewound: bool | None = None
    started_at: int = 0
    completed_at: int = 0
    text_length: int | None = None
    usage: Mapping[str, int] | None = None
    usage_added: Mapping[str, int] | None = None
    """What the session's sum grows by."""
    texts_added: int = 0
    """What the session's count of user and assistant texts changes by."""
    tool_calls_added: int = 0
    pulled: bool = False
    """The host that told the message says so; nobody reported it here."""


MessageEvent = MessageAdded | MessageExtended | MessageChanged


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message as its events left it, without what it says."""

    message_id: MessageId
    turn_id: TurnId = TurnId("")
    role: str = ""
    kind: str = ""
    status: str = ""
    provisional: bool = False
    semantics: Mapping[str, Any] | None = None
    rewound: bool = False
    occurred_at: int = 0
    newest_at: int = 0
    """The latest time that counts in comparisons."""
    started_at: int = 0
    completed_at: int = 0
    created_at: int = 0
    updated_at: int = 0
    sequence: int = 0
    version: MessageVersion = MessageVersion(0)
    text_length: int = 0
    usage: Mapping[str, int] | None = None
    pulled: bool = False
    """Only another host has told of it, in a session that lives here (SPEC P6)."""

    @property
    def is_terminal(self) -> bool:
        """Ended by its own report; an end given by its turn's provisional end does not count."""
        return self.status in MESSAGE_TERMINAL and not self.provisional

    @property
    def is_open_tool(self) -> bool:
        """A tool call that has not ended by its own report."""
        return self.kind == "tool_call" and not self.is_terminal and not self.rewound

    @property
    def is_assistant_text(self) -> bool:
        """Whether it may be the final message of its turn (SPEC T4)."""
        return self.role == "assistant" and self.kind == "text" and not self.rewound


def counts_as_text(role: str, kind: str) -> bool:
    """Whether a message counts as conversation text (SPEC J6)."""
    return kind == "text" and role in ("user", "assistant")


def evolve_message(message: Message | None, event: MessageEvent, at: int) -> Message:
    """Fold one event, recorded at `at` ms, into the message it is about."""
    if isinstance(event, MessageAdded):
        return Message(
            message_id=event.message_id,
            turn_id=event.turn_id,
            role=event.role,
            kind=event.kind,
            status=event.status,
            semantics=event.semantics,
            occurred_at=event.occurred_at,
            newest_at=seen_at(event.occurred_at, at),
            started_at=event.started_at,
            completed_at=event.completed_at,
            created_at=at,
            updated_at=at,
            sequence=event.sequence,
            version=event.version,
            text_length=event.text_length,
            usage=event.usage,
            pulled=event.pulled,
        )
    assert message is not None, "a message's first event adds it"
    timed = replace(
        message,
        version=event.version,
        updated_at=max(at, message.updated_at),
        occurred_at=max(message.occurred_at, event.occurred_at),
        newest_at=max(message.newest_at, seen_at(event.occurred_at, at)),
        started_at=earliest(message.started_at, event.started_at),
        pulled=message.pulled and event.pulled,
    )
    match event:
        case MessageExtended():
            return replace(
                timed,
                status=event.status or message.status,
                provisional=message.provisional and not event.status,
                completed_at=_completed_at(message, event),
                text_length=event.length_after if event.field == "/text" else message.text_length,
            )
        case MessageChanged():
            return replace(
                timed,
                turn_id=message.turn_id or event.turn_id,
                role=event.role or message.role,
                kind=event.kind or message.kind,
                status=event.status or message.status,
                provisional=event.provisional if event.status else message.provisional,
                semantics=message.semantics if event.semantics is None else event.semantics,
                rewound=message.rewound if event.rewound is None else event.rewound,
                completed_at=_completed_at(message, event),
                text_length=message.text_length if event.text_length is None else event.text_length,
                usage=event.usage or message.usage,
            )
        case _:
            assert_never(event)


def _completed_at(message: Message, event: MessageExtended | MessageChanged) -> int:
    """The latest, but the report that replaces a provisional end brings its own time (SPEC T4)."""
    if message.provisional and event.status:
        return event.completed_at
    return max(message.completed_at, event.completed_at)


# What a message says.


TEXT: Final = "/text"
"""The JSON pointer of a message's text."""


class Part(NamedTuple):
    """What one event says of a message: the whole payload, the growth of a text, or changes by pointer."""

    kind: Literal["whole", "growth", "change"]
    pointer: str
    """Where a growing text stands."""
    content: Content


def part_of(event: MessageEvent, content: Content) -> Part:
    """What an event says of its message."""
    match event:
        case MessageAdded():
            return Part("whole", "", content)
        case MessageExtended():
            return Part("growth", event.field, content)
        case MessageChanged():
            return Part("change", "", content)
        case _:
            assert_never(event)


def join_parts(parts: Iterable[Part]) -> dict[str, Any]:
    """The payload that the parts of a message, in order, add up to; nobody else holds its objects."""
    payload: dict[str, Any] = {}
    pieces: list[str] = []
    growing = ""

    def flush() -> None:
        if pieces:
            put(payload, growing, join_halves(text_at(payload, growing) + "".join(pieces)))
            pieces.clear()

    for kind, pointer, content in parts:
        if kind == "growth":
            if pointer != growing:
                flush()
                growing = pointer
            pieces.append(content["added"])
        elif kind == "whole":
            payload = copied(content["payload"])
        else:
            flush()
            for gone in content.get("unset", ()):
                drop(payload, gone)
            for changed, value in content.get("set", {}).items():
                put(payload, changed, copied(value))
    flush()
    return payload


def copied(value: Any) -> Any:
    """A copy whose objects nobody else holds; texts and numbers are shared."""
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copied(item) for item in value]
    return value


def pointer_to(keys: Iterable[str]) -> str:
    """The JSON pointer (RFC 6901) of a path of keys."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)


def _keys(pointer: str) -> list[str]:
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]


def get(payload: Mapping[str, Any], pointer: str) -> Any:
    """What stands at a pointer; None where nothing does."""
    value: Any = payload
    for key in _keys(pointer):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def text_at(payload: Mapping[str, Any], pointer: str) -> str:
    """The text that stands at a pointer; blank where there is none, or something else."""
    value = get(payload, pointer)
    return value if isinstance(value, str) else ""


def put(payload: dict[str, Any], pointer: str, value: Any) -> None:
    """Set what stands at a pointer, making the objects on the way."""
    *path, last = _keys(pointer)
    for key in path:
        inner = payload.get(key)
        if not isinstance(inner, dict):
            inner = payload[key] = {}
        payload = inner
    payload[last] = value


def drop(payload: dict[str, Any], pointer: str) -> None:
    """Remove what stands at a pointer, if anything does."""
    *path, last = _keys(pointer)
    for key in path:
        inner = payload.get(key)
        if not isinstance(inner, dict):
            return
        payload = inner
    payload.pop(last, None)
