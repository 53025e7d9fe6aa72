"""A subscription: a named destination of deltas, what it wants, and whether it is served (SPEC section 9)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, assert_never, get_args

from domain.aggregate import Kind
from domain.delta import CommitDelta, EntityKind
from domain.errors import Rejected
from domain.event import Event
from domain.ids import Position, RoomId, TransactionId

OnParked = Literal["go_on", "stop"]
"""What a room's lane does behind a parked delta: the gap is marked and it goes on, or it stops."""
Status = Literal["unknown", "active", "paused", "disabled", "removed"]

NAME_LENGTH_MAX: Final = 100
"""Characters of a subscription's name."""
ROOMS_MAX: Final = 1_000
"""Rooms that a filter may name, since the state is kept as one row."""
_NAME_SIGNS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_ENTITY_KINDS: Final = frozenset(get_args(EntityKind))


@dataclass(frozen=True, slots=True)
class Filter:
    """Which deltas a subscription wants. Blank means all. It decides about a delta, never parts of it."""

    rooms: frozenset[RoomId] = frozenset()
    entity_kinds: frozenset[str] = frozenset()

    def wants_room(self, room: RoomId) -> bool:
        return not self.rooms or room in self.rooms

    def wants(self, delta: CommitDelta) -> bool:
        """Whether a delta is delivered: its room and at least one of its entity kinds are wanted."""
        if not self.wants_room(RoomId(delta.workspace_id)):
            return False
        return not self.entity_kinds or any(one.entity_kind in self.entity_kinds for one in delta.mutations)


# Events.


@dataclass(frozen=True, slots=True, kw_only=True)
class Added(Event):
    """A destination was added."""

    TOPIC: ClassVar[str] = "subscription.added"
    name: str
    kind: str
    target: str = ""
    rooms: tuple[str, ...] = ()
    entity_kinds: tuple[str, ...] = ()
    from_position: int
    secret_ref: str = ""
    on_parked: str = "go_on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(Event):
    """Somebody wants nothing delivered for now; what is committed meanwhile stays pending."""

    TOPIC: ClassVar[str] = "subscription.paused"
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """It is delivered to again."""

    TOPIC: ClassVar[str] = "subscription.resumed"
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disabled(Event):
    """The destination said that it is no more."""

    TOPIC: ClassVar[str] = "subscription.disabled"
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRotated(Event):
    """It signs with a new secret, and with the one before as well until a time."""

    TOPIC: ClassVar[str] = "subscription.secret_rotated"
    secret_ref: str
    previous_until: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowParked(Event):
    """A delta was given up: refused, or not taken after the last attempt."""

    TOPIC: ClassVar[str] = "subscription.row_parked"
    room: str
    transaction: str
    attempts: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen(Event):
    """An operator chose deltas by what they have in common; blank facts choose nothing out."""

    transactions: tuple[str, ...] = ()
    room: str = ""
    since: int = 0
    states: tuple[str, ...] = ()
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(Chosen):
    """Somebody wants deltas left out."""

    TOPIC: ClassVar[str] = "subscription.skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeliveryRequested(Chosen):
    """Somebody wants deltas delivered again."""

    TOPIC: ClassVar[str] = "subscription.redelivery_requested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed(Event):
    """The destination was taken away, and with it what was pending for it."""

    TOPIC: ClassVar[str] = "subscription.removed"


SubscriptionEvent = (
    Added | Paused | Resumed | Disabled | SecretRotated | RowParked | Skipped | RedeliveryRequested | Removed
)


# State.


@dataclass(frozen=True, slots=True)
class Subscription:
    """A destination as it stands."""

    name: str
    kind: str = ""
    """Which sort of sink serves it."""
    target: str = ""
    """Where it is; what that means is the sink's business."""
    rooms: tuple[str, ...] = ()
    entity_kinds: tuple[str, ...] = ()
    from_position: int = 0
    """It wants what was committed behind this position."""
    secret_ref: str = ""
    """Names a secret; never the secret itself."""
    previous_secret_ref: str = ""
    previous_until: int = 0
    """Until when, in ms, the previous secret signs as well."""
    on_parked: OnParked = "go_on"
    status: Status = "unknown"
    reason: str = ""
    """Why it is paused or disabled."""
    added_at: int = 0

    @property
    def is_known(self) -> bool:
        return self.status not in ("unknown", "removed")

    @property
    def is_active(self) -> bool:
        return self.status == "active"

    @property
    def filter(self) -> Filter:
        return Filter(frozenset(map(RoomId, self.rooms)), frozenset(self.entity_kinds))


