"""What can be asked of the record: reports and commands in, sessions, messages, history and deltas out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from application.delivery import Delivery
from application.ports import (
    Clock,
    CommandKey,
    Committed,
    Decision,
    Loader,
    Observer,
    OutboxEntry,
    Store,
    StoredEvent,
    Verification,
)
from application.views import (
    MessagePage,
    MessageReply,
    MessageView,
    Reply,
    SessionSummary,
    SessionView,
    StateReply,
    interaction_view,
    message_view,
    session_summary,
    session_view,
    turn_view,
)
from domain import interaction_rules, jsontext, session_rules, tree_rules, turn_rules
from domain.delta import CommittedDelta
from domain.errors import NotFound, Rejected
from domain.ids import (
    MessageVersion,
    Position,
    RequestId,
    RoomId,
    SessionId,
    TransactionId,
    TurnId,
)
from domain.message_rules import accepted_count
from domain.reports import MessageReport, StateReport, parse_message_report, parse_state_report
from domain.session_rules import Answer
from domain.work import Draft, Outcome, Work

PAGE_LIMIT_MAX: Final = 500
"""Messages in one page (SPEC M10)."""
PAGE_BYTES_MAX: Final = 3 * 2**19
"""Bytes of messages after which a page ends early (SPEC M10)."""

R = TypeVar("R", bound=Reply)
DecideOn = Callable[[Work, Loader], Mapping[str, Any]]
"""Decides a command on a work, and says what it answers but for the transaction id."""


@dataclass(frozen=True)
class Ledger:
    """The record of what coding agents do, on one store."""

    store: Store
    delivery: Delivery
    clock: Clock

    # Reports.

    def report_state(
        self,
        report: Mapping[str, Any] | StateReport,
        *,
        room: str = "",
        session: str = "",
        command_id: str = "",
        caller: str = "",
    ) -> StateReply:
        """Take one atomic report about a session (WIRE "State report").

        Raises Rejected when it can never succeed unchanged; then nothing of it was stored.
        """
        parsed = parse_state_report(report, room, session)
        key = _key("state", parsed.room_id, parsed.agent_session_id, command_id, caller)

        def decide(work: Work, _: Loader) -> Mapping[str, Any]:
            draft = work.session(SessionId(parsed.agent_session_id))
            answer = session_rules.report_state(draft, parsed)
            tree_rules.finish(work)
            return _state_answer(draft, answer)

        return self._submit(StateReply, key, parsed, decide)

    def report_messages(
        self,
        report: Mapping[str, Any] | MessageReport,
        *,
        room: str = "",
        session: str = "",
        command_id: str = "",
        caller: str = "",
    ) -> MessageReply:
        """Take a batch of message updates of one session (WIRE "Message report").

        Raises Rejected when one of them can never succeed unchanged; then nothing of it was stored.
        """
        parsed = parse_message_report(report, room, session)
        key = _key("messages", parsed.room_id, parsed.agent_session_id, command_id, caller)

        def decide(work: Work, load: Loader) -> Mapping[str, Any]:
            draft = _addressed(work, load, parsed)
            answer = session_rules.report_messages(draft, parsed)
            return {
                "acceptedCount": accepted_count(answer.outcomes),
                "latestVersion": draft.state.message_version,
                "outcomes": _spelled(answer.outcomes),
            }

        return self._submit(MessageReply, key, parsed, decide)

    # Commands.

    def answer(
        self,
        room: str,
        session: str,
        turn: str,
        request: str,
        output: Mapping[str, Any],
        *,
        command_id: str = "",
    ) -> Reply:
        """Answer a pending interaction; raises Rejected("conflict") when it was answered otherwise."""
        return self._command(
            "answer",
            room,
            session,
            [turn, request, output],
            lambda draft: interaction_rules.answer(draft, TurnId(turn), RequestId(request), output),
            command_id,
        )

    def request_cancel(self, room: str, session: str, turn: str, *, command_id: str = "") -> Reply:
        """Record that a turn is wanted to end; the runtime's own report settles it."""
        return self._command(
            "cancel",
            room,
            session,
            turn,
            lambda draft: turn_rules.request_cancel(draft, TurnId(turn)),
            command_id,
        )

    def set_title(self, room: str, session: str, title: str, *, command_id: str = "") -> Reply:
        """Set a session's title for good: later reports do not change it."""
        return self._command(
            "title", room, session, title, lambda draft: session_rules.set_title(draft, title), command_id
        )

    def set_settings(
        self, room: str, session: str, settings: Mapping[str, Any], *, command_id: str = ""
    ) -> Reply:
        """Replace a session's settings as a whole."""
        return self._command(
            "settings",
            room,
            session,
            settings,
            lambda draft: session_rules.set_settings(draft, settings),
            command_id,
        )

    def set_pin(self, room: str, session: str, *, pinned: bool, command_id: str = "") -> Reply:
        """Pin a session, or take the pin away."""
        return self._command(
            "pin",
            room,
            session,
            pinned,
            lambda draft: session_rules.set_pin(draft, pinned=pinned),
            command_id,
        )

    def delete(self, room: str, session: str, *, command_id: str = "") -> Reply:
        """Delete a session with all its descendants; an unknown one is ignored."""
        return self._tree_command("delete", room, session, command_id, tree_rules.delete)

    def restore(self, room: str, session: str, *, command_id: str = "") -> Reply:
        """Bring back exactly what was deleted together with a session."""
        return self._tree_command("restore", room, session, command_id, tree_rules.restore)

    def purge(self, room: str, session: str, *, command_id: str = "") -> Reply:
        """Destroy the content of a session and its descendants for good; its facts stay."""
        return self._tree_command("purge", room, session, command_id, tree_rules.purge)

    def settle(self, room: str) -> tuple[Reply, ...]:
        """Settle every turn that a host left over when it died; for the host that owns the room.

        One commit per session, children before parents; running it again settles nothing.
        """
        where = RoomId(room)
        live = self.store.live_sessions(where)
        tree = {row.state.session: row.state for row in self.store.sessions(where)} if live else {}
        deepest_first = sorted(live, key=lambda state: (-tree_rules.level(tree, state), state.session))
        return tuple(self._settle_session(where, state.session) for state in deepest_first)

    def _settle_session(self, room: RoomId, session: SessionId) -> Reply:
        def decide(work: Work, _: Loader) -> Mapping[str, Any]:
            outcomes = tree_rules.settle_stale(work.session(session))
            tree_rules.finish(work)
            return {"outcomes": _spelled(outcomes)}

        return self._submit(Reply, _key("settle", room, session, "", ""), None, decide)

    # Reading.

    def session(self, room: str, session: str) -> SessionView | None:
        """A session as it is now, deleted or not; None when there is none."""
        ids = RoomId(room), SessionId(session)
        row = self.store.session(*ids)
        if row is None:
            return None
        turns = tuple(turn_view(turn) for turn in self.store.turns(*ids))
        return session_view(row, turns, tuple(map(interaction_view, self.store.interactions(*ids))))

    def sessions(self, room: str | None = None, *, deleted: bool = False) -> tuple[SessionSummary, ...]:
        """The sessions of a room, or of all, the ones that changed last first."""
        rows = self.store.sessions(None if room is None else RoomId(room))
        return tuple(session_summary(row) for row in rows if deleted or not row.state.is_deleted)

    def messages(
        self, room: str, session: str, after: int = 0, limit: int = 100, *, before: int | None = None
    ) -> MessagePage:
        """A page of messages above `after`, or the highest ones below `before` (0: from the end).

        Raises NotFound for an unknown session and Rejected for a limit that is no positive number.
        """
        if limit < 1:
            raise Rejected("invalid", "command", "", f"limit is {limit}; give 1 to {PAGE_LIMIT_MAX}")
        ids = RoomId(room), SessionId(session)
        if self.store.session(*ids) is None:
            raise NotFound(f"no session {session} in room {room}")
        wanted = min(limit, PAGE_LIMIT_MAX)
        cursor = MessageVersion(after if before is None else before)
        read = self.store.messages_after if before is None else self.store.messages_before
        rows = read(*ids, cursor, wanted + 1)
        views: list[MessageView] = []
        size = 0
        for row in rows[:wanted]:
            size += len(jsontext.to_bytes(row.payload))
            if views and size > PAGE_BYTES_MAX:
                break
            views.append(message_view(session, row))
        latest = max((view.version for view in views), default=cursor)
        return MessagePage(messages=tuple(views), latest_version=latest, has_more=len(views) < len(rows))

    def events(self, room: str, session: str, after: int = 0) -> Iterator[StoredEvent]:
        """A session's history, oldest first."""
        return self.store.events(RoomId(room), SessionId(session), after)

    def deltas(self, after: int = 0) -> Iterator[CommittedDelta]:
        """Every commit's delta, in commit order, from the position behind `after`."""
        return self.store.deltas(Position(after))

    def room_of(self, session: str) -> str:
        """The one room that has a session of this id; raises NotFound when none or several have."""
        rooms = self.store.rooms_of(SessionId(session))
        if not rooms:
            raise NotFound(f"no session {session}; `reprise sessions list` shows them all")
        if len(rooms) > 1:
            raise NotFound(
                f"session {session} is in several rooms ({', '.join(rooms)}); say which with --room"
            )
        return rooms[0]

    # Deliveries.

    def subscribe(self, observer: Observer, name: str, after: int | None = None) -> None:
        """Hand every delta to an observer right after its commit.

        A subscription is known by its name and remembers across restarts what its observer has taken.
        A new one begins behind the position `after`, by default at the end. What its observer did not
        take stays pending until `redeliver`.
        """
        self.delivery.subscribe(name, observer, None if after is None else Position(after))

    def redeliver(self, name: str, transaction: str = "") -> int:
        """Hand an observer all that is pending for it, or one commit's delta again; how many it took."""
        if not transaction:
            return self.delivery.redeliver(name)
        delta = self.store.delta(TransactionId(transaction))
        if delta is None:
            raise NotFound(f"no delta of transaction {transaction}; `reprise outbox` lists them")
        return int(self.delivery.redeliver_one(name, delta))

    def outbox(self, *, pending: bool = False) -> Iterator[OutboxEntry]:
        """The deltas of the outbox, or those that a subscription has not had."""
        return self.delivery.deliveries.outbox(pending=pending)

    # Operation.

    def rebuild(self) -> int:
        """Make the read models anew from the log; the number of events read."""
        return self.store.rebuild()

    def verify(self) -> Verification:
        """Check the log, the outbox and the read models against each other; writes nothing."""
        return self.store.verify()

    def close(self) -> None:
        """Finish what is under way and let the store go."""
        self.store.close()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # How every command is decided and stored.

    def _command(
        self,
        kind: str,
        room: str,
        session: str,
        said: Any,
        rule: Callable[[Draft], Outcome],
        command_id: str,
    ) -> Reply:
        """A command on one session that has been reported and is not deleted."""

        def decide(work: Work, _: Loader) -> Mapping[str, Any]:
            draft = work.session(SessionId(session))
            outcome = session_rules.existing(draft) or rule(draft)
            tree_rules.finish(work)
            return {"outcomes": _spelled([outcome])}

        return self._submit(Reply, _key(kind, room, session, command_id, ""), said, decide)

    def _tree_command(
        self,
        kind: str,
        room: str,
        session: str,
        command_id: str,
        rule: Callable[[Work, SessionId, tree_rules.Tree], list[Outcome]],
    ) -> Reply:
        def decide(work: Work, load: Loader) -> Mapping[str, Any]:
            anchor = SessionId(session)
            state = work.session(anchor).state
            tree = load.tree(RoomId(room), state.root_session if state.is_child else anchor)
            outcomes = rule(work, anchor, tree)
            tree_rules.finish(work)
            return {"outcomes": _spelled(outcomes)}

        return self._submit(Reply, _key(kind, room, session, command_id, ""), None, decide)

    def _submit(self, reply: type[R], key: CommandKey, said: Any, decide: DecideOn) -> R:
        digest = jsontext.digest(_plain(said)) if key.id else ""
        committed = self.run(key.room, decide, key if key.id else None, digest, actor=key.caller)
        return reply.model_validate({**committed.answer, "delta": committed.delta})

    def run(
        self,
        room: RoomId,
        decide_on: DecideOn,
        key: CommandKey | None = None,
        digest: str = "",
        *,
        actor: str = "",
        stores: bool = True,
    ) -> Committed:
        """Decide a command and store what it comes to, or only say what it would come to."""

        def decide(load: Loader) -> Decision:
            if key and (seen := load.remembered(key)):
                if seen.digest != digest:
                    detail = "this command id was used for another command; take a new one"
                    raise Rejected("conflict", "command", key.id, detail)
                return Decision(seen.answer, repeats=seen.position)
            work = Work(room, self.clock.now_ms(), load.session, actor=actor)
            answer = decide_on(work, load)
            return Decision(answer, work, key, digest) if stores else Decision(answer)

        committed = self.store.submit(decide)
        if committed.delta and self.delivery.has_observers:
            self.delivery.notify()
        return committed


