"""One session is read at its home: all of it, once, and on from where it was left (SPEC P2, P4-P8)."""

import asyncio

from application.remote import FailureKind
from domain.ids import RoomId
from tests.pulling.place import HOME, ROOM, SESSION, Mirror, bad, listed, message, play

FILLED = {"do": "fill", "room": ROOM, "sessions": 1, "messages": 45}


def test_a_session_is_mirrored_with_its_ids_order_and_texts() -> None:
    async def story(place: Mirror) -> None:
        reading = await place.read()

        assert reading.complete
        hosted = place.activity.hosted.rooms[ROOM].sessions[SESSION].messages
        mirrored = await place.messages()
        assert [one.message_id for one in mirrored] == list(hosted)
        assert [one.id for one in mirrored] == [one.sequence for one in hosted.values()]
        assert [one.payload for one in mirrored] == [one.row["payload"] for one in hosted.values()]

    play(story, FILLED)


def test_it_is_read_in_pages_of_twenty_each_one_commit() -> None:
    """P2: messages and cursor together, in the session's own stream."""

    async def story(place: Mirror) -> None:
        await place.read()

        assert [(call.after, call.limit) for call in place.activity.calls("messages")] == [
            (0, 20),
            (19, 20),
            (38, 20),
        ]
        commits = {event.transaction async for event in place.ledger.events(ROOM, SESSION)}
        assert len(commits) == 3
        assert (await place.pull()).cursor == 45
        assert (await place.topics()).count("session.pulled") == 3

    play(story, FILLED)


def test_reading_again_stores_nothing() -> None:
    async def story(place: Mirror) -> None:
        await place.read()
        before = await place.topics()

        reading = await place.read()

        assert (reading.complete, reading.events) == (True, 0)
        assert await place.topics() == before

    play(story, FILLED)


def test_news_is_read_behind_the_cursor() -> None:
    async def story(place: Mirror) -> None:
        await place.read()
        place.activity.do(message("late"), message("message-3", turnId="turn-1", payload={"text": "changed"}))

        await place.read()

        texts = {one.message_id: one.payload["text"] for one in await place.messages() if one.kind == "text"}
        assert texts["late"] == "late"
        assert texts["message-3"] == "changed"
        assert place.activity.calls("messages")[-1].after == 44
        assert len(await place.messages()) == 46

    play(story, FILLED)


def test_the_cursor_goes_to_what_the_page_holds_not_to_what_the_remote_announces() -> None:
    async def story(place: Mirror) -> None:
        await place.read()

        assert (await place.pull()).cursor == 2

    claim = {"do": "claim", "room": ROOM, "session": SESSION, "claim": {"latestVersion": 900}}
    play(story, message("a"), message("b"), claim)


def test_a_failing_page_leaves_what_came_before_and_is_read_again() -> None:
    async def story(place: Mirror) -> None:
        place.activity.do({"do": "fail", "route": "messages", "calls": [2], "what": "status", "status": 502})
        reading = await place.read()

        assert reading.failure is not None
        assert (reading.failure.status, reading.pages, reading.complete) == (502, 1, False)
        assert (await place.pull()).cursor == 20
        assert (await place.read()).complete
        assert len(await place.messages()) == 45

    play(story, FILLED)


def test_a_round_ends_after_ten_pages() -> None:
    """P1: the rest is for the next round."""

    async def story(place: Mirror) -> None:
        reading = await place.read()

        assert (reading.pages, reading.complete, reading.failure) == (10, False, None)

    play(story, {"do": "fill", "room": ROOM, "sessions": 1, "messages": 300})


def test_a_page_chain_that_never_ends_costs_ten_calls_a_round() -> None:
    async def story(place: Mirror) -> None:
        await place.read()

        assert len(place.activity.calls("messages")) == 10

    play(story, message("a"), {"do": "endless", "room": ROOM, "session": SESSION})


def test_a_remote_that_says_there_is_more_and_sends_nothing_is_a_failure() -> None:
    async def story(place: Mirror) -> None:
        reading = await place.read()

        assert reading.failure is not None
        assert reading.failure.kind is FailureKind.PROTOCOL
        assert len(place.activity.calls("messages")) <= 3

    play(story, message("a"), {"do": "claim", "room": ROOM, "session": SESSION, "claim": {"hasMore": True}})


# Epochs (SPEC P8).


def began_anew(*names: str) -> list[dict[str, object]]:
    return [{"do": "reset", "room": ROOM}, *(dict(message(name)) for name in names)]


