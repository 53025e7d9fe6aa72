"""What a report about an interaction, or an answer, makes happen (SPEC I1-I4)."""

from collections.abc import Mapping
from typing import Any

from domain.errors import Rejected
from domain.ids import RequestId, TurnId
from domain.interaction import (
    Interaction,
    InteractionAnswered,
    InteractionReopened,
    InteractionRequested,
    InteractionSuperseded,
)
from domain.jsontext import same
from domain.reports import InteractionReport
from domain.turn import Turn
from domain.turn_ends import can_revive, revive, root_of
from domain.vocabulary import InteractionKind, InteractionStatus, interaction_kind_of
from domain.work import Draft, Outcome, applied, ignored

_STATUSES: Mapping[str, InteractionStatus] = {
    "": "pending",
    "pending": "pending",
    "answered": "answered",
    "superseded": "superseded",
}


def report_interaction(draft: Draft, report: InteractionReport, occurred_at: int) -> Outcome:
    """Take what a host says of a question: asked, answered or no longer waiting."""
    if not report.request_id or not report.turn_id:
        detail = "give the interaction's requestId and turnId"
        raise Rejected("missing_identity", "interaction", report.request_id, detail)
    status = _STATUSES.get(report.status.casefold())
    if status is None:
        detail = f"{report.status!r} is no status; use pending, answered or superseded"
        raise Rejected("unknown_status", "interaction", report.request_id, detail)
    kind = interaction_kind_of(report.kind) if report.kind else None
    if report.kind and kind is None:
        detail = f"{report.kind!r} is no kind; use approval, question or plan"
        raise Rejected("unknown_kind", "interaction", report.request_id, detail)
    turn = draft.known_turn(TurnId(report.turn_id), "interaction", report.request_id)
    known = draft.interaction(turn.turn_id, RequestId(report.request_id))
    if known is None:
        _request(draft, turn, report, kind, status, occurred_at)
    elif known.provisional:
        return _report_on_guess(draft, turn, known, report, status, occurred_at)
    elif known.status != "pending":
        return ignored("interaction", report.request_id, "already_terminal")
    elif status == "pending":
        reason = "duplicate" if _says_the_same(known, report, kind) else "conflict"
        return ignored("interaction", report.request_id, reason)
    else:
        _end(draft, turn, report, status, occurred_at)
    return applied("interaction", report.request_id)


def _report_on_guess(
    draft: Draft,
    turn: Turn,
    known: Interaction,
    report: InteractionReport,
    status: InteractionStatus,
    occurred_at: int,
) -> Outcome:
    """The end that superseded the question was a guess: it may still be asked, and be answered (SPEC T10)."""
    if status == "answered":
        _reopen(draft, known)
        _answer(draft, known.turn_id, known.request_id, report.output, occurred_at)
        return applied("interaction", known.request_id)
    if status == "superseded":
        _end(draft, turn, report, status, occurred_at)
        return applied("interaction", known.request_id)
    if can_revive(draft, turn, "waiting", occurred_at):
        revive(draft, turn, "waiting", occurred_at)
        return applied("interaction", known.request_id)
    return ignored("interaction", known.request_id, "already_terminal")


def _reopen(draft: Draft, known: Interaction) -> None:
    draft.add(InteractionReopened(turn_id=known.turn_id, request_id=known.request_id, **root_of(draft)))


def _says_the_same(known: Interaction, report: InteractionReport, kind: InteractionKind | None) -> bool:
    """Whether a pending report repeats what is known; what it leaves out it does not contradict."""
    given = _identity(report)
    return kind in (None, known.kind) and all(
        same(value, known.content.get(key)) for key, value in given.items()
    )


def _identity(report: InteractionReport) -> dict[str, Any]:
    values = {"toolName": report.tool_name, "input": report.input, "metadata": report.metadata}
    return {key: value for key, value in values.items() if value not in (None, "", {})}


def _request(
    draft: Draft,
    turn: Turn,
    report: InteractionReport,
    kind: InteractionKind | None,
    status: InteractionStatus,
    occurred_at: int,
) -> None:
    if kind is None:
        detail = "the first report of an interaction needs its kind: approval, question or plan"
        raise Rejected("missing_kind", "interaction", report.request_id, detail)
    comes_late = status == "pending" and turn.is_settled
    if comes_late and can_revive(draft, turn, "waiting", occurred_at):
        revive(draft, turn, "waiting", occurred_at)
        comes_late = False
    request_id = RequestId(report.request_id)
    draft.add(
        InteractionRequested(
            turn_id=turn.turn_id,
            request_id=request_id,
            kind=kind,
            occurred_at=occurred_at,
            content=_identity(report) or None,
            **root_of(draft),
        )
    )
    if comes_late:
        superseded = InteractionSuperseded(
            turn_id=turn.turn_id,
            request_id=request_id,
            cause="late",
            provisional=turn.provisional,
            occurred_at=occurred_at,
            **root_of(draft),
        )
        draft.add(superseded)
    elif status != "pending":
        _end(draft, turn, report, status, occurred_at)


def _end(
    draft: Draft, turn: Turn, report: InteractionReport, status: InteractionStatus, occurred_at: int
) -> None:
    request_id = RequestId(report.request_id)
    if status == "answered":
        _answer(draft, turn.turn_id, request_id, report.output, occurred_at)
        return
    draft.add(
        InteractionSuperseded(
            turn_id=turn.turn_id,
            request_id=request_id,
            cause="reported",
            occurred_at=occurred_at,
            **root_of(draft),
        )
    )


def _answer(draft: Draft, turn_id: TurnId, request_id: RequestId, output: Any, occurred_at: int = 0) -> None:
    draft.add(
        InteractionAnswered(
            turn_id=turn_id,
            request_id=request_id,
            occurred_at=occurred_at,
            content={"output": output} if output is not None else None,
            **root_of(draft),
        )
    )


def answer(draft: Draft, turn_id: TurnId, request_id: RequestId, output: Mapping[str, Any]) -> Outcome:
    """Answer a pending interaction; another answer than the first is refused (SPEC I3)."""
    draft.known_turn(turn_id, "interaction", request_id)
    known = draft.interaction(turn_id, request_id)
    if known is None:
        detail = f"turn {turn_id} asked nothing under this id; look at its interactions"
        raise Rejected("unknown_interaction", "interaction", request_id, detail)
    if known.status == "pending":
        _answer(draft, turn_id, request_id, output)
        return applied("interaction", request_id)
    if known.provisional:
        _reopen(draft, known)
        _answer(draft, turn_id, request_id, output)
        return applied("interaction", request_id)
    if known.status == "superseded":
        return ignored("interaction", request_id, "already_terminal")
    if same(known.content.get("output"), output):
        return ignored("interaction", request_id, "duplicate")
    raise Rejected(
        "conflict", "interaction", request_id, "it was answered otherwise; the first answer stands"
    )
