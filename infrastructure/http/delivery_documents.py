"""Shapes of what the routes about subscriptions and deliveries read and answer."""

from typing import Any

from pydantic import Field

from application.views import View


class SubscriptionBody(View):
    """A destination to be added."""

    name: str
    kind: str
    """`webhook`, `jetstream` or `file`."""
    target: str
    rooms: tuple[str, ...] = ()
    entity_kinds: tuple[str, ...] = ()
    after: int | None = Field(default=None, ge=0, lt=2**63)
    """Begins behind this position; left out: at the end."""
    on_parked: str = "go_on"


class SubscriptionRead(View):
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
    deliveries: dict[str, int] | None = None
    """How many of its deltas that are kept stand in each state."""
    secret: str | None = None
    """For the receiver of a webhook; shown when it was made, and never again."""


class ReasonBody(View):
    """Why something is done."""

    reason: str = ""


class DeliveryRead(View):
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
    delta: dict[str, Any] | None = None


class ChoiceBody(View):
    """Deltas of a subscription: those that have all of this in common; at least one key is given."""

    subscription: str
    transactions: tuple[str, ...] = ()
    room: str = ""
    since: str = ""
    states: tuple[str, ...] = ()
    dry_run: bool = False
    expect_count: int | None = Field(default=None, ge=0)
    """Change nothing when another number is chosen."""


class ChosenRead(View):
    """What was chosen, and changed unless it was a dry run."""

    subscription: str
    count: int
    dry_run: bool
    sample: tuple[dict[str, Any], ...]
    """The first of them."""
