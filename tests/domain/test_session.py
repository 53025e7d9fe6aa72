"""The session itself: merging, times, status, titles and what a report is answered."""

from collections.abc import Callable
from typing import Any

import pytest

from domain.session import ContextChanged, DetailsReported, Opened, StatusReported, Timed
from domain.vocabulary import DEFAULT_ORIGIN
from tests.domain.story import (
    HOURS,
    ROOM,
    SESSION,
    T0,
    Story,
    became,
    named,
    outcomes,
    refused,
    update,
)

# Fields.


def test_a_first_report_opens_the_session_with_what_it_says(story: Story) -> None:
    """S1: What a report tells of a session stands in its row."""
    reply = story.body(
        SESSION,
        {
            "user_id": "u",
            "session_origin": "elsewhere",
            "agent_target_id": "target",
            "device_id": "device",
            "state": {
                "kind": "root",
                "provider": "claude-code",
                "provider_session_id": "p",
                "model": "m",
                "settings": {"a": 1},
                "capabilities": {"values": ["x"]},
                "runtime_context": {"b": 1},
                "cwd": "/srv",
                "title": "Title",
                "lifecycle_status": "running",
                "current_phase": "idle",
                "last_error": "none so far",
                "occurred_at_unix_ms": T0,
                "started_at_unix_ms": T0,
                "ended_at_unix_ms": T0 + 1,
            },
        },
    )

    assert became(reply, "session") == "applied"
    view = story.session()
    assert (view.kind, view.origin, view.user_id) == ("root", "elsewhere", "u")
    assert (view.agent_target_id, view.device_id) == ("target", "device")
    assert (view.provider, view.provider_session_id, view.model) == ("claude-code", "p", "m")
    assert (view.settings, view.capabilities, view.runtime_context) == ({"a": 1}, ("x",), {"b": 1})
    assert (view.cwd, view.title, view.last_error) == ("/srv", "Title", "none so far")
    assert (view.lifecycle_status, view.current_phase) == ("running", "idle")
    assert (view.started_at_unix_ms, view.ended_at_unix_ms) == (T0, T0 + 1)
    assert (view.last_event_at_unix_ms, view.created_at_unix_ms) == (T0, story.clock.now)


def test_a_session_without_an_origin_has_the_default_one(story: Story) -> None:
    """S1: Who does not say where a session comes from means the runtime."""
    story.report(title="x")

    assert story.session().origin == DEFAULT_ORIGIN


# Merging.


def test_a_blank_text_keeps_the_stored_one(story: Story) -> None:
    """S2: Blank and white space alone keep what is stored."""
    story.report(title="t", cwd="/a", model="m", provider="p", last_error="e")

    reply = story.report(title="  ", cwd="", model=" ", provider=None, last_error="\n")

    assert became(reply, "session") == "duplicate"
    view = story.session()
    assert (view.title, view.cwd, view.model, view.provider) == ("t", "/a", "m", "p")


def test_empty_settings_keep_and_others_replace_as_a_whole(story: Story) -> None:
    """S2: Settings are replaced whole by settings that say something."""
    story.report(settings={"a": 1, "b": 2})
    story.report(settings={})
    assert story.session().settings == {"a": 1, "b": 2}

    story.report(settings={"b": 3})

    assert story.session().settings == {"b": 3}


def test_absent_capabilities_are_unknown_and_present_ones_replace(story: Story) -> None:
    """S2: No capabilities said is unknown; the empty list is known to be none."""
    story.report(title="x")
    assert story.session().capabilities is None
    story.report(capabilities={"values": ["a", "b"]})
    story.report(title="y")
    assert story.session().capabilities == ("a", "b")

    story.report(capabilities={"values": []})

    assert story.session().capabilities == ()
    assert became(story.report(capabilities={"values": []}), "session") == "duplicate"


