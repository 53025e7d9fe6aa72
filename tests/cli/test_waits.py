"""`waits` tells why rooms are not pulled at the moment, and changes it."""

import pytest

from application.aggregates import change
from domain.backoff import BACKOFF, LIST_LANE, Trouble, fail, messages_lane
from domain.backoff_policy import SERVICE_POLICY
from domain.breaker import BREAKER, SERVICE_BREAKER, open_breaker
from domain.ids import SessionId
from infrastructure.text import when
from tests.cli.conftest import Cli

ROOM = "room-1"
HOST = "127.0.0.1:1"
DOWN = Trouble("status", retryable=True, reason="the remote answered 503", status=503)
GONE = Trouble("status", retryable=False, reason="the remote answered 404", status=404)


@pytest.fixture
def tracked(cli: Cli) -> Cli:
    """The command, on a store with one room that is pulled in."""
    assert cli.run("rooms", "track", ROOM, "--remote", f"http://{HOST}").code == 0
    return cli


def failed(cli: Cli, lane: str, trouble: Trouble = DOWN) -> int:
    """A lane's call has failed; until when it waits."""
    with cli.ledger() as ledger:
        now = ledger.clock.now_ms()
        held = change(
            ledger.store, BACKOFF, ROOM, lambda room: fail(room, lane, trouble, SERVICE_POLICY, now), now
        )
    return held.state.waits[lane].until


def down(cli: Cli) -> None:
    """The room's host is down."""
    with cli.ledger() as ledger:
        now = ledger.clock.now_ms()
        change(
            ledger.store, BREAKER, HOST, lambda host: open_breaker(host, now, DOWN, SERVICE_BREAKER, now), now
        )


def test_nothing_waits_in_a_healthy_room(tracked: Cli) -> None:
    listed, why = tracked.run("waits", "list"), tracked.run("waits", "why", ROOM)

    assert (listed.out, listed.err) == ("", "nothing waits\n")
    assert (why.out, why.err) == ("", "nothing holds it: it is pulled at its next turn\n")


def test_the_list_names_lanes_and_hosts(tracked: Cli) -> None:
    until = failed(tracked, messages_lane(SessionId("s")))
    parked_until = [failed(tracked, LIST_LANE, GONE) for _ in range(3)][-1]
    down(tracked)
    tracked.run("waits", "pause", ROOM)

    objects = tracked.run("waits", "list", "--json").objects
    text = tracked.run("waits", "list").out

    assert [(one.get("lane"), one["state"]) for one in objects] == [
        ("", "paused"),
        ("list", "parked"),
        ("messages:s", "waiting"),
        (None, "down"),
    ]
    waiting = objects[2]
    assert (waiting["kind"], waiting["status"], waiting["failures"]) == ("status", 503, 1)
    assert (waiting["stepSeconds"], waiting["untilUnixMs"]) == (10.0, until)
    assert objects[3]["host"] == HOST
    for shown in (when(until), when(parked_until), HOST, "every lane", "parked"):
        assert shown in text


def test_why_names_the_event_until_when_and_what_ends_it(tracked: Cli) -> None:
    until = failed(tracked, messages_lane(SessionId("s")))

    [reason] = tracked.run("waits", "why", ROOM, "s", "--json").objects
    lines = tracked.run("waits", "why", ROOM, "s").lines

    assert (reason["why"], reason["lane"], reason["untilUnixMs"]) == ("delayed", "messages:s", until)
    assert (reason["topic"], reason["version"]) == ("backoff.delayed", 1)
    assert reason["reason"] == "the remote answered 503"
    assert lines[0] == f"delayed: messages:s, until {when(until)}"
    assert lines[1] == "  because the remote answered 503"
    assert lines[2].startswith("  backoff.delayed, version 1 of backoff room-1, recorded ")
    assert lines[3] == "  ended by the time, or a reset"
    assert tracked.run("waits", "why", ROOM).out == ""


def test_why_tells_a_refusal_that_holds_nothing_yet(tracked: Cli) -> None:
    failed(tracked, LIST_LANE, GONE)

    lines = tracked.run("waits", "why", ROOM).lines

    assert lines[0] == "refused: list, tried at its next turn"
    assert lines[1] == "  because the remote answered 404"
    assert [one["state"] for one in tracked.run("waits", "list", "--json").objects] == ["refused"]


def test_why_of_a_room_that_is_not_tracked_says_so(tracked: Cli) -> None:
    assert tracked.run("waits", "why", "nowhere").lines == [
        "untracked: every lane, until somebody acts",
        "  ended by tracking the room",
    ]


def test_a_reset_ends_the_waits_of_a_lane_or_of_the_room_and_its_host(tracked: Cli) -> None:
    failed(tracked, messages_lane(SessionId("s")))
    failed(tracked, LIST_LANE)
    down(tracked)

    assert tracked.run("waits", "reset", ROOM, "s", "--dry-run").out == "would be ended: 1 wait\n"
    assert tracked.run("waits", "reset", ROOM, "s").out == "ended: 1 wait\n"
    assert tracked.run("waits", "reset", ROOM).out == "ended: 2 waits\n"
    assert tracked.run("waits", "reset", ROOM).err == "nothing to do: nothing waits there\n"
    assert tracked.run("waits", "list").err == "nothing waits\n"


def test_a_pause_holds_until_it_is_resumed(tracked: Cli) -> None:
    assert tracked.run("waits", "pause", ROOM, "s", "--dry-run").out == "would be paused: room-1 s\n"
    assert tracked.run("waits", "list").out == ""

    assert tracked.run("waits", "pause", ROOM, "s").out == "paused: room-1 s\n"
    assert tracked.run("waits", "pause", ROOM, "s").err == "nothing to do: room-1 s is paused already\n"
    [reason] = tracked.run("waits", "why", ROOM, "s", "--json").objects
    assert (reason["why"], reason["untilUnixMs"], reason["endedBy"]) == ("paused", None, "resuming the lane")

    assert tracked.run("waits", "resume", ROOM, "s").out == "resumed: room-1 s\n"
    assert tracked.run("waits", "resume", ROOM, "s").err == "nothing to do: room-1 s is not paused\n"
    assert tracked.run("waits", "why", ROOM, "s").out == ""


@pytest.mark.parametrize("verb", ["reset", "pause", "resume"])
def test_nothing_can_be_changed_in_a_room_that_was_never_tracked(tracked: Cli, verb: str) -> None:
    ran = tracked.run("waits", verb, "nowhere")

    assert (ran.code, ran.out) == (3, "")
    assert "room nowhere is not tracked" in ran.err


def test_another_remote_begins_without_the_waits_of_the_first(tracked: Cli) -> None:
    failed(tracked, LIST_LANE)

    tracked.run("rooms", "track", ROOM, "--remote", "http://127.0.0.1:2")

    assert tracked.run("waits", "list").err == "nothing waits\n"