def test_another_message_at_the_cursor_starts_an_epoch_and_everything_is_read_again() -> None:
    """P8: and what is known already makes no news."""

    async def story(place: Mirror) -> None:
        await place.read()
        place.activity.do(*began_anew("x", "y", "z"))

        assert (await place.read()).complete

        pull = await place.pull()
        assert (pull.epoch, pull.cursor) == (2, 3)
        assert [one.message_id for one in await place.messages()] == ["a", "x", "b", "y", "z"]
        [started] = [
            event.event
            async for event in place.ledger.events(ROOM, SESSION)
            if event.topic == "session.epoch_started"
        ]
        assert started.reason == "other_message"  # type: ignore[attr-defined]

    play(story, message("a"), message("b"))


def test_an_empty_reply_above_cursor_0_starts_an_epoch() -> None:
    async def story(place: Mirror) -> None:
        await place.read()
        place.activity.do({"do": "reset", "room": ROOM}, message("a"))
        await place.read()

        assert ((await place.pull()).epoch, (await place.pull()).cursor) == (2, 1)

    play(story, message("a"), message("b"), message("c"))


def test_an_announced_epoch_is_believed() -> None:
    async def story(place: Mirror) -> None:
        await place.read()
        place.activity.do(*began_anew("a", "b"), {"do": "speak", "room": ROOM, "home": "there"})
        await place.read()

        assert (await place.pull()).epoch == 2

    play(story, {"do": "speak", "room": ROOM, "home": "there"}, message("a"), message("b"))


def test_an_epoch_that_only_the_list_announces_is_believed() -> None:
    """As our own service does: its pages of messages say nothing of it."""

    async def story(place: Mirror) -> None:
        await place.read()
        place.activity.do(*began_anew("a", "b"), silent)
        await place.read()

        assert (await place.pull()).epoch == 2

    silent = {"do": "claim", "room": ROOM, "session": SESSION, "claim": {"epoch": ""}}
    play(story, {"do": "speak", "room": ROOM, "home": "there"}, message("a"), message("b"), silent)


def test_a_message_that_moved_from_the_cursor_starts_no_epoch() -> None:
    async def story(place: Mirror) -> None:
        await place.read()
        place.activity.do(message("b", payload={"text": "changed"}))
        await place.read()

        assert ((await place.pull()).epoch, (await place.pull()).cursor) == (1, 3)

    play(story, message("a"), message("b"))


# Bad rows (SPEC P4).


def test_a_bad_row_whose_version_can_be_read_is_parked_and_the_rest_is_stored() -> None:
    async def story(place: Mirror) -> None:
        assert (await place.read()).complete

        assert [one.message_id for one in await place.messages()] == ["a", "c"]
        [parked] = [
            event.event
            async for event in place.ledger.events(ROOM, SESSION)
            if event.topic == "session.row_parked"
        ]
        assert parked.cursor == 2  # type: ignore[attr-defined]
        assert parked.content is not None
        assert "no object" in parked.content["raw"]

    play(story, message("a"), bad("b", '{"version": VERSION, "messageId": ["no object"]}'), message("c"))


def test_a_bad_row_without_a_version_is_passed_to_before_the_next_good_one() -> None:
    async def story(place: Mirror) -> None:
        assert (await place.read()).complete

        assert [one.message_id for one in await place.messages()] == ["a", "c"]
        assert (await place.pull()).cursor == 3

    play(story, message("a"), bad("b", '"nothing"'), message("c"))


def test_where_a_bad_row_at_the_end_of_a_page_ends_is_found_by_trying() -> None:
    async def story(place: Mirror) -> None:
        assert (await place.read()).complete

        assert len(await place.messages()) == 21
        assert (await place.pull()).cursor == 22

    names = [f"m{number:02}" for number in range(1, 20)]
    play(
        story,
        *(message(name) for name in names),
        bad("bad", '"nothing"'),
        message("next"),
        message("last"),
    )


def test_no_good_row_is_skipped_while_the_end_of_a_bad_one_is_searched() -> None:
    """The version of the bad row lies anywhere above the cursor: rows right behind it are found."""

    async def story(place: Mirror) -> None:
        for _ in range(3):
            await place.read()

        assert {one.message_id for one in await place.messages()} == {
            *(f"m{number}" for number in range(1, 20)),
            "n1",
            "n2",
            "n3",
        }

    moved = [message("moving", payload={"text": str(number)}) for number in range(1, 8)]
    play(
        story,
        *(message(f"m{number}") for number in range(1, 20)),
        *moved,
        bad("moving", '"nothing"'),
        message("n1"),
        message("n2"),
        message("n3"),
    )


