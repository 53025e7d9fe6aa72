"""Shapes of bodies that no view of the application has: what the history routes answer, what commands say."""

from typing import Any, Literal

from pydantic import Field

from application.views import View
from domain.delta import CommitDelta


class EventNamed(View):
    """An event as it is referred to."""

    version: int
    position: int
    topic: str
    recorded_at: str
    transaction_id: str
    words: str
    command_id: str | None = None
    actor: str | None = None
    source: dict[str, Any] | None = None


class EventRead(EventNamed):
    """An event with all that is known of it."""

    room: str
    session: str
    facts: dict[str, Any]
    erased: bool
    content: dict[str, Any] | None = None


class Change(View):
    """An operation of a JSON Patch, and the event that made it."""

    op: Literal["add", "remove", "replace", "move", "copy", "test"]
    path: str
    from_: str | None = Field(default=None, alias="from")
    value: Any = None
    event: EventNamed | None = None


class DiffRead(View):
    """How two versions of a session differ."""

    from_: int = Field(alias="from")
    to: int
    patch: tuple[dict[str, Any], ...]
    """RFC 6902, from the first to the second."""
    changes: tuple[Change, ...]


class LinkRead(View):
    """An event of a cause chain."""

    role: Literal["made_it_so", "asked", "failed_tool", "answered", "turn_began", "status_before"]
    status: str
    """The session's status right behind the event."""
    event: EventNamed


class CauseRead(View):
    """Why a session has its status."""

    room: str
    session: str
    status: str
    version: int
    chain: tuple[LinkRead, ...]


class CommitRead(View):
    """What one commit changed, in its envelope."""

    position: int
    """Of its last event; `after` this one comes the next commit."""
    first_position: int
    recorded_at: str
    room: str
    transaction_id: str
    delta: CommitDelta


class TitleBody(View):
    """A title for good; blank is one, too."""

    title: str


class PinBody(View):
    """Whether the session is pinned."""

    pinned: bool = True


class SettingsBody(View):
    """Settings that replace the session's as a whole."""

    settings: dict[str, Any]


class AnswerBody(View):
    """What a person answered."""

    output: dict[str, Any]


class SettledReply(View):
    """What became of each session that had something left over."""

    sessions: tuple[dict[str, Any], ...]


class ImportLine(View):
    """What became of one line of a bulk import: the answer to its report, or its problem."""

    line: int
    """Counted from 1."""
    status: int
    """As the report's own route would have answered."""
    reply: dict[str, Any] | None = None
    problem: dict[str, Any] | None = None
