"""Takes what a remote shows of a session into the record: what lives there is shown here as it is there.

One call is one commit. What is known already makes no event, so that the same list or page again stores
nothing. (SPEC P2, P4-P8)
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

from application.message_pages import Page, new_epoch, sort_rows
from application.ports import Loader
from application.remote import BadRow, RemoteMessage, RemoteSession
from domain import jsontext, session_rules, tree_rules
from domain.errors import Rejected
from domain.ids import MessageId, RemoteCursor, SessionId, TurnId, named_id
from domain.message_rules import report_message
from domain.pull import EpochStarted, Pull, Pulled, Reappeared, RowParked, Vanished
from domain.reports import MessageUpdate, SessionState, StateReport
from domain.session import Resumed, Session, StatusReported
from domain.session_rules import is_phase_news
from domain.turn import Turn, TurnStarted
from domain.turn_ends import can_revive, revive, settle
from domain.turn_rules import advance
from domain.vocabulary import TURNLESS_KINDS, Phase, display_of, lifecycle_end, phase_of
from domain.work import Draft, Source, Work

RAW_BYTES_MAX: Final = 65_536
"""How much of a row that cannot be taken in is kept."""
NOTHING_SAID: Final = MessageUpdate()
BUSY: Final = ("working", "waiting")
"""The display statuses of a session that has a live turn."""


class Took(StrEnum):
    """What became of a page."""

    ALL = "all"
    """It is stored, as far as it was news."""
    STALE = "stale"
    """Another process has read on meanwhile: read again from where that one got to."""
    EPOCH = "epoch"
    """The remote began anew: read again from the start."""
    REFUSED = "refused"
    """The session is deleted here, or its root is."""


def mirror(
    session: SessionId, shown: RemoteSession, home: str, page: Page | None
) -> Callable[[Work, Loader], Mapping[str, Any]]:
    """The rule that takes in a session as its home lists it, and a page of its messages if there is one.

    Answers `took` (see Took), the `pull` as it stands behind it, and how many rows were `parked`.
    """

    def rule(work: Work, _: Loader) -> Mapping[str, Any]:
        work.source = Source("pull")
        refused: dict[str, str] = {}
        while True:
            attempt = Work(work.room, work.now, work.load, work.actor, work.source)
            try:
                answer = _take_in(attempt.session(session), shown, home, page, refused)
            except Rejected as error:
                if error.part != "message" or error.id in refused:
                    raise
                refused[error.id] = error.detail
                continue
            work.decided, work.drafts, work.links = attempt.decided, attempt.drafts, attempt.links
            return answer

    return rule


def note_absence(session: SessionId) -> Callable[[Work, Loader], Mapping[str, Any]]:
    """The rule that marks a session as vanished from its home (SPEC P7)."""

    def rule(work: Work, _: Loader) -> Mapping[str, Any]:
        draft = work.session(session)
        if is_pulled(draft.state) and not is_closed(draft.state):
            work.source = Source("pull")
            draft.add(Vanished())
        return {}

    return rule


def is_pulled(session: Session) -> bool:
    """Whether it was ever read at another host."""
    return bool(session.home or session.pull)


def is_closed(session: Session) -> bool:
    """Whether nothing is to be told of its absence: it is deleted here, or has vanished already."""
    return session.is_deleted or bool(session.pull and session.pull.vanished)


def _take_in(
    draft: Draft, shown: RemoteSession, home: str, page: Page | None, refused: Mapping[str, str]
) -> Mapping[str, Any]:
    pull = draft.state.pull or Pull()
    if page and not page.fits(pull):
        return _answer(Took.STALE, pull)
    if draft.state.is_deleted or not _take_session(draft, shown, home):
        return _answer(Took.REFUSED, pull)
    took, parked = Took.ALL, 0
    if page and (reason := new_epoch(pull, page)):
        draft.add(EpochStarted(epoch=pull.epoch + 1, reason=reason, remote_epoch=page.read.epoch))
        took = Took.EPOCH
    elif page:
        parked = _take_page(draft, page, refused)
    if took is Took.ALL and not (page and page.read.has_more):
        _show_life(draft, shown)
    _take_status(draft, shown)
    tree_rules.finish(draft.work)
    return _answer(took, draft.state.pull or pull, parked)


def _answer(took: Took, pull: Pull, parked: int = 0) -> Mapping[str, Any]:
    return {"took": took, "pull": pull, "parked": parked}


# The session itself.


def _take_session(draft: Draft, shown: RemoteSession, home: str) -> bool:
    """Take in the session's own part; False when it may not be here (SPEC S8, S9).

    What lives elsewhere is shown as it is there. Of a session that was reported here, a pull fills only what
    is blank, unless it is newer (SPEC P6).
    """
    is_new = not draft.state.opened
    lives_elsewhere = is_new or bool(draft.state.home)
    report = StateReport(
        room_id=draft.work.room,
        agent_session_id=draft.state.session,
        session_origin=shown.origin if is_new or lives_elsewhere else "",
        user_id=shown.user_id,
        state=SessionState(
            **_relations(draft, shown),
            agent_target_id=shown.agent_target_id,
            device_id=shown.device_id,
            provider=shown.provider,
            provider_session_id=shown.provider_session_id,
            cwd=shown.cwd,
            title=shown.title,
            started_at_unix_ms=shown.started_at_unix_ms,
            ended_at_unix_ms=shown.ended_at_unix_ms,
            occurred_at_unix_ms=0 if lives_elsewhere else max(1, shown.updated_at_unix_ms - 1),
        ),
    )
    if is_new:
        root = SessionId(report.state.root_agent_session_id)
        if root and draft.work.session(root).state.is_deleted:
            return False
        session_rules.open_session(draft, home=home, origin=shown.origin, created_at=shown.created_at_unix_ms)
    if not session_rules.report_state(draft, report).accepted:
        return False
    if draft.state.pull and draft.state.pull.vanished:
        draft.add(Reappeared())
    return True


def _relations(draft: Draft, shown: RemoteSession) -> dict[str, Any]:
    """The relations the remote tells, if they can be true; they are optional on the wire."""
    given = {
        "kind": shown.kind,
        "root_agent_session_id": shown.root_agent_session_id,
        "root_turn_id": shown.root_turn_id,
        "parent_agent_session_id": shown.parent_agent_session_id,
        "parent_turn_id": shown.parent_turn_id,
        "parent_tool_call_id": shown.parent_tool_call_id,
    }
    session, root, parent = draft.state.session, shown.root_agent_session_id, shown.parent_agent_session_id
    if shown.kind == "child" and root and parent and session not in (root, parent):
        return given
    return {"kind": "root"} if shown.kind == "root" and not (root or parent) else {}


def _take_status(draft: Draft, shown: RemoteSession) -> None:
    """Status and phase as the remote shows them, unless a report told them here and is as new (SPEC P6).

    Behind the turns, so that the end of one does not hide the phase that is shown with it (SPEC S6).
    """
    state = draft.state
    was_told_here = (state.lifecycle_status or state.current_phase) and not state.status_pulled
    if was_told_here and shown.updated_at_unix_ms <= max(state.last_event_at, state.status_at):
        return
    if state.has_ended and lifecycle_end(shown.lifecycle_status) is None:
        if not shown.lifecycle_status:
            return
        draft.add(Resumed())
    news: dict[str, Any] = {}
    if shown.lifecycle_status not in ("", draft.state.lifecycle_status):
        news["lifecycle_status"] = shown.lifecycle_status
    if shown.turn_phase and is_phase_news(draft, shown.turn_phase):
        news["current_phase"] = shown.turn_phase
    if news:
        draft.add(StatusReported(pulled=True, **news))


# A page of messages.


def _take_page(draft: Draft, page: Page, refused: Mapping[str, str]) -> int:
    """Take in a page's rows and say how far that is; how many were parked for the first time."""
    pull = draft.state.pull or Pull()
    rows = sort_rows(pull, page, refused)
    touched: dict[TurnId, int] = {}
    newest = (pull.newest_sequence, pull.newest_turn)
    draft.look_up([row.message_id for row in rows.good])
    for row in rows.good:
        turn = _take_message(draft, row)
        if turn:
            touched[turn] = max(touched.get(turn, 0), row.completed_at_unix_ms, row.occurred_at_unix_ms)
            newest = max(newest, (_sequence(draft, row), turn))
    for turn, at in touched.items():
        _end_backfilled(draft, turn, at)
    parked = sum(_park(draft, pull, cursor, row) for cursor, row in rows.bad)
    if rows.end > pull.cursor:
        draft.add(
            Pulled(
                epoch=pull.epoch,
                read_from=pull.cursor,
                read_to=rows.end,
                last=rows.last,
                newest_turn=newest[1],
                newest_sequence=newest[0],
                remote_epoch=page.read.epoch or pull.remote_epoch,
            )
        )
    return parked


