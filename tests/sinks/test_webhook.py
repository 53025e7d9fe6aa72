"""What a webhook's receiver gets, and what its answers mean."""

import asyncio
import base64
import hmac
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from ipaddress import ip_address

import pytest
from cloudevents.core.formats.json import JSONFormat
from standardwebhooks import Webhook, WebhookVerificationError

from application import signing
from application.ports import Clock
from application.sinks import Parcel, Receipt, Trouble
from domain.delta import CommitDelta
from infrastructure.addresses import Address, AddressPolicy, Resolve, resolve
from infrastructure.http_client import HttpClient
from infrastructure.main import SystemClock
from infrastructure.sinks.webhook import LIMITS, SECRETS_FRESH_MS, WebhookSink
from infrastructure.store.memory import MemoryDatabase
from infrastructure.store.secrets import StoredSecrets
from tests.sinks.parcels import HOSTILE, parcel
from tests.sinks.receiving import Posted, Receiving, receiver
from tests.store.place import Clock as StandingClock

OPEN = AddressPolicy(allows_loopback=True)
QUICK = replace(LIMITS, read_timeout_s=0.2, connect_timeout_s=0.2)
"""For an endpoint that never answers."""
FIRST, SECOND = (bytes([number]) * 32 for number in (1, 2))


@pytest.fixture
def endpoint() -> Iterator[Receiving]:
    with receiver() as receiving:
        yield receiving


@pytest.fixture
def secrets() -> StoredSecrets:
    secrets = StoredSecrets(MemoryDatabase())
    signing.create(secrets, "sub", FIRST)
    return secrets


@asynccontextmanager
async def sink_to(
    url: str,
    secrets: StoredSecrets,
    *,
    clock: Clock | None = None,
    policy: AddressPolicy = OPEN,
    resolve: Resolve = resolve,
    limits: object = LIMITS,
) -> AsyncIterator[WebhookSink]:
    assert isinstance(limits, type(LIMITS))
    client = HttpClient(policy, limits, resolve=resolve)
    sink = WebhookSink(url, client, secrets, "sub", clock or SystemClock())
    try:
        yield sink
    finally:
        await sink.close()


def send(url: str, secrets: StoredSecrets, *parcels: Parcel, limits: object = LIMITS) -> list[Receipt]:
    """Send one after the other through one sink."""

    async def run() -> list[Receipt]:
        async with sink_to(url, secrets, limits=limits) as sink:
            return [await sink.send(one) for one in parcels]

    return asyncio.run(run())


def verified(posted: Posted, secret: str) -> dict[str, object]:
    """The body, if the library says that it was signed with the secret."""
    body = Webhook(secret).verify(posted.body, posted.headers)
    assert isinstance(body, dict)
    return body


def value(secrets: StoredSecrets, at: int = 0) -> str:
    return secrets.of("sub")[at].value


# What is sent.


def test_a_receiver_can_verify_the_signature_and_parse_the_event(
    endpoint: Receiving, secrets: StoredSecrets
) -> None:
    """L5: Standard Webhooks and CloudEvents are read by the libraries of both."""
    sent = parcel(7, sessions=("s-1", "s-2"))

    assert send(endpoint.url, secrets, sent) == [Receipt(status=204)]

    posted = endpoint.posted()[0]
    assert posted.headers["content-type"] == "application/cloudevents+json"
    verified(posted, value(secrets))
    event = JSONFormat().read(None, posted.body)
    assert event.get_id() == posted.headers["webhook-id"] == "tx-7"
    assert event.get_attributes()["sequence"] == f"{7:020}"
    assert CommitDelta.from_json(json.dumps(event.get_data())) == sent.committed.delta


def test_another_secret_or_another_body_does_not_verify(endpoint: Receiving, secrets: StoredSecrets) -> None:
    send(endpoint.url, secrets, parcel())

    posted = endpoint.posted()[0]
    with pytest.raises(WebhookVerificationError):
        verified(posted, "whsec_" + base64.b64encode(SECOND).decode())
    with pytest.raises(WebhookVerificationError):
        verified(posted._replace(body=posted.body.replace(b"tx-1", b"tx-2")), value(secrets))


