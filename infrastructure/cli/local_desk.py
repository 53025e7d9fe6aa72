"""Answers the verbs about destinations, deliveries and tokens from a store."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from application import access
from application.access import Scope
from application.access_views import TokenView, token_view
from application.delivery_views import (
    ChosenView,
    DeliveryView,
    SubscriptionView,
    TrialView,
    chosen_view,
    delivery_view,
    delta_of,
    subscription_view,
)
from application.destinations import Destinations
from application.lanes import Choice, State
from application.ledger import Ledger
from application.subscriptions import Subscriptions, skippable
from domain.errors import NotFound
from domain.ids import TransactionId
from domain.subscription import Added
from infrastructure.cli.desk import Chosen
from infrastructure.cli.options import database_url
from infrastructure.configuration import resolve
from infrastructure.delivery_words import explained
from infrastructure.history import as_json_object
from infrastructure.main import SystemClock, destinations, surroundings
from infrastructure.store.tables import Database
from infrastructure.store.tokens import StoredTokens
from infrastructure.trials import tried_out

SAMPLE: Final = 5
"""Deliveries that are told of those that were chosen."""


class LedgerDesk:
    """The desk of an open ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ours = destinations(ledger, surroundings(ledger, resolve(database_url=database_url())))

    @property
    def _subscriptions(self) -> Subscriptions:
        return self._ours.subscriptions

    def _there(self, *, dry_run: bool) -> Destinations:
        return self._ours.tried() if dry_run else self._ours

    def subscriptions(self) -> Sequence[SubscriptionView]:
        return [
            subscription_view(one, self._subscriptions.counts(one.key)) for one in self._subscriptions.all()
        ]

    def observers(self) -> Sequence[str]:
        return self._subscriptions.observers()

    def subscription(self, name: str) -> SubscriptionView:
        return subscription_view(self._subscriptions.show(name), self._subscriptions.counts(name))

    def history(self, name: str) -> Sequence[Mapping[str, Any]]:
        return [as_json_object(one) for one in self._subscriptions.history(name)]

    def add(self, added: Added, after: int | None, *, dry_run: bool) -> SubscriptionView:
        held, secret = self._there(dry_run=dry_run).add(added, after=after)
        return subscription_view(held, secret="" if dry_run else secret)

    def test(self, name: str) -> TrialView:
        return asyncio.run(tried_out(self._ours, self._subscriptions.show(name).state))

    def pause(self, name: str, reason: str, *, dry_run: bool) -> int:
        return self._there(dry_run=dry_run).subscriptions.pause(name, reason).version

    def resume(self, name: str, reason: str, *, dry_run: bool) -> int:
        return self._there(dry_run=dry_run).subscriptions.resume(name, reason).version

    def rotate(self, name: str, keep_s: int, *, dry_run: bool) -> str:
        secret = self._there(dry_run=dry_run).rotate(name, keep_s)
        return "" if dry_run else secret

    def remove(self, name: str, *, dry_run: bool) -> None:
        self._there(dry_run=dry_run).remove(name)

    def deliveries(self, name: str, chosen: Chosen, limit: int) -> Sequence[DeliveryView]:
        return [delivery_view(one) for one in islice(self._subscriptions.list(name, _choice(chosen)), limit)]

    def delivery(self, name: str, transaction: str) -> DeliveryView | None:
        self._subscriptions.show(name)
        try:
            found = self._subscriptions.delivery(name, transaction)
        except NotFound:
            return None
        return explained(self._subscriptions, found).model_copy(update={"delta": delta_of(found)})

    def change(
        self, verb: str, name: str, chosen: Chosen, expected: int | None, *, dry_run: bool
    ) -> ChosenView:
        ours, choice = self._subscriptions, _choice(chosen)
        if dry_run:
            ours.show(name)
            rows = ours.chosen(name, skippable(choice) if verb == "skip" else choice, expected)
        else:
            rows = (ours.skip if verb == "skip" else ours.redeliver)(name, choice, expected=expected)
        sample = [delivery_view(one).to_dict() for one in rows[:SAMPLE]]
        return chosen_view(name, rows, sample, dry_run=dry_run)


def _choice(chosen: Chosen) -> Choice:
    transactions = tuple(map(TransactionId, chosen.transactions))
    return Choice(transactions, chosen.room, chosen.since_unix_ms, frozenset(map(State, chosen.states)))


class StoreTokenDesk:
    """The desk of the tokens that a store keeps."""

    def __init__(self, database: Database) -> None:
        self._kept = StoredTokens(database)
        self._clock = SystemClock()

    def all(self) -> Sequence[TokenView]:
        return [token_view(one) for one in self._kept.all()]

    def create(self, scopes: Sequence[str], rooms: Sequence[str], note: str) -> TokenView:
        random = secrets.token_bytes(access.SECRET_BYTES)
        text, made = access.create(self._kept, random, map(Scope, scopes), rooms, note, self._clock.now_ms())
        return token_view(made, text)

    def revoke(self, token: str) -> None:
        access.revoke(self._kept, token, self._clock.now_ms())
