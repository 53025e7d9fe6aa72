"""Events in words, and as JSON."""

from dataclasses import MISSING, fields
from typing import Any, Final, assert_never, cast, get_args

from pydantic.alias_generators import to_camel

from application.ports import StoredEvent
from domain.event import Event
from domain.interaction import (
    InteractionAnswered,
    InteractionReopened,
    InteractionRequested,
    InteractionSuperseded,
)
from domain.message import MessageAdded, MessageChanged, MessageExtended
from domain.pull import EpochStarted, Pulled, PullEvent, Reappeared, RowParked, Vanished
from domain.session import (
    ChildActive,
    ChildLinked,
    ChildQuiet,
    ContextChanged,
    Deleted,
    DetailsReported,
    Imported,
    Opened,
    Pinned,
    Purged,
    RecordKept,
    Related,
    Restored,
    Resumed,
    SessionEvent,
    StatusReported,
    Timed,
    Titled,
    Unpinned,
)
from domain.subscription import SubscriptionEvent
from domain.turn import (
    ProviderTurnReported,
    TurnAdvanced,
    TurnAnnotated,
    TurnCancelRequested,
    TurnRevived,
    TurnSettled,
    TurnStarted,
)
from infrastructure.pull_history import PullHistoryEvent, pull_words
from infrastructure.subscription_words import subscription_words
from infrastructure.text import counted, short, shown, when

ERASED: Final = "[content erased]"


def as_json_object(stored: StoredEvent) -> dict[str, Any]:
    """All that is known of an event; `content` is null where it was erased, absent where there was none."""
    said: dict[str, Any] = {
        "room": stored.room,
        "session": stored.session,
        "position": stored.position,
        "version": stored.version,
        "topic": stored.topic,
        "recordedAtUnixMs": stored.recorded_at,
        "transactionId": stored.transaction,
        "words": in_words(stored),
        "facts": _facts(stored.event),
        "erased": stored.is_erased,
    }
    if stored.is_erased or stored.event.content is not None:
        said["content"] = stored.event.content
    if stored.command_id:
        said["commandId"] = stored.command_id
    if stored.actor:
        said["actor"] = stored.actor
    if stored.source:
        said["source"] = {
            "name": stored.source.name,
            "importId": stored.source.import_id,
            "digest": stored.source.digest,
            "offset": stored.source.offset,
        }
    return said


def _facts(event: Event) -> dict[str, Any]:
    """The event's fields in camelCase, without those that hold their default."""
    return {
        to_camel(field.name): value
        for field in fields(event)
        if field.name != "content"
        and ((value := getattr(event, field.name)) != field.default or field.default is MISSING)
    }


def in_words(stored: StoredEvent) -> str:
    """What happened, on one line that a terminal can take."""
    event = stored.event
    if isinstance(event, get_args(SubscriptionEvent)):
        words = subscription_words(cast("SubscriptionEvent", event))
    elif isinstance(event, PullHistoryEvent):
        words = pull_words(event)
    else:
        words = _words(cast("SessionEvent", event))
    return " ".join(filter(None, (words.rstrip(), ERASED if stored.is_erased else "")))


def _words(event: SessionEvent) -> str:
    match event:
        case MessageAdded() | MessageExtended() | MessageChanged():
            return _message_words(event)
        case (
            TurnStarted()
            | TurnAdvanced()
            | TurnSettled()
            | TurnRevived()
            | TurnAnnotated()
            | TurnCancelRequested()
            | ProviderTurnReported()
        ):
            return _turn_words(event)
        case InteractionRequested() | InteractionAnswered() | InteractionSuperseded() | InteractionReopened():
            return _interaction_words(event)
        case Pulled() | EpochStarted() | RowParked() | Vanished() | Reappeared():
            return _pull_words(event)
        case _:
            return _session_words(event)


_EPOCH_REASONS: Final = {
    "announced": "it says so",
    "empty": "nothing stands where it was read to",
    "other_message": "another message stands where it was read to",
}


def _pull_words(event: PullEvent) -> str:
    match event:
        case Pulled():
            return f"pulled from version {event.read_from} to {event.read_to} of its home"
        case EpochStarted():
            why = _EPOCH_REASONS.get(event.reason, event.reason)
            return f"its home began anew ({why}): reading it from the start"
        case RowParked():
            reason = shown(str(event.content.get("reason", ""))) if event.content else ""
            return f"passed a row of its home up to version {event.cursor} {reason}"
        case Vanished():
            return "its home no longer lists it"
        case Reappeared():
            return "its home lists it again"
        case _:
            assert_never(event)


