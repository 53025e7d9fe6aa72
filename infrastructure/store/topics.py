"""The closed registry of stored events: every topic and shape version this release can read."""

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from domain import subscription
from domain.aggregate import Kind
from domain.backoff import BACKOFF, Cleared, Delayed, Parked, Paused, Refused
from domain.backoff import Resumed as LaneResumed
from domain.breaker import BREAKER, BreakerClosed, BreakerOpened, ProbeFailed, ProbeStarted
from domain.errors import UnknownTopic
from domain.event import Event
from domain.interaction import (
    InteractionAnswered,
    InteractionReopened,
    InteractionRequested,
    InteractionSuperseded,
)
from domain.message import MessageAdded, MessageChanged, MessageExtended
from domain.pull import EpochStarted, Pulled, Reappeared, RowParked, Vanished
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
    StatusReported,
    Timed,
    Titled,
    Unpinned,
)
from domain.tracked_room import (
    ROOM,
    RemoteChanged,
    SessionHidden,
    SessionUnhidden,
    Tracked,
    Untracked,
)
from domain.turn import (
    ProviderTurnReported,
    TurnAdvanced,
    TurnAnnotated,
    TurnCancelRequested,
    TurnRevived,
    TurnSettled,
    TurnStarted,
)
from infrastructure.store.codec import keys_of

KINDS: Final[tuple[type[Event], ...]] = (
    Opened,
    Related,
    DetailsReported,
    ContextChanged,
    Titled,
    StatusReported,
    Resumed,
    Timed,
    Pinned,
    Unpinned,
    Deleted,
    Restored,
    Purged,
    ChildLinked,
    ChildActive,
    ChildQuiet,
    RecordKept,
    Imported,
    Pulled,
    EpochStarted,
    RowParked,
    Vanished,
    Reappeared,
    TurnStarted,
    TurnAdvanced,
    TurnSettled,
    TurnRevived,
    TurnAnnotated,
    TurnCancelRequested,
    ProviderTurnReported,
    MessageAdded,
    MessageExtended,
    MessageChanged,
    InteractionRequested,
    InteractionAnswered,
    InteractionSuperseded,
    InteractionReopened,
    Delayed,
    Refused,
    Parked,
    Cleared,
    Paused,
    LaneResumed,
    BreakerOpened,
    ProbeStarted,
    ProbeFailed,
    BreakerClosed,
    Tracked,
    RemoteChanged,
    Untracked,
    SessionHidden,
    SessionUnhidden,
    *get_args(subscription.SubscriptionEvent),
)

TOPICS: Final[Mapping[str, type[Event]]] = {kind.TOPIC: kind for kind in KINDS}

AGGREGATE_KINDS: Final[Mapping[str, Kind[Any]]] = {
    kind.name: kind for kind in (BACKOFF, BREAKER, ROOM, subscription.SUBSCRIPTION)
}
"""The aggregates beside the sessions, by the name that their topics begin with."""

Facts = dict[str, Any]
Upcast = Callable[[Facts], Facts]


def _cause_of_supersession(facts: Facts) -> Facts:
    """Before shape 2 a superseded interaction did not say why; only ends of turns superseded then."""
    return {"cause": "turn_ended", **facts}


UPCASTS: Final[Mapping[tuple[str, int], Upcast]] = {
    ("session.interaction_superseded", 1): _cause_of_supersession,
}
"""By topic and the shape version it lifts: one pure step to the next version."""


def kind_of(topic: str) -> type[Event]:
    """The event class of a topic; never an import of what the database says."""
    try:
        return TOPICS[topic]
    except KeyError:
        raise UnknownTopic(
            f"this release knows no event {topic!r}; read the store with a newer one"
        ) from None


def kind_name(topic: str) -> str:
    """What the kind of aggregate is called that a topic belongs to."""
    return topic.partition(".")[0]


def lifted(topic: str, shape: int, facts: Facts) -> Facts:
    """The facts in the shape of today."""
    newest = kind_of(topic).SHAPE
    if shape > newest:
        raise UnknownTopic(
            f"{topic} has shape {shape}, this release knows up to {newest}; read it with a newer one"
        )
    for version in range(shape, newest):
        facts = UPCASTS[topic, version](facts)
    return facts


def topics() -> dict[str, Any]:
    """Every topic of this release with its shape version and the fields of its facts, for those who read
    events without it."""
    return {
        kind.TOPIC: {
            "version": kind.SHAPE,
            "facts": list(keys_of(kind)),
        }
        for kind in KINDS
    }
