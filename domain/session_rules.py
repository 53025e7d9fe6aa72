"""What a report about a session, or a command on it, makes happen (SPEC S1-S12, C1, R5)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from domain.errors import Rejected
from domain.event import is_older
from domain.ids import MessageId, SessionId
from domain.interaction_rules import report_interaction
from domain.jsontext import same
from domain.message_rules import report_message
from domain.provider_rules import report_provider_turn
from domain.reports import InteractionReport, MessageReport, MessageUpdate, StateReport, TurnReport
from domain.session import (
    RELATIONS,
    ContextChanged,
    DetailsReported,
    Opened,
    Pinned,
    Related,
    StatusReported,
    Timed,
    Titled,
    Unpinned,
    display_status,
)
from domain.turn_rules import introduce, is_end, report_turn
from domain.vocabulary import DEFAULT_ORIGIN, display_of, lifecycle_end
from domain.work import Draft, Outcome, applied, ignored

_DETAILS = (
    "origin",
    "user_id",
    "agent_target_id",
    "device_id",
    "provider",
    "provider_session_id",
    "model",
)


@dataclass
class Answer:
    """What a report's parts came to."""

    outcomes: list[Outcome] = field(default_factory=list)
    accepted: bool = True
    state_applied: bool = True


def report_state(draft: Draft, report: StateReport) -> Answer:
    """Take one atomic report: the session, its turns, the provider's part, interactions, messages."""
    if refusal := _refused(draft, report):
        return Answer([refusal], accepted=False, state_applied=False)
    answer = Answer()
    answer.state_applied = _report_session(draft, report, answer.outcomes)
    _report_parts(draft, report, answer.outcomes)
    return answer


def report_messages(draft: Draft, report: MessageReport) -> Answer:
    """Take a batch of message updates; the first may create the session (SPEC S11)."""
    if draft.state.is_deleted:
        refusals = [ignored("message", update.message_id, "deleted") for update in report.updates]
        return Answer(refusals, accepted=False)
    if not draft.state.opened and any(_can_begin(update) for update in report.updates):
        open_session(
            draft,
            origin=report.origin,
            user_id=report.user_id,
            agent_target_id=report.agent_target_id or report.source.agent_target_id,
            device_id=report.device_id or report.source.device_id,
            provider=report.source.provider,
            provider_session_id=report.source.provider_session_id,
            created_at=report.source.session_created_at_unix_ms,
        )
    draft.look_up([update.message_id for update in report.updates])
    return Answer([report_message(draft, update) for update in report.updates])


def _can_begin(update: MessageUpdate) -> bool:
    return not (update.content_delta and update.content_offset)


def _refused(draft: Draft, report: StateReport) -> Outcome | None:
    """A deleted session takes no report, nor is a child born under a deleted root (SPEC S8, S9)."""
    session = draft.state.session
    if draft.state.is_deleted:
        return ignored("session", session, "deleted")
    root = SessionId(report.state.root_agent_session_id)
    is_new = root not in ("", session, draft.state.root_session)
    if is_new and draft.work.session(root).state.is_deleted:
        return ignored("session", session, "deleted")
    return None


# The session's own part.


def open_session(draft: Draft, **given: Any) -> None:
    """Begin a session's stream as a session, with what is known of it."""
    facts = {key: value for key, value in given.items() if value}
    facts.setdefault("created_at", draft.now)
    facts.setdefault("origin", DEFAULT_ORIGIN)
    draft.add(Opened(**facts))


def _report_session(draft: Draft, report: StateReport, outcomes: list[Outcome]) -> bool:
    """Merge the session part; False when it is older than what is known (SPEC S4)."""
    session = draft.state.session
    before = len(draft.work.decided)
    relations, conflict = _relations(draft, report)
    details = _given_details(report)
    occurred_at = report.state.occurred_at_unix_ms
    if not draft.state.opened:
        known = {name: value for name, value in details.items() if name != "model"}
        created_at = report.created_at_unix_ms
        open_session(draft, occurred_at=occurred_at, created_at=created_at, **relations, **known)
        stale = False
    else:
        stale = is_older(occurred_at, draft.now, draft.state.last_event_at)
        if any(relations.get(name) != getattr(draft.state, name) for name in relations):
            stored = {name: getattr(draft.state, name) for name in RELATIONS}
            draft.add(Related(occurred_at=occurred_at, **{**stored, **relations}))
    _report_details(draft, report, details, stale=stale)
    _report_context(draft, report, stale=stale)
    _report_title(draft, report, stale=stale)
    _report_status(draft, report, stale=stale)
    _report_times(draft, report, is_accompanied=len(draft.work.decided) > before)
    if conflict:
        outcomes.append(ignored("relation", session, "relation"))
    if len(draft.work.decided) > before:
        outcomes.append(applied("session", session))
    else:
        outcomes.append(ignored("session", session, "stale" if stale else "duplicate"))
    return not stale


