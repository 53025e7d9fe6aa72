"""What a report about a turn makes happen (SPEC T1-T6, T9, T10)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from domain.errors import Rejected
from domain.event import is_older, seen_at
from domain.ids import MessageId, TurnId
from domain.interaction import InteractionReopened, InteractionSuperseded
from domain.jsontext import same
from domain.message import MessageChanged
from domain.reports import ProviderTurnReport, TurnReport
from domain.session import Resumed
from domain.turn import (
    ProviderTurnReported,
    Turn,
    TurnAdvanced,
    TurnAnnotated,
    TurnCancelRequested,
    TurnRevived,
    TurnSettled,
    TurnStarted,
)
from domain.vocabulary import (
    RANK,
    TURN_ORIGINS,
    EndCause,
    Phase,
    outcome_of,
    phase_of,
)
from domain.vocabulary import (
    Outcome as TurnOutcome,
)
from domain.work import Draft, Outcome, applied, ignored

Meaning = tuple[Phase | None, TurnOutcome | None]
"""What a report's words mean: the phase, or None for none, and the outcome of a settled one."""


def meaning_of(report: TurnReport) -> Meaning | None:
    """Fold the wire's words (SPEC T5); None when nobody knows the phase word."""
    outcome = None
    if report.outcome:
        outcome = outcome_of(report.outcome)
        if outcome is None:
            detail = f"{report.outcome!r} is no outcome; use completed, failed, canceled or interrupted"
            raise Rejected("unknown_outcome", "turn", report.turn_id, detail)
    if not report.phase:
        if outcome:
            return "settled", outcome
        return ("settling", None) if report.settling else (None, None)
    known = phase_of(report.phase)
    if known is None:
        return None
    phase, implied = known
    if phase == "settled":
        return phase, outcome or implied or "completed"
    return ("settling" if report.settling else phase), None


def report_turn(
    draft: Draft, report: TurnReport, occurred_at: int, end: tuple[EndCause, bool] = ("reported", False)
) -> Outcome:
    """Take a report about a turn. `end` says how a settled report counts: (cause, provisional)."""
    if not report.turn_id:
        raise Rejected("missing_identity", "turn", "", "give the turn's turnId")
    meaning = meaning_of(report)
    if meaning is None:
        return Outcome("turn", report.turn_id, "ignored", "unknown_phase", word=report.phase)
    turn = draft.turn(TurnId(report.turn_id))
    phase, outcome = meaning
    before = len(draft.work.decided)
    if turn is None:
        turn = _introduce(draft, report, phase, occurred_at)
    if phase == "settled" and outcome:
        late = _settle_reported(draft, turn, report, outcome, occurred_at, end)
    elif turn.is_settled and phase:
        late = _report_live_on_settled(draft, turn, phase, occurred_at)
    else:
        late = _advance(draft, turn, report, phase, occurred_at)
    if not late:
        _annotate(draft, report, occurred_at)
    elif phase != "settled":
        _annotate(draft, _refs_alone(report), occurred_at)
    if len(draft.work.decided) > before:
        return applied("turn", report.turn_id)
    return ignored("turn", report.turn_id, "late" if late else "duplicate")


def _refs_alone(report: TurnReport) -> TurnReport:
    """What may be merged at any time, also from a late report (SPEC T6)."""
    return TurnReport.model_construct(turn_id=report.turn_id, capability_refs=report.capability_refs)


def introduce(draft: Draft, report: TurnReport, occurred_at: int) -> None:
    """Make an unknown turn known ahead of its end, so that messages of the same report find it."""
    meaning = meaning_of(report)
    if report.turn_id and meaning and meaning[0] and draft.turn(TurnId(report.turn_id)) is None:
        _introduce(draft, report, meaning[0], occurred_at)


