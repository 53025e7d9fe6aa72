"""What is stored for ever: topics, shapes, and the steps that lift old shapes to those of today."""

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from domain import jsontext
from domain.errors import DamagedStore, UnknownTopic
from domain.event import Event
from domain.interaction import InteractionRequested, InteractionSuperseded
from domain.session import Opened, Titled
from domain.turn import TurnStarted
from infrastructure.store.codec import pack
from infrastructure.store.event_store import EventStore
from infrastructure.store.records import NO_CONTENT, Record, hash_of, unseal
from infrastructure.store.topics import KINDS, TOPICS, UPCASTS, kind_of, lifted
from tests.store.place import ROOM, SESSION, START_MS, Place, head_of, log_of, stream_of

DATA = Path(__file__).parent.parent / "data" / "stores"

GOLDEN = {
    "session.opened": (
        1,
        "occurred_at=0 kind='' root_session='' root_turn='' parent_session='' parent_turn='' "
        "parent_tool_call='' origin='' user_id='' agent_target_id='' device_id='' provider='' "
        "provider_session_id='' created_at forked_from_session='' forked_from_turn='' home=''",
    ),
    "session.related": (
        1,
        "occurred_at=0 kind='' root_session='' root_turn='' parent_session='' parent_turn='' "
        "parent_tool_call=''",
    ),
    "session.details_reported": (
        1,
        "occurred_at=0 origin='' user_id='' agent_target_id='' device_id='' provider='' "
        "provider_session_id='' model='' capabilities=None forked_from_session='' forked_from_turn=''",
    ),
    "session.context_changed": (
        1,
        "occurred_at=0",
    ),
    "session.titled": (
        1,
        "occurred_at=0 explicit=False",
    ),
    "session.status_reported": (
        1,
        "occurred_at=0 lifecycle_status='' current_phase='' pulled=False",
    ),
    "session.resumed": (
        1,
        "",
    ),
    "session.timed": (
        1,
        "occurred_at=0 started_at=0 ended_at=0",
    ),
    "session.pinned": (
        1,
        "",
    ),
    "session.unpinned": (
        1,
        "",
    ),
    "session.deleted": (
        1,
        "deletion_id anchor root_session='' root_turn=''",
    ),
    "session.restored": (
        1,
        "deletion_id root_session='' root_turn=''",
    ),
    "session.purged": (
        1,
        "deletion_id turns=0 messages=0 root_session='' root_turn=''",
    ),
    "session.child_linked": (
        1,
        "child parent='' root_turn='' tool_call=''",
    ),
    "session.child_active": (
        1,
        "child root_turn=''",
    ),
    "session.child_quiet": (
        1,
        "child",
    ),
    "session.record_kept": (
        1,
        "import_id offset length reason type=''",
    ),
    "session.imported": (
        1,
        "import_id digest read_from=0 read_to records=0 damaged=0 unknown=0 duplicates=0",
    ),
    "session.pulled": (
        1,
        "epoch read_from read_to last='' newest_turn='' newest_sequence=0 remote_epoch=''",
    ),
    "session.epoch_started": (
        1,
        "epoch reason remote_epoch=''",
    ),
    "session.row_parked": (
        1,
        "epoch cursor digest",
    ),
    "session.vanished": (
        1,
        "",
    ),
    "session.reappeared": (
        1,
        "",
    ),
    "session.turn_started": (
        1,
        "occurred_at=0 turn_id phase active=False origin='' started_at=0 after_message=0 "
        "queued_turn_id='' queued_began=0 backfilled=False",
    ),
    "session.turn_advanced": (
        1,
        "occurred_at=0 turn_id phase active=False queued_turn_id='' queued_began=0 pulled=False",
    ),
    "session.turn_settled": (
        1,
        "occurred_at=0 turn_id outcome settled_at cause='reported' provisional=False "
        "final_message_id=None next_turn_id='' is_past=False error_code=''",
    ),
    "session.turn_revived": (
        1,
        "occurred_at=0 turn_id phase queued_turn_id='' queued_began=0 awaiting=False pulled=False",
    ),
    "session.turn_annotated": (
        1,
        "occurred_at=0 turn_id origin='' started_at=0 completed_command=None capability_refs_added=() "
        "error_code='' data=None",
    ),
    "session.turn_cancel_requested": (
        1,
        "turn_id requested_at",
    ),
    "session.provider_turn_reported": (
        1,
        "occurred_at=0 root_turn_id provider_turn_id phase='' outcome='' completed_command=None "
        "error_code='' awaiting=False",
    ),
    "session.message_added": (
        1,
        "occurred_at=0 message_id turn_id='' role kind status='' semantics=None started_at=0 "
        "completed_at=0 sequence version text_length=0 usage=None pulled=False",
    ),
    "session.message_extended": (
        1,
        "occurred_at=0 message_id version field='/text' offset length_after status='' started_at=0 "
        "completed_at=0 pulled=False",
    ),
    "session.message_changed": (
        1,
        "occurred_at=0 message_id version turn_id='' role='' kind='' status='' provisional=False "
        "semantics=None rewound=None started_at=0 completed_at=0 text_length=None usage=None "
        "usage_added=None texts_added=0 tool_calls_added=0 pulled=False",
    ),
    "session.interaction_requested": (
        1,
        "occurred_at=0 turn_id request_id root_session='' root_turn='' kind",
    ),
    "session.interaction_answered": (
        1,
        "occurred_at=0 turn_id request_id root_session='' root_turn=''",
    ),
    "session.interaction_superseded": (
        2,
        "occurred_at=0 turn_id request_id root_session='' root_turn='' cause provisional=False",
    ),
    "session.interaction_reopened": (
        1,
        "occurred_at=0 turn_id request_id root_session='' root_turn=''",
    ),
    "subscription.added": (
        1,
        "name kind target='' rooms=() entity_kinds=() from_position secret_ref='' on_parked='go_on'",
    ),
    "subscription.paused": (
        1,
        "reason=''",
    ),
    "subscription.resumed": (
        1,
        "reason=''",
    ),
    "subscription.disabled": (
        1,
        "reason=''",
    ),
    "subscription.secret_rotated": (
        1,
        "secret_ref previous_until=0",
    ),
    "subscription.row_parked": (
        1,
        "room transaction attempts reason=''",
    ),
    "subscription.skipped": (
        1,
        "transactions=() room='' since=0 states=() count",
    ),
    "subscription.redelivery_requested": (
        1,
        "transactions=() room='' since=0 states=() count",
    ),
    "subscription.removed": (
        1,
        "",
    ),
    "backoff.delayed": (
        1,
        "lane kind status=0 step_s retry_after_s=0.0 jitter_s=0.0 until",
    ),
    "backoff.refused": (
        1,
        "lane kind status=0 count",
    ),
    "backoff.parked": (
        1,
        "lane kind status=0 count next_probe",
    ),
    "backoff.cleared": (
        1,
        "lane by",
    ),
    "backoff.paused": (
        1,
        "lane=''",
    ),
    "backoff.resumed": (
        1,
        "lane=''",
    ),
    "breaker.opened": (
        1,
        "kind status=0 since step_s until",
    ),
    "breaker.probe_started": (
        1,
        "probe room until",
    ),
    "breaker.probe_failed": (
        1,
        "kind status=0 step_s until",
    ),
    "breaker.closed": (
        1,
        "by='probe' ramp_until",
    ),
    "room.tracked": (
        1,
        "url token_ref='' user_id='' allows_private=False",
    ),
    "room.remote_changed": (
        1,
        "url token_ref='' user_id='' allows_private=False",
    ),
    "room.untracked": (
        1,
        "",
    ),
    "room.session_hidden": (
        1,
        "session",
    ),
    "room.session_unhidden": (
        1,
        "session",
    ),
}
"""By topic: today's shape and its fields. A default is left out of the stored facts, so it is part of the
shape: to change one, or to take a field away, raise the shape and write a step that lifts the old one."""


