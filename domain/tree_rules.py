"""What holds a root and its children together (SPEC C6, C7, S8, S9, T7, T8)."""

from collections.abc import Iterable, Mapping, Sequence

from domain.errors import Rejected
from domain.ids import MessageId, SessionId, TurnId, named_id
from domain.message import MessageAdded
from domain.provider_rules import settle_ready
from domain.session import (
    ChildActive,
    ChildLinked,
    ChildQuiet,
    Deleted,
    Purged,
    Restored,
    Session,
)
from domain.turn_ends import settle
from domain.vocabulary import EndCause
from domain.work import Draft, Outcome, Work, applied, ignored

Tree = Sequence[Session]
"""Every reported session of a tree, in any order."""


def finish(work: Work) -> None:
    """Settle what waits, and bring roots up to date with what the command changed in their children.

    Every command ends here, so after every command a turn whose provider part is completed and that no
    child holds is settled (SPEC T8). A root may be somebody's child in turn.
    """
    waiting = list(work.drafts.values())
    while waiting:
        draft = waiting.pop(0)
        settle_ready(draft)
        root = _tell_root(work, draft)
        if root is not None and root not in waiting:
            waiting.append(root)


def _tell_root(work: Work, child: Draft) -> Draft | None:
    """Store in the root's own stream what it must know of a child (SPEC C7); the root, if that was news."""
    before, after = child.loaded, child.state
    if not after.is_child or before.version == after.version:
        return None
    link = (after.root_session, after.root_turn, after.parent_session, after.parent_tool_call)
    known = (before.root_session, before.root_turn, before.parent_session, before.parent_tool_call)
    is_linked = link == work.links.get(after.session, known)
    if is_linked and before.is_child and before.is_active == after.is_active:
        return None
    root = work.session(after.root_session)
    version = root.state.version
    if not is_linked:
        work.links[after.session] = link
        linked = ChildLinked(
            child=after.session,
            parent=after.parent_session,
            root_turn=after.root_turn,
            tool_call=after.parent_tool_call,
        )
        root.add(linked)
    if after.is_active and after.session not in root.state.active_children:
        root.add(ChildActive(child=after.session, root_turn=after.root_turn))
    elif not after.is_active and after.session in root.state.active_children:
        root.add(ChildQuiet(child=after.session))
    return root if root.state.version > version else None


# Trees.


def _with_descendants(tree: Tree, anchor: SessionId) -> list[Session]:
    """The anchor's part of the tree, top first, then by session id."""
    by_id = {session.session: session for session in tree}
    depths = {session: _depth(by_id, anchor, session) for session in by_id}
    found = [(depth, session) for session, depth in depths.items() if depth is not None]
    return [by_id[session] for _, session in sorted(found)]


def _depth(by_id: dict[SessionId, Session], anchor: SessionId, session: SessionId) -> int | None:
    """How far below the anchor a session stands; None when it does not stand below it."""
    depth, here = 0, session
    while here != anchor:
        known = by_id.get(here)
        if known is None or not known.parent_session or depth > len(by_id):
            # The chain to the top is not known whole: it is below the root that it names.
            return depth + 1 if by_id[session].root_session == anchor else None
        here, depth = known.parent_session, depth + 1
    return depth


def level(by_id: Mapping[SessionId, Session], session: Session) -> int:
    """How many known parents stand above a session; a chain that runs in a circle ends."""
    found = 0
    while found <= len(by_id) and (parent := by_id.get(session.parent_session)):
        session, found = parent, found + 1
    return found + bool(session.parent_session)


def _root_ids(session: Session) -> dict[str, str]:
    return {"root_session": session.root_session, "root_turn": session.root_turn} if session.is_child else {}


def delete(work: Work, anchor: SessionId, tree: Tree) -> list[Outcome]:
    """Delete a session with all its descendants, deepest first; what is deleted already stays (SPEC S9)."""
    members = [session for session in _with_descendants(tree, anchor) if not session.is_deleted]
    named = work.session(anchor)
    if named.state.is_deleted or not named.state.opened:
        return [ignored("session", anchor, "deleted" if named.state.opened else "unknown")]
    deletion_id = named_id("deletion", work.room, anchor, str(named.state.version))
    deepest_first = _deepest_first(tree, anchor, members)
    for member in deepest_first:
        draft = work.session(member.session)
        _finish_below(work, named)
        settle_all(draft, "deleted")
        draft.add(Deleted(deletion_id=deletion_id, anchor=anchor, **_root_ids(draft.state)))  # type: ignore[arg-type]
    return [applied("session", member.session) for member in deepest_first]


