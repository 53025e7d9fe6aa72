"""Why a session has the status it has: the event that made it so, and what led there.

A plain answer: it follows the status through the session's history and, where a turn decides, looks at that
turn's beginning, its last failed tool call and its last answered question.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from application.past import Folding
from application.ports import StoredEvent
from domain.errors import NotFound
from domain.ids import RoomId, SessionId, TurnId
from domain.interaction import InteractionAnswered, InteractionRequested
from domain.message import MessageAdded, MessageChanged, MessageExtended
from domain.session import display_status
from domain.turn import TurnStarted
from domain.vocabulary import DisplayStatus
from domain.work import INTERACTION_EVENTS, TURN_EVENTS, turn_of

Role = Literal["made_it_so", "asked", "failed_tool", "answered", "turn_began", "status_before"]


@dataclass(frozen=True, slots=True)
class Link:
    """An event of the chain, what it has to do with the status, and the status behind it."""

    role: Role
    stored: StoredEvent
    status: DisplayStatus


@dataclass(frozen=True, slots=True)
class Cause:
    """The status of a session and the chain of events behind it, the newest first."""

    status: DisplayStatus
    version: int
    chain: tuple[Link, ...]


def why(room: str, session: str, events: Iterable[StoredEvent]) -> Cause:
    """The cause of a session's current status; raises NotFound when there is no session."""
    folding = Folding(RoomId(room), SessionId(session))
    told = _Told()
    for stored in events:
        folding.take(stored)
        told.take(stored, folding)
    if not folding.state.opened:
        raise NotFound(f"no session {session} in room {room}")
    return Cause(display_status(folding.state), folding.state.version, told.chain(folding))


class _Told:
    """What is kept of a history while it is read."""

    def __init__(self) -> None:
        self._changes: list[Link] = []
        self._by_turn: dict[TurnId, dict[Role, Link]] = {}
        self._asked: dict[tuple[str, str], Link] = {}

    def take(self, stored: StoredEvent, folding: Folding) -> None:
        status = display_status(folding.state)
        if not self._changes or self._changes[-1].status != status:
            self._changes.append(Link("made_it_so", stored, status))
        event = stored.event
        if isinstance(event, TurnStarted):
            self._note(event.turn_id, Link("turn_began", stored, status))
        elif isinstance(event, InteractionAnswered):
            self._note(event.turn_id, Link("answered", stored, status))
        elif isinstance(event, InteractionRequested):
            self._asked[event.turn_id, event.request_id] = Link("asked", stored, status)
        elif isinstance(event, MessageAdded | MessageChanged | MessageExtended):
            message = folding.messages[event.message_id]
            if message.kind == "tool_call" and message.status in ("failed", "errored"):
                self._note(message.turn_id, Link("failed_tool", stored, status))

    def _note(self, turn: TurnId, link: Link) -> None:
        self._by_turn.setdefault(turn, {})[link.role] = link

    def chain(self, folding: Folding) -> tuple[Link, ...]:
        cause = self._changes[-1]
        links = list(self._by_turn.get(_turn_of(cause.stored), {}).values())
        links += [self._asked[key] for key in folding.state.pending if key in self._asked]
        if len(self._changes) > 1:
            before = self._changes[-2]
            links.append(Link("status_before", before.stored, before.status))
        seen = {cause.stored.version}
        kept = [cause]
        for link in sorted(links, key=lambda link: -link.stored.version):
            if link.stored.version not in seen:
                seen.add(link.stored.version)
                kept.append(link)
        return tuple(kept)


def _turn_of(stored: StoredEvent) -> TurnId:
    event = stored.event
    if isinstance(event, TURN_EVENTS):
        return turn_of(event)
    return event.turn_id if isinstance(event, INTERACTION_EVENTS) else TurnId("")