def test_every_attempt_and_redelivery_has_the_same_id_and_body_and_its_own_time(
    endpoint: Receiving, secrets: StoredSecrets
) -> None:
    clock = StandingClock()

    async def run() -> None:
        async with sink_to(endpoint.url, secrets, clock=clock) as sink:
            for one in (parcel(), parcel(attempt=2), parcel(attempt=3), parcel(redelivery=1)):
                await sink.send(one)
                clock.now += 61_500

    asyncio.run(run())

    posted = endpoint.posted()
    assert {one.headers["webhook-id"] for one in posted} == {"tx-1"}
    assert len({one.body for one in posted}) == 1
    start = StandingClock().now
    times = [(start + number * 61_500) // 1_000 for number in range(4)]
    assert [int(one.headers["webhook-timestamp"]) for one in posted] == times
    assert len({one.headers["webhook-signature"] for one in posted}) == 4
    for one in posted:
        text = f"tx-1.{one.headers['webhook-timestamp']}.".encode() + one.body
        signature = base64.b64encode(hmac.digest(FIRST, text, "sha256")).decode()
        assert one.headers["webhook-signature"] == f"v1,{signature}"


def test_while_a_secret_is_rotated_both_verify_and_later_only_the_new_one(
    endpoint: Receiving, secrets: StoredSecrets
) -> None:
    old = value(secrets)
    clock = StandingClock(SystemClock().now_ms())

    async def run() -> None:
        async with sink_to(endpoint.url, secrets, clock=clock) as sink:
            await sink.send(parcel(1))
            signing.rotate(secrets, "sub", SECOND, clock.now, keep_s=60)
            clock.now += SECRETS_FRESH_MS
            await sink.send(parcel(2))
            clock.now += 60_000
            await sink.send(parcel(3))

    asyncio.run(run())

    before, during, after = endpoint.posted()
    assert verified(before, old)["id"] == "tx-1"
    assert verified(during, old) == verified(during, value(secrets))
    assert len(during.headers["webhook-signature"].split(" ")) == 2
    assert verified(after, value(secrets))["id"] == "tx-3"
    with pytest.raises(WebhookVerificationError):
        verified(after, old)


def test_the_time_zone_of_the_machine_does_not_matter(
    endpoint: Receiving, secrets: StoredSecrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Pacific/Kiritimati")
        time.tzset()
        send(endpoint.url, secrets, parcel())
    time.tzset()

    posted = endpoint.posted()[0]
    verified(posted, value(secrets))
    age_s = datetime.now(UTC).timestamp() - int(posted.headers["webhook-timestamp"])
    assert 0 <= age_s < 300


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_ids_come_back_equal(endpoint: Receiving, secrets: StoredSecrets, hostile: str) -> None:
    sent = parcel(room=hostile, sessions=(hostile,))

    assert send(endpoint.url, secrets, sent) == [Receipt(status=204)]

    posted = endpoint.posted()[0]
    assert CommitDelta.from_json(json.dumps(verified(posted, value(secrets))["data"])) == sent.committed.delta
    assert "evil" not in posted.headers


def test_a_delta_of_many_megabytes_arrives_whole(endpoint: Receiving, secrets: StoredSecrets) -> None:
    sent = parcel(sessions=tuple(f"s-{number:05}-{'x' * 400}" for number in range(8_000)))

    assert send(endpoint.url, secrets, sent) == [Receipt(status=204)]

    body = endpoint.posted()[0].body
    assert len(body) > 7_000_000
    assert CommitDelta.from_json(json.dumps(json.loads(body)["data"])) == sent.committed.delta


def test_a_delivery_behind_a_gap_says_how_many_deltas_are_missing(
    endpoint: Receiving, secrets: StoredSecrets
) -> None:
    send(endpoint.url, secrets, parcel(gap=3), parcel(2))

    behind, next_ = (json.loads(one.body) for one in endpoint.posted())
    assert behind["gap"] == 3
    assert "gap" not in next_


def test_requests_share_a_connection_and_rooms_run_side_by_side(
    endpoint: Receiving, secrets: StoredSecrets
) -> None:
    endpoint.answer({"status": 204}, {"status": 200, "body": "x" * 100}, {"what": "held"})

    async def run() -> list[Receipt]:
        async with sink_to(endpoint.url, secrets) as sink:
            first = [await sink.send(parcel(1)), await sink.send(parcel(2))]
            held = asyncio.create_task(sink.send(parcel(3, "slow")))
            await asyncio.to_thread(endpoint.posted, 3)
            beside = await sink.send(parcel(4, "quick"))
            assert not held.done()
            await asyncio.to_thread(endpoint.release)
            return [*first, beside, await held]

    assert all(receipt.trouble is None for receipt in asyncio.run(run()))
    connections = [one.connection for one in endpoint.posted()]
    assert connections[0] == connections[1] == connections[2] != connections[3]


def test_an_endpoint_has_no_more_connections_than_it_may(endpoint: Receiving, secrets: StoredSecrets) -> None:
    """Whatever becomes of a request, the next one has its connection or another."""
    endpoint.answer({"what": "held"}, {"status": 500}, {"what": "cut"})

    async def run() -> list[Receipt]:
        async with sink_to(endpoint.url, secrets, limits=replace(LIMITS, connections_max=1)) as sink:
            sending = [asyncio.create_task(sink.send(parcel(at, f"room-{at}"))) for at in range(4)]
            await asyncio.to_thread(endpoint.posted, 1)
            await asyncio.to_thread(endpoint.release)
            return await asyncio.gather(*sending)

    receipts = asyncio.run(run())

    assert [one.status for one in receipts] == [204, 500, 0, 204]
    assert [one.connection for one in endpoint.posted()][1] == endpoint.posted()[0].connection


def test_cookies_of_an_endpoint_are_not_sent_back(endpoint: Receiving, secrets: StoredSecrets) -> None:
    endpoint.always(status=204, headers={"set-cookie": "tracked=1"})

    send(endpoint.url, secrets, parcel(1), parcel(2))

    assert not any("cookie" in one.headers for one in endpoint.posted())


def test_without_a_secret_nothing_is_sent(endpoint: Receiving, secrets: StoredSecrets) -> None:
    signing.forget(secrets, "sub")

    receipt = send(endpoint.url, secrets, parcel())[0]

    assert receipt.trouble is Trouble.ENDPOINT
    assert "no secret" in receipt.reason
    assert endpoint.posted() == []


# What answers mean.


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_every_answer_of_200_to_299_is_a_success(
    endpoint: Receiving, secrets: StoredSecrets, status: int
) -> None:
    endpoint.always(status=status)

    assert send(endpoint.url, secrets, parcel()) == [Receipt(status=status)]


@pytest.mark.parametrize(
    ("trouble", "statuses"),
    [
        (Trouble.GONE, [410]),
        (Trouble.MESSAGE, [400, 413, 415, 422]),
        (Trouble.ENDPOINT, [301, 302, 307, 401, 403, 404, 405, 408, 409, 425, 429, 500, 502, 503, 599]),
    ],
)
def test_an_answer_says_whose_fault_it_is(
    endpoint: Receiving, secrets: StoredSecrets, trouble: Trouble, statuses: Sequence[int]
) -> None:
    """L5: gone, the message's fault, or the endpoint's."""
    endpoint.answer(*({"status": status, "body": "no, thank you"} for status in statuses))

    receipts = send(endpoint.url, secrets, *map(parcel, range(len(statuses))))

    assert [(one.trouble, one.status) for one in receipts] == [(trouble, status) for status in statuses]
    assert all(one.reason.startswith(str(status)) for one, status in zip(receipts, statuses, strict=True))


def test_a_redirect_is_not_followed(endpoint: Receiving, secrets: StoredSecrets) -> None:
    endpoint.always(status=308, headers={"location": endpoint.url + "/moved"})

    receipt = send(endpoint.url, secrets, parcel())[0]

    assert receipt.trouble is Trouble.ENDPOINT
    assert "redirects are not followed" in receipt.reason
    assert [one.path for one in endpoint.posted()] == ["/hook"]


@pytest.mark.parametrize(
    ("header", "wait_s"),
    [
        ("120", 120.0),
        ("1.5", 1.5),
        ("Sun, 01 Mar 2026 09:00:30 GMT", 30.0),
        ("86400", 3600.0),
        ("-5", None),
        ("soon", None),
    ],
)
def test_retry_after_is_what_the_endpoint_asks_for(
    endpoint: Receiving, secrets: StoredSecrets, header: str, wait_s: float | None
) -> None:
    endpoint.always(status=503, headers={"retry-after": header})

    async def run() -> Receipt:
        async with sink_to(endpoint.url, secrets, clock=StandingClock()) as sink:
            return await sink.send(parcel())

    assert asyncio.run(run()).retry_after_s == wait_s


def test_the_reason_has_the_start_of_the_answer_on_one_line(
    endpoint: Receiving, secrets: StoredSecrets
) -> None:
    endpoint.answer(
        {"status": 422, "body": "  unknown\r\n\tfield\x1b[31m \udcff"},
        {"status": 500, "body": "x" * 1_000_000},
        {"status": 500},
    )

    reasons = [one.reason for one in send(endpoint.url, secrets, *map(parcel, range(3)))]

    assert reasons[0] in {
        f"422 {phrase}: unknown field�[31m �" for phrase in ("Unprocessable Entity", "Unprocessable Content")
    }
    assert len(reasons[1]) < 240
    assert reasons[2] == "500 Internal Server Error"


@pytest.mark.parametrize("what", ["cut", "garbage", "silent"])
def test_an_endpoint_that_does_not_answer_has_failed(
    endpoint: Receiving, secrets: StoredSecrets, what: str
) -> None:
    endpoint.answer({"what": what})

    failed, next_ = send(endpoint.url, secrets, parcel(1), parcel(2), limits=QUICK)

    assert failed.trouble is Trouble.ENDPOINT
    assert failed.reason
    assert next_.trouble is None


def test_an_answer_counts_once_its_status_is_there(endpoint: Receiving, secrets: StoredSecrets) -> None:
    endpoint.answer({"what": "drip"})

    assert send(endpoint.url, secrets, parcel(1), parcel(2), limits=QUICK) == [
        Receipt(status=200),
        Receipt(status=204),
    ]


def test_an_endpoint_that_is_down_has_failed_and_is_used_again_when_it_is_up(
    endpoint: Receiving, secrets: StoredSecrets
) -> None:
    async def run() -> list[Receipt]:
        async with sink_to(endpoint.url, secrets) as sink:
            receipts = [await sink.send(parcel(1))]
            endpoint.kill()
            receipts.append(await sink.send(parcel(2)))
            endpoint.start()
            return [*receipts, await sink.send(parcel(2, attempt=2))]

    receipts = asyncio.run(run())

    assert [one.trouble for one in receipts] == [None, Trouble.ENDPOINT, None]
    assert [one.headers["webhook-id"] for one in endpoint.posted()] == ["tx-2"]


def test_a_cancelled_delivery_is_cancelled(endpoint: Receiving, secrets: StoredSecrets) -> None:
    endpoint.answer({"what": "held"})

    async def run() -> None:
        async with sink_to(endpoint.url, secrets) as sink:
            sending = asyncio.create_task(sink.send(parcel()))
            await asyncio.to_thread(endpoint.posted, 1)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            assert (await sink.send(parcel(2))).trouble is None

    asyncio.run(run())


# Where it may go.


def test_an_address_of_this_machine_or_a_private_network_is_refused(
    endpoint: Receiving, secrets: StoredSecrets
) -> None:
    async def run() -> list[Receipt]:
        receipts = []
        for host in (f"127.0.0.1:{endpoint.port}", "10.0.0.1", "169.254.169.254", "[::1]", "0.0.0.0"):
            async with sink_to(f"http://{host}/", secrets, policy=AddressPolicy()) as sink:
                receipts.append(await sink.send(parcel()))
        return receipts

    for receipt in asyncio.run(run()):
        assert receipt.trouble is Trouble.ENDPOINT
        assert "may not be called" in receipt.reason
        assert "REPRISE_ALLOW_PRIVATE_TARGETS" in receipt.reason
    assert endpoint.posted() == []


def test_a_name_that_leads_elsewhere_when_asked_again_is_asked_once(
    endpoint: Receiving, secrets: StoredSecrets
) -> None:
    """The first answer is where nobody listens; the second would lead to the receiver on this machine."""
    answers = [ip_address("127.0.0.2"), ip_address("127.0.0.1")]
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[Address]:
        asked.append(host)
        return [answers[min(len(asked), len(answers)) - 1]]

    async def run() -> Receipt:
        url = f"http://hooks.example:{endpoint.port}/hook"
        async with sink_to(url, secrets, resolve=rebinding) as sink:
            return await sink.send(parcel())

    receipt = asyncio.run(run())

    assert receipt.trouble is Trouble.ENDPOINT
    assert asked == ["hooks.example"]
    assert endpoint.posted() == []


def test_a_name_that_turns_private_is_refused_when_it_is_asked_again(
    endpoint: Receiving, secrets: StoredSecrets
) -> None:
    """A public answer lets nobody in behind it: every new connection checks what it connects to."""
    answers = [ip_address("192.0.2.1"), ip_address("127.0.0.1")]
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[Address]:
        asked.append(host)
        return [answers[len(asked) - 1]]

    async def run() -> list[Receipt]:
        url = f"http://hooks.example:{endpoint.port}/hook"
        # The first is of a block for documentation, to which nothing leads.
        policy = AddressPolicy(allows_private=True)
        async with sink_to(url, secrets, resolve=rebinding, policy=policy, limits=QUICK) as sink:
            return [await sink.send(parcel(1)), await sink.send(parcel(1, attempt=2))]

    first, second = asyncio.run(run())

    assert first.trouble is second.trouble is Trouble.ENDPOINT
    assert "may not be called" not in first.reason
    assert "may not be called" in second.reason
    assert endpoint.posted() == []


def test_nothing_that_went_wrong_shows_a_secret_or_the_query_of_the_address(secrets: StoredSecrets) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    receipt = send(f"http://127.0.0.1:{port}/hook?token=hunter2", secrets, parcel())[0]

    assert receipt.trouble is Trouble.ENDPOINT
    assert "hunter2" not in receipt.reason
    assert value(secrets) not in receipt.reason