def test_a_bad_row_that_is_met_again_makes_no_event() -> None:
    async def story(place: Mirror) -> None:
        await place.read()
        before = await place.topics()
        await place.read()

        assert before.count("session.row_parked") == 1
        assert await place.topics() == before

    play(story, message("a"), bad("b", '"nothing"'))


def test_a_page_over_the_limit_is_halved_until_one_row_is_left_and_that_is_parked() -> None:
    async def story(place: Mirror) -> None:
        place.activity.do({"do": "fail", "route": "messages", "covers": 13, "what": "large"})
        for _ in range(4):
            await place.read()

        assert {one.message_id for one in await place.messages()} == {
            f"message-{number}" for number in range(1, 46) if number != 13
        }
        assert (await place.topics()).count("session.row_parked") == 1

    play(story, FILLED)


def test_two_rows_that_are_too_large_are_parked_each() -> None:
    async def story(place: Mirror) -> None:
        for version in (13, 30):
            place.activity.do({"do": "fail", "route": "messages", "covers": version, "what": "large"})
        for _ in range(6):
            await place.read()

        assert len(await place.messages()) == 43
        assert (await place.topics()).count("session.row_parked") == 2

    play(story, FILLED)


def test_a_row_too_large_at_the_cursor_costs_one_call_more_each_time() -> None:
    async def story(place: Mirror) -> None:
        place.activity.do({"do": "fail", "route": "messages", "covers": 45, "what": "large"})
        for _ in range(6):
            await place.read()
        calls = len(place.activity.calls("messages"))

        assert (await place.read()).complete
        assert len(place.activity.calls("messages")) == calls + 2

    play(story, FILLED)


def test_where_every_answer_is_too_large_no_row_is_parked_or_passed() -> None:
    async def story(place: Mirror) -> None:
        place.activity.do({"do": "fail", "route": "messages", "what": "large"})
        reading = await place.read()
        assert reading.failure is not None
        assert (reading.failure.kind, reading.failure.retryable) == (FailureKind.TOO_LARGE, True)
        assert len(place.activity.calls("messages")) <= 6

        place.activity.do({"do": "heal"})
        for _ in range(2):
            await place.read()
        assert len(await place.messages()) == 45

    play(story, FILLED)


def test_two_rows_that_only_together_are_too_large_are_both_stored() -> None:
    """The row at the cursor comes again with the next one; neither is at fault alone."""

    async def story(place: Mirror) -> None:
        await place.read()
        place.activity.do(message("b"))
        place.activity.do({"do": "fail", "route": "messages", "calls": [1, 2, 3, 4, 5], "what": "large"})
        for _ in range(2):
            await place.read()

        assert [one.message_id for one in await place.messages()] == ["a", "b"]
        assert "session.row_parked" not in await place.topics()

    play(story, message("a"))


def test_a_message_that_changes_its_turn_is_parked_for_somebody_to_see() -> None:
    async def story(place: Mirror) -> None:
        await place.read()
        place.activity.do(message("a", turnId="t9"), message("b"))

        assert (await place.read()).complete
        assert [turn.turn_id for turn in (await place.session()).turn_list] == ["t1"]
        assert (await place.topics()).count("session.row_parked") == 1

    play(story, message("a"))


def test_a_message_that_names_its_turn_no_longer_stays_in_it() -> None:
    async def story(place: Mirror) -> None:
        await place.read()
        place.activity.do(message("a", turnId="", payload={"text": "changed"}))
        await place.read()

        [mirrored] = await place.messages()
        assert (mirrored.turn_id, mirrored.payload) == ("t1", {"text": "changed"})

    play(story, message("a"))


def test_a_row_that_breaks_a_rule_here_is_parked_like_one_that_cannot_be_read() -> None:
    async def story(place: Mirror) -> None:
        assert (await place.read()).complete

        assert [one.message_id for one in await place.messages()] == ["a", "c"]
        assert (await place.topics()).count("session.row_parked") == 1

    play(story, message("a"), message("b", role="", kind=""), message("c"))


def test_html_in_place_of_a_page_is_a_failure_and_the_cursor_stays() -> None:
    async def story(place: Mirror) -> None:
        await place.read()
        place.activity.do({"do": "fail", "route": "messages", "what": "html"})
        reading = await place.read()

        assert reading.failure is not None
        assert (reading.failure.kind, reading.failure.retryable) == (FailureKind.PROTOCOL, True)
        assert (await place.pull()).cursor == 1

    play(story, message("a"))


