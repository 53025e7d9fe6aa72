"""How turns end, and how an end that was a guess is taken back (SPEC T2, T4, T10)."""

from typing import Any

from domain.event import is_older, seen_at
from domain.ids import MessageId, TurnId
from domain.interaction import InteractionReopened, InteractionSuperseded
from domain.message import MessageChanged
from domain.session import Resumed
from domain.turn import Turn, TurnRevived, TurnSettled
from domain.vocabulary import MESSAGE_TERMINAL, RANK, EndCause, Outcome, Phase
from domain.work import Draft


def live_turn(draft: Draft) -> Turn | None:
    """The session's live turn."""
    return draft.turn(draft.state.active_turn) if draft.state.active_turn else None


def overtake(draft: Draft, turn_id: TurnId, at: int) -> None:
    """End a turn because another one is live; its own report may say better (SPEC T2)."""
    settle(draft, turn_id, "interrupted", at or draft.now, "overtaken", provisional=True, promote=False)


def settle(
    draft: Draft,
    turn_id: TurnId,
    outcome: Outcome,
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
    before = draft.turn(turn_id)
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
            is_past=_is_past(draft, turn_id, settled_at),
            error_code=error_code,
            occurred_at=occurred_at,
            content={"error": error_message} if error_message else None,
        )
    )
    _supersede_pending(draft, turn_id, provisional=provisional)
    if before and before.is_settled and not provisional:
        _confirm_superseded(draft, turn_id)
    if outcome != "completed":
        close_tools(draft, turn_id, settled_at, provisional=provisional)


def _is_past(draft: Draft, turn_id: TurnId, settled_at: int) -> bool:
    """Whether a turn that ended later has told the session's last end already (SPEC S6)."""
    last = draft.state.last_end
    if last is None or turn_id in (draft.state.active_turn, last.turn_id):
        return False
    return seen_at(settled_at, draft.now) < last.settled_at


def _final_message(draft: Draft, turn_id: TurnId, given: MessageId) -> MessageId | None:
    """The id given, if it is an assistant text of that turn, else the one with the highest version."""
    if given:
        message = draft.message(given)
        if message and message.turn_id == turn_id and message.is_assistant_text:
            return given
    last = draft.last_assistant_text(turn_id)
    return last.message_id if last else None


def _supersede_pending(draft: Draft, turn_id: TurnId, *, provisional: bool) -> None:
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


def _confirm_superseded(draft: Draft, turn_id: TurnId) -> None:
    """What the guess of a provisional end superseded is superseded for good by the final one."""
    for interaction in draft.interactions(turn_id):
        if interaction.status == "superseded" and interaction.provisional:
            draft.add(
                InteractionSuperseded(
                    turn_id=turn_id,
                    request_id=interaction.request_id,
                    cause=interaction.cause,
                    **root_of(draft),
                )
            )


def root_of(draft: Draft) -> dict[str, Any]:
    """The root that an interaction event names: none when the session is its own root (SPEC D2)."""
    state = draft.state
    return {"root_session": state.root_session, "root_turn": state.root_turn} if state.is_child else {}


def close_tools(draft: Draft, turn_id: TurnId, at: int, *, provisional: bool) -> None:
    """End the turn's open tool calls; a final end makes the guess of a provisional one final."""
    for message in draft.open_tools(turn_id):
        if provisional and message.status in MESSAGE_TERMINAL:
            continue
        draft.add(
            MessageChanged(
                message_id=message.message_id,
                version=draft.next_message_version,
                status="canceled",
                provisional=provisional,
                completed_at=at,
            )
        )


def holds_children(draft: Draft, turn_id: TurnId) -> bool:
    """Whether children at work name this turn (SPEC T8)."""
    return turn_id in draft.state.active_children.values()


def can_revive(draft: Draft, turn: Turn, phase: Phase, occurred_at: int) -> bool:
    """Whether a live phase takes the turn's end back: a guess, not stale, and nothing in the way."""
    if not turn.is_settled or turn.is_final:
        return False
    if is_older(occurred_at, draft.now, turn.phase_at) or RANK[phase] < RANK.get(turn.ended_phase, 0):
        return False
    if turn.provider_phase == "completed" and not holds_children(draft, turn.turn_id):
        return False
    live = live_turn(draft)
    return live is None or live.phase == "submitted"


def revive(draft: Draft, turn: Turn, phase: Phase, occurred_at: int, *, pulled: bool = False) -> None:
    """Take a provisional end back; what it superseded opens again (SPEC T10)."""
    live = live_turn(draft)
    resume(draft, turn.began)
    draft.add(
        TurnRevived(
            turn_id=turn.turn_id,
            phase=phase,
            queued_turn_id=live.turn_id if live else TurnId(""),
            queued_began=live.began if live else 0,
            awaiting=turn.provider_phase == "completed",
            pulled=pulled,
            occurred_at=occurred_at,
        )
    )
    for interaction in draft.interactions(turn.turn_id):
        if interaction.status == "superseded" and interaction.provisional:
            reopened = InteractionReopened(
                turn_id=interaction.turn_id, request_id=interaction.request_id, **root_of(draft)
            )
            draft.add(reopened)


def resume(draft: Draft, began: int) -> None:
    """A session that had ended is alive again when a newer turn begins; 0: it begins now (SPEC S5)."""
    if draft.state.has_ended and not 0 < seen_at(began, draft.now) <= draft.state.status_at:
        draft.add(Resumed())
