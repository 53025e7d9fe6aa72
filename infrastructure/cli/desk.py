"""Where verbs about destinations, deliveries and tokens are answered: at a store, or at a service on one."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from infrastructure.cli.remote import service_url

if TYPE_CHECKING:
    from application.access_views import TokenView
    from application.delivery_views import ChosenView, DeliveryView, SubscriptionView, TrialView
    from domain.subscription import Added


@dataclass(frozen=True, slots=True)
class Chosen:
    """Deltas of a subscription that have all of this in common."""

    transactions: tuple[str, ...] = ()
    room: str = ""
    since_unix_ms: int = 0
    states: tuple[str, ...] = ()


class Desk(Protocol):
    """What operators ask and have done about destinations and deliveries.

    What is not there raises NotFound, or Failure with the exit code for it, as does what contradicts what is
    recorded.
    """

    def subscriptions(self) -> "Sequence[SubscriptionView]":
        """The destinations, with how their deltas stand."""

    def observers(self) -> Sequence[str]:
        """The names under which programs subscribed themselves."""

    def subscription(self, name: str) -> "SubscriptionView": ...

    def history(self, name: str) -> Sequence[Mapping[str, Any]]:
        """What happened to a subscription, oldest first: events as the history verbs write them."""

    def add(self, added: "Added", after: int | None, *, dry_run: bool) -> "SubscriptionView":
        """Begin behind a position, by default at the end; with its secret where it has one."""

    def test(self, name: str) -> "TrialView": ...

    def pause(self, name: str, reason: str, *, dry_run: bool) -> int:
        """The subscription's version then."""

    def resume(self, name: str, reason: str, *, dry_run: bool) -> int:
        """The subscription's version then."""

    def rotate(self, name: str, keep_s: int, *, dry_run: bool) -> str:
        """The new secret; blank for a dry run."""

    def remove(self, name: str, *, dry_run: bool) -> None: ...

    def deliveries(self, name: str, chosen: Chosen, limit: int) -> "Sequence[DeliveryView]":
        """A subscription's deliveries, oldest first."""

    def delivery(self, name: str, transaction: str) -> "DeliveryView | None":
        """One of them, with its delta and why it stands where it does; None when there is none."""

    def change(
        self, verb: str, name: str, chosen: Chosen, expected: int | None, *, dry_run: bool
    ) -> "ChosenView":
        """Redeliver or skip what is chosen, unless it is another number than expected."""


class TokenDesk(Protocol):
    """What operators ask and have done about tokens."""

    def all(self) -> "Sequence[TokenView]": ...

    def create(self, scopes: Sequence[str], rooms: Sequence[str], note: str) -> "TokenView":
        """The token, with what it is."""

    def revoke(self, token: str) -> None: ...


@contextmanager
def desk_at(url: str | None, *, makes: bool = False, tries: bool = False) -> Iterator[Desk]:
    """The desk that is meant: of the service that --url or the environment names, else of the store.

    `makes` and `tries` are as in `options.opened`.
    """
    if where := service_url(url):
        from infrastructure.cli.remote import asked
        from infrastructure.cli.remote_desk import ServiceDesk

        with asked(where) as client:
            yield ServiceDesk(client)
        return
    from infrastructure.cli.local_desk import LedgerDesk
    from infrastructure.cli.options import opened

    with opened(makes=makes, tries=tries) as ledger:
        yield LedgerDesk(ledger)


@contextmanager
def token_desk_at(url: str | None, *, makes: bool = False) -> Iterator[TokenDesk]:
    """The same for tokens."""
    if where := service_url(url):
        from infrastructure.cli.remote import asked
        from infrastructure.cli.remote_desk import ServiceTokenDesk

        with asked(where) as client:
            yield ServiceTokenDesk(client)
        return
    from infrastructure.cli.local_desk import StoreTokenDesk
    from infrastructure.cli.options import database

    with database(makes=makes) as opened:
        yield StoreTokenDesk(opened)