def _session_words(event: Any) -> str:
    match event:
        case Opened():
            by = f" by {shown(event.provider)}" if event.provider else ""
            return f"the session was reported for the first time{by}"
        case Related():
            of = f", child of {shown(event.parent_session)}" if event.parent_session else ""
            return f"its kind is {shown(event.kind) or 'unknown'}{of}"
        case DetailsReported():
            names = [*_facts(event), *(event.content or {})]
            return f"details: {', '.join(name for name in names if name != 'occurredAt') or 'none'}"
        case ContextChanged():
            return "the runtime context changed"
        case Titled():
            who = "a person titled it" if event.explicit else "titled"
            return f"{who} {_quoted(event, 'title')}"
        case StatusReported():
            status = ", ".join(filter(None, (event.lifecycle_status, event.current_phase)))
            return f"status {shown(status)} {_quoted(event, 'lastError')}"
        case Resumed():
            return "a newer turn began, the session is open again"
        case Timed():
            times = (("started", event.started_at), ("ended", event.ended_at))
            return ", ".join(f"{word} {when(at)}" for word, at in times if at) or "times as before"
        case Pinned():
            return "pinned"
        case Unpinned():
            return "no longer pinned"
        case Deleted():
            return f"deleted with {shown(event.anchor)}"
        case Restored():
            return "the deletion was taken back"
        case Purged():
            lost = f"{counted(event.turns, 'turn')} and {counted(event.messages, 'message')}"
            return f"its content was destroyed: {lost}"
        case ChildLinked():
            return f"a child names it: {shown(event.child)}"
        case ChildActive():
            return f"child at work: {shown(event.child)}"
        case ChildQuiet():
            return f"child at rest: {shown(event.child)}"
        case RecordKept():
            what = f"{event.reason} record {shown(event.type)}".rstrip()
            return f"kept a {what}: {counted(event.length, 'byte')} at byte {event.offset}"
        case Imported():
            return f"read a transcript up to byte {event.read_to}: {counted(event.records, 'record')}"
        case _:
            raise AssertionError(f"no words for {event.TOPIC}")


def _turn_words(
    event: TurnStarted
    | TurnAdvanced
    | TurnSettled
    | TurnRevived
    | TurnAnnotated
    | TurnCancelRequested
    | ProviderTurnReported,
) -> str:
    match event:
        case TurnStarted():
            return f"turn {shown(event.turn_id)} began, {event.phase}"
        case TurnAdvanced():
            return f"turn {shown(event.turn_id)} is {event.phase}"
        case TurnSettled():
            how = ("provisionally " if event.provisional else "") + event.outcome
            why = "" if event.cause == "reported" else f", because: {event.cause.replace('_', ' ')}"
            return f"turn {shown(event.turn_id)} ended {how}{why} {_quoted(event, 'error')}"
        case TurnRevived():
            return f"turn {shown(event.turn_id)} is live again, {event.phase}"
        case TurnAnnotated():
            return f"more is known of turn {shown(event.turn_id)}"
        case TurnCancelRequested():
            return f"somebody asked turn {shown(event.turn_id)} to end"
        case ProviderTurnReported():
            phase = event.phase or "bound"
            return f"the provider's turn behind {shown(event.root_turn_id)} is {shown(phase)}"
        case _:
            assert_never(event)


def _message_words(event: MessageAdded | MessageExtended | MessageChanged) -> str:
    name = f"message {shown(event.message_id)}"
    match event:
        case MessageAdded():
            said = " ".join(filter(None, (shown(event.role), shown(event.kind), _said(event))))
            return f"{said} ({name})"
        case MessageExtended():
            added = _quoted(event, "added") or "it"
            return f"{added} made {counted(event.length_after, 'character')} of {name}"
        case MessageChanged():
            status = f", {shown(event.status)}" if event.status else ""
            changed = ", ".join(map(shown, (event.content or {}).get("set", ())))
            rewound = ", rewound" if event.rewound else ""
            return f"{name} changed{status}{rewound}" + (f": {short(changed)}" if changed else "")
        case _:
            assert_never(event)


def _interaction_words(
    event: InteractionRequested | InteractionAnswered | InteractionSuperseded | InteractionReopened,
) -> str:
    name = f"request {shown(event.request_id)} of turn {shown(event.turn_id)}"
    match event:
        case InteractionRequested():
            return f"{event.kind} asked for: {name} {_quoted(event, 'toolName')}"
        case InteractionAnswered():
            return f"answered: {name}"
        case InteractionSuperseded():
            return f"nobody waits any more for {name}"
        case InteractionReopened():
            return f"open again: {name}"
        case _:
            assert_never(event)


def _said(event: MessageAdded) -> str:
    payload = (event.content or {}).get("payload") or {}
    text = payload.get("toolName") or payload.get("text")
    return f"“{short(text, 60)}”" if isinstance(text, str) and text else ""


def _quoted(event: Event, key: str) -> str:
    text = (event.content or {}).get(key)
    return f"“{short(text, 60)}”" if isinstance(text, str) and text else ""