def shape_of(kind: type[Event]) -> str:
    """The fields of an event but for its content, each with its default."""
    given = [one for one in fields(kind) if one.name != "content"]
    return " ".join(one.name if one.default is MISSING else f"{one.name}={one.default!r}" for one in given)


def test_the_topics_are_these_and_no_others() -> None:
    assert set(TOPICS) == set(GOLDEN)
    assert len(KINDS) == len(TOPICS)


@pytest.mark.parametrize("topic", GOLDEN)
def test_the_shape_of_an_event_is_this(topic: str) -> None:
    kind = TOPICS[topic]
    assert (kind.SHAPE, shape_of(kind)) == GOLDEN[topic]
    assert topic == kind.TOPIC


def test_every_older_shape_has_one_step_to_the_next() -> None:
    steps = {(kind.TOPIC, shape) for kind in KINDS for shape in range(1, kind.SHAPE)}
    assert set(UPCASTS) == steps


def test_an_unknown_topic_is_named_and_never_imported() -> None:
    for topic in ("session.beamed", "domain.session:Opened", "os:system", ""):
        with pytest.raises(UnknownTopic, match=f"knows no event {topic!r}; read the store with a newer one"):
            kind_of(topic)


def test_a_newer_shape_is_named() -> None:
    with pytest.raises(UnknownTopic, match=r"session\.titled has shape 2, this release knows up to 1"):
        lifted("session.titled", 2, {})


