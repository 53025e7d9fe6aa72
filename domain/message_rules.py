"""What a report about a message makes happen (SPEC M1-M9, M11)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from domain import jsontext
from domain.errors import Rejected
from domain.event import seen_at
from domain.ids import MessageId, MessageVersion, TurnId
from domain.message import (
    Message,
    MessageAdded,
    MessageChanged,
    MessageExtended,
    copied,
    counts_as_text,
    pointer_to,
    put,
    text_at,
)
from domain.reports import UPDATE_BYTES_MAX, MessageUpdate, is_surely_small
from domain.tool_payload import normalised
from domain.vocabulary import MESSAGE_TERMINAL, TURNLESS_KINDS, message_status_of
from domain.work import Draft, Outcome, applied, ignored

MESSAGE_BYTES_MAX: Final = 8 * 2**20
"""Bytes of one merged message's payload as it is stored (SPEC W3)."""
PROTECTED: Final = ("content", "contentMode", "displayPrompt", "text")
"""Fields of a user's text that are written once when it carries clientSubmitId (SPEC M3)."""
ACCEPTED: Final = frozenset(("", "duplicate", "late"))
"""Reasons with which an update counts as accepted; blank: it was applied (SPEC M11)."""


def accepted_count(outcomes: list[Outcome]) -> int:
    """How many message updates a sender need not send again (SPEC M11)."""
    return sum(outcome.part == "message" and outcome.reason in ACCEPTED for outcome in outcomes)


def report_message(
    draft: Draft,
    update: MessageUpdate,
    *,
    rewound: bool | None = None,
    sequence: int = 0,
    pulled: bool = False,
) -> Outcome:
    """Take one update of a message.

    `rewound`: an import says whether the conversation left it behind. `sequence`: its place for display, when
    that is known. `pulled`: so it stands at another host. Where that is its home, nothing about it is late,
    and what is no longer there is gone here as well; what was reported here changes only by what is strictly
    newer (SPEC P6).
    """
    if not update.message_id:
        raise Rejected("missing_identity", "message", "", "give the message's messageId")
    if update.message_id in draft.gaps:
        return _gap(update, draft.gaps[update.message_id])
    message = draft.message(MessageId(update.message_id))
    kind = update.kind or (message.kind if message else "")
    payload: Mapping[str, Any] | None = update.payload
    if kind == "tool_call" and payload:
        payload = normalised(payload)
        _check_size(update, payload)
    if message is None:
        return _add(draft, update, payload or {}, rewound=rewound, sequence=sequence, pulled=pulled)
    if update.turn_id and message.turn_id and update.turn_id != message.turn_id:
        return ignored("message", update.message_id, "turn_conflict")
    if pulled and (draft.state.home or message.pulled):
        return _mirror(draft, message, update, payload)
    if update.content_delta:
        return _append(draft, message, update, payload)
    may_change = _may_change(draft, message, update) and not (pulled and _is_no_newer(draft, message, update))
    return _merge(draft, message, update, payload, rewound, may_change)


def _gap(update: MessageUpdate, expected: int) -> Outcome:
    """A part of the text is missing: the sender must go back to where it ends (SPEC M5)."""
    return Outcome("message", update.message_id, "ignored", "gap", expected_offset=expected)


def _check_size(update: MessageUpdate, payload: Mapping[str, Any]) -> None:
    """Refuse a tool call that is too large with its texts cut; other updates were measured when read."""
    if not is_surely_small([payload, update.content_delta]):
        size = len(jsontext.to_bytes([payload, update.content_delta]))
        if size > UPDATE_BYTES_MAX:
            detail = f"the update takes {size} bytes, at most {UPDATE_BYTES_MAX} can be stored; split it"
            raise Rejected("too_large", "message", update.message_id, detail)


def _check_merged(message: MessageId, payload: Mapping[str, Any]) -> None:
    text = payload.get("text")
    if isinstance(text, str) and len(payload) == 1 and len(text) * 6 < MESSAGE_BYTES_MAX:
        return
    size = len(jsontext.to_bytes(payload))
    if size > MESSAGE_BYTES_MAX:
        detail = f"the message would have {size} bytes, {MESSAGE_BYTES_MAX} are the most; begin another one"
        raise Rejected("too_large", "message", message, detail)