def test_a_context_replaces_as_a_whole_and_an_empty_one_clears(story: Story) -> None:
    """S2: Absent keeps, present replaces, `{}` clears."""
    story.report(runtime_context={"a": 1, "b": 2})
    story.report(title="x")
    assert story.session().runtime_context == {"a": 1, "b": 2}
    story.report(runtime_context={"c": 3})
    assert story.session().runtime_context == {"c": 3}

    reply = story.report(runtime_context={})

    assert became(reply, "session") == "applied"
    assert story.session().runtime_context == {}


def test_a_patch_sets_and_unsets_top_level_keys(story: Story) -> None:
    """S2: A patch changes the keys that it names, and unset wins; the event carries the changes alone."""
    story.report(runtime_context={"a": {"x": 1}, "b": 2, "c": 3})

    patch = {"set": {"a": {"y": 1}, "b": 2, "c": 4, "d": 5}, "unset": ["c", "nothing"]}
    reply = story.report(runtime_context_patch=patch)

    assert story.event(reply, ContextChanged).content == {
        "set": {"a": {"y": 1}, "d": 5},
        "unset": ["c"],
    }
    assert story.session().runtime_context == {"a": {"y": 1}, "b": 2, "d": 5}
    assert became(story.report(runtime_context_patch=patch), "session") == "duplicate"


def test_context_and_patch_together_are_refused(story: Story) -> None:
    """S2: A report replaces the context or patches it."""
    with refused("context_and_patch", "session"):
        story.report(runtime_context={}, runtime_context_patch={"set": {}})


@pytest.mark.parametrize(
    "key", ["visible", "imported", "capabilities", "capabilitiesReported", "usage", "goal"]
)
@pytest.mark.parametrize("how", ["set", "unset"])
def test_some_keys_no_patch_may_touch(key: str, how: str, story: Story) -> None:
    """S2: The context's protected keys are refused in a patch; a whole context may carry them."""
    with refused("protected_context", "session"):
        story.report(runtime_context_patch={how: {key: 1} if how == "set" else [key]})

    story.report(runtime_context={key: 1})

    assert story.session().runtime_context == {key: 1}


def test_blank_fields_are_filled_from_around_the_state(story: Story) -> None:
    """S2: What the state leaves blank comes from the report's top level, then from its source."""
    source = {"provider": "s", "provider_session_id": "sp", "cwd": "/s", "device_id": "sd"}
    more = {"agent_target_id": "sa", "session_origin": "so"}
    body = {"device_id": "top", "source": {**source, **more}, "state": {"provider": "state"}}

    story.body(SESSION, body)

    view = story.session()
    assert (view.provider, view.provider_session_id, view.cwd) == ("state", "sp", "/s")
    assert (view.device_id, view.agent_target_id, view.origin) == ("top", "sa", "so")


# Times.


def test_created_at_is_the_sources_or_the_first_recorded_and_fixed(story: Story) -> None:
    """S3: createdAt never changes after the first report."""
    story.body(SESSION, {"source": {"session_created_at_unix_ms": T0 - 5}, "state": {"title": "x"}})
    story.body(SESSION, {"source": {"session_created_at_unix_ms": T0 - 9}, "state": {"title": "y"}})
    story.report("other", title="x")

    assert story.session().created_at_unix_ms == T0 - 5
    assert story.session("other").created_at_unix_ms == story.clock.now


def test_updated_at_strictly_increases_with_each_event(story: Story) -> None:
    """S3: Also while the clock stands, or goes backwards."""
    seen = []
    for title in "abc":
        story.report(title=title)
        seen.append(story.session().updated_at_unix_ms)
        story.clock.now -= 1_000

    assert seen == sorted(set(seen))


