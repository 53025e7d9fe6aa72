"""Answers the verbs about destinations, deliveries and tokens by asking a service."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from application.access_views import TokenView
from application.delivery_views import ChosenView, DeliveryView, SubscriptionView, TrialView
from domain.subscription import Added
from infrastructure.cli.desk import Chosen
from infrastructure.cli.remote import PAGE_MAX, told

if TYPE_CHECKING:
    from infrastructure.cli.remote import Client

SUFFIX: Final = "UnixMs"
TIMES: Final = ("addedAt", "recordedAt", "nextAttemptAt", "createdAt", "revokedAt")
"""Members that a service tells as RFC 3339, and verbs as Unix milliseconds."""
TRIAL_S: Final = 60.0
"""A destination may take its time."""
VERBS: Final = {"redeliver": "/v1/redeliveries", "skip": "/v1/skips"}


class ServiceDesk:
    """The desk of a service."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    def _get(self, path: str, **asked: Any) -> Any:
        return told(self._client.get(path, params=asked)).json()

    def _post(self, path: str, body: Mapping[str, Any], *, dry_run: bool = False) -> Any:
        asked = {"dryRun": "true"} if dry_run else {}
        return told(self._client.post(path, params=asked, json=dict(body))).json()

    def subscriptions(self) -> Sequence[SubscriptionView]:
        return [self.subscription(one["name"]) for one in self._get("/v1/subscriptions")["items"]]

    def observers(self) -> Sequence[str]:
        return list(self._get("/v1/subscriptions")["observers"])

    def subscription(self, name: str) -> SubscriptionView:
        return SubscriptionView.model_validate(_in_ms(self._get(_path(name))))

    def history(self, name: str) -> Sequence[Mapping[str, Any]]:
        return [_in_ms(one) for one in self._get(_path(name, "events"))["items"]]

    def add(self, added: Added, after: int | None, *, dry_run: bool) -> SubscriptionView:
        body = {
            "name": added.name,
            "kind": added.kind,
            "target": added.target,
            "rooms": added.rooms,
            "entityKinds": added.entity_kinds,
            "after": after,
            "onParked": added.on_parked,
        }
        said = self._post("/v1/subscriptions", body, dry_run=dry_run)
        return SubscriptionView.model_validate(_in_ms(said))

    def test(self, name: str) -> TrialView:
        answer = self._client.post(_path(name, "test"), timeout=TRIAL_S)
        return TrialView.model_validate(told(answer).json())

    def pause(self, name: str, reason: str, *, dry_run: bool) -> int:
        return int(self._post(_path(name, "pause"), {"reason": reason}, dry_run=dry_run)["version"])

    def resume(self, name: str, reason: str, *, dry_run: bool) -> int:
        return int(self._post(_path(name, "resume"), {"reason": reason}, dry_run=dry_run)["version"])

    def rotate(self, name: str, keep_s: int, *, dry_run: bool) -> str:
        rotated = self._post(_path(name, "rotate-secret"), {"keepSeconds": keep_s}, dry_run=dry_run)
        return str(rotated.get("secret", ""))

    def remove(self, name: str, *, dry_run: bool) -> None:
        told(self._client.delete(_path(name), params={"dryRun": "true"} if dry_run else {}))

    def deliveries(self, name: str, chosen: Chosen, limit: int) -> Sequence[DeliveryView]:
        found: list[DeliveryView] = []
        asked: dict[str, Any] = {"subscription": name, "room": chosen.room, "state": list(chosen.states)}
        if chosen.since_unix_ms:
            asked["since"] = str(chosen.since_unix_ms)
        after = 0
        while len(found) < limit:
            wanted = min(limit - len(found), PAGE_MAX)
            page = self._get("/v1/deliveries", **asked, after=after, limit=wanted)
            found += [DeliveryView.model_validate(_in_ms(one)) for one in page["items"]]
            after = page["next"]
            if len(page["items"]) < wanted:
                break
        return found

    def delivery(self, name: str, transaction: str) -> DeliveryView | None:
        self._get(_path(name))
        path = f"/v1/deliveries/{quote(transaction, safe='')}"
        answer = self._client.get(path, params={"subscription": name})
        return None if answer.status_code == 404 else DeliveryView.model_validate(_in_ms(told(answer).json()))

    def change(
        self, verb: str, name: str, chosen: Chosen, expected: int | None, *, dry_run: bool
    ) -> ChosenView:
        body = {
            "subscription": name,
            "transactions": chosen.transactions,
            "room": chosen.room,
            "since": str(chosen.since_unix_ms) if chosen.since_unix_ms else "",
            "states": chosen.states,
            "dryRun": dry_run,
            "expectCount": expected,
        }
        return ChosenView.model_validate(self._post(VERBS[verb], body))


class ServiceTokenDesk:
    """The desk of a service's tokens."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    def all(self) -> Sequence[TokenView]:
        found = told(self._client.get("/v1/tokens")).json()["items"]
        return [TokenView.model_validate(_in_ms(one)) for one in found]

    def create(self, scopes: Sequence[str], rooms: Sequence[str], note: str) -> TokenView:
        body = {"scopes": list(scopes), "rooms": list(rooms), "note": note}
        return TokenView.model_validate(_in_ms(told(self._client.post("/v1/tokens", json=body)).json()))

    def revoke(self, token: str) -> None:
        told(self._client.delete(f"/v1/tokens/{quote(token, safe='')}"))


def _path(name: str, *more: str) -> str:
    return "/".join(("/v1/subscriptions", quote(name, safe=""), *more))


def _in_ms(said: Mapping[str, Any]) -> dict[str, Any]:
    """A document of a service with its times as views have them."""
    return {
        (name + SUFFIX if name in TIMES else name): (_ms(value) if name in TIMES else value)
        for name, value in said.items()
    }


def _ms(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000)