def _turn_for(draft: Draft, kind: str, turn_id: str, message: str) -> TurnId:
    """The turn a message of this kind belongs to: an existing one, or none (SPEC M4)."""
    if kind in TURNLESS_KINDS:
        return TurnId("")
    if not turn_id:
        detail = f"a message of kind {kind!r} needs the turnId of a turn that was reported"
        raise Rejected("unknown_turn", "message", message, detail)
    return draft.require_turn(TurnId(turn_id), "message", message)


def _add(
    draft: Draft,
    update: MessageUpdate,
    payload: Mapping[str, Any],
    *,
    rewound: bool | None,
    sequence: int,
    pulled: bool,
) -> Outcome:
    if update.content_delta and update.content_offset:
        draft.gaps[update.message_id] = 0
        return _gap(update, 0)
    for name in ("role", "kind"):
        if not getattr(update, name):
            detail = f"the first report of a message needs its {name}"
            raise Rejected(f"missing_{name}", "message", update.message_id, detail)
    turn_id = _turn_for(draft, update.kind, update.turn_id, update.message_id)
    body = copied(payload)
    if update.content_delta:
        body["text"] = jsontext.join_halves(_text(body) + update.content_delta)
    usage = dict(update.usage) if update.usage else None
    message_id = MessageId(update.message_id)
    draft.add(
        MessageAdded(
            message_id=message_id,
            turn_id=turn_id,
            role=update.role,
            kind=update.kind,
            status=_status(update, body),
            semantics=update.semantics,
            started_at=update.started_at_unix_ms,
            completed_at=update.completed_at_unix_ms,
            sequence=sequence or draft.state.sequence + 1,
            version=draft.next_message_version,
            text_length=len(_text(body)),
            usage=usage,
            pulled=pulled and not draft.state.home,
            occurred_at=_occurred(update),
            content={"payload": body},
        )
    )
    if rewound:
        added = draft.message(message_id)
        assert added is not None
        draft.add(_rewinding(draft, added, rewound=True))
    return applied("message", update.message_id)


def _occurred(update: MessageUpdate) -> int:
    """When the update happened, as far as it says (SPEC R5); 0: count the recorded time."""
    return update.occurred_at_unix_ms or update.started_at_unix_ms or update.completed_at_unix_ms


def _text(payload: Mapping[str, Any]) -> str:
    text = payload.get("text")
    return text if isinstance(text, str) else ""


def _status(update: MessageUpdate, payload: dict[str, Any]) -> str:
    """The status in one spelling; a completed tool call has no error (SPEC M9)."""
    status = message_status_of(update.status)
    if status == "completed" and update.kind == "tool_call":
        payload.pop("error", None)
    return status


# Appending.


def _append(
    draft: Draft, message: Message, update: MessageUpdate, payload: Mapping[str, Any] | None
) -> Outcome:
    """Take a delta of the message's text (SPEC M5)."""
    delta, offset, length = update.content_delta or "", update.content_offset, message.text_length
    if _is_protected(draft, message):
        return ignored("message", message.message_id, "protected")
    if offset is not None and offset > length:
        draft.gaps[message.message_id] = length
        return _gap(update, length)
    if offset is not None and offset < length:
        known = _text(draft.payload(message.message_id))[offset : offset + len(delta)]
        if not delta.startswith(known):
            return ignored("message", message.message_id, "late")
        delta = delta[len(known) :]
        if not delta:
            return ignored("message", message.message_id, "duplicate")
    elif offset is None:
        if message.is_terminal:
            return ignored("message", message.message_id, "late")
        if _is_repeated(draft, message, update):
            return ignored("message", message.message_id, "duplicate")
    rest = {key: value for key, value in (payload or {}).items() if key != "text"}
    has_more = bool(rest) or _has_other_news(message, update) or _drops_error(message, update)
    may_change = _may_change(draft, message, update)
    status = "" if has_more or message.is_terminal else message_status_of(update.status)
    draft.add(_extension(draft, message, "/text", length, delta, update, status))
    if has_more:
        extended = draft.message(message.message_id)
        assert extended is not None
        _merge(draft, extended, update, rest, None, may_change)
    return applied("message", message.message_id)


