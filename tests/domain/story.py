"""Tells stories to a ledger in few words, and says in few words what came of them.

Times are milliseconds behind T0; a report without one does not know when it happened. The clock stands
HOURS later unless a story moves it, so every told time lies in the past.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from application.ledger import Ledger
from application.ports import Participant, StoredEvent
from application.views import (
    InteractionView,
    MessageReply,
    MessageView,
    Reply,
    SessionView,
    StateReply,
    TurnView,
)
from domain.delta import CommittedDelta
from domain.errors import Rejected
from domain.event import Event
from infrastructure.main import ObserverFailures, open_ledger

ROOM = "room-1"
SESSION = "ses-1"
T0 = 1_772_355_600_000
"""2026-03-01T09:00:00Z."""
HOURS = 3 * 60 * 60 * 1_000

E = TypeVar("E", bound=Event)


@dataclass
class FakeClock:
    """Stands still until a story moves it."""

    now: int = T0 + HOURS

    def now_ms(self) -> int:
        return self.now


def update(
    message: str,
    text: str | None = None,
    *,
    turn: str = "t1",
    role: str = "assistant",
    kind: str = "text",
    at: int | None = None,
    **more: Any,
) -> dict[str, Any]:
    """One message update as a runtime sends it."""
    said: dict[str, Any] = {} if text is None else {"payload": {"text": text}}
    when = {} if at is None else {"occurred_at_unix_ms": T0 + at}
    names = {"message_id": message, "turn_id": turn, "role": role, "kind": kind}
    return {**names, **said, **when, **more}


def tool(message: str, status: str = "running", **more: Any) -> dict[str, Any]:
    """One update of a tool call."""
    return update(message, role="tool", kind="tool_call", status=status, **more)


def delta(message: str, text: str, offset: int | None = None, **more: Any) -> dict[str, Any]:
    """One update that appends to a text."""
    return update(message, content_delta=text, content_offset=offset, **more)


def question(request: str, turn: str = "t1", status: str = "pending", **more: Any) -> dict[str, Any]:
    """An interaction part."""
    return {"request_id": request, "turn_id": turn, "kind": "approval", "status": status, **more}


def became(reply: Reply, part: str = "turn") -> str:
    """What became of the one part of its kind: applied, or the reason why it was ignored."""
    (outcome,) = (one for one in reply.outcomes if one.part == part)
    return outcome.reason or outcome.outcome


def outcomes(reply: Reply) -> list[str]:
    """What became of each part, such as `turn t1: late`."""
    return [f"{one.part} {one.id}: {one.reason or one.outcome}" for one in reply.outcomes]


def named(reply: Reply) -> list[str]:
    """What the delta names, such as `turn t1 settle`, in its order."""
    mutations = reply.delta.delta.mutations if reply.delta else ()
    return [f"{one.entity_kind} {one.entity_id} {one.operation}" for one in mutations]


@contextmanager
def refused(reason: str, part: str = "") -> Iterator[None]:
    """What happens inside is refused for this reason, and nothing of it is stored."""
    with pytest.raises(Rejected) as caught:
        yield
    assert caught.value.reason == reason, caught.value
    assert part in ("", caught.value.part), caught.value


class Failures(ObserverFailures):
    """Counts what observers did not take, and logs nothing."""

    def __call__(self, name: str, delta: CommittedDelta, error: Exception) -> None:
        self.by_subscription[name] += 1


@dataclass
class Story:
    """A ledger of one's own with its clock."""

    ledger: Ledger
    clock: FakeClock = field(default_factory=FakeClock)
    failures: Failures = field(default_factory=Failures)
    _sessions: dict[str, None] = field(default_factory=dict)

    # When.

    def report(self, session: str = SESSION, *, at: int | None = None, **state: Any) -> StateReply:
        """A state report; its parts are given by their names on the wire, in snake case."""
        when = {} if at is None else {"occurred_at_unix_ms": T0 + at}
        return self.body(session, {"state": {**when, **state}})

    def body(self, session: str, body: Mapping[str, Any], **more: Any) -> StateReply:
        """A state report with all that stands around the state."""
        self._know(session, body.get("state", {}).get("root_agent_session_id", ""))
        return self.ledger.report_state(body, room=ROOM, session=session, **more)

    def turn(
        self, turn: str, phase: str = "", *, session: str = SESSION, at: int | None = None, **more: Any
    ) -> StateReply:
        """A report of one turn."""
        return self.report(session, at=at, turn={"turn_id": turn, "phase": phase, **more})

    def provider(
        self, turn: str, phase: str, *, session: str = SESSION, at: int | None = None, **more: Any
    ) -> StateReply:
        """A report of the root provider's turn behind one turn."""
        part = {"root_turn_id": turn, "provider_turn_id": "p-1", "phase": phase, **more}
        return self.report(session, at=at, root_provider_turn=part)

    def child(
        self, session: str, *, root: str = SESSION, parent: str = "", turn: str = "t1", **more: Any
    ) -> StateReply:
        """A report of a child of `root`, which also is its parent unless `parent` is another."""
        relations = {"root_agent_session_id": root, "root_turn_id": turn}
        told: dict[str, Any] = {**relations, "parent_agent_session_id": parent or root, **more}
        return self.report(session, kind="child", **told)

    def say(self, *updates: Mapping[str, Any], session: str = SESSION, **more: Any) -> MessageReply:
        """A message report."""
        self._know(session)
        return self.ledger.report_messages({"updates": updates}, room=ROOM, session=session, **more)

    def ask(self, request: str, turn: str = "t1", *, session: str = SESSION, **more: Any) -> StateReply:
        """A report of one interaction."""
        at = more.pop("at", None)
        return self.report(session, at=at, interaction_transition=question(request, turn, **more))

    def answer(self, request: str, output: Mapping[str, Any], turn: str = "t1", **more: Any) -> Reply:
        """A person's answer."""
        return self.ledger.answer(ROOM, SESSION, turn, request, output, **more)

    def delete(self, session: str = SESSION) -> Reply:
        return self.ledger.delete(ROOM, session)

    def restore(self, session: str = SESSION) -> Reply:
        return self.ledger.restore(ROOM, session)

    def purge(self, session: str = SESSION) -> Reply:
        return self.ledger.purge(ROOM, session)

    # Then.

    def events(self, session: str = SESSION) -> list[StoredEvent]:
        """A session's whole history."""
        return list(self.ledger.events(ROOM, session))

    def topics(self, session: str = SESSION) -> list[str]:
        """The topics of a session's history, without what all of them begin with."""
        return [one.topic.removeprefix("session.") for one in self.events(session)]

    def commit(self, reply: Reply) -> list[StoredEvent]:
        """The events that a command stored, of all sessions, in the order of writing."""
        found = [one for session in self._sessions for one in self.events(session)]
        stored = [one for one in found if reply.transaction_id and one.transaction == reply.transaction_id]
        return sorted(stored, key=lambda one: one.position)

    def wrote(self, reply: Reply) -> list[str]:
        """The topics a command stored; those of another session than SESSION name it."""
        return [
            ("" if one.session == SESSION else f"{one.session}:") + one.topic.removeprefix("session.")
            for one in self.commit(reply)
        ]

    def event(self, reply: Reply, kind: type[E]) -> E:
        """The one event of its kind that a command stored."""
        (found,) = (one.event for one in self.commit(reply) if isinstance(one.event, kind))
        return found

    def session(self, session: str = SESSION) -> SessionView:
        view = self.ledger.session(ROOM, session)
        assert view is not None, f"there is no session {session}"
        return view

    def turns(self, session: str = SESSION) -> dict[str, TurnView]:
        return {turn.turn_id: turn for turn in self.session(session).turn_list}

    def the_turn(self, turn: str = "t1", session: str = SESSION) -> TurnView:
        return self.turns(session)[turn]

    def asked(self, request: str, turn: str = "t1", session: str = SESSION) -> InteractionView:
        asked = self.session(session).interaction_list
        return next(one for one in asked if (one.turn_id, one.request_id) == (turn, request))

    def messages(self, session: str = SESSION) -> dict[str, MessageView]:
        page = self.ledger.messages(ROOM, session, limit=500)
        return {message.message_id: message for message in page.messages}

    def message(self, message: str, session: str = SESSION) -> MessageView:
        return self.messages(session)[message]

    def text(self, message: str, session: str = SESSION) -> str:
        text = self.message(message, session).payload["text"]
        assert isinstance(text, str)
        return text

    def count(self) -> int:
        """Events of all sessions of this story."""
        return sum(len(self.events(session)) for session in self._sessions)

    def _know(self, *sessions: str) -> None:
        self._sessions.update((session, None) for session in sessions if session)


@contextmanager
def told(url: str = "memory://", participant: Participant | None = None) -> Iterator[Story]:
    """A story whose store is checked in the end: what it kept must fit together."""
    clock, failures = FakeClock(), Failures()
    with open_ledger(url, clock=clock, participant=participant, failures=failures) as ledger:
        yield Story(ledger, clock, failures)
        found = ledger.verify()
        assert found.ok, found.problems