def evolve(subscription: Subscription, event: SubscriptionEvent, recorded_at: int) -> Subscription:
    match event:
        case Added():
            return Subscription(
                name=event.name,
                kind=event.kind,
                target=event.target,
                rooms=event.rooms,
                entity_kinds=event.entity_kinds,
                from_position=event.from_position,
                secret_ref=event.secret_ref,
                on_parked="stop" if event.on_parked == "stop" else "go_on",
                status="active",
                added_at=recorded_at,
            )
        case Paused():
            return replace(subscription, status="paused", reason=event.reason)
        case Resumed():
            return replace(subscription, status="active", reason="")
        case Disabled():
            return replace(subscription, status="disabled", reason=event.reason)
        case SecretRotated():
            return replace(
                subscription,
                secret_ref=event.secret_ref,
                previous_secret_ref=subscription.secret_ref,
                previous_until=event.previous_until,
            )
        case RowParked() | Skipped() | RedeliveryRequested():
            return subscription
        case Removed():
            return Subscription(subscription.name, status="removed")
        case _:
            assert_never(event)


SUBSCRIPTION: Final = Kind("subscription", Subscription, evolve)


# Decisions.

Events = Sequence[SubscriptionEvent]


def add(subscription: Subscription, added: Added) -> Events:
    """Begin a subscription; the same one again is no news, another one of its name a conflict."""
    if subscription.is_known:
        if _said_by(subscription) == replace(added, from_position=subscription.from_position):
            return ()
        detail = "there is another one of this name; remove it first"
        raise Rejected("conflict", "subscription", added.name, detail)
    if wrong := _wrong(added):
        raise Rejected("invalid", "subscription", added.name, wrong)
    return (added,)


def _wrong(added: Added) -> str:
    """What means nothing, and what to do; blank when all is well."""
    if not added.name or len(added.name) > NAME_LENGTH_MAX or not _NAME_SIGNS.issuperset(added.name):
        return f"give a name of 1 to {NAME_LENGTH_MAX} of a-z, 0-9, dot, - and _"
    if unknown := sorted(set(added.entity_kinds) - _ENTITY_KINDS):
        return f"no entity kind {unknown[0]!r}; there are {', '.join(sorted(_ENTITY_KINDS))}"
    if len(added.rooms) > ROOMS_MAX:
        return f"a filter names up to {ROOMS_MAX} rooms; leave it out"
    if added.on_parked not in get_args(OnParked):
        return "behind a parked delta a room may go_on or stop"
    return ""


def _said_by(subscription: Subscription) -> Added:
    return Added(
        name=subscription.name,
        kind=subscription.kind,
        target=subscription.target,
        rooms=subscription.rooms,
        entity_kinds=subscription.entity_kinds,
        from_position=subscription.from_position,
        secret_ref=subscription.secret_ref,
        on_parked=subscription.on_parked,
    )


def pause(subscription: Subscription, reason: str = "") -> Events:
    """Deliver nothing until it is resumed."""
    _known(subscription)
    return (Paused(reason=reason),) if subscription.is_active else ()


def resume(subscription: Subscription, reason: str = "") -> Events:
    """Deliver again, whether somebody paused it or its destination disabled it."""
    _known(subscription)
    return () if subscription.is_active else (Resumed(reason=reason),)


def disable(subscription: Subscription, reason: str) -> Events:
    """The destination is gone; one that is paused or gone already stays so."""
    return (Disabled(reason=reason),) if subscription.is_active else ()


def rotate(subscription: Subscription, secret_ref: str, previous_until: int) -> Events:
    """Sign with another secret from now on, and with the one before as well until a time in ms."""
    _known(subscription)
    if secret_ref == subscription.secret_ref:
        return ()
    return (SecretRotated(secret_ref=secret_ref, previous_until=previous_until),)


def park(
    subscription: Subscription, room: RoomId, transaction: TransactionId, attempts: int, reason: str
) -> Events:
    """Give a delta up; one of a subscription that was removed meanwhile is nobody's any more."""
    if not subscription.is_known:
        return ()
    return (RowParked(room=room, transaction=transaction, attempts=attempts, reason=reason),)


def skip(subscription: Subscription, chosen: Skipped) -> Events:
    """Leave deltas out; choosing none is no news."""
    _known(subscription)
    return (chosen,) if chosen.count else ()


def request_redelivery(subscription: Subscription, chosen: RedeliveryRequested) -> Events:
    """Deliver deltas again; choosing none is no news."""
    _known(subscription)
    return (chosen,) if chosen.count else ()


def remove(subscription: Subscription, *, is_observer: bool = False) -> Events:
    """End a subscription; one that is not there is no news. An observer's was never added by an event."""
    return (Removed(),) if subscription.is_known or is_observer else ()


def starts_behind(asked: int | None, end: Position) -> Position:
    """Where a new subscription begins: behind a position, or at the end when none is given."""
    return end if asked is None else Position(asked)


def _known(subscription: Subscription) -> None:
    if not subscription.is_known:
        detail = "there is none of this name; `reprise subscriptions list` shows them"
        raise Rejected("unknown_subscription", "subscription", subscription.name, detail)
