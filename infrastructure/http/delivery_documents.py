"""Shapes of what the routes about subscriptions and deliveries read."""

from typing import Final

from pydantic import Field

from application.signing import ROTATION_S
from application.views import View

KEPT_S_MAX: Final = 30 * 24 * 60 * 60


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


class ReasonBody(View):
    """Why something is done."""

    reason: str = ""


class RotationBody(View):
    """How a secret is replaced."""

    keep_seconds: int = Field(default=ROTATION_S, ge=0, le=KEPT_S_MAX)
    """How long the old one goes on signing; 0 when it got out."""


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