def test_start_is_the_earliest_and_end_the_latest_beside_news(story: Story) -> None:
    """S3: startedAt is the earliest and endedAt the latest; alone they are no news."""
    story.report(at=0, started_at_unix_ms=T0 + 5, ended_at_unix_ms=T0 + 5)

    alone = story.report(at=1, started_at_unix_ms=T0 + 4, ended_at_unix_ms=T0 + 6)
    beside = story.report(at=2, started_at_unix_ms=T0 + 3, ended_at_unix_ms=T0 + 7, title="x")
    story.report(at=3, started_at_unix_ms=T0 + 8, ended_at_unix_ms=T0 + 1, title="y")

    assert became(alone, "session") == "duplicate"
    assert (story.event(beside, Timed).started_at, story.event(beside, Timed).ended_at) == (T0 + 3, T0 + 7)
    assert story.session().started_at_unix_ms == T0 + 3
    assert story.session().ended_at_unix_ms == T0 + 7


def test_the_first_start_and_end_are_news(story: Story) -> None:
    """C3: A first startedAt or endedAt makes an event of its own."""
    story.report(title="x")

    start = story.report(started_at_unix_ms=T0)
    end = story.report(ended_at_unix_ms=T0 + 9)

    assert (story.wrote(start), story.wrote(end)) == (["timed"], ["timed"])
    assert story.session().ended_at_unix_ms == T0 + 9


# Old reports.


def test_an_older_report_fills_what_is_blank_and_changes_nothing_else(story: Story) -> None:
    """S4: A report older than the last event fills blank fields; stateApplied is false."""
    story.report(at=10, title="new", cwd="/new", settings={"a": 1}, current_phase="running")

    reply = story.report(
        at=5,
        title="old",
        cwd="/old",
        model="m",
        settings={"a": 2},
        capabilities={"values": ["x"]},
        runtime_context={"c": 1},
        current_phase="idle",
        lifecycle_status="running",
    )

    assert (reply.accepted, reply.state_applied, became(reply, "session")) == (True, False, "applied")
    view = story.session()
    assert (view.title, view.cwd, view.settings, view.current_phase) == ("new", "/new", {"a": 1}, "running")
    assert (view.model, view.capabilities, view.runtime_context) == ("m", ("x",), {"c": 1})
    assert view.lifecycle_status == "running"
    assert view.last_event_at_unix_ms == T0 + 10


def test_an_older_report_without_blanks_to_fill_is_stale(story: Story) -> None:
    """S4: An old report that brings nothing is ignored as stale."""
    story.report(at=10, title="new")

    reply = story.report(at=5, title="old")

    assert outcomes(reply) == [f"session {SESSION}: stale"]
    assert story.wrote(reply) == []


def test_an_older_report_may_end_the_session(story: Story) -> None:
    """S4: A terminal lifecycleStatus is applied whenever it comes."""
    story.report(at=10, lifecycle_status="running")

    story.report(at=5, lifecycle_status="completed")

    assert story.session().lifecycle_status == "completed"


def test_parts_of_an_older_report_are_judged_by_their_own_rules(story: Story) -> None:
    """S4: An old report's turn, interaction and messages count as they would alone."""
    story.turn("t1", "running", at=10)

    reply = story.report(
        at=5, title="x", turn={"turn_id": "t1", "phase": "completed"}, messages=[update("m1", "x")]
    )

    assert story.the_turn().phase == "settled"
    assert story.text("m1") == "x"
    assert reply.state_applied is False


# Ends of sessions.


@pytest.mark.parametrize("end", ["completed", "failed", "canceled", "errored", "ended", "Cancelled"])
def test_an_ended_session_is_frozen(end: str, story: Story) -> None:
    """S5: A terminal lifecycleStatus freezes status and phase; everything else still merges."""
    story.report(at=0, lifecycle_status=end, current_phase="idle")

    reply = story.report(at=5, lifecycle_status="running", current_phase="working", title="x")

    view = story.session()
    assert (view.lifecycle_status, view.current_phase, view.title) == (end, "idle", "x")
    assert "status_reported" not in story.wrote(reply)


