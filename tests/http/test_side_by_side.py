"""A client's session and four ways out: stream, webhook, JetStream and file tell the same in one order."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from nats.aio.msg import Msg

from infrastructure.main import open_ledger
from tests.cli.conftest import Cli
from tests.http.reading import EventReader
from tests.http.serving import WAIT_S, served
from tests.nats import Stream, nats_server, own_stream
from tests.sinks.receiving import receiver

ROOMS = ("room-1", "room-2")
TURNS = 3
Delta = dict[str, Any]


def tell(client: httpx.Client, room: str) -> None:
    """What a host reports of a session: turns, what is said, a tool, a question, the end."""
    at = f"/v1/rooms/{room}/agents/sessions/session-of-{room}"
    client.post(f"{at}/state", json={"state": {"title": "Tides", "provider": "codex"}}).raise_for_status()
    for number in range(1, TURNS + 1):
        turn = f"turn-{number}"
        text = {"messageId": f"text-{number}", "turnId": turn, "role": "assistant", "kind": "text"}
        tool = {"messageId": f"tool-{number}", "turnId": turn, "role": "tool", "kind": "tool_call"}
        asked = {"requestId": "q", "turnId": turn, "kind": "approval", "status": "pending"}
        for what, body in (
            ("state", {"state": {"turn": {"turnId": turn, "phase": "running"}}}),
            ("messages", {"updates": [{**text, "contentDelta": "High "}]}),
            ("messages", {"updates": [{**text, "contentDelta": "water."}, {**tool, "status": "running"}]}),
            ("state", {"state": {"interactionTransition": asked}}),
            ("state", {"state": {"interactionTransition": {**asked, "status": "answered"}}}),
            ("state", {"state": {"turn": {"turnId": turn, "phase": "settled", "outcome": "completed"}}}),
        ):
            client.post(f"{at}/{what}", json=body).raise_for_status()


def streamed(url: str, last: int) -> list[Delta]:
    """The deltas of the live stream from the beginning up to a position."""
    reader, found = EventReader(), []
    with httpx.stream("GET", f"{url}/v1/stream?after=0", timeout=WAIT_S) as reply:
        for piece in reply.iter_raw():
            for event in reader.feed(piece):
                if event.event == "commit":
                    found.append(event.data["data"])
                    if int(event.id) == last:
                        return found
    raise AssertionError("the stream ended")


async def stored(stream: Stream, at_least: int) -> list[Msg]:
    """The messages of a stream, once there are so many."""
    consumer = await stream.jetstream.subscribe(f"{stream.prefix}.>", ordered_consumer=True)
    found = [await consumer.next_msg(WAIT_S) for _ in range(at_least)]
    await consumer.unsubscribe()
    return found


def by_room(deltas: list[Delta]) -> Mapping[str, list[Delta]]:
    """Deltas of each room in the order in which they came."""
    return {room: [delta for delta in deltas if delta["workspaceId"] == room] for room in ROOMS}


@pytest.mark.slow
def test_every_way_out_tells_the_same_in_the_same_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRISE_ALLOW_PRIVATE_TARGETS", "true")
    server, cli = nats_server(), Cli(tmp_path / "store.db")
    lines = tmp_path / "deltas.jsonl"

    async def story() -> None:
        with receiver() as hook:
            async with own_stream(server) as stream:
                targets = {
                    "webhook": hook.url,
                    "jetstream": f"{server}/{stream.prefix}",
                    "file": f"file://{lines}",
                }
                with served(cli.url, environment={"REPRISE_ALLOW_PRIVATE_TARGETS": "true"}) as service:
                    for kind, target in targets.items():
                        added = cli.run("subscriptions", "add", kind, "--kind", kind, "--target", target)
                        assert added.code == 0, added.err
                    with httpx.Client(base_url=service.url) as client:
                        for room in ROOMS:
                            tell(client, room)
                    with open_ledger(cli.url) as ledger:
                        committed = list(ledger.deltas())
                    told = [json.loads(one.delta.to_json()) for one in committed]
                    assert len(told) == len(ROOMS) * (1 + 6 * TURNS)

                    assert streamed(service.url, committed[-1].last_position) == told
                    posted = [json.loads(one.body)["data"] for one in hook.posted(len(told))]
                    sent = [json.loads(one.data) for one in await stored(stream, len(told))]
                    assert service.told() == 0
                written = [json.loads(line)["delta"] for line in lines.read_text("utf-8").splitlines()]
                assert by_room(posted) == by_room(sent) == by_room(written) == by_room(told)

    asyncio.run(story())