def _introduce(draft: Draft, report: TurnReport, phase: Phase | None, occurred_at: int) -> Turn:
    turn_id = TurnId(report.turn_id)
    if phase is None:
        draft.known_turn(turn_id, "turn", turn_id)
    began = report.started_at_unix_ms or occurred_at
    origin = _origin(report)
    if phase is None or phase == "settled":
        # Told about its end alone, it was never the live one here (SPEC T2).
        started = TurnStarted(
            turn_id=turn_id,
            phase="settling",
            origin=origin,
            started_at=began or draft.now,
            occurred_at=occurred_at,
        )
        draft.add(started)
    else:
        start(draft, turn_id, phase, origin, began, occurred_at)
    turn = draft.turn(turn_id)
    assert turn is not None
    return turn


def _origin(report: TurnReport) -> str:
    if report.origin and report.origin not in TURN_ORIGINS:
        detail = f"{report.origin!r} is no origin; use one of {', '.join(sorted(TURN_ORIGINS))}"
        raise Rejected("unknown_origin", "turn", report.turn_id, detail)
    return report.origin


def start(
    draft: Draft,
    turn_id: TurnId,
    phase: Phase,
    origin: str,
    began: int,
    occurred_at: int,
    *,
    backfilled: bool = False,
) -> None:
    """Start a turn that is not over: it becomes live, queues, or has been overtaken (SPEC T2)."""
    live = _live(draft)
    started = TurnStarted(
        turn_id=turn_id,
        phase=phase,
        origin=origin,
        started_at=began or draft.now,
        occurred_at=occurred_at,
        backfilled=backfilled,
    )
    if live is None:
        go_live(draft, started)
    elif phase == "submitted" and live.phase != "submitted":
        draft.add(started)
    elif began and seen_at(began, draft.now) < live.began:
        draft.add(started)
        _overtaken(draft, turn_id, live.began)
    else:
        _overtaken(draft, live.turn_id, seen_at(began, draft.now))
        go_live(draft, started)


def go_live(draft: Draft, event: TurnStarted | TurnAdvanced) -> None:
    """Make a turn the live one; a session that had ended is alive again (SPEC S5)."""
    if draft.state.has_ended and not is_older(event.occurred_at, draft.now, draft.state.status_at):
        draft.add(Resumed())
    draft.add(replace(event, active=True))


def _live(draft: Draft) -> Turn | None:
    return draft.turn(draft.state.active_turn) if draft.state.active_turn else None


def _overtaken(draft: Draft, turn_id: TurnId, at: int) -> None:
    settle(draft, turn_id, "interrupted", at or draft.now, "overtaken", provisional=True, promote=False)


def _settle_reported(
    draft: Draft,
    turn: Turn,
    report: TurnReport,
    outcome: TurnOutcome,
    occurred_at: int,
    end: tuple[EndCause, bool],
) -> bool:
    """End the turn as its report says; True when it had ended otherwise and the report is late."""
    cause, provisional = end
    settled_at = report.completed_at_unix_ms or occurred_at or draft.now
    if turn.is_final:
        return provisional or turn.outcome != outcome
    if turn.is_settled and provisional and (turn.outcome, turn.settled_at) == (outcome, settled_at):
        return False
    settle(
        draft,
        turn.turn_id,
        outcome,
        settled_at,
        cause,
        provisional=provisional,
        final=MessageId(report.final_assistant_message_id),
        error_message=report.error_message,
        error_code=report.error_code,
        occurred_at=occurred_at,
    )
    return False