def _relations(draft: Draft, report: StateReport) -> tuple[dict[str, Any], bool]:
    """The relations to store, each written once; True with it when the report contradicts one (SPEC S8)."""
    state, session = report.state, draft.state.session
    given = {
        "kind": state.kind,
        "root_session": state.root_agent_session_id,
        "root_turn": state.root_turn_id,
        "parent_session": state.parent_agent_session_id,
        "parent_turn": state.parent_turn_id,
        "parent_tool_call": state.parent_tool_call_id,
    }
    given = {name: value for name, value in given.items() if value}
    if given:
        given.setdefault("kind", "child")
    if given.get("kind") == "root" and len(given) > 1:
        raise Rejected("relation", "session", session, "a root names no root, parent, turn or tool call")
    stored = {name: value for name in RELATIONS if (value := getattr(draft.state, name))}
    if any(stored.get(name, value) != value for name, value in given.items()):
        return {}, True
    _check_relations(session, {**stored, **given})
    return {name: value for name, value in given.items() if name not in stored}, False


def _check_relations(session: SessionId, given: Mapping[str, str]) -> None:
    kind = given.get("kind", "")
    if kind not in ("", "root", "child"):
        raise Rejected("unknown_kind", "session", session, f"{kind!r} is no kind; use root or child")
    if kind == "child" and not (given.get("root_session") and given.get("parent_session")):
        detail = "a child names rootAgentSessionId and parentAgentSessionId"
        raise Rejected("relation", "session", session, detail)
    if session in (given.get("root_session"), given.get("parent_session")):
        raise Rejected("relation", "session", session, "a session is neither its own root nor its own parent")


def _given_details(report: StateReport) -> dict[str, str]:
    state = report.state
    values = {
        "origin": report.origin,
        "user_id": report.user_id,
        "agent_target_id": state.agent_target_id,
        "device_id": state.device_id,
        "provider": state.provider,
        "provider_session_id": state.provider_session_id,
        "model": state.model,
    }
    return {name: value for name, value in values.items() if value}


def _report_details(draft: Draft, report: StateReport, details: Mapping[str, str], *, stale: bool) -> None:
    """Details that are news; a stale report fills only what is still blank (SPEC S2, S4)."""
    state, stored = report.state, draft.state
    facts: dict[str, Any] = {
        name: value
        for name, value in details.items()
        if value != getattr(stored, name) and not (stale and getattr(stored, name))
    }
    is_open = stored.capabilities is None or not stale
    if state.capabilities is not None and is_open and state.capabilities != stored.capabilities:
        facts["capabilities"] = state.capabilities
    content: dict[str, Any] = {}
    if state.cwd and _is_news(draft, "cwd", state.cwd, stale=stale):
        content["cwd"] = state.cwd
    if state.settings and _is_news(draft, "settings", state.settings, stale=stale):
        content["settings"] = state.settings
    if facts or content:
        occurred_at = state.occurred_at_unix_ms
        draft.add(DetailsReported(occurred_at=occurred_at, content=content or None, **facts))


def _is_news(draft: Draft, name: str, value: Any, *, stale: bool) -> bool:
    stored = draft.content().get(name)
    return not (stale and stored) and not same(stored, value)


def _report_context(draft: Draft, report: StateReport, *, stale: bool) -> None:
    state = report.state
    stored = draft.content().get("runtimeContext") if _names_context(report) else None
    content: dict[str, Any] = {}
    if state.runtime_context is not None:
        if not (stale and stored) and not same(state.runtime_context, stored or {}):
            content = {"replaced": state.runtime_context}
    elif state.runtime_context_patch is not None and not (stale and stored):
        patch, known = state.runtime_context_patch, stored or {}
        unset = [key for key in patch.unset if key in known]
        changed = {
            key: value
            for key, value in patch.set.items()
            if key not in patch.unset and not (key in known and same(known[key], value))
        }
        content = {name: value for name, value in (("set", changed), ("unset", unset)) if value}
    if content:
        draft.add(ContextChanged(occurred_at=state.occurred_at_unix_ms, content=content))


def _names_context(report: StateReport) -> bool:
    return report.state.runtime_context is not None or report.state.runtime_context_patch is not None


def _report_title(draft: Draft, report: StateReport, *, stale: bool) -> None:
    title = report.state.title
    if not title.strip() or draft.state.title_latched or not _is_news(draft, "title", title, stale=stale):
        return
    draft.add(Titled(occurred_at=report.state.occurred_at_unix_ms, content={"title": title}))


def _report_status(draft: Draft, report: StateReport, *, stale: bool) -> None:
    """Status, phase and error; frozen once the session has ended (SPEC S4, S5)."""
    state, stored = report.state, draft.state
    facts: dict[str, Any] = {}
    if not stored.has_ended:
        ends = lifecycle_end(state.lifecycle_status) is not None
        if state.lifecycle_status != stored.lifecycle_status and (
            not stale or ends or not stored.lifecycle_status
        ):
            facts["lifecycle_status"] = state.lifecycle_status
        if is_phase_news(draft, state.current_phase) and not (stale and stored.current_phase):
            facts["current_phase"] = state.current_phase
    facts = {name: value for name, value in facts.items() if value}
    content = {}
    if state.last_error.strip() and _is_news(draft, "lastError", state.last_error, stale=stale):
        content["lastError"] = state.last_error
    if facts or content:
        draft.add(StatusReported(occurred_at=state.occurred_at_unix_ms, content=content or None, **facts))