def _is_repeated(draft: Draft, message: Message, update: MessageUpdate) -> bool:
    """Whether a report of that very time has appended the same text already (SPEC M5)."""
    at = update.occurred_at_unix_ms
    return bool(at) and update.content_delta in draft.appended(message.message_id, at)


def _may_change(draft: Draft, message: Message, update: MessageUpdate) -> bool:
    """Whether a report may change what stands: the message goes on, or this is a newer end (SPEC M7)."""
    if not message.is_terminal:
        return True
    if message_status_of(update.status) not in MESSAGE_TERMINAL:
        return False
    occurred_at = _occurred(update)
    return not occurred_at or seen_at(occurred_at, draft.now) > message.newest_at


def _is_no_newer(draft: Draft, message: Message, update: MessageUpdate) -> bool:
    """Whether an update is as old as what stands; equal and unknown times keep it (SPEC P6)."""
    return seen_at(_occurred(update), draft.now) <= message.newest_at


def _has_other_news(message: Message, update: MessageUpdate) -> bool:
    """Whether an update says more than text, status and times."""
    return bool(
        (update.role and update.role != message.role)
        or (update.kind and update.kind != message.kind)
        or (update.semantics is not None and update.semantics != message.semantics)
        or update.usage
        or (update.turn_id and not message.turn_id)
        or (message.is_terminal and update.status and message_status_of(update.status) != message.status)
    )


def _extension(
    draft: Draft,
    message: Message,
    pointer: str,
    before: int,
    added: str,
    update: MessageUpdate,
    status: str,
) -> MessageExtended:
    """The event that a text grew by `added`; `before` is its length so far, in code points."""
    after = before + len(jsontext.join_halves(added))
    if "\udc00" <= added[0] <= "\udfff":
        # Perhaps the second half of a pair whose first half stands at the end of the text.
        stored = text_at(draft.payload(message.message_id), pointer)
        after = len(jsontext.join_halves(stored + added))
    if after * 6 > MESSAGE_BYTES_MAX:
        whole = draft.payload(message.message_id)
        put(whole, pointer, text_at(whole, pointer) + added)
        _check_merged(message.message_id, whole)
    is_news = status != message.status or message.provisional
    return MessageExtended(
        message_id=message.message_id,
        version=draft.next_message_version,
        field=pointer,
        offset=before,
        length_after=after,
        status=status if is_news else "",
        started_at=update.started_at_unix_ms,
        completed_at=update.completed_at_unix_ms,
        occurred_at=_occurred(update),
        content={"added": added},
    )


# Merging.


@dataclass
class _Difference:
    """How a merged payload differs from the stored one."""

    grown: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By pointer: the text before and what was added at its end."""
    set: dict[str, Any] = field(default_factory=dict)
    unset: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.grown or self.set or self.unset)


def _compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> _Difference:
    found = _Difference()
    _compare_into(found, before, after, [])
    return found


def _compare_into(
    found: _Difference, before: Mapping[str, Any], after: Mapping[str, Any], path: list[str]
) -> None:
    for key, value in after.items():
        here = [*path, key]
        if key not in before:
            found.set[pointer_to(here)] = value
            continue
        old = before[key]
        if isinstance(old, str) and isinstance(value, str):
            if old == value:
                continue
            if old and value.startswith(old):
                found.grown[pointer_to(here)] = (old, value[len(old) :])
            else:
                found.set[pointer_to(here)] = value
        elif isinstance(old, Mapping) and isinstance(value, Mapping):
            _compare_into(found, old, value, here)
        elif not jsontext.same(old, value):
            found.set[pointer_to(here)] = value
    found.unset.extend(pointer_to([*path, key]) for key in before if key not in after)


def _merge_into(stored: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Deep merge: objects key by key, everything else as given (SPEC M3)."""
    for key, value in given.items():
        inner = stored.get(key)
        if isinstance(inner, dict) and isinstance(value, Mapping):
            _merge_into(inner, value)
        else:
            stored[key] = copied(value)


