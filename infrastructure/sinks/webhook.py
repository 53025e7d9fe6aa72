"""Posts deltas to an HTTP endpoint as signed CloudEvents (Standard Webhooks, SPEC L5)."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from standardwebhooks import Webhook

from application.ports import Clock
from application.remote import Failure, FailureKind
from application.signing import Secret, SigningSecrets
from application.sinks import Parcel, Receipt, Trouble
from infrastructure.cloud_events import MEDIA_TYPE, structured
from infrastructure.http_client import HttpClient, Limits, Reply
from infrastructure.retry_after import retry_after_s

LIMITS: Final = Limits(
    connect_timeout_s=5.0,
    read_timeout_s=15.0,
    call_timeout_s=15.0,
    connections_max=64,
    idle_connections_max=64,
    # Shorter than the five seconds after which many servers close an idle connection, so that a delivery
    # seldom meets one that is just being closed.
    idle_timeout_s=4.0,
)
"""What Standard Webhooks asks for: an endpoint that takes longer than 15 s has failed."""
SECRETS_FRESH_MS: Final = 2_000
"""How long secrets are used before they are looked up again: a rotation reaches every worker within it."""
EXCERPT_CHARACTERS_MAX: Final = 200
"""Of an answer, in a reason."""

GONE: Final = 410
REFUSES_MESSAGE: Final = frozenset((400, 413, 415, 422))
"""What says that this very message will not do; everything else means the endpoint."""


class WebhookSink:
    """One endpoint. Requests of different rooms run side by side, over connections that are kept."""

    def __init__(
        self, url: str, client: HttpClient, secrets: SigningSecrets, subscription: str, clock: Clock
    ) -> None:
        """Signs with the secrets of `subscription`, and closes `client`, which has LIMITS."""
        self._url = url
        self._client = client
        self._secrets = secrets
        self._subscription = subscription
        self._clock = clock
        self._kept: tuple[int, Sequence[Webhook]] | None = None

    async def send(self, parcel: Parcel) -> Receipt:
        """Post the delta under its transaction id, signed at this moment."""
        now = self._clock.now_ms()
        signers = await self._signers(now)
        if not signers:
            return Receipt(Trouble.ENDPOINT, "there is no secret to sign with; rotate the subscription's")
        body = structured(parcel.committed, parcel.gap)
        headers = signed(parcel.committed.transaction_id, body, signers, now)
        answer = await self._client.deliver(self._url, headers, body)
        return _refused(answer) if isinstance(answer, Failure) else _answered(answer, now)

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()

    async def _signers(self, now: int) -> Sequence[Webhook]:
        """The secrets that sign now, the current one first."""
        if self._kept is None or not 0 <= now - self._kept[0] < SECRETS_FRESH_MS:
            kept = await asyncio.to_thread(self._secrets.of, self._subscription)
            self._kept = (now, signers_of(kept, now))
        return self._kept[1]


def signers_of(secrets: Sequence[Secret], now: int) -> Sequence[Webhook]:
    """What signs with the secrets that are valid."""
    return [Webhook(secret.value) for secret in secrets if secret.signs(now)]


def signed(id_: str, body: bytes, signers: Sequence[Webhook], now: int) -> dict[str, str]:
    """The headers of a request, with a signature by each secret; the receiver looks for one it knows."""
    at = datetime.fromtimestamp(now // 1_000, UTC)
    text = body.decode()
    return {
        "content-type": MEDIA_TYPE,
        "webhook-id": id_,
        "webhook-timestamp": str(now // 1_000),
        "webhook-signature": " ".join(signer.sign(id_, at, text) for signer in signers),
    }


def _answered(reply: Reply, now: int) -> Receipt:
    if reply.is_success:
        return Receipt(status=reply.status)
    if reply.status == GONE:
        trouble = Trouble.GONE
    else:
        trouble = Trouble.MESSAGE if reply.status in REFUSES_MESSAGE else Trouble.ENDPOINT
    wait_s = retry_after_s(reply.headers.get("retry-after"), now)
    return Receipt(trouble, _reason(reply), reply.status, wait_s)


def _refused(failure: Failure) -> Receipt:
    reason = failure.reason
    if failure.kind is FailureKind.REFUSED_ADDRESS:
        reason += "; REPRISE_ALLOW_PRIVATE_TARGETS=true lets webhooks go there"
    return Receipt(Trouble.ENDPOINT, reason)


def _reason(reply: Reply) -> str:
    """The status and the start of what was said, on one line."""
    try:
        status = f"{reply.status} {HTTPStatus(reply.status).phrase}"
    except ValueError:
        status = str(reply.status)
    if 300 <= reply.status < 400:
        return f"{status}: redirects are not followed; subscribe the address it leads to"
    words = " ".join(reply.body.decode(errors="replace").split())
    said = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in words)
    if len(said) > EXCERPT_CHARACTERS_MAX:
        said = said[: EXCERPT_CHARACTERS_MAX - 1] + "…"
    return f"{status}: {said}" if said else status