def is_phase_news(draft: Draft, phase: str) -> bool:
    """A phase is news when it differs, or when a turn has ended since it was told and hides it (SPEC S6)."""
    stored = draft.state
    if phase != stored.current_phase:
        return True
    is_hidden = stored.phase_version < stored.last_end_version
    return is_hidden and display_of(phase) not in (None, display_status(stored))


def _report_times(draft: Draft, report: StateReport, *, is_accompanied: bool) -> None:
    """The first start and end make an event; better ones only beside other news (SPEC C3, S3)."""
    state, stored = report.state, draft.state
    started_at = state.started_at_unix_ms
    ended_at = state.ended_at_unix_ms
    is_first = (started_at and not stored.started_at) or (ended_at and not stored.ended_at)
    earlier = started_at and started_at < (stored.started_at or started_at + 1)
    later = ended_at > stored.ended_at
    if is_first or (is_accompanied and (earlier or later)):
        draft.add(
            Timed(
                started_at=started_at if earlier else 0,
                ended_at=ended_at if later else 0,
                occurred_at=state.occurred_at_unix_ms,
            )
        )


# The other parts.


def _report_parts(draft: Draft, report: StateReport, outcomes: list[Outcome]) -> None:
    """Take the parts in the order in which they can be true.

    What a report says of an ending turn's messages and interactions stands before the end, so that the
    end finds its final message and supersedes nothing that the same report answers.
    """
    state = report.state
    occurred_at = state.occurred_at_unix_ms
    draft.look_up([update.message_id for update in state.messages])
    updates = _by_turn(draft, state.messages)
    asked: dict[str, list[InteractionReport]] = {}
    for one in state.all_interactions:
        asked.setdefault(one.turn_id, []).append(one)

    def take(turn_id: str) -> None:
        outcomes.extend(report_interaction(draft, one, occurred_at) for one in asked.pop(turn_id, []))
        outcomes.extend(report_message(draft, update) for update in updates.pop(turn_id, []))

    for turn in _ends_first(state.all_turns):
        if is_end(turn):
            introduce(draft, turn, occurred_at)
            take(turn.turn_id)
        outcomes.append(report_turn(draft, turn, occurred_at))
    if state.root_provider_turn:
        outcomes.append(report_provider_turn(draft, state.root_provider_turn, occurred_at))
    for turn_id in [*asked, *updates]:
        take(turn_id)


def _by_turn(draft: Draft, updates: Iterable[MessageUpdate]) -> dict[str, list[MessageUpdate]]:
    """Message updates by the turn of their message, which need not stand in each of them."""
    turns: dict[str, str] = {}
    found: dict[str, list[MessageUpdate]] = {}
    for update in updates:
        known = draft.message(MessageId(update.message_id)) if update.message_id else None
        turn_id = turns.get(update.message_id) or (known.turn_id if known else "") or update.turn_id
        turns[update.message_id] = turn_id
        found.setdefault(turn_id, []).append(update)
    return found


def _ends_first(turns: Sequence[TurnReport]) -> list[TurnReport]:
    """The turns in their order, but those that end before those that go on: an end displaces nothing."""
    ending = {turn.turn_id for turn in turns if is_end(turn)}
    return sorted(turns, key=lambda turn: turn.turn_id not in ending)


def set_title(draft: Draft, title: str) -> Outcome:
    """Set the title for good; blank is a title too (SPEC S7)."""
    session = draft.state.session
    if draft.state.title_latched and draft.content().get("title") == title:
        return ignored("session", session, "duplicate")
    draft.add(Titled(explicit=True, content={"title": title}))
    return applied("session", session)


def set_settings(draft: Draft, settings: Mapping[str, Any]) -> Outcome:
    """Replace the settings as a whole, also by none."""
    session = draft.state.session
    if same(draft.content().get("settings", {}), settings):
        return ignored("session", session, "duplicate")
    draft.add(DetailsReported(content={"settings": settings}))
    return applied("session", session)


def set_pin(draft: Draft, *, pinned: bool) -> Outcome:
    """Pin a session, or take the pin away."""
    session = draft.state.session
    if bool(draft.state.pinned_at) == pinned:
        return ignored("session", session, "duplicate")
    draft.add(Pinned() if pinned else Unpinned())
    return applied("session", session)


def existing(draft: Draft) -> Outcome | None:
    """Refuse a command on a session that was never reported; ignore one on a deleted session."""
    session = draft.state.session
    if not draft.state.opened:
        detail = f"room {draft.state.room} has no such session; report it first"
        raise Rejected("unknown_session", "session", session, detail)
    return ignored("session", session, "deleted") if draft.state.is_deleted else None
