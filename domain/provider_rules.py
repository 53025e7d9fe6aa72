"""What the root provider's own turn behind a turn makes happen (SPEC T8, T9)."""

from collections.abc import Mapping
from typing import Any

from domain.errors import Rejected
from domain.ids import TurnId
from domain.jsontext import same
from domain.reports import ProviderTurnReport
from domain.turn import ProviderTurnReported, Turn
from domain.turn_ends import holds_children, settle
from domain.turn_rules import advance, start
from domain.vocabulary import outcome_of, phase_of
from domain.work import Draft, Outcome, applied, ignored

PART = "provider_turn"


def report_provider_turn(draft: Draft, report: ProviderTurnReport, occurred_at: int) -> Outcome:
    """Take what the root provider says of the turn it runs behind one of ours."""
    turn_id = TurnId(report.root_turn_id)
    if not turn_id:
        raise Rejected("missing_identity", PART, "", "give the part's rootTurnId")
    phase = _phase_of(report)
    if phase is None:
        return Outcome(PART, turn_id, "ignored", "unknown_phase", word=report.phase)
    if phase == "running":
        return _running(draft, turn_id, report, occurred_at)
    turn = draft.known_turn(turn_id, PART, turn_id)
    if turn.provider_turn_id and not _is_current(turn, report):
        return ignored(PART, turn_id, "other_provider_turn")
    if phase == "completed":
        return _completed(draft, turn, report, occurred_at)
    binding = _binding(turn, report)
    if not binding:
        return ignored(PART, turn_id, "duplicate")
    _store(draft, turn, report, occurred_at, phase="", content=binding)
    return applied(PART, turn_id)


def _phase_of(report: ProviderTurnReport) -> str | None:
    """running, completed, or blank for none; None for any other word."""
    if not report.phase:
        return ""
    known = phase_of(report.phase)
    return {"running": "running", "settled": "completed"}.get(known[0]) if known else None


def _is_current(turn: Turn, report: ProviderTurnReport) -> bool:
    """Whether the report is about the provider's turn that is current; a blank id means that one."""
    return report.provider_turn_id in ("", turn.provider_turn_id)


def _running(draft: Draft, turn_id: TurnId, report: ProviderTurnReport, occurred_at: int) -> Outcome:
    turn = draft.turn(turn_id)
    if turn is None:
        start(draft, turn_id, "running", "", occurred_at, occurred_at)
        turn = draft.known_turn(turn_id, PART, turn_id)
    elif turn.is_settled or (_is_current(turn, report) and turn.provider_phase == "completed"):
        return ignored(PART, turn_id, "late")
    binding = _binding(turn, report)
    is_news = not _is_current(turn, report) or turn.provider_phase != "running"
    if not is_news and not binding and turn.phase != "submitted":
        return ignored(PART, turn_id, "duplicate")
    if is_news or binding:
        _store(draft, turn, report, occurred_at, phase="running", content=binding)
    if not turn.is_settled and (is_news or turn.phase == "submitted"):
        advance(draft, turn, "running", occurred_at, occurred_at)
    return applied(PART, turn_id)


def _completed(draft: Draft, turn: Turn, report: ProviderTurnReport, occurred_at: int) -> Outcome:
    if turn.provider_phase == "completed":
        return ignored(PART, turn.turn_id, "duplicate")
    if report.outcome and outcome_of(report.outcome) is None:
        detail = f"{report.outcome!r} is no outcome; use completed, failed, canceled or interrupted"
        raise Rejected("unknown_outcome", PART, turn.turn_id, detail)
    known = phase_of(report.phase)
    outcome = outcome_of(report.outcome) or (known[1] if known else None) or "completed"
    content = dict(_binding(turn, report))
    if report.error_message:
        content["error"] = report.error_message
    _store(draft, turn, report, occurred_at, phase="completed", outcome=outcome, content=content)
    return applied(PART, turn.turn_id)


def _binding(turn: Turn, report: ProviderTurnReport) -> Mapping[str, Any]:
    given = report.provider_turn_binding_json
    if not given or (_is_current(turn, report) and same(given, turn.content.get("binding"))):
        return {}
    return {"binding": given}


def _store(
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


def settle_ready(draft: Draft) -> None:
    """Settle each turn whose provider part is completed and that no child at work names (SPEC T8)."""
    for turn_id in draft.state.awaiting:
        if holds_children(draft, turn_id):
            continue
        turn = draft.known_turn(turn_id, PART, turn_id)
        by_itself = turn_id not in draft.loaded.awaiting
        settle(
            draft,
            turn_id,
            outcome_of(turn.provider_outcome) or "completed",
            (turn.provider_at if by_itself else 0) or draft.now,
            "reported" if by_itself else "root",
            provisional=False,
            error_message=turn.content.get("providerError", ""),
            error_code=turn.provider_error_code,
        )