def _key(kind: str, room: str, session: str, command_id: str, caller: str) -> CommandKey:
    return CommandKey(kind, RoomId(room), SessionId(session), command_id, caller)


def _plain(said: Any) -> Any:
    """What a command says, without what only transports it (SPEC C4)."""
    if isinstance(said, StateReport | MessageReport):
        return said.model_dump(exclude={"room_id", "workspace_id", "agent_session_id"}, exclude_defaults=True)
    return said


def _addressed(work: Work, load: Loader, report: MessageReport) -> Draft:
    """The session a message report is for: by its id, else by its provider's id for it (SPEC S11)."""
    draft = work.session(SessionId(report.agent_session_id))
    if draft.state.opened:
        return draft
    candidates = [
        state.session
        for state in load.by_provider_session(work.room, report.agent_session_id)
        if report.source.provider in ("", state.provider) and report.origin in ("", state.origin)
    ]
    return work.session(candidates[0]) if len(candidates) == 1 else draft


def _state_answer(draft: Draft, answer: Answer) -> Mapping[str, Any]:
    return {
        "accepted": answer.accepted,
        "stateApplied": answer.state_applied,
        "lastEventAtUnixMs": draft.state.last_event_at,
        "messageVersion": draft.state.message_version,
        "outcomes": _spelled(answer.outcomes),
    }


def _spelled(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Outcomes as they are answered and remembered: JSON, without what is blank."""
    return [_spelled_one(outcome) for outcome in outcomes]


def _spelled_one(outcome: Outcome) -> dict[str, Any]:
    spelled: dict[str, Any] = {"part": outcome.part, "id": outcome.id, "outcome": outcome.outcome}
    if outcome.reason:
        spelled["reason"] = outcome.reason
    if outcome.word:
        spelled["word"] = outcome.word
    if outcome.expected_offset is not None:
        spelled["expectedOffset"] = outcome.expected_offset
    return spelled