def _fill_absent(stored: dict[str, Any], given: Mapping[str, Any]) -> bool:
    """Take only keys that are absent so far (SPEC M7); True when something else would have changed."""
    barred = False
    for key, value in given.items():
        if key not in stored:
            stored[key] = copied(value)
        elif isinstance(stored[key], dict) and isinstance(value, Mapping):
            barred |= _fill_absent(stored[key], value)
        else:
            barred |= not jsontext.same(stored[key], value)
    return barred


def _is_protected(draft: Draft, message: Message) -> bool:
    if message.role != "user" or message.kind != "text":
        return False
    return bool(draft.payload(message.message_id).get("clientSubmitId"))


def _merge(
    draft: Draft,
    message: Message,
    update: MessageUpdate,
    payload: Mapping[str, Any] | None,
    rewound: bool | None,
    may_change: bool,
) -> Outcome:
    """Merge a report into a stored message and store what is news of it."""
    before = draft.payload(message.message_id) if payload or _drops_error(message, update) else {}
    after = copied(before)
    barred = ""
    if payload and may_change:
        given = dict(payload)
        if _is_protected(draft, message):
            given, barred = _without_protected(before, given)
        _merge_into(after, given)
    elif payload and _fill_absent(after, _without_error(message, payload)):
        barred = "late"
    if may_change and _drops_error(message, update):
        after.pop("error", None)
    difference = _compare(before, after)
    changed = _fact_changes(draft, message, update, rewound, may_change=may_change)
    if not may_change and _is_barred(message, update):
        barred = "late"
    if difference.is_empty and not changed:
        return ignored("message", message.message_id, barred or "duplicate")
    if payload:
        _check_merged(message.message_id, after)
    _store(draft, message, update, difference, changed)
    return applied("message", message.message_id)


def _mirror(
    draft: Draft, message: Message, update: MessageUpdate, payload: Mapping[str, Any] | None
) -> Outcome:
    """Make a stored message what it is at its home (SPEC P5); without a payload, what it says stays."""
    difference = _Difference()
    if payload is not None:
        if _drops_error(message, update):
            payload = {key: value for key, value in payload.items() if key != "error"}
        difference = _compare(draft.payload(message.message_id), payload)
    changed = _fact_changes(draft, message, update, None, may_change=True)
    if difference.is_empty and not changed:
        return ignored("message", message.message_id, "duplicate")
    if payload is not None:
        _check_merged(message.message_id, payload)
    _store(draft, message, update, difference, changed, pulled=message.pulled)
    return applied("message", message.message_id)


def _drops_error(message: Message, update: MessageUpdate) -> bool:
    """A tool call that completes has no error (SPEC M9)."""
    is_tool = "tool_call" in (message.kind, update.kind)
    return is_tool and message_status_of(update.status) == "completed"


