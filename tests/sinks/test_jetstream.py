"""What a JetStream consumer gets, and what the server's answers mean."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import pytest
from cloudevents.core.v1.event import CloudEvent
from nats.aio.msg import Msg
from nats.js.api import DiscardPolicy

from application.sinks import Parcel, Receipt, Trouble
from domain.delta import CommitDelta
from infrastructure.cloud_events import cloud_event
from infrastructure.sinks import jetstream
from infrastructure.sinks.jetstream import JetStreamSink
from infrastructure.sinks.nats_messages import TOKEN_LENGTH_MAX, messages_of, token
from tests.nats import Stream, nats_server, own_server, own_stream, stream_at
from tests.sinks.parcels import HOSTILE, parcel

Story = Callable[[JetStreamSink, Stream], Coroutine[Any, Any, None]]


@asynccontextmanager
async def sink_on(server: str, prefix: str, credentials: str = "") -> AsyncIterator[JetStreamSink]:
    sink = JetStreamSink(server, prefix, credentials)
    try:
        yield sink
    finally:
        await sink.close()


def play(story: Story, **settings: Any) -> None:
    """Tell a story with a sink and a stream of its own."""
    server = nats_server()

    async def run() -> None:
        async with own_stream(server, **settings) as stream, sink_on(server, stream.prefix) as sink:
            await story(sink, stream)

    asyncio.run(run())


async def send(sink: JetStreamSink, *parcels: Parcel) -> list[Receipt]:
    return [await sink.send(one) for one in parcels]


def event_of(message: Msg) -> CloudEvent:
    """The event as the binding of CloudEvents to NATS says; the library checks its attributes."""
    assert message.headers is not None
    attributes: dict[str, Any] = {
        name.removeprefix("ce-"): unquote(value)
        for name, value in message.headers.items()
        if name.startswith("ce-")
    }
    attributes["time"] = datetime.fromisoformat(attributes["time"])
    return CloudEvent(attributes, json.loads(message.data))


def header(message: Msg, name: str) -> str:
    assert message.headers is not None
    return message.headers[name]


# What is published.


def test_a_consumer_gets_the_event_in_headers_and_the_delta_as_data() -> None:
    async def story(sink: JetStreamSink, stream: Stream) -> None:
        sent = parcel(7)

        assert await send(sink, sent) == [Receipt()]

        message = (await stream.stored())[0]
        assert message.subject == f"{stream.prefix}.team.s-1"
        assert header(message, "Nats-Msg-Id") == "tx-7:1"
        assert "Content-Type" not in (message.headers or {})  # That would mean structured mode.
        assert CommitDelta.from_json(message.data.decode()) == sent.committed.delta
        expected = cloud_event(sent.committed).get_attributes()
        assert event_of(message).get_attributes() == {**expected, "id": "tx-7:1", "part": "1", "parts": "1"}

    play(story)


def test_each_session_of_a_commit_has_a_message_with_the_whole_delta() -> None:
    """L6: consumers choose by subject, and miss nothing of what happened at once."""

    async def story(sink: JetStreamSink, stream: Stream) -> None:
        sent = parcel(7, sessions=("s-1", "s-2", "s-1", "s-3"))

        assert await send(sink, sent) == [Receipt()]

        messages = await stream.stored()
        assert [one.subject.rpartition(".")[2] for one in messages] == ["s-1", "s-2", "s-3"]
        assert [header(one, "ce-id") for one in messages] == ["tx-7:1", "tx-7:2", "tx-7:3"]
        assert [(header(one, "ce-part"), header(one, "ce-parts")) for one in messages] == [
            ("1", "3"),
            ("2", "3"),
            ("3", "3"),
        ]
        assert {one.data for one in messages} == {sent.committed.delta.to_json().encode()}

    play(story)


def test_another_attempt_is_a_success_and_stores_nothing_twice() -> None:
    async def story(sink: JetStreamSink, stream: Stream) -> None:
        assert await send(sink, parcel(), parcel(attempt=2), parcel(attempt=3)) == [Receipt()] * 3
        assert len(await stream.stored()) == 1

    play(story)


def test_what_an_operator_delivers_again_comes_again_under_the_same_event_id() -> None:
    """L6: the server drops repetitions by `Nats-Msg-Id`, consumers by `ce-id`."""

    async def story(sink: JetStreamSink, stream: Stream) -> None:
        await send(
            sink, parcel(), parcel(redelivery=1), parcel(redelivery=1, attempt=2), parcel(redelivery=2)
        )

        messages = await stream.stored()
        assert [header(one, "Nats-Msg-Id") for one in messages] == ["tx-1:1", "tx-1:1.r1", "tx-1:1.r2"]
        assert {header(one, "ce-id") for one in messages} == {"tx-1:1"}

    play(story)


def test_a_delivery_behind_a_gap_says_how_many_deltas_are_missing() -> None:
    async def story(sink: JetStreamSink, stream: Stream) -> None:
        await send(sink, parcel(gap=3), parcel(2))

        behind, next_ = await stream.stored()
        assert header(behind, "ce-gap") == "3"
        assert "ce-gap" not in (next_.headers or {})

    play(story)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_ids_come_back_equal(hostile: str) -> None:
    async def story(sink: JetStreamSink, stream: Stream) -> None:
        sent = parcel(room=hostile, sessions=(hostile,))

        assert await send(sink, sent) == [Receipt()]

        message = (await stream.stored())[0]
        event = event_of(message)
        assert event.get_attributes()["partitionkey"] == event.get_subject() == hostile
        assert unquote(event.get_source()) == f"/rooms/{hostile}"
        assert CommitDelta.from_json(message.data.decode()) == sent.committed.delta
        assert len(message.subject.split(".")) == 3
        assert "evil" not in (message.headers or {})

    play(story)


@pytest.mark.parametrize("id_", [*HOSTILE[:-1], "plain-id_9", "a" * TOKEN_LENGTH_MAX, "..", "~"])
def test_an_id_can_be_read_back_from_a_subject(id_: str) -> None:
    assert unquote(token(id_)) == id_
    assert not set(token(id_)) & set(".*> \t\r\n~")


def test_ids_that_are_long_stay_apart_in_subjects_of_bounded_length() -> None:
    """Cut ones end in a digest, behind a character that no whole token has."""
    ids = ["a" * 512, "a" * 511 + "b", "🜚" * 512, "é" * 400]

    tokens = [token(id_) for id_ in ids]

    assert len(set(tokens)) == len(ids)
    assert all(len(one) == TOKEN_LENGTH_MAX and one[-33] == "~" for one in tokens)


def test_rooms_are_published_side_by_side_over_one_connection() -> None:
    async def story(sink: JetStreamSink, stream: Stream) -> None:
        receipts = await asyncio.gather(*(sink.send(parcel(at, f"room-{at}")) for at in range(200)))

        assert set(receipts) == {Receipt()}
        assert len(await stream.stored()) == 200

    play(story)


# What the server's answers mean.


def test_a_subject_without_a_stream_is_the_destinations_fault_and_the_reason_says_what_to_make() -> None:
    server = nats_server()

    async def run() -> Receipt:
        async with sink_on(server, "test_nobody") as sink:
            return await sink.send(parcel())

    receipt = asyncio.run(run())

    assert receipt.trouble is Trouble.ENDPOINT
    assert "test_nobody.team.s-1" in receipt.reason
    assert "test_nobody.>" in receipt.reason


def test_a_delta_larger_than_the_server_takes_is_the_messages_fault() -> None:
    """Headers count too: the server would close the connection at the first byte too many."""

    async def story(sink: JetStreamSink, stream: Stream) -> None:
        large = parcel(sessions=tuple(f"s-{number:04}" for number in range(9_000)))
        assert len(large.committed.delta.to_json()) > 1_048_576

        receipts = await send(sink, large, parcel(2))

        assert [one.trouble for one in receipts] == [Trouble.MESSAGE, None]
        assert "1048576" in receipts[0].reason

    play(story)


def test_a_delta_that_is_too_large_only_with_its_headers_is_not_sent() -> None:
    size = next(messages_of(parcel(), "commits")).size

    async def run(server: str) -> list[Trouble | None]:
        async with stream_at(server, "commits") as stream, sink_on(server, "commits") as sink:
            await stream.make()
            return [(await sink.send(one)).trouble for one in (parcel(1), parcel(1, "team+"))]

    with own_server(f"max_payload: {size}") as server:
        assert asyncio.run(run(server.url)) == [None, Trouble.MESSAGE]


def test_a_delta_larger_than_its_stream_takes_is_the_messages_fault() -> None:
    async def story(sink: JetStreamSink, stream: Stream) -> None:
        receipts = await send(sink, parcel(sessions=("x" * 500, "y" * 500)), parcel(2))

        assert [one.trouble for one in receipts] == [Trouble.MESSAGE, None]

    play(story, max_msg_size=1_500)


def test_a_stream_that_is_full_is_the_destinations_fault() -> None:
    async def story(sink: JetStreamSink, stream: Stream) -> None:
        receipts = await send(sink, parcel(1), parcel(2))

        assert [one.trouble for one in receipts] == [None, Trouble.ENDPOINT]
        assert "maximum messages" in receipts[1].reason

    play(story, max_msgs=1, discard=DiscardPolicy.NEW)


def test_a_server_that_is_down_has_failed_and_the_reason_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jetstream, "RECONNECT_TIMEOUT_S", 0.0)
    with own_server() as server:
        server.kill()

        async def run() -> list[Receipt]:
            async with sink_on(server.url, "commits") as sink:
                return await asyncio.gather(*(sink.send(parcel(at, f"room-{at}")) for at in range(3)))

        for receipt in asyncio.run(run()):
            assert receipt.trouble is Trouble.ENDPOINT
            assert server.url in receipt.reason
            assert "Connect" in receipt.reason


def test_a_restart_of_the_server_loses_nothing_and_stores_nothing_twice() -> None:
    with own_server() as server:

        async def run() -> None:
            async with sink_on(server.url, "commits") as sink:
                async with stream_at(server.url, "commits") as stream:
                    await stream.make()
                assert (await sink.send(parcel(1))).trouble is None
                server.kill()
                waiting = [asyncio.create_task(sink.send(parcel(at, f"room-{at}"))) for at in range(2, 6)]
                await asyncio.to_thread(server.start)
                assert set(await asyncio.gather(*waiting)) == {Receipt()}
                assert (await sink.send(parcel(1, attempt=2))).trouble is None
            async with stream_at(server.url, "commits") as stream:
                ids = [header(one, "ce-id") for one in await stream.stored()]
            assert sorted(ids) == [f"tx-{at}:1" for at in range(1, 6)]

        asyncio.run(run())


def test_a_server_that_wants_to_know_who_it_is_refuses_others_without_showing_what_they_said() -> None:
    with own_server("authorization {user: reprise, password: hunter2}") as server:

        async def run(credentials: str) -> Receipt:
            async with sink_on(server.url, "commits", credentials) as sink:
                return await sink.send(parcel())

        refused = asyncio.run(run("reprise:hunter3"))
        admitted = asyncio.run(run("reprise:hunter2"))

    assert refused.trouble is admitted.trouble is Trouble.ENDPOINT
    assert "Authorization" in refused.reason
    assert "hunter" not in refused.reason
    assert "no stream" in admitted.reason


def test_a_cancelled_delivery_is_cancelled_and_the_connection_goes_on() -> None:
    async def story(sink: JetStreamSink, stream: Stream) -> None:
        sending = asyncio.create_task(sink.send(parcel(1)))
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert await send(sink, parcel(2)) == [Receipt()]

    play(story)
