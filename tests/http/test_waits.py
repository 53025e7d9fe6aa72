"""The waits of a room that is pulled in are shown, and ended, over HTTP."""

from application.rooms import Rooms
from domain import backoff
from domain.backoff import BACKOFF, LIST_LANE, Trouble
from domain.backoff_policy import SERVICE_POLICY
from tests.http.service import ROOM, Service, serve

AT = f"/v1/rooms/{ROOM}/backoff"
DOWN = Trouble("status", True, "the remote answered 503", 503)


async def a_room_that_waits(service: Service) -> None:
    await service.ledger.with_rooms(lambda rooms: rooms.track(ROOM, "https://far.example"))
    now = service.clock.now
    await service.ledger.change(
        BACKOFF, ROOM, lambda state: backoff.fail(state, LIST_LANE, DOWN, SERVICE_POLICY, now)
    )


def test_a_wait_is_shown_with_the_event_behind_it_and_what_ends_it() -> None:
    """B9: which events hold the room, until when, what ends it."""

    async def use(service: Service) -> None:
        await a_room_that_waits(service)
        reply = await service.get(AT)

        said = reply.json()
        assert reply.headers["etag"] == f'"{said["version"]}"'
        (lane,) = said["lanes"]
        assert (lane["lane"], lane["state"], lane["status"], lane["failures"]) == ("list", "waiting", 503, 1)
        (held,) = said["heldBy"]
        assert (held["why"], held["topic"], held["reason"]) == ("delayed", "backoff.delayed", DOWN.reason)
        assert held["until"] == lane["until"]
        assert held["until"].endswith("Z")
        assert held["endedBy"]

    serve("memory://", use)


def test_waits_are_ended_and_rooms_paused_and_resumed_by_whoever_operates() -> None:
    async def use(service: Service) -> None:
        await a_room_that_waits(service)
        paused = (await service.post(f"{AT}/pause", json={"lane": "s1"})).json()
        assert [lane["state"] for lane in paused["lanes"]] == ["waiting", "paused"]
        assert [lane["lane"] for lane in paused["lanes"]] == ["list", "messages:s1"]

        reset = (await service.post(f"{AT}/reset", json={"lane": "list"})).json()
        assert [lane["lane"] for lane in reset["lanes"]] == ["messages:s1"]
        assert reset["heldBy"] == []

        resumed = (await service.post(f"{AT}/resume", json={})).json()
        assert resumed["lanes"] == []

    serve("memory://", use)


def test_a_change_of_waits_may_be_meant_for_one_version_only() -> None:
    async def use(service: Service) -> None:
        await a_room_that_waits(service)
        for change in ("pause", "resume", "reset"):
            late = await service.post(f"{AT}/{change}", json={}, headers={"If-Match": '"7"'})
            assert (late.status_code, late.headers["etag"]) == (412, '"1"')
        assert (await service.get(AT)).json()["version"] == 1, "nothing was changed"

        done = await service.post(f"{AT}/reset", headers={"If-Match": '"1"'})
        assert (done.status_code, done.json()["lanes"]) == (200, [])

    serve("memory://", use)


def test_a_room_that_nobody_tracks_is_not_found_and_a_misspelled_body_is_told() -> None:
    async def use(service: Service) -> None:
        assert (await service.get(AT)).status_code == 404
        assert (await service.post(f"{AT}/reset", json={})).status_code == 404
        await a_room_that_waits(service)
        refused = await service.post(f"{AT}/reset", json={"lain": "list"})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
        assert (await service.get(AT)).json()["lanes"]

    serve("memory://", use)


def test_who_did_it_is_in_the_history() -> None:
    async def use(service: Service) -> None:
        await service.ledger.with_rooms(lambda rooms: rooms.track(ROOM, "https://far.example"))
        await service.ledger.with_rooms(lambda rooms: rooms.pause(ROOM), "mira")

        def actors(rooms: Rooms) -> list[str]:
            return [event.actor for event in rooms.store.history(BACKOFF, ROOM)]

        assert await service.ledger.with_rooms(actors) == ["mira"]

    serve("memory://", use)