def test_a_newer_turn_brings_an_ended_session_back(story: Story) -> None:
    """S5: When a turn starts after the end, status and phase are open again; an event says so."""
    story.turn("t1", "running", at=0)
    story.report(at=5, lifecycle_status="completed", current_phase="idle")

    reply = story.turn("t2", "running", at=9)

    assert story.wrote(reply) == ["turn_settled", "resumed", "turn_started"]
    view = story.session()
    assert (view.lifecycle_status, view.current_phase, view.status) == (None, None, "working")
    story.turn("t2", "completed", at=10)
    assert story.session().status == "idle"
    assert became(story.report(at=11, lifecycle_status="running"), "session") == "applied"


def test_an_advance_of_the_live_turn_does_not_bring_it_back(story: Story) -> None:
    """S5: A turn that was at work before the session ended is no newer one, nor is an earlier turn."""
    story.turn("t1", "running", at=2)
    story.report(at=5, lifecycle_status="failed")

    advance = story.turn("t1", "waiting", at=9)
    earlier = story.turn("t0", "running", at=1)

    assert "resumed" not in story.wrote(advance) + story.wrote(earlier)
    assert story.session().lifecycle_status == "failed"
    story.turn("t1", "completed", at=10)
    assert story.session().status == "failed"


def test_a_turn_without_a_time_is_newer_than_an_end(story: Story) -> None:
    """S5: An unknown start counts as now."""
    story.report(at=5, lifecycle_status="completed")

    assert "resumed" in story.wrote(story.turn("t1", "running"))


def test_a_turn_that_began_before_the_end_leaves_the_session_ended(story: Story) -> None:
    """S5: A turn that is only told late does not bring the session back."""
    story.report(at=5, lifecycle_status="completed")

    story.turn("t1", "running", at=3)
    story.turn("t1", "completed", at=4)

    assert story.session().status == "completed"


def test_a_failed_turn_does_not_end_the_session(story: Story) -> None:
    """S5: After a failed turn the session takes the next one and every report."""
    story.turn("t1", "failed", at=0)

    assert story.session().lifecycle_status is None
    assert became(story.report(at=1, lifecycle_status="running"), "session") == "applied"


# Display status.


def test_a_session_that_says_nothing_is_idle(story: Story) -> None:
    """S6: The default is idle."""
    story.report(title="x")

    assert story.session().status == "idle"


@pytest.mark.parametrize(
    ("phase", "status"),
    [("submitted", "working"), ("running", "working"), ("waiting", "waiting"), ("settling", "working")],
)
def test_a_live_turn_decides_first(phase: str, status: str, story: Story) -> None:
    """S6: While a turn lives the session waits if the turn does, and else works."""
    story.report(at=0, lifecycle_status="failed", current_phase="idle")

    story.turn("t1", phase, at=1)

    assert story.session().status == status


@pytest.mark.parametrize(
    ("word", "status"),
    [
        *[("completed", "completed"), ("ended", "completed"), ("failed", "failed"), ("Errored", "failed")],
        *[
            ("canceled", "canceled"),
            ("cancelled", "canceled"),
            ("running", "working"),
            ("WAITING", "waiting"),
        ],
        *[("idle", "idle"), ("anything", "idle")],
    ],
)
def test_words_of_the_lifecycle_show(word: str, status: str, story: Story) -> None:
    """S6: A terminal lifecycle shows its end, another one its meaning, in any case of letters."""
    story.report(lifecycle_status=word)

    assert story.session().status == status


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("failed",), "failed"),
        (("waiting", "waiting_approval", "awaiting_approval", "waiting_input"), "waiting"),
        (("submitted", "working", "running", "streaming", "settling"), "working"),
        (("idle", "settled", "ready", "Ready"), "idle"),
        (("pondering",), "working"),
    ],
)
def test_words_of_the_phase_show(words: tuple[str, ...], status: str, story: Story) -> None:
    """S6: currentPhase shows its meaning; an unknown word leaves the lifecycle to decide."""
    for number, word in enumerate(words):
        story.report(f"s{number}", current_phase=word, lifecycle_status="running")

        assert story.session(f"s{number}").status == status