def settle(
    draft: Draft,
    turn_id: TurnId,
    outcome: TurnOutcome,
    settled_at: int,
    cause: EndCause,
    *,
    provisional: bool,
    promote: bool = True,
    final: MessageId = MessageId(""),
    error_message: str = "",
    error_code: str = "",
    occurred_at: int = 0,
) -> None:
    """End a turn, with all that ends with it (SPEC T4).

    `promote` lets the earliest queued turn become live when the live one ends.
    """
    state = draft.state
    waiting = [entry[1] for entry in state.queue if entry[1] != turn_id]
    follows = promote and turn_id == state.active_turn and bool(waiting)
    draft.add(
        TurnSettled(
            turn_id=turn_id,
            outcome=outcome,
            settled_at=settled_at,
            cause=cause,
            provisional=provisional,
            final_message_id=_final_message(draft, turn_id, final),
            next_turn_id=waiting[0] if follows else TurnId(""),
            error_code=error_code,
            occurred_at=occurred_at,
            content={"error": error_message} if error_message else None,
        )
    )
    supersede_pending(draft, turn_id, provisional=provisional)
    if outcome != "completed":
        _close_tools(draft, turn_id, settled_at, provisional=provisional)


def _final_message(draft: Draft, turn_id: TurnId, given: MessageId) -> MessageId | None:
    """The id given, if it is an assistant text of that turn, else the one with the highest version."""
    if given:
        message = draft.message(given)
        if message and message.turn_id == turn_id and message.is_assistant_text:
            return given
    last = draft.last_assistant_text(turn_id)
    return last.message_id if last else None


def supersede_pending(draft: Draft, turn_id: TurnId, *, provisional: bool) -> None:
    """Nobody waits for the answers of a turn that has ended."""
    for turn, request in draft.state.pending:
        if turn == turn_id:
            draft.add(
                InteractionSuperseded(
                    turn_id=turn,
                    request_id=request,
                    cause="turn_ended",
                    provisional=provisional,
                    **root_of(draft),
                )
            )


def root_of(draft: Draft) -> dict[str, Any]:
    """The root that an interaction event names: none when the session is its own root (SPEC D2)."""
    state = draft.state
    if not state.is_child:
        return {}
    return {"root_session": state.root_session, "root_turn": state.root_turn}


def _close_tools(draft: Draft, turn_id: TurnId, at: int, *, provisional: bool) -> None:
    for message in draft.open_tools(turn_id):
        draft.add(
            MessageChanged(
                message_id=message.message_id,
                version=draft.next_message_version,
                status="canceled",
                provisional=provisional,
                completed_at=at,
            )
        )


def _report_live_on_settled(draft: Draft, turn: Turn, phase: Phase, occurred_at: int) -> bool:
    """A live phase after the end: late, unless the end was provisional and can be taken back (SPEC T10)."""
    if not can_revive(draft, turn):
        return True
    revive(draft, turn, phase, occurred_at)
    return False


def can_revive(draft: Draft, turn: Turn) -> bool:
    """Whether the turn's end was provisional and nothing stands in the way of its going on."""
    if not turn.is_settled or turn.is_final:
        return False
    if turn.provider_phase == "completed" and not holds_children(draft, turn.turn_id):
        return False
    live = _live(draft)
    return live is None or live.phase == "submitted"


def revive(draft: Draft, turn: Turn, phase: Phase, occurred_at: int) -> None:
    """Take a provisional end back; what it superseded opens again."""
    live = _live(draft)
    if draft.state.has_ended and not is_older(occurred_at, draft.now, draft.state.status_at):
        draft.add(Resumed())
    draft.add(
        TurnRevived(
            turn_id=turn.turn_id,
            phase=phase,
            queued_turn_id=live.turn_id if live else TurnId(""),
            queued_began=live.began if live else 0,
            awaiting=turn.provider_phase == "completed",
            occurred_at=occurred_at,
        )
    )
    for interaction in draft.interactions(turn.turn_id):
        if interaction.status == "superseded" and interaction.provisional:
            draft.add(
                InteractionReopened(
                    turn_id=interaction.turn_id,
                    request_id=interaction.request_id,
                    **root_of(draft),
                )
            )


def holds_children(draft: Draft, turn_id: TurnId) -> bool:
    """Whether children at work name this turn."""
    return turn_id in draft.state.active_children.values()


