"""What a ledger can be told to do: each a command as a value, ready to be decided by a store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from application.ports import CommandKey, Committed, Decide, Decision, Loader
from application.views import MessageReply, Reply, StateReply
from domain import interaction_rules, jsontext, session_rules, tree_rules, turn_rules
from domain.errors import Outdated, Rejected
from domain.ids import RequestId, RoomId, SessionId, TurnId
from domain.message_rules import accepted_count
from domain.reports import MessageReport, StateReport, parse_message_report, parse_state_report
from domain.session_rules import Answer
from domain.work import Draft, Outcome, Work

R = TypeVar("R", bound=Reply)
Rule = Callable[[Work, Loader], Mapping[str, Any]]
"""Decides a command on a work, and says what it answers but for the transaction id."""


@dataclass(frozen=True)
class Command(Generic[R]):
    """One thing to do, checked as far as that goes without looking at what is stored."""

    key: CommandKey
    said: Any
    """What the command says; the same id with another meaning is refused (SPEC C4)."""
    rule: Rule
    answers: type[R]

    def decide(self, now_ms: Callable[[], int]) -> Decide:
        """The decision for a store, which may call it more than once."""
        key = self.key if self.key.id else None
        digest = jsontext.digest(_plain(self.said)) if key else ""
        return decision(self.key.room, self.rule, now_ms, key, digest, actor=self.key.caller)

    def given_by(self, caller: str) -> "Command[R]":
        """The command of this caller, whose command ids are its own."""
        return replace(self, key=replace(self.key, caller=caller))

    def expecting(self, version: int) -> "Command[R]":
        """The command, but only while its session is at this stream version; else it raises Outdated."""

        def rule(work: Work, load: Loader) -> Mapping[str, Any]:
            current = work.session(self.key.session).state.version
            if current != version:
                raise Outdated(f"session {self.key.session}", version, current)
            return self.rule(work, load)

        return replace(self, rule=rule)

    def reply(self, committed: Committed) -> R:
        """What the caller is told."""
        return self.answers.model_validate(
            {**committed.answer, "delta": committed.delta, "replayed": committed.repeats}
        )


def meant(command: Command[R], caller: str, if_version: int | None) -> Command[R]:
    """A command as its caller means it: for one version of the session, or for any."""
    command = command.given_by(caller)
    return command if if_version is None else command.expecting(if_version)


def decision(
    room: RoomId,
    rule: Rule,
    now_ms: Callable[[], int],
    key: CommandKey | None = None,
    digest: str = "",
    *,
    actor: str = "",
    stores: bool = True,
) -> Decide:
    """The decision that a rule comes to, to be stored, or only to be told."""

    def decide(load: Loader) -> Decision:
        if key and (seen := load.remembered(key)):
            if seen.digest != digest:
                detail = "this command id was used for another command; take a new one"
                raise Rejected("conflict", "command", key.id, detail)
            return Decision(seen.answer, repeats=seen.position)
        work = Work(room, now_ms(), load.session, actor=actor)
        answer = rule(work, load)
        return Decision(answer, work, key, digest) if stores else Decision(answer)

    return decide


# Reports.


def report_state(
    report: Mapping[str, Any] | StateReport, room: str, session: str, command_id: str, caller: str
) -> Command[StateReply]:
    parsed = parse_state_report(report, room, session)

    def rule(work: Work, _: Loader) -> Mapping[str, Any]:
        draft = work.session(SessionId(parsed.agent_session_id))
        answer = session_rules.report_state(draft, parsed)
        tree_rules.finish(work)
        return _state_answer(draft, answer)

    key = _key("state", parsed.room_id, parsed.agent_session_id, command_id, caller)
    return Command(key, parsed, rule, StateReply)


def report_messages(
    report: Mapping[str, Any] | MessageReport, room: str, session: str, command_id: str, caller: str
) -> Command[MessageReply]:
    parsed = parse_message_report(report, room, session)

    def rule(work: Work, load: Loader) -> Mapping[str, Any]:
        draft = _addressed(work, load, parsed)
        answer = session_rules.report_messages(draft, parsed)
        return {
            "acceptedCount": accepted_count(answer.outcomes),
            "latestVersion": draft.state.message_version,
            "outcomes": _spelled(answer.outcomes),
        }

    key = _key("messages", parsed.room_id, parsed.agent_session_id, command_id, caller)
    return Command(key, parsed, rule, MessageReply)


# Commands on one session that has been reported and is not deleted.


def answer(
    room: str, session: str, turn: str, request: str, output: Mapping[str, Any], command_id: str
) -> Command[Reply]:
    return _command(
        "answer",
        room,
        session,
        [turn, request, output],
        lambda draft: interaction_rules.answer(draft, TurnId(turn), RequestId(request), output),
        command_id,
    )


def request_cancel(room: str, session: str, turn: str, command_id: str) -> Command[Reply]:
    return _command(
        "cancel",
        room,
        session,
        turn,
        lambda draft: turn_rules.request_cancel(draft, TurnId(turn)),
        command_id,
    )


def set_title(room: str, session: str, title: str, command_id: str) -> Command[Reply]:
    return _command(
        "title", room, session, title, lambda draft: session_rules.set_title(draft, title), command_id
    )


def set_settings(room: str, session: str, settings: Mapping[str, Any], command_id: str) -> Command[Reply]:
    return _command(
        "settings",
        room,
        session,
        settings,
        lambda draft: session_rules.set_settings(draft, settings),
        command_id,
    )


def set_pin(room: str, session: str, command_id: str, *, pinned: bool) -> Command[Reply]:
    return _command(
        "pin",
        room,
        session,
        pinned,
        lambda draft: session_rules.set_pin(draft, pinned=pinned),
        command_id,
    )


# Commands on a session and all that descends from it.


def delete(room: str, session: str, command_id: str) -> Command[Reply]:
    return _tree_command("delete", room, session, command_id, tree_rules.delete)


def restore(room: str, session: str, command_id: str) -> Command[Reply]:
    return _tree_command("restore", room, session, command_id, tree_rules.restore)


def purge(room: str, session: str, command_id: str) -> Command[Reply]:
    return _tree_command("purge", room, session, command_id, tree_rules.purge)


def settle(room: RoomId, session: SessionId) -> Command[Reply]:
    """Settle what a host that died left over in one session."""

    def rule(work: Work, _: Loader) -> Mapping[str, Any]:
        outcomes = tree_rules.settle_stale(work.session(session))
        tree_rules.finish(work)
        return {"outcomes": _spelled(outcomes)}

    return Command(_key("settle", room, session, "", ""), None, rule, Reply)


def _command(
    kind: str, room: str, session: str, said: Any, on: Callable[[Draft], Outcome], command_id: str
) -> Command[Reply]:
    def rule(work: Work, _: Loader) -> Mapping[str, Any]:
        draft = work.session(SessionId(session))
        outcome = session_rules.existing(draft) or on(draft)
        tree_rules.finish(work)
        return {"outcomes": _spelled([outcome])}

    return Command(_key(kind, room, session, command_id, ""), said, rule, Reply)


def _tree_command(
    kind: str,
    room: str,
    session: str,
    command_id: str,
    on: Callable[[Work, SessionId, tree_rules.Tree], list[Outcome]],
) -> Command[Reply]:
    def rule(work: Work, load: Loader) -> Mapping[str, Any]:
        anchor = SessionId(session)
        state = work.session(anchor).state
        tree = load.tree(RoomId(room), state.root_session if state.is_child else anchor)
        outcomes = on(work, anchor, tree)
        tree_rules.finish(work)
        return {"outcomes": _spelled(outcomes)}

    return Command(_key(kind, room, session, command_id, ""), None, rule, Reply)


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
