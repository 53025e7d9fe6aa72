"""The secrets of a store's subscriptions, in its table `secrets`."""

import json
from collections.abc import Sequence

from application.signing import Change, Secret
from infrastructure.store.tables import SECRETS, Database, Tables, in_transaction


class StoredSecrets:
    """application.signing.SigningSecrets over a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, subscription: str) -> Sequence[Secret]:
        with self._database.read() as tables:
            return _secrets(tables, subscription)

    def change(self, subscription: str, change: Change) -> None:
        def put(tables: Tables) -> None:
            changed = change(_secrets(tables, subscription))
            tables.put(SECRETS, (subscription, json.dumps([[one.value, one.valid_until] for one in changed])))

        in_transaction(self._database, put)


def _secrets(tables: Tables, subscription: str) -> Sequence[Secret]:
    row = tables.get(SECRETS, subscription)
    return [Secret(value, valid_until) for value, valid_until in json.loads(row[1])] if row else []