def _without_error(message: Message, payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """A completed tool call takes no error from a late report either."""
    if message.kind == "tool_call" and message.status == "completed":
        return {key: value for key, value in payload.items() if key != "error"}
    return payload


def _without_protected(stored: Mapping[str, Any], given: dict[str, Any]) -> tuple[dict[str, Any], str]:
    held = [key for key in PROTECTED if key in stored and key in given]
    differs = any(not jsontext.same(given[key], stored[key]) for key in held)
    free = {key: value for key, value in given.items() if key not in held}
    return free, "protected" if differs else ""


def _is_barred(message: Message, update: MessageUpdate) -> bool:
    """Whether a late report would have changed a fact of the ended message."""
    status = message_status_of(update.status)
    return bool(
        (status and status != message.status)
        or (update.role and update.role != message.role)
        or (update.kind and update.kind != message.kind)
        or (update.semantics is not None and not jsontext.same(update.semantics, message.semantics))
    )


def _fact_changes(
    draft: Draft, message: Message, update: MessageUpdate, rewound: bool | None, *, may_change: bool
) -> dict[str, Any]:
    """The facts beside the payload that are news, as fields of MessageChanged."""
    changes: dict[str, Any] = {}
    status = message_status_of(update.status)
    if status and may_change and (status != message.status or message.provisional):
        changes["status"] = status
    if may_change and update.role not in ("", message.role):
        changes["role"] = update.role
    if may_change and update.kind not in ("", message.kind) and _keeps_side(message, update.kind):
        changes["kind"] = update.kind
    if update.turn_id and not message.turn_id and message.kind not in TURNLESS_KINDS:
        changes["turn_id"] = _turn_for(draft, message.kind, update.turn_id, message.message_id)
    semantics = update.semantics
    is_free = may_change or message.semantics is None
    if semantics is not None and is_free and not jsontext.same(semantics, message.semantics):
        changes["semantics"] = semantics
    if rewound is not None and rewound != message.rewound:
        changes["rewound"] = rewound
    for name in ("started_at", "completed_at"):
        given = getattr(update, f"{name}_unix_ms")
        if given and not getattr(message, name):
            changes[name] = given
    changes |= _usage_changes(message, update.usage)
    return changes


def _keeps_side(message: Message, kind: str) -> bool:
    """Whether a kind has a turn just as the message's own has (SPEC M4)."""
    return (kind in TURNLESS_KINDS) == (message.kind in TURNLESS_KINDS)


def _usage_changes(message: Message, given: Mapping[str, int] | None) -> dict[str, Any]:
    """Each count at its greatest (SPEC S1), and what the session's sum grows by."""
    if not given:
        return {}
    stored = message.usage or {}
    more = {key: count - stored.get(key, 0) for key, count in given.items() if count > stored.get(key, 0)}
    if not more:
        return {}
    return {"usage": {**stored, **{key: given[key] for key in more}}, "usage_added": more}


def _store(
    draft: Draft,
    message: Message,
    update: MessageUpdate,
    difference: _Difference,
    changed: dict[str, Any],
    *,
    pulled: bool = False,
) -> None:
    """Add the events of one accepted update; they share one message version (SPEC M2, M6)."""
    version = draft.next_message_version
    is_growth_alone = (
        bool(difference.grown)
        and not (difference.set or difference.unset)
        and changed.keys() <= {"status", "started_at", "completed_at"}
    )
    last = len(difference.grown) - 1
    for index, (pointer, (text, added)) in enumerate(difference.grown.items()):
        status = changed.get("status", "") if is_growth_alone and index == last else ""
        extension = _extension(draft, message, pointer, len(text), added, update, status)
        draft.add(replace(extension, version=version, pulled=pulled))
    if not is_growth_alone:
        draft.add(replace(_change(message, update, version, difference, changed), pulled=pulled))


def _change(
    message: Message,
    update: MessageUpdate,
    version: MessageVersion,
    difference: _Difference,
    changed: dict[str, Any],
) -> MessageChanged:
    content: dict[str, Any] = {}
    if difference.set:
        content["set"] = difference.set
    if difference.unset:
        content["unset"] = difference.unset
    text_length = None
    if "/text" in difference.set or "/text" in difference.unset:
        text = difference.set.get("/text", "")
        text_length = len(text) if isinstance(text, str) else 0
    times = {"started_at": update.started_at_unix_ms, "completed_at": update.completed_at_unix_ms}
    fields = {**times, **changed, **_counted(message, changed)}
    return MessageChanged(
        message_id=message.message_id,
        version=version,
        occurred_at=_occurred(update),
        text_length=text_length,
        content=content or None,
        **fields,
    )


def _counted(message: Message, changed: Mapping[str, Any]) -> dict[str, int]:
    """How the session's counts of texts and tool calls change with the message."""
    was = not message.rewound
    is_in = not changed.get("rewound", message.rewound)
    role, kind = changed.get("role", message.role), changed.get("kind", message.kind)
    texts = (is_in and counts_as_text(role, kind)) - (was and counts_as_text(message.role, message.kind))
    tools = (is_in and kind == "tool_call") - (was and message.kind == "tool_call")
    return {"texts_added": texts, "tool_calls_added": tools}


def _rewinding(draft: Draft, message: Message, *, rewound: bool) -> MessageChanged:
    counted = _counted(message, {"rewound": rewound})
    return MessageChanged(
        message_id=message.message_id,
        version=draft.next_message_version,
        rewound=rewound,
        texts_added=counted["texts_added"],
        tool_calls_added=counted["tool_calls_added"],
    )