def _advance(draft: Draft, turn: Turn, report: TurnReport, phase: Phase | None, occurred_at: int) -> bool:
    """Move a turn that has not ended on; True when the report is late (SPEC T3)."""
    if phase is None or phase == turn.phase:
        return False
    if RANK[phase] < RANK[turn.phase]:
        return True
    if RANK[phase] == RANK[turn.phase] and is_older(occurred_at, draft.now, turn.phase_at):
        return True
    moved = TurnAdvanced(turn_id=turn.turn_id, phase=phase, occurred_at=occurred_at)
    live = _live(draft)
    if live is None or live.turn_id == turn.turn_id:
        go_live(draft, moved)
    elif turn.began < live.began:
        draft.add(moved)
        _overtaken(draft, turn.turn_id, live.began)
    else:
        _overtaken(draft, live.turn_id, seen_at(report.started_at_unix_ms or occurred_at, draft.now))
        go_live(draft, moved)
    return False


def _annotate(draft: Draft, report: TurnReport, occurred_at: int) -> None:
    """Store what the report tells beside the phase, as far as it is news (SPEC T6)."""
    turn = draft.turn(TurnId(report.turn_id))
    assert turn is not None
    given = [(ref.capability, ref.source) for ref in report.capability_refs]
    refs = tuple(ref for ref in dict.fromkeys(given) if ref not in turn.capability_refs)
    command = report.completed_command
    completed = {"kind": command.kind, "status": command.status} if command else None
    origin = "" if turn.origin else _origin(report)
    error_code = report.error_code if report.error_code != turn.error_code else ""
    data = {key: value for key, value in _data(report).items() if (turn.data or {}).get(key) != value}
    content = _annotated_content(turn, report)
    completed = None if completed == turn.completed_command else completed
    news = (refs, completed, origin, error_code, data, content)
    if not any(news):
        return
    draft.add(
        TurnAnnotated(
            turn_id=turn.turn_id,
            origin=origin,
            started_at=_earlier(turn, report.started_at_unix_ms),
            completed_command=completed,
            capability_refs_added=refs,
            error_code=error_code,
            data=data or None,
            occurred_at=occurred_at,
            content=content or None,
        )
    )


def _earlier(turn: Turn, started_at: int) -> int:
    return started_at if 0 < started_at < turn.started_at else 0


def _data(report: TurnReport) -> dict[str, Any]:
    """The wire's fields that are kept and decide nothing."""
    values = {
        "activeTurnId": report.active_turn_id,
        "sourceGoalOperationId": report.source_goal_operation_id,
        "sourceGoalRevision": report.source_goal_revision,
        "sourceGoalRepairEpoch": report.source_goal_repair_epoch,
    }
    return {key: value for key, value in values.items() if value}


def _annotated_content(turn: Turn, report: TurnReport) -> Mapping[str, Any]:
    content: dict[str, Any] = {}
    if report.error_message and report.error_message != turn.content.get("error"):
        content["error"] = report.error_message
    changes = report.file_changes
    if changes is not None and not same(changes, turn.content.get("fileChanges")):
        content["fileChanges"] = changes
    return content


def request_cancel(draft: Draft, turn_id: TurnId) -> Outcome:
    """Record that somebody wants the turn to end; its runtime settles it (SPEC section 2)."""
    turn = draft.known_turn(turn_id, "turn", turn_id)
    if turn.is_settled:
        return ignored("turn", turn_id, "late")
    if turn.cancel_requested_at:
        return ignored("turn", turn_id, "duplicate")
    draft.add(TurnCancelRequested(turn_id=turn_id, requested_at=draft.now))
    return applied("turn", turn_id)


# The root provider's part (SPEC T9).


