"""What a report about a turn makes happen (SPEC T1-T3, T5, T6, T10)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from domain.errors import Rejected
from domain.event import is_older, seen_at
from domain.ids import MessageId, TurnId
from domain.jsontext import same
from domain.reports import TurnReport
from domain.turn import Turn, TurnAdvanced, TurnAnnotated, TurnCancelRequested, TurnStarted
from domain.turn_ends import can_revive, close_tools, live_turn, overtake, resume, revive, settle
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
End = tuple[EndCause, bool]
"""How the end that a report tells counts: its cause, and whether it is provisional."""


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


def is_end(report: TurnReport) -> bool:
    """Whether the report tells the turn's end."""
    meaning = meaning_of(report)
    return meaning is not None and meaning[0] == "settled"


def report_turn(
    draft: Draft, report: TurnReport, occurred_at: int, end: End = ("reported", False)
) -> Outcome:
    """Take a report about a turn; `end` says how an end counts that it tells."""
    if not report.turn_id:
        raise Rejected("missing_identity", "turn", "", "give the turn's turnId")
    meaning = meaning_of(report)
    if meaning is None:
        return Outcome("turn", report.turn_id, "ignored", "unknown_phase", word=report.phase)
    phase, outcome = meaning
    before = len(draft.work.decided)
    turn = draft.turn(TurnId(report.turn_id))
    if phase == "settled" and outcome:
        turn = turn or _introduce(draft, report, occurred_at)
        is_late = _end(draft, turn, report, outcome, occurred_at, end)
        if not is_late:
            _annotate(draft, report, occurred_at)
    else:
        is_late = _go_on(draft, turn, report, phase, occurred_at)
        _annotate(draft, report, occurred_at, fills_only=is_late, is_news=len(draft.work.decided) > before)
    if len(draft.work.decided) > before:
        return applied("turn", report.turn_id)
    return ignored("turn", report.turn_id, "late" if is_late else "duplicate")


def introduce(draft: Draft, report: TurnReport, occurred_at: int) -> None:
    """Make an unknown turn known ahead of its end, so that messages of the same report find it."""
    if report.turn_id and draft.turn(TurnId(report.turn_id)) is None:
        _introduce(draft, report, occurred_at)


def _introduce(draft: Draft, report: TurnReport, occurred_at: int) -> Turn:
    """A turn of which only the end is told: it was never the live one here (SPEC T2)."""
    started = TurnStarted(
        turn_id=TurnId(report.turn_id),
        phase="settling",
        origin=_origin(report),
        started_at=report.started_at_unix_ms or occurred_at or draft.now,
        after_message=draft.state.message_version,
        occurred_at=occurred_at,
    )
    draft.add(started)
    return draft.known_turn(started.turn_id, "turn", started.turn_id)


def _origin(report: TurnReport) -> str:
    if report.origin and report.origin not in TURN_ORIGINS:
        detail = f"{report.origin!r} is no origin; use one of {', '.join(sorted(TURN_ORIGINS))}"
        raise Rejected("unknown_origin", "turn", report.turn_id, detail)
    return report.origin


# Live phases.


def _go_on(
    draft: Draft, turn: Turn | None, report: TurnReport, phase: Phase | None, occurred_at: int
) -> bool:
    """Start a turn or move it on; True when the phase comes too late to change anything."""
    turn_id = TurnId(report.turn_id)
    if turn is None:
        if phase is None:
            draft.known_turn(turn_id, "turn", turn_id)
        else:
            began = report.started_at_unix_ms or occurred_at
            start(draft, turn_id, phase, _origin(report), began, occurred_at)
        return False
    if phase is None:
        return False
    if turn.is_settled:
        if not can_revive(draft, turn, phase, occurred_at):
            return True
        revive(draft, turn, phase, occurred_at)
        return False
    return advance(draft, turn, phase, report.started_at_unix_ms or occurred_at, occurred_at)


def start(draft: Draft, turn_id: TurnId, phase: Phase, origin: str, began: int, occurred_at: int) -> None:
    """Start a turn that is not over: it becomes live, queues, or has been overtaken (SPEC T2)."""
    started = TurnStarted(
        turn_id=turn_id,
        phase=phase,
        origin=origin,
        started_at=began or draft.now,
        after_message=draft.state.message_version,
        occurred_at=occurred_at,
    )
    live = live_turn(draft)
    if live and phase == "submitted" and live.phase != "submitted":
        draft.add(started)
    else:
        _compete(draft, live, started, seen_at(began, draft.now))