@pytest.mark.parametrize("topic", ["session.beamed", "session.titled"])
def test_a_store_with_an_event_of_the_future_says_which(place: Place, topic: str) -> None:
    store = place.store()
    store.submit(place.decides())
    append(store, topic, b'{"format":1,"v":9,"room":"room-1","session":"ses-1","at":1,"tx":"t","facts":{}}')
    store = place.store()
    readers = (lambda: list(store.events(ROOM, SESSION)), lambda: store.state(ROOM, SESSION), store.rebuild)
    for read in readers:
        with pytest.raises(UnknownTopic, match=topic):
            read()
    with pytest.raises(UnknownTopic, match=topic):
        store.submit(place.decides(Titled(content={"title": "x"})))
    assert topic in store.verify().problems[0].what
    assert store.session(ROOM, SESSION) is not None


def test_an_envelope_of_another_format_is_named() -> None:
    with pytest.raises(DamagedStore, match=r"session\.titled has an envelope of format 2, not 1"):
        unseal("session.titled", b'{"format":2}')


# Bytes as they are stored.


def append(store: EventStore, topic: str, facts: bytes) -> None:
    """Put bytes at the end of the session's stream, chained as if they had been written by us."""
    version, head = head_of(store)
    stream = stream_of()
    digest = hash_of(head, stream, version + 1, topic, facts, NO_CONTENT)
    with store._database.write() as tables:
        tables.append([Record(stream, version + 1, topic, facts, head, digest)])


def test_facts_are_small_json_in_an_envelope(place: Place) -> None:
    store = place.store()
    store.submit(place.decides(Titled(explicit=True, content={"title": "Grüße \ud800"})))
    opened, titled = (stored.record for stored in log_of(store))
    transaction = unseal(opened.topic, opened.facts).envelope.transaction
    around = f'{{"format":1,"room":"room-1","session":"ses-1","at":{START_MS},"tx":"{transaction}"'
    assert opened.facts.decode() == around + f',"of":[0,2],"facts":{{"createdAt":{START_MS}}}}}'
    assert titled.facts.decode().startswith(around + ',"of":[1,2],"content":["')
    assert titled.facts.decode().endswith(',26],"facts":{"explicit":true}}')
    assert titled.content == '{"title":"Grüße \\ud800"}'.encode()


def test_an_old_supersession_is_lifted_to_one_that_says_why() -> None:
    """Shape 1 did not say why, and only the end of a turn superseded then."""
    facts = (DATA / "interaction_superseded.1.json").read_bytes()
    assert b"cause" not in facts
    event = unseal("session.interaction_superseded", facts).event
    assert event == InteractionSuperseded(
        turn_id=event.turn_id,  # type: ignore[attr-defined]
        request_id=event.request_id,  # type: ignore[attr-defined]
        occurred_at=START_MS,
        cause="turn_ended",
    )


def test_a_step_changes_no_facts_it_was_given() -> None:
    before: dict[str, Any] = {"turnId": "t-1", "requestId": "q-1"}
    facts = dict(before)
    assert lifted("session.interaction_superseded", 1, facts) == {**before, "cause": "turn_ended"}
    assert facts == before
    kept = {**before, "cause": "late"}
    assert lifted("session.interaction_superseded", 2, kept) is kept


def test_a_stream_with_an_old_shape_folds_and_rebuilds(place: Place) -> None:
    store = place.store()
    started = TurnStarted(turn_id="t-1", phase="running", active=True)  # type: ignore[arg-type]
    asked = InteractionRequested(
        turn_id="t-1",  # type: ignore[arg-type]
        request_id="q-1",  # type: ignore[arg-type]
        kind="approval",
        content={"toolName": "shell"},
    )
    store.submit(place.decides(started, asked))
    append(store, "session.interaction_superseded", (DATA / "interaction_superseded.1.json").read_bytes())
    store = place.store()
    assert store.state(ROOM, SESSION).pending == ()
    assert store.rebuild() == 4
    (interaction,) = store.interactions(ROOM, SESSION)
    assert (interaction.status, interaction.cause) == ("superseded", "turn_ended")
    assert interaction.content == {"toolName": "shell"}
    row = store.session(ROOM, SESSION)
    assert row is not None
    assert row.state == store.state(ROOM, SESSION)
    assert isinstance(next(iter(store.events(ROOM, SESSION))).event, Opened)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.TOPIC)
def test_what_is_packed_says_only_what_is_no_default(kind: type[Event]) -> None:
    required = {one.name: f"a {one.name}" for one in fields(kind) if one.default is MISSING}
    packed = pack(kind(**required))  # type: ignore[arg-type]
    assert sorted(packed.values()) == sorted(required.values())
    assert jsontext.from_bytes(jsontext.to_bytes(packed)) == packed