def report_provider_turn(draft: Draft, report: ProviderTurnReport, occurred_at: int) -> Outcome:
    """Take what the root provider says of the turn it runs behind one of ours."""
    turn_id = TurnId(report.root_turn_id)
    if not turn_id:
        raise Rejected("missing_identity", "provider_turn", "", "give the part's rootTurnId")
    phase = _provider_phase(report)
    if phase is None:
        return Outcome("provider_turn", turn_id, "ignored", "unknown_phase", word=report.phase)
    if phase == "running":
        return _provider_running(draft, turn_id, report, occurred_at)
    turn = draft.known_turn(turn_id, "provider_turn", turn_id)
    if turn.provider_turn_id and report.provider_turn_id not in ("", turn.provider_turn_id):
        return ignored("provider_turn", turn_id, "other_provider_turn")
    if phase == "completed":
        return _provider_completed(draft, turn, report, occurred_at)
    binding = _binding(turn, report)
    if not binding:
        return ignored("provider_turn", turn_id, "duplicate")
    _provider(draft, turn, report, occurred_at, phase="", content=binding)
    return applied("provider_turn", turn_id)


def _provider_phase(report: ProviderTurnReport) -> str | None:
    if not report.phase:
        return ""
    known = phase_of(report.phase)
    if known is None:
        return None
    return {"running": "running", "settled": "completed"}.get(known[0])


def _provider_running(draft: Draft, turn_id: TurnId, report: ProviderTurnReport, occurred_at: int) -> Outcome:
    turn = draft.turn(turn_id)
    if turn is None:
        start(draft, turn_id, "running", "", occurred_at, occurred_at)
        turn = draft.known_turn(turn_id, "provider_turn", turn_id)
    is_current = turn.provider_turn_id == report.provider_turn_id
    if turn.is_settled or (is_current and turn.provider_phase == "completed"):
        return ignored("provider_turn", turn_id, "late")
    binding = _binding(turn, report)
    is_news = not is_current or turn.provider_phase != "running"
    if not is_news and not binding and turn.phase != "submitted":
        return ignored("provider_turn", turn_id, "duplicate")
    if is_news or binding:
        _provider(draft, turn, report, occurred_at, phase="running", content=binding)
    if is_news or turn.phase == "submitted":
        _advance(draft, turn, TurnReport.model_construct(turn_id=turn_id), "running", occurred_at)
    return applied("provider_turn", turn_id)


def _provider_completed(draft: Draft, turn: Turn, report: ProviderTurnReport, occurred_at: int) -> Outcome:
    if turn.provider_phase == "completed":
        return ignored("provider_turn", turn.turn_id, "duplicate")
    if report.outcome and outcome_of(report.outcome) is None:
        detail = f"{report.outcome!r} is no outcome; use completed, failed, canceled or interrupted"
        raise Rejected("unknown_outcome", "provider_turn", turn.turn_id, detail)
    known = phase_of(report.phase)
    outcome = outcome_of(report.outcome) or (known[1] if known else None) or "completed"
    content = dict(_binding(turn, report))
    if report.error_message:
        content["error"] = report.error_message
    _provider(draft, turn, report, occurred_at, phase="completed", outcome=outcome, content=content)
    return applied("provider_turn", turn.turn_id)


def _binding(turn: Turn, report: ProviderTurnReport) -> Mapping[str, Any]:
    given = report.provider_turn_binding_json
    is_current = report.provider_turn_id in ("", turn.provider_turn_id)
    if not given or (is_current and same(given, turn.content.get("binding"))):
        return {}
    return {"binding": given}


def _provider(
    draft: Draft,
    turn: Turn,
    report: ProviderTurnReport,
    occurred_at: int,
    *,
    phase: str,
    outcome: str = "",
    content: Mapping[str, Any],
) -> None:
    command = report.completed_command
    draft.add(
        ProviderTurnReported(
            root_turn_id=turn.turn_id,
            provider_turn_id=report.provider_turn_id or turn.provider_turn_id,
            phase=phase,
            outcome=outcome,
            completed_command={"kind": command.kind, "status": command.status} if command else None,
            error_code=report.error_code,
            awaiting=phase == "completed" and not turn.is_settled,
            occurred_at=occurred_at,
            content=content or None,
        )
    )