# What is shown here (SPEC P5).


def test_a_session_is_shown_with_what_its_home_tells_of_it() -> None:
    """P5: what lives elsewhere is shown as it is there."""

    async def story(place: Mirror) -> None:
        await place.read()

        view = await place.session()
        assert (view.title, view.provider, view.provider_session_id) == ("Mine", "codex", "p-1")
        assert (view.user_id, view.device_id, view.cwd) == ("user", "device", "/work")
        assert view.status == "idle"

    play(story, listed(title="Mine", providerSessionId="p-1"), message("a"))


def test_a_missing_turn_is_created_and_ends_provisionally_with_its_final_message() -> None:
    async def story(place: Mirror) -> None:
        await place.read()

        [turn] = (await place.session()).turn_list
        assert (turn.turn_id, turn.phase, turn.outcome, turn.provisional) == (
            "t1",
            "settled",
            "completed",
            True,
        )
        assert turn.final_assistant_message_id == "b"
        place.activity.do(message("c"))
        await place.read()
        [turn] = (await place.session()).turn_list
        assert turn.final_assistant_message_id == "c"

    play(story, message("a", role="user"), message("b"))


def test_the_newest_turn_of_a_session_at_work_is_live_and_ends_when_it_rests() -> None:
    async def story(place: Mirror) -> None:
        await place.read()
        assert (await place.session()).active_turn_id == "t2"
        assert (await place.session()).status == "working"

        place.activity.do(listed(status="waiting", turnPhase="waiting"))
        await place.read()
        assert (await place.session()).status == "waiting"

        place.activity.do(listed(status="idle", turnPhase="settled"))
        await place.read()
        view = await place.session()
        assert (view.active_turn_id, view.status) == (None, "idle")
        assert [turn.phase for turn in view.turn_list] == ["settled", "settled"]

    play(
        story,
        listed(status="working", turnPhase="running"),
        message("a", turnId="t1"),
        message("b", turnId="t2"),
    )


def test_an_end_of_the_session_is_shown_and_taken_back_as_its_home_does() -> None:
    async def story(place: Mirror) -> None:
        await place.read()
        assert (await place.session()).status == "failed"
        place.activity.do(listed(lifecycleStatus="active", status="idle"))
        await place.read()
        assert (await place.session()).status == "idle"

    play(story, listed(lifecycleStatus="failed", status="failed"), message("a"))


def test_a_text_that_grew_behind_its_end_is_mirrored() -> None:
    async def story(place: Mirror) -> None:
        await place.read()
        place.activity.do(message("a", status="completed", payload={"text": "all of it", "more": 1}))
        await place.read()
        place.activity.do(message("a", status="completed", payload={"text": "all"}))
        await place.read()

        [mirrored] = await place.messages()
        assert mirrored.payload == {"text": "all"}

    play(story, message("a", status="completed", payload={"text": "all"}))


def test_names_in_snake_case_and_numbers_in_text_are_the_same() -> None:
    async def story(place: Mirror) -> None:
        assert (await place.read()).complete
        assert len(await place.messages()) == 45

    play(story, {"do": "speak", "room": ROOM, "names": "snake", "numbers": "text"}, FILLED)


# Local against pulled (SPEC P6, P7).


def test_a_turn_that_was_reported_here_is_left_to_its_reports() -> None:
    """P6: only its own reports move it."""

    async def story(place: Mirror) -> None:
        await place.ledger.report_state(
            {"state": {"turn": {"turnId": "t1", "phase": "running"}}}, room=ROOM, session=SESSION
        )
        await place.read()

        [turn] = (await place.session()).turn_list
        assert (turn.phase, turn.outcome) == ("running", None)
        assert [one.message_id for one in await place.messages()] == ["a"]

    play(story, listed(status="idle"), message("a"))


def test_a_status_that_was_reported_here_stays_unless_the_remote_is_newer() -> None:
    async def story(place: Mirror) -> None:
        at = (await place.shown()).updated_at_unix_ms
        state = {"lifecycleStatus": "completed", "title": "Ours", "occurredAtUnixMs": at}
        await place.ledger.report_state({"state": state}, room=ROOM, session=SESSION)
        await place.read()
        view = await place.session()
        assert (view.lifecycle_status, view.title, view.cwd) == ("completed", "Ours", "/work")

        place.activity.do(listed(updatedAtUnixMs=at + 1, lifecycleStatus="failed"))
        await place.read()
        assert (await place.session()).lifecycle_status == "failed"

    play(story, listed(lifecycleStatus="active"))