def test_an_end_of_life_goes_before_the_phase(story: Story) -> None:
    """S6: A terminal lifecycle hides the phase."""
    story.report(lifecycle_status="completed", current_phase="running")

    assert story.session().status == "completed"


@pytest.mark.parametrize(
    ("end", "status"), [("failed", "failed"), ("completed", "idle"), ("canceled", "idle")]
)
def test_a_turns_end_hides_a_phase_told_before(end: str, status: str, story: Story) -> None:
    """S6: A phase counts unless a turn settled after it; then the turn's end shows."""
    story.report(at=0, current_phase="running")
    story.turn("t1", "running", at=1)

    story.turn("t1", end, at=2)

    assert story.session().status == status


def test_a_phase_told_again_after_a_turns_end_counts(story: Story) -> None:
    """S6: The same phase reported after the end is news, because the end hides the stored one."""
    story.report(at=0, current_phase="running")
    story.turn("t1", "completed", at=1)
    assert story.session().status == "idle"

    reply = story.report(at=2, current_phase="running")

    assert story.event(reply, StatusReported).current_phase == "running"
    assert story.session().status == "working"
    assert became(story.report(at=3, current_phase="running"), "session") == "duplicate"


# Title, settings, pin.


def test_an_explicit_title_latches(story: Story) -> None:
    """S7: After a person has set the title, also to blank, reports do not change it."""
    story.report(title="by report")
    story.ledger.set_title(ROOM, SESSION, "by hand")
    story.report(title="by report again")
    assert story.session().title == "by hand"

    story.ledger.set_title(ROOM, SESSION, "")
    story.report(title="by report once more")

    assert story.session().title == ""
    assert became(story.ledger.set_title(ROOM, SESSION, ""), "session") == "duplicate"


def test_settings_are_replaced_by_command_also_by_none(story: Story) -> None:
    """S2: A person may clear the settings, which no report can."""
    story.report(settings={"a": 1})

    story.ledger.set_settings(ROOM, SESSION, {})

    assert story.session().settings == {}
    assert became(story.ledger.set_settings(ROOM, SESSION, {}), "session") == "duplicate"


def test_a_pin_is_set_and_taken_away(story: Story) -> None:
    """S1: Who pins a session finds the time at it; twice is once."""
    story.report(title="x")

    first = story.ledger.set_pin(ROOM, SESSION, pinned=True)
    again = story.ledger.set_pin(ROOM, SESSION, pinned=True)
    assert story.session().pinned_at_unix_ms == story.clock.now
    story.ledger.set_pin(ROOM, SESSION, pinned=False)

    assert (became(first, "session"), became(again, "session")) == ("applied", "duplicate")
    assert story.session().pinned_at_unix_ms is None


def test_commands_name_a_session_that_is_known(story: Story) -> None:
    """C1: A title, settings, a pin or a request to cancel for an unknown session is refused."""
    commands: tuple[Callable[[], object], ...] = (
        lambda: story.ledger.set_title(ROOM, "nobody", "x"),
        lambda: story.ledger.set_settings(ROOM, "nobody", {}),
        lambda: story.ledger.set_pin(ROOM, "nobody", pinned=True),
        lambda: story.ledger.request_cancel(ROOM, "nobody", "t1"),
    )
    for command in commands:
        with refused("unknown_session", "session"):
            command()


# Answers.


def test_the_reply_to_a_state_report(story: Story) -> None:
    """S10: The reply says whether the session took the report, its last event's time, its message version,
    the transaction, and what became of each part.
    """
    story.turn("t1", "running", at=3)

    reply = story.report(at=5, title="x", messages=[update("m1", "x")])

    assert (reply.accepted, reply.state_applied) == (True, True)
    assert (reply.last_event_at_unix_ms, reply.message_version) == (T0 + 5, 1)
    assert reply.transaction_id == story.commit(reply)[0].transaction
    wire = reply.to_dict()
    assert set(wire) == {
        "accepted",
        "stateApplied",
        "lastEventAtUnixMs",
        "messageVersion",
        "transactionId",
        "outcomes",
    }
    assert wire["outcomes"][0] == {"part": "session", "id": SESSION, "outcome": "applied"}


