"""What operators are told of subscriptions and deliveries, at the store and at a service alike."""

from collections.abc import Mapping, Sequence
from typing import Any

from application.lanes import Delivered
from application.sinks import Receipt
from application.views import View
from domain.aggregate import Held
from domain.subscription import Subscription


class SubscriptionView(View):
    """A destination as it stands."""

    name: str
    kind: str
    target: str
    status: str
    reason: str | None = None
    rooms: tuple[str, ...] = ()
    entity_kinds: tuple[str, ...] = ()
    from_position: int
    on_parked: str
    added_at_unix_ms: int
    version: int
    """Of its history; it is the ETag."""
    secret_ref: str | None = None
    """Tells one secret from another and gives none away."""
    deliveries: dict[str, int] | None = None
    """How many of its deltas that are kept stand in each state."""
    secret: str | None = None
    """For the receiver of a webhook; shown when it was made, and never again."""


class DeliveryView(View):
    """What has become of one delta for one subscription."""

    subscription: str
    transaction_id: str
    position: int
    room: str
    recorded_at_unix_ms: int
    state: str
    attempts: int
    redeliveries: int
    next_attempt_at_unix_ms: int | None = None
    error: str | None = None
    worker: str | None = None
    why: str | None = None
    """Why it stands there, and what would move it."""
    waits_for: str | None = None
    """The transaction of its room that comes first."""
    delta: dict[str, Any] | None = None


class ChosenView(View):
    """What was chosen, and changed unless it was a dry run."""

    subscription: str
    count: int
    dry_run: bool
    first_position: int | None = None
    last_position: int | None = None
    sample: tuple[dict[str, Any], ...]
    """The first of them."""


class TrialView(View):
    """What came of sending a destination a delta that is in no store."""

    taken: bool
    status: int | None = None
    """The HTTP status, where there was one."""
    trouble: str | None = None
    reason: str = ""
    retry_after_seconds: float | None = None
    duration_ms: int


def subscription_view(
    held: Held[Subscription], counts: Mapping[Any, int] | None = None, secret: str = ""
) -> SubscriptionView:
    """A destination, with how its deltas stand where that was asked for."""
    state = held.state
    return SubscriptionView(
        name=state.name,
        kind=state.kind,
        target=state.target,
        status=state.status,
        reason=state.reason or None,
        rooms=state.rooms,
        entity_kinds=state.entity_kinds,
        from_position=state.from_position,
        on_parked=state.on_parked,
        added_at_unix_ms=state.added_at,
        version=held.version,
        secret_ref=state.secret_ref or None,
        deliveries=None if counts is None else {str(one): number for one, number in counts.items()},
        secret=secret or None,
    )


def delivery_view(one: Delivered, **more: Any) -> DeliveryView:
    """A delivery, with what else is to be told of it."""
    return DeliveryView(
        subscription=one.subscription,
        transaction_id=one.committed.transaction_id,
        position=one.committed.last_position,
        room=one.committed.room,
        recorded_at_unix_ms=one.committed.recorded_at,
        state=one.state,
        attempts=one.attempts,
        redeliveries=one.redelivery,
        next_attempt_at_unix_ms=one.due_at or None,
        error=one.error or None,
        worker=one.owner or None,
        **more,
    )


def delta_of(one: Delivered) -> dict[str, Any]:
    """A delivery's delta as it is delivered."""
    return one.committed.delta.model_dump(by_alias=True, exclude_none=True)


def chosen_view(
    name: str, rows: Sequence[Delivered], sample: Sequence[Mapping[str, Any]], *, dry_run: bool
) -> ChosenView:
    """What was chosen, with a sample as it is told."""
    positions = [one.committed.last_position for one in rows]
    return ChosenView(
        subscription=name,
        count=len(rows),
        dry_run=dry_run,
        first_position=positions[0] if positions else None,
        last_position=positions[-1] if positions else None,
        sample=tuple(map(dict, sample)),
    )


def trial_view(receipt: Receipt, duration_ms: int) -> TrialView:
    """What a trial came to."""
    return TrialView(
        taken=receipt.trouble is None,
        status=receipt.status or None,
        trouble=receipt.trouble,
        reason=receipt.reason,
        retry_after_seconds=receipt.retry_after_s,
        duration_ms=duration_ms,
    )