def test_a_pulled_turn_that_is_reported_here_is_left_to_its_reports_from_then_on() -> None:
    async def story(place: Mirror) -> None:
        await place.read()
        await place.ledger.report_state(
            {"state": {"turn": {"turnId": "t1", "phase": "running"}}}, room=ROOM, session=SESSION
        )
        await place.read()

        [turn] = (await place.session()).turn_list
        assert (turn.phase, turn.outcome) == ("running", None)

    play(story, listed(status="idle"), message("a"))


def test_a_message_that_was_reported_here_changes_only_by_what_is_newer() -> None:
    """P6: so that two hosts that report one message and pull each other come to rest."""

    async def story(place: Mirror) -> None:
        at = place.clock.now - 1_000
        ours = {"messageId": "a", "turnId": "t1", "role": "assistant", "kind": "text"}
        await place.ledger.report_state(
            {
                "state": {
                    "turn": {"turnId": "t1", "phase": "running"},
                    "messages": [{**ours, "occurredAtUnixMs": at, "payload": {"text": "ours"}}],
                }
            },
            room=ROOM,
            session=SESSION,
        )
        place.activity.do(message("a", occurredAtUnixMs=at), message("b", occurredAtUnixMs=at))
        await place.read()
        place.activity.do(message("b", occurredAtUnixMs=at, payload={"text": "theirs, again"}))
        await place.read()
        texts = [one.payload["text"] for one in await place.messages()]
        assert texts == ["ours", "theirs, again"]

        place.activity.do(message("a", occurredAtUnixMs=at + 1, payload={"text": "newer"}))
        await place.read()
        assert (await place.messages())[0].payload["text"] == "newer"

    play(story)


def test_a_child_under_a_root_that_is_deleted_here_is_not_asked_for() -> None:
    async def story(place: Mirror) -> None:
        await place.ledger.report_state({"state": {"title": "Root"}}, room=ROOM, session="root")
        await place.ledger.delete(ROOM, "root")
        reading = await place.read()

        assert (reading.is_deleted, reading.failure) == (True, None)
        assert place.activity.calls("messages") == []

    relations = {"kind": "child", "rootAgentSessionId": "root", "parentAgentSessionId": "root"}
    play(story, listed(**relations), message("a"))


def test_a_session_that_is_deleted_here_takes_nothing_and_goes_on_when_it_is_restored() -> None:
    """P7: the kept cursor is where reading goes on."""

    async def story(place: Mirror) -> None:
        await place.read()
        await place.ledger.delete(ROOM, SESSION)
        place.activity.do(message("b"))
        reading = await place.read()
        assert (reading.events, reading.complete) == (0, False)

        await place.ledger.restore(ROOM, SESSION)
        await place.read()
        assert [one.message_id for one in await place.messages()] == ["a", "b"]
        assert place.activity.calls("messages")[-1].after == 0

    play(story, message("a"))


def test_a_session_that_lives_elsewhere_is_not_settled_as_stale() -> None:
    """T7 is for the host that owns the room's agents; these may still be running at their home."""

    async def story(place: Mirror) -> None:
        await place.read()
        assert await place.ledger.settle(ROOM) == ()
        assert (await place.session()).active_turn_id == "t1"

    play(story, listed(status="working", turnPhase="running"), message("a"))


def test_the_home_of_a_session_is_kept() -> None:
    async def story(place: Mirror) -> None:
        await place.read()
        state = await place.ledger.state(RoomId(ROOM), SESSION)
        assert state is not None
        assert state.home == HOME

    play(story, message("a"))


def test_a_page_that_another_process_took_meanwhile_is_read_again() -> None:
    """Nobody is told that all was read before it was."""

    async def story(place: Mirror) -> None:
        place.activity.do({"do": "fail", "route": "messages", "calls": [1], "what": "hold"})
        slow = asyncio.create_task(place.read())
        while not place.activity.calls("messages"):
            place.activity.asked.clear()
            await place.activity.asked.wait()
        await place.read()
        place.activity.do(message("b"), {"do": "release"})

        assert (await slow).complete
        assert [one.message_id for one in await place.messages()] == ["a", "b"]
        assert (await place.topics()).count("session.message_added") == 2

    play(story, message("a"))