def _finish_below(work: Work, named: Draft) -> None:
    """Let a root end as it would by itself when its children have, before it goes the way they go.

    A root that stays is told when everything else is written (SPEC C6).
    """
    if not named.state.is_child:
        finish(work)


def _deepest_first(tree: Tree, anchor: SessionId, members: Iterable[Session]) -> list[Session]:
    by_id = {session.session: session for session in tree}
    return sorted(members, key=lambda one: (-(_depth(by_id, anchor, one.session) or 0), one.session))


def restore(work: Work, anchor: SessionId, tree: Tree) -> list[Outcome]:
    """Take back the deletion that the session is part of, top first; exactly that set comes back."""
    named = work.session(anchor).state
    if named.purged:
        raise Rejected("purged", "session", anchor, "its content was destroyed, it cannot come back")
    if not named.deleted_at:
        return [ignored("session", anchor, "duplicate" if named.opened else "unknown")]
    root = named.root_session if named.is_child else anchor
    above = [one for one in tree if one.session in (named.root_session, named.parent_session)]
    if any(one.is_deleted and one.deletion_id != named.deletion_id for one in above):
        return [ignored("session", anchor, "root_deleted")]
    members = [
        session
        for session in _with_descendants(tree, root)
        if session.deletion_id == named.deletion_id and not session.purged
    ]
    for member in members:
        draft = work.session(member.session)
        draft.add(Restored(deletion_id=named.deletion_id, **_root_ids(draft.state)))  # type: ignore[arg-type]
    return [applied("session", member.session) for member in members]


def purge(work: Work, anchor: SessionId, tree: Tree) -> list[Outcome]:
    """Destroy the content of a session and all its descendants for good, top first (SPEC A4, S9)."""
    named = work.session(anchor)
    if named.state.purged or not named.state.opened:
        return [ignored("session", anchor, "duplicate" if named.state.opened else "unknown")]
    deletion_id = named.state.deletion_id or named_id("purge", work.room, anchor, str(named.state.version))
    members = [session for session in _with_descendants(tree, anchor) if not session.purged]
    for member in _deepest_first(tree, anchor, members):
        draft = work.session(member.session)
        _finish_below(work, named)
        settle_all(draft, "deleted")
    _finish_below(work, named)
    for member in members:
        draft = work.session(member.session)
        draft.add(
            Purged(
                deletion_id=deletion_id,
                turns=draft.state.turn_count,
                messages=draft.state.sequence,
                **_root_ids(draft.state),  # type: ignore[arg-type]
            )
        )
    return [applied("session", member.session) for member in members]


# Ends that nobody reported.


def settle_all(draft: Draft, cause: EndCause) -> list[TurnId]:
    """End every live or queued turn provisionally, the queued ones first, so that none becomes live."""
    state = draft.state
    turns = [entry[1] for entry in state.queue]
    if state.active_turn:
        turns.append(state.active_turn)
    for turn_id in turns:
        settle(draft, turn_id, "interrupted", draft.now, cause, provisional=True, promote=False)
    return turns


def settle_stale(draft: Draft) -> list[Outcome]:
    """Settle what a host left over when it died, and say so in the session (SPEC T7)."""
    if draft.state.is_deleted:
        return []
    turns = settle_all(draft, "stale")
    if not turns:
        return []
    session = draft.state.session
    message_id = MessageId(named_id("stale", draft.state.room, session, turns[-1]))
    if draft.message(message_id) is None:
        text = "The host stopped while this turn was at work; the turn was settled as interrupted."
        draft.add(
            MessageAdded(
                message_id=message_id,
                role="system",
                kind="session_audit",
                status="completed",
                sequence=draft.state.sequence + 1,
                version=draft.next_message_version,
                text_length=len(text),
                content={"payload": {"text": text}},
            )
        )
    return [applied("turn", turn) for turn in turns]