def _sequence(draft: Draft, row: RemoteMessage) -> int:
    """A message's place for display; a remote that does not tell it leaves it to us."""
    stored = None if row.sequence else draft.message(MessageId(row.message_id))
    return stored.sequence if stored else row.sequence


def _park(draft: Draft, pull: Pull, cursor: RemoteCursor, row: BadRow) -> bool:
    """Keep a row that cannot be taken in; False when it has been before (SPEC P4)."""
    raw = row.raw[:RAW_BYTES_MAX].decode("utf-8", "surrogateescape")
    digest = jsontext.digest([raw, len(row.raw)])
    if digest in pull.parked:
        return False
    content = {"reason": row.reason, "raw": raw}
    draft.add(RowParked(epoch=pull.epoch, cursor=cursor, digest=digest, content=content))
    return True


def _take_message(draft: Draft, row: RemoteMessage) -> TurnId:
    """Take in one message with the turn it names; that turn, blank for none."""
    turn = _turn_of(draft, row)
    if turn and draft.turn(turn) is None:
        began = row.started_at_unix_ms or row.occurred_at_unix_ms or row.created_at_unix_ms or draft.now
        after = draft.state.message_version
        draft.add(
            TurnStarted(turn_id=turn, phase="running", started_at=began, after_message=after, backfilled=True)
        )
    # Its parts were checked when the page was read.
    update = NOTHING_SAID.model_copy(
        update={
            "message_id": row.message_id,
            "turn_id": turn,
            "role": row.role,
            "kind": row.kind,
            "status": row.status,
            "semantics": row.semantics,
            "payload": row.payload,
            "occurred_at_unix_ms": row.occurred_at_unix_ms,
            "started_at_unix_ms": row.started_at_unix_ms,
            "completed_at_unix_ms": row.completed_at_unix_ms,
        }
    )
    outcome = report_message(draft, update, sequence=row.sequence, pulled=True)
    if outcome.reason == "turn_conflict":
        detail = f"turnId: another turn than before, which was {_known_turn(draft, row)!r}"
        raise Rejected("conflict", "message", row.message_id, detail)
    return turn