def _compete(draft: Draft, live: Turn | None, event: TurnStarted | TurnAdvanced, began: int) -> None:
    """Make the turn the live one unless the one that is began later; `began` 0: unknown, so newest.

    A turn that is merely submitted goes back to the queue before an earlier one at work.
    """
    if live and 0 < began < live.began:
        if live.phase == "submitted" != event.phase:
            resume(draft, began)
            draft.add(replace(event, active=True, queued_turn_id=live.turn_id, queued_began=live.began))
        else:
            draft.add(event)
            overtake(draft, event.turn_id, live.began)
        return
    if live:
        overtake(draft, live.turn_id, began)
    resume(draft, began)
    draft.add(replace(event, active=True))


def advance(
    draft: Draft, turn: Turn, phase: Phase, at: int, occurred_at: int, *, pulled: bool = False
) -> bool:
    """Move a turn that has not ended on; True when the report is late (SPEC T3)."""
    if phase == turn.phase:
        return False
    if RANK[phase] < RANK[turn.phase]:
        return True
    if RANK[phase] == RANK[turn.phase] and is_older(occurred_at, draft.now, turn.phase_at):
        return True
    moved = TurnAdvanced(turn_id=turn.turn_id, phase=phase, pulled=pulled, occurred_at=occurred_at)
    live = live_turn(draft)
    if live and live.turn_id != turn.turn_id:
        began = turn.began if turn.began < live.began else seen_at(at, draft.now)
        _compete(draft, live, moved, began)
    else:
        draft.add(replace(moved, active=True))
    return False


# Ends.


def _end(
    draft: Draft, turn: Turn, report: TurnReport, outcome: TurnOutcome, occurred_at: int, end: End
) -> bool:
    """End the turn as its report says; True when it had ended otherwise and the report is late."""
    cause, provisional = end
    settled_at = report.completed_at_unix_ms or occurred_at or draft.now
    if turn.is_final:
        return provisional or turn.outcome != outcome
    if turn.is_settled and provisional and (turn.outcome, turn.settled_at) == (outcome, settled_at):
        if outcome != "completed":  # Calls may have come since.
            close_tools(draft, turn.turn_id, settled_at, provisional=True)
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


# What a report tells beside the phase.


def _annotate(
    draft: Draft, report: TurnReport, occurred_at: int, *, fills_only: bool = False, is_news: bool = True
) -> None:
    """Store what is news beside the phase (SPEC T6).

    `fills_only`: the report is late, so it only fills what is absent. An earlier start alone is no news,
    but beside news it is kept.
    """
    turn = draft.turn(TurnId(report.turn_id))
    if turn is None:
        return
    given = [(ref.capability, ref.source) for ref in report.capability_refs]
    facts: dict[str, Any] = {
        "capability_refs_added": tuple(
            ref for ref in dict.fromkeys(given) if ref not in turn.capability_refs
        ),
        "completed_command": _completed_command(turn, report, fills_only=fills_only),
        "origin": "" if turn.origin else _origin(report),
        "error_code": _news(turn.error_code, report.error_code, fills_only=fills_only),
        "data": None if fills_only else _data(turn, report),
    }
    content = _content(turn, report, fills_only=fills_only)
    is_earlier = 0 < report.started_at_unix_ms < turn.started_at
    if not (any(facts.values()) or content or (is_earlier and is_news and not fills_only)):
        return
    draft.add(
        TurnAnnotated(
            turn_id=turn.turn_id,
            started_at=report.started_at_unix_ms if is_earlier else 0,
            occurred_at=occurred_at,
            content=content or None,
            **facts,
        )
    )


def _news(stored: Any, given: Any, *, fills_only: bool) -> Any:
    return "" if given == stored or (fills_only and stored) else given


def _completed_command(turn: Turn, report: TurnReport, *, fills_only: bool) -> Mapping[str, Any] | None:
    command = report.completed_command
    if command is None or (fills_only and turn.completed_command):
        return None
    given = {"kind": command.kind, "status": command.status}
    return None if given == turn.completed_command else given


def _data(turn: Turn, report: TurnReport) -> Mapping[str, Any] | None:
    """The wire's fields that are kept and decide nothing."""
    given = {
        "activeTurnId": report.active_turn_id,
        "sourceGoalOperationId": report.source_goal_operation_id,
        "sourceGoalRevision": report.source_goal_revision,
        "sourceGoalRepairEpoch": report.source_goal_repair_epoch,
    }
    stored = turn.data or {}
    return {key: value for key, value in given.items() if value and stored.get(key) != value} or None


def _content(turn: Turn, report: TurnReport, *, fills_only: bool) -> Mapping[str, Any]:
    content: dict[str, Any] = {}
    if error := _news(turn.content.get("error", ""), report.error_message, fills_only=fills_only):
        content["error"] = error
    changes, stored = report.file_changes, turn.content.get("fileChanges")
    if changes is not None and not (fills_only and stored is not None) and not same(changes, stored):
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