def test_a_message_report_may_create_its_session(story: Story) -> None:
    """S11: A session begins with its first message; its kind is undecided."""
    body: dict[str, Any] = {"updates": [update("m1", "x", kind="session_audit")]}
    body |= {"source": {"provider": "p", "provider_session_id": "ps"}, "session_origin": "o"}

    reply = story.ledger.report_messages(body, room=ROOM, session=SESSION)

    assert reply.accepted_count == 1
    view = story.session()
    assert (view.kind, view.provider, view.provider_session_id, view.origin) == ("", "p", "ps", "o")


def known_by_provider(story: Story, session: str, provider: str = "p", origin: str = "o") -> None:
    state = {"provider": provider, "provider_session_id": "ps-1", "title": session}
    story.body(session, {"session_origin": origin, "state": state})


@pytest.mark.parametrize("source", [{}, {"provider": "p"}, {"session_origin": "o"}])
def test_a_message_report_may_name_the_providers_session(source: dict[str, str], story: Story) -> None:
    """S11: Messages for an unknown id go to the one session that has it as its provider's session id."""
    known_by_provider(story, "ses-1")

    body = {"source": source, "updates": [update("m1", "x", kind="session_audit")]}
    story.ledger.report_messages(body, room=ROOM, session="ps-1")

    assert list(story.messages("ses-1")) == ["m1"]
    assert story.ledger.session(ROOM, "ps-1") is None


@pytest.mark.parametrize("why", ["two", "deleted", "provider", "origin"])
def test_otherwise_it_is_a_session_of_its_own(why: str, story: Story) -> None:
    """S11: Two sessions with that id, a deleted one, another provider or origin: none of them is meant."""
    known_by_provider(story, "ses-1")
    source = {"provider": {"provider": "q"}, "origin": {"session_origin": "q"}}.get(why, {})
    if why == "two":
        known_by_provider(story, "ses-2")
    if why == "deleted":
        story.delete("ses-1")

    body = {"source": source, "updates": [update("m1", "x", kind="session_audit")]}
    story.ledger.report_messages(body, room=ROOM, session="ps-1")

    assert list(story.messages("ps-1")) == ["m1"]


def test_some_parts_are_accepted_and_not_stored(story: Story) -> None:
    """S12: Activity, availability and rail placement mean nothing here, and unknown envelope keys neither."""
    story.report(title="x")

    reply = story.report(
        runtime_activity={"state": "busy"},
        submit_availability={"state": "open"},
        rail_placement={"a": 1},
        something_new=[1, 2],
    )

    assert outcomes(reply) == [f"session {SESSION}: duplicate"]


def test_unknown_keys_inside_objects_are_kept(story: Story) -> None:
    """S12: Payload, settings and context are the reporter's own."""
    strange = {"x-y": {"Z": [1, None, True]}, "snake_case": 1}
    story.turn("t1", "running")
    story.report(settings=strange, runtime_context=strange)
    story.say(update("m1", payload=strange))

    view = story.session()
    assert view.settings == view.runtime_context == story.message("m1").payload == strange


def test_one_report_tells_details_in_one_event(story: Story) -> None:
    """S2: What changes together is one event, with only the news."""
    story.report(model="m", cwd="/a", provider="p")

    reply = story.report(model="m", cwd="/b", provider="q")

    details = story.event(reply, DetailsReported)
    assert (details.model, details.provider, details.content) == ("", "q", {"cwd": "/b"})
    assert named(reply) == [f"session {SESSION} upsert"]


def test_an_early_clock_does_not_stop_a_session(story: Story) -> None:
    """S3: A clock that goes back changes no order."""
    first = story.report(title="x")
    story.clock.now -= HOURS

    second = story.report(title="y")

    assert story.event(first, Opened).created_at == story.clock.now + HOURS
    assert (story.session().title, became(second, "session")) == ("y", "applied")