def _turn_of(draft: Draft, row: RemoteMessage) -> TurnId:
    """The turn of a message: every kind but two has one, also when the remote names none (SPEC M4)."""
    if row.kind in TURNLESS_KINDS:
        return TurnId("")
    return TurnId(row.turn_id) or _known_turn(draft, row)


def _known_turn(draft: Draft, row: RemoteMessage) -> TurnId:
    known = draft.message(MessageId(row.message_id))
    return known.turn_id if known else TurnId(named_id("pulled_turn", draft.work.room, draft.state.session))


# Turns, of which the remote's routes tell little.


def _end_backfilled(draft: Draft, turn_id: TurnId, at: int) -> None:
    """End a turn that only its messages have told of, provisionally; again when its last word is another."""
    turn = draft.turn(turn_id)
    if turn is None or not turn.backfilled or turn.is_final or turn_id == draft.state.active_turn:
        return
    last = draft.last_assistant_text(turn_id)
    if turn.is_settled and turn.final_message_id == (last.message_id if last else None):
        return
    _settle(draft, turn, at)


def _settle(draft: Draft, turn: Turn, at: int) -> None:
    settled_at = max(at, turn.settled_at, turn.started_at)
    settle(draft, turn.turn_id, "completed", settled_at, "pulled", provisional=True)


def _show_life(draft: Draft, shown: RemoteSession) -> None:
    """Let the newest turn live while the remote shows the session at work, and end when it does not.

    A turn that was reported here is left to its reports (SPEC P6).
    """
    newest = draft.state.pull.newest_turn if draft.state.pull else TurnId("")
    live = draft.turn(draft.state.active_turn) if draft.state.active_turn else None
    phase = _live_phase(shown)
    if live and live.backfilled and (phase is None or live.turn_id != newest):
        _settle(draft, live, draft.now)
    turn = draft.turn(newest) if newest else None
    if phase is None or turn is None or not turn.backfilled:
        return
    if not turn.is_settled:
        advance(draft, turn, phase, 0, 0, pulled=True)
    elif can_revive(draft, turn, phase, 0):
        revive(draft, turn, phase, 0, pulled=True)


def _live_phase(shown: RemoteSession) -> Phase | None:
    """The phase of the turn the remote is at; None when it is at none.

    A turn that has messages has left `submitted`, whatever the session's phase says.
    """
    status = display_of(shown.status)
    if status not in BUSY:
        return None
    known = phase_of(shown.turn_phase)
    if known and known[0] not in ("submitted", "settled"):
        return known[0]
    return "waiting" if status == "waiting" else "running"
