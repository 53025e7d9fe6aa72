"""Messages while their file is read: more rows may join them, and results come later than their calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from application.transcript import Interaction, Json, Message, MessageStatus, Place
from infrastructure.transcripts.fields import as_object

Role = Literal["user", "assistant", "tool", "system"]
InteractionKind = Literal["approval", "question", "plan"]


class Standing(Protocol):
    """A record as far as its turn and its message care: where it stands, when it was, what names it."""

    @property
    def at_ms(self) -> int: ...

    @property
    def place(self) -> Place: ...

    @property
    def uuid(self) -> str: ...


class Usage(NamedTuple):
    """Tokens of one API message. The three parts do not overlap; the total is their sum.

    `input` is what the model read anew, `cached_input` what it read from its cache.
    """

    input: int = 0
    cached_input: int = 0
    output: int = 0

    def at_greatest(self, other: "Usage") -> "Usage":
        """The counts of a message grow and are repeated: take the greatest, never the sum."""
        if self == other:
            return self
        return Usage(
            max(self.input, other.input),
            max(self.cached_input, other.cached_input),
            max(self.output, other.output),
        )

    def as_counts(self) -> dict[str, int]:
        """What was counted; a part that is nothing is left out, before and after it becomes something."""
        total = self.input + self.cached_input + self.output
        counts = {
            "input": self.input,
            "cachedInput": self.cached_input,
            "output": self.output,
            "total": total,
        }
        return {name: count for name, count in counts.items() if count}


NO_USAGE = Usage()


@dataclass(slots=True)
class Draft:
    """A message that may still grow."""

    message_id: str
    turn_id: str | None
    role: Role
    kind: str
    place: Place
    at_ms: int
    completed_at_ms: int
    status: MessageStatus = "completed"
    texts: dict[str, None] = field(default_factory=dict)
    """The texts of the rows, each once, in file order."""
    payload: dict[str, Json] = field(default_factory=dict)
    usage: Usage = NO_USAGE
    rewound: bool = False

    def saw(self, row: Standing) -> None:
        self.at_ms = self.at_ms or row.at_ms
        self.completed_at_ms = max(self.completed_at_ms, row.at_ms)

    def facts(self, rewound: bool) -> tuple[Message | Interaction, ...]:
        text = {"text": "\n\n".join(self.texts)} if self.texts else {}
        message = Message(
            message_id=self.message_id,
            turn_id=self.turn_id,
            role=self.role,
            kind=self.kind,
            status=self.status,
            payload=text | self.payload,
            at_ms=self.at_ms,
            place=self.place,
            usage=None if self.usage == NO_USAGE else self.usage.as_counts(),
            completed_at_ms=0 if self.status == "running" else self.completed_at_ms,
            rewound=rewound,
        )
        return (message,)


@dataclass(slots=True)
class CallDraft(Draft):
    """A tool call, and the question to the user that it is or became."""

    tool_name: str = ""
    asks: InteractionKind | None = None
    answer: Mapping[str, Json] | None = None
    called: bool = False
    """Whether the file holds the call itself, not its result alone."""

    def facts(self, rewound: bool) -> tuple[Message | Interaction, ...]:
        message = Draft.facts(self, rewound)
        if not self.asks or self.turn_id is None:
            return message
        interaction = Interaction(
            turn_id=self.turn_id,
            request_id=self.message_id,
            kind=self.asks,
            tool_name=self.tool_name,
            input=as_object(self.payload.get("input")),
            output=self.answer,
            at_ms=self.at_ms,
            place=self.place,
        )
        return (*message, interaction)
