"""What `verify` finds, and what it calls it: every byte that was changed, taken away or added."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from application.ledger import Ledger
from application.ports import Problem, Verification
from infrastructure.store.audit import PROBLEMS_MAX
from infrastructure.store.tables import READ_MODELS
from tests.store.place import ROOM, SESSION, Place, head_of, in_file, log_of, stream_of

SECRET = "the launch code is 0000"


def tell(ledger: Ledger) -> None:
    """A small story with every kind of row: a root that asks and answers, and a child."""
    ledger.report_state(
        {
            "state": {
                "kind": "root",
                "provider": "codex",
                "title": SECRET,
                "cwd": "/home/dev",
                "settings": {"model": "large"},
                "turn": {"turnId": "t-1", "phase": "running"},
                "messages": [
                    {
                        "messageId": "m-1",
                        "turnId": "t-1",
                        "role": "user",
                        "kind": "text",
                        "payload": {"text": SECRET},
                    },
                    {"messageId": "m-2", "turnId": "t-1", "role": "assistant", "kind": "text"},
                ],
            }
        },
        room=ROOM,
        session=SESSION,
    )
    for number in range(4):
        delta = {"messageId": "m-2", "turnId": "t-1", "contentDelta": f"{SECRET} {number}. "}
        ledger.report_messages({"updates": [delta]}, room=ROOM, session=SESSION)
    asked = {"requestId": "q-1", "turnId": "t-1", "kind": "approval", "status": "pending", "input": {}}
    ledger.report_state({"state": {"interactionTransition": asked}}, room=ROOM, session=SESSION)
    ledger.answer(ROOM, SESSION, "t-1", "q-1", {"allow": SECRET})
    child = {
        "kind": "child",
        "rootAgentSessionId": SESSION,
        "rootTurnId": "t-1",
        "parentAgentSessionId": SESSION,
        "title": SECRET,
        "turn": {"turnId": "c-1", "phase": "running"},
    }
    ledger.report_state({"state": child}, room=ROOM, session="ses-2")
    ledger.report_state({"state": {"title": "elsewhere"}}, room="room-2", session=SESSION)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The story in a file, told once for all tests."""
    path = tmp_path_factory.mktemp("told") / "store.db"
    place = in_file(path)
    tell(place.ledger())
    place.close()
    return path


@pytest.fixture
def copy(told: Path, path: Path) -> Iterator[Place]:
    """A copy of the story that a test may damage."""
    shutil.copy(told, path)
    place = in_file(path)
    yield place
    place.close()


def damage(path: Path, *statements: str) -> None:
    """Change the file behind our back; each statement has to find something."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            assert db.execute(statement).rowcount > 0, statement


def verified(place: Place) -> Verification:
    store = place.store()
    try:
        return store.verify()
    finally:
        store.close()


def version_at(position: int, place: Place) -> str:
    """How `verify` names the event at a position."""
    store = place.store()
    record = log_of(store)[position - 1].record
    store.close()
    return f"position {position}, {record.stream} version {record.version}"


def test_an_untouched_store_has_no_problem(place: Place) -> None:
    ledger = place.ledger()
    tell(ledger)
    found = ledger.verify()
    assert found.ok
    assert found.streams == 3
    assert found.events == len(log_of(ledger.store))  # type: ignore[arg-type]
    assert found.outbox == len(list(ledger.deltas())) == 9


def test_an_empty_store_has_no_problem(place: Place) -> None:
    assert place.store().verify() == Verification(streams=0, events=0, outbox=0)


def test_verify_writes_nothing(copy: Place, path: Path) -> None:
    store = copy.store()
    with store._database.write() as tables:
        tables.execute("PRAGMA user_version")
    before = path.read_bytes()
    wal = path.with_name("store.db-wal").read_bytes()
    assert store.verify().ok
    assert path.read_bytes() == before
    assert path.with_name("store.db-wal").read_bytes() == wal


# The log.

EVENT = "notification_id = 5"
BLOB = "CAST(replace(CAST(state AS TEXT), 'm-1', 'm-9') AS BLOB)"


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        (
            f"UPDATE stored_events SET state = {BLOB} WHERE notification_id = "
            "(SELECT min(notification_id) FROM stored_events WHERE topic = 'session.message_added')",
            "its hash does not fit its bytes",
        ),
        (
            f"UPDATE stored_events SET topic = 'session.pinned' WHERE {EVENT}",
            "its hash does not fit its bytes",
        ),
        (f"UPDATE stored_events SET hash = zeroblob(32) WHERE {EVENT}", "its hash does not fit its bytes"),
        (
            f"UPDATE stored_events SET previous_hash = zeroblob(32) WHERE {EVENT}",
            "its link does not fit the event before it",
        ),
        (
            f"UPDATE stored_events SET topic = 'session.beamed' WHERE {EVENT}",
            "this release knows no event 'session.beamed'; read the store with a newer one",
        ),
        (f"UPDATE stored_events SET state = X'7b7d' WHERE {EVENT}", "an event session."),
        (f"UPDATE stored_events SET state = X'ff' WHERE {EVENT}", "an event session."),
        (
            "UPDATE contents SET content = CAST(replace(CAST(content AS TEXT), '0000', '0001') AS BLOB)"
            " WHERE position ="
            " (SELECT max(position) FROM contents WHERE CAST(content AS TEXT) LIKE '%0000%')",
            "its content does not fit the commitment in its facts",
        ),
        (
            "UPDATE contents SET salt = zeroblob(16) WHERE position = 2",
            "its content does not fit the commitment in its facts",
        ),
        (
            "UPDATE contents SET content = content || ' ' WHERE position = 2",
            "its content has another length than the facts say",
        ),
        (
            "INSERT INTO contents VALUES (1, zeroblob(16), 'null')",
            "its content has another length than the facts say",
        ),
        ("DELETE FROM contents WHERE position = 2", "its content is gone, but nothing was purged"),
    ],
)
def test_a_changed_event_is_found_and_named(copy: Place, path: Path, statement: str, what: str) -> None:
    before = [stored.record for stored in log_of(copy.store())]
    copy.close()
    damage(path, statement)
    found = verified(copy)
    assert not found.ok
    first = found.problems[0]
    position = int(first.where.removeprefix("position ").split(",")[0])
    record = before[position - 1]
    named = f"position {position}, {record.stream} version {record.version}"
    assert first.where in (named, f"position {position}")
    assert first.what.startswith(what)
    after = [stored.record for stored in log_of(copy.store())]
    assert [
        number for number, pair in enumerate(zip(before, after, strict=True), 1) if pair[0] != pair[1]
    ] == [position]


def test_any_single_bit_of_facts_and_content_counts(copy: Place, path: Path) -> None:
    """A bit of each event's facts, and of each content, one after the other."""
    store = copy.store()
    records = log_of(store)
    store.close()
    for number, stored in enumerate(records):
        record = stored.record
        for table, column, key, data in (
            ("stored_events", "state", "notification_id", record.facts),
            ("contents", "content", "position", record.content),
        ):
            if data is None:
                continue
            byte = number * 7 % len(data)
            flipped = bytes([*data[:byte], data[byte] ^ 1 << number % 8, *data[byte + 1 :]])
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                update = f"UPDATE {table} SET {column} = ? WHERE {key} = ?"
                db.execute(update, (flipped, stored.position))
                found = verified(copy)
                db.execute(update, (data, stored.position))
            assert found.problems, f"{table} {stored.position}"
            where = f"position {stored.position}, {record.stream} version {record.version}"
            assert found.problems[0].where == where
    assert verified(copy).ok


def test_an_event_taken_from_the_middle_is_missed_by_the_one_behind_it(copy: Place, path: Path) -> None:
    where = version_at(6, copy)
    damage(path, "DELETE FROM stored_events WHERE notification_id = 5")
    found = verified(copy)
    assert found.problems[0].where == where
    assert found.problems[0].what == "follows version 4: an event is missing"


def test_a_tail_cut_off_is_missed_by_the_streams_head(copy: Place, path: Path) -> None:
    damage(
        path,
        "DELETE FROM stored_events WHERE notification_id = (SELECT max(notification_id) FROM stored_events)",
    )
    found = verified(copy)
    stream = stream_of(SESSION, "room-2")
    assert Problem(stream, "its head does not fit its last event: the end was cut off") in found.problems


def test_a_tail_cut_off_together_with_its_head_is_missed_by_the_outbox(copy: Place, path: Path) -> None:
    store = copy.store()
    last = list(store.deltas())[-1]
    store.close()
    damage(
        path,
        f"DELETE FROM stored_events WHERE notification_id >= {last.first_position}",
        f"DELETE FROM streams WHERE stream = '{stream_of(SESSION, 'room-2')}'",
    )
    found = verified(copy)
    where = f"transaction {last.transaction_id}"
    assert found.problems == (
        Problem(f"position {last.last_position}", "the log ends at position 17: the end was cut off"),
        Problem(where, "its delta is in the outbox, its events are not in the log"),
    )


def test_a_tail_cut_off_with_all_that_belongs_to_it_is_missed_by_the_position_given_last(
    copy: Place, path: Path
) -> None:
    damage(
        path,
        "DELETE FROM stored_events WHERE notification_id >= 18",
        "DELETE FROM contents WHERE position >= 18",
        "DELETE FROM outbox WHERE position >= 18",
        f"DELETE FROM streams WHERE stream = '{stream_of(SESSION, 'room-2')}'",
        "DELETE FROM sessions WHERE room = 'room-2'",
        "DELETE FROM session_contents WHERE key = 3",
    )
    what = "the log ends at position 17: the end was cut off"
    assert verified(copy).problems == (Problem("position 19", what),)


def test_a_stream_without_head_is_named(copy: Place, path: Path) -> None:
    damage(path, f"DELETE FROM streams WHERE stream = '{stream_of()}'")
    found = verified(copy)
    assert found.problems == (Problem(stream_of(), "it has events and no head"),)


def test_a_head_that_was_moved_is_named(copy: Place, path: Path) -> None:
    damage(path, f"UPDATE streams SET version = version + 1 WHERE stream = '{stream_of()}'")
    what = "its head does not fit its last event: the end was cut off"
    assert verified(copy).problems == (Problem(stream_of(), what),)


def test_a_head_without_events_is_named(copy: Place, path: Path) -> None:
    damage(path, "INSERT INTO streams (stream, version, hash) VALUES ('session-x', 1, zeroblob(32))")
    what = "its head does not fit its last event: the end was cut off"
    assert verified(copy).problems == (Problem("session-x", what),)


def test_a_forged_event_at_the_end_is_found(copy: Place, path: Path) -> None:
    version, _ = head_of(copy.store())
    copy.close()
    damage(
        path,
        "INSERT INTO stored_events (originator_id, originator_version, topic, state, previous_hash, hash)"
        f" SELECT originator_id, {version + 1}, topic, state, hash, hash FROM stored_events"
        f" WHERE originator_id = '{stream_of()}' AND originator_version = {version}",
    )
    found = verified(copy)
    assert found.problems[0].where.endswith(f"{stream_of()} version {version + 1}")
    assert found.problems[0].what == "its hash does not fit its bytes"


def test_the_first_bad_event_is_named_first(copy: Place, path: Path) -> None:
    where = version_at(3, copy)
    damage(path, "UPDATE stored_events SET hash = zeroblob(32) WHERE notification_id IN (3, 9, 12)")
    assert verified(copy).problems[0].where == where


def test_a_store_in_ruins_is_told_in_bounded_length(copy: Place, path: Path) -> None:
    damage(path, "UPDATE stored_events SET state = X'00'", "DELETE FROM outbox")
    found = verified(copy)
    assert 0 < len(found.problems) <= PROBLEMS_MAX


# The outbox.


def outbox_of(copy: Place) -> list[str]:
    store = copy.store()
    transactions = [str(delta.transaction_id) for delta in store.deltas()]
    store.close()
    return transactions


def test_a_missing_outbox_row_is_named(copy: Place, path: Path) -> None:
    transaction = outbox_of(copy)[3]
    damage(path, f"DELETE FROM outbox WHERE transaction_id = '{transaction}'")
    assert verified(copy).problems == (
        Problem(f"transaction {transaction}", "its delta is missing from the outbox"),
    )


@pytest.mark.parametrize(
    "change",
    [
        "delta = replace(delta, 'upsert', 'delete')",
        "delta = delta || ' '",
        "room = 'room-2'",
        "recorded_at = recorded_at + 1",
        "first_position = first_position - 1",
    ],
)
def test_a_changed_outbox_row_is_named(copy: Place, path: Path, change: str) -> None:
    transaction = outbox_of(copy)[3]
    damage(path, f"UPDATE outbox SET {change} WHERE transaction_id = '{transaction}'")
    assert verified(copy).problems == (
        Problem(f"transaction {transaction}", "its delta in the outbox is not the one its events make"),
    )


@pytest.mark.parametrize("position", [1, 2, 1000])
def test_a_forged_outbox_row_is_named_wherever_it_stands(copy: Place, path: Path, position: int) -> None:
    damage(path, f"INSERT INTO outbox VALUES ({position}, 1, 'forged', 'room-1', 1, '{{}}')")
    assert verified(copy).problems == (
        Problem("transaction forged", "its delta is in the outbox, its events are not in the log"),
    )


def test_two_outbox_rows_that_changed_places_are_named(copy: Place, path: Path) -> None:
    third, fourth = outbox_of(copy)[2:4]
    damage(
        path,
        f"UPDATE outbox SET transaction_id = 'x' WHERE transaction_id = '{third}'",
        f"UPDATE outbox SET transaction_id = '{third}' WHERE transaction_id = '{fourth}'",
        f"UPDATE outbox SET transaction_id = '{fourth}' WHERE transaction_id = 'x'",
    )
    what = "its delta in the outbox is not the one its events make"
    assert verified(copy).problems[:2] == (
        Problem(f"transaction {third}", what),
        Problem(f"transaction {fourth}", what),
    )


# The read models.

FOLD = "the row is not what the log folds to; run rebuild"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sessions SET version = version + 1",
        "UPDATE sessions SET is_deleted = 1",
        "UPDATE session_contents SET content = replace(content, '0000', '0001')",
        "UPDATE turns SET version = 1",
        "UPDATE messages SET state = '{}'",
        "UPDATE interactions SET content = ''",
        "DELETE FROM message_parts WHERE position = (SELECT max(position) FROM message_parts)",
        "DELETE FROM turns WHERE turn_id = 'c-1'",
        "INSERT INTO turns VALUES (1, 'x', 1, '{}', '')",
        "DELETE FROM sessions WHERE room = 'room-2'",
    ],
)
def test_a_changed_read_model_row_is_named_and_a_rebuild_mends_it(
    copy: Place, path: Path, statement: str
) -> None:
    damage(path, statement)
    found = verified(copy)
    table = next(one.name for one in READ_MODELS if f" {one.name} " in statement)
    assert [problem.where.split()[0] for problem in found.problems] == [table]
    assert found.problems[0].what == FOLD
    store = copy.store()
    assert store.rebuild() == found.events
    assert store.verify().ok


def rows(place: Place) -> dict[str, list[Any]]:
    store = place.store()
    with store._database.read() as tables:
        return {table.name: list(tables.rows(table)) for table in READ_MODELS}


def test_a_rebuild_ends_in_the_same_rows(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infrastructure.store.audit.BATCH_EVENTS", 3)
    ledger = place.ledger()
    tell(ledger)
    ledger.delete(ROOM, "ses-2")
    before = rows(place)
    assert ledger.rebuild() == ledger.verify().events
    assert rows(place) == before
    assert ledger.report_state({"state": {"title": "on"}}, room=ROOM, session=SESSION).applied
    assert ledger.verify().ok


# Purge.


def purged(ledger: Ledger) -> None:
    tell(ledger)
    assert ledger.purge(ROOM, SESSION).applied


def test_a_purge_takes_contents_and_rows_and_the_rest_still_verifies(place: Place) -> None:
    ledger = place.ledger()
    purged(ledger)
    assert ledger.session(ROOM, SESSION) is None
    assert ledger.session(ROOM, "ses-2") is None
    assert [summary.room for summary in ledger.sessions(deleted=True)] == ["room-2"]
    mine = {stream_of(), stream_of("ses-2")}
    log = log_of(ledger.store)  # type: ignore[arg-type]
    assert {stored.record.content for stored in log if stored.record.stream in mine} == {None}
    assert {stored.record.salt for stored in log if stored.record.stream in mine} == {b""}
    assert any(stored.record.content for stored in log if stored.record.stream not in mine)
    assert all(rows == [] or {row[0] for row in rows} == {3} for rows in rows(place).values())
    assert ledger.verify().ok
    assert ledger.rebuild() == len(log)
    assert ledger.verify().ok


def test_the_history_of_a_purged_session_stays_and_says_what_was_erased(place: Place) -> None:
    ledger = place.ledger()
    tell(ledger)
    before = list(ledger.events(ROOM, SESSION))
    ledger.purge(ROOM, SESSION)
    after = list(ledger.events(ROOM, SESSION))
    assert [event.topic for event in after[: len(before)]] == [event.topic for event in before]
    assert after[-1].topic == "session.purged"
    assert [event.is_erased for event in after[: len(before)]] == [
        event.event.content is not None for event in before
    ]
    assert all(event.event.content is None for event in after)


def test_a_purge_is_named_in_its_delta_by_the_sessions_alone(place: Place) -> None:
    ledger = place.ledger()
    tell(ledger)
    delta = ledger.purge(ROOM, SESSION).delta
    assert delta is not None
    mutations = {(one.entity_kind, one.entity_id, one.operation) for one in delta.delta.mutations}
    assert mutations == {("session", SESSION, "purge"), ("session", "ses-2", "purge")}
    assert len(delta.delta.mutations) == 2


def test_a_purged_session_comes_back_neither_by_report_nor_by_restart(place: Place) -> None:
    ledger = place.ledger()
    purged(ledger)
    ledger.close()
    ledger = place.ledger()
    reply = ledger.report_state({"state": {"title": "again"}}, room=ROOM, session=SESSION)
    assert not reply.accepted
    assert not reply.applied
    assert ledger.verify().ok


def test_nothing_of_what_was_erased_is_left_in_the_closed_file(file: Place, path: Path) -> None:
    ledger = file.ledger()
    tell(ledger)
    salts = [stored.record.salt for stored in log_of(ledger.store)]  # type: ignore[arg-type]
    ledger.close()
    assert SECRET.encode() in path.read_bytes()
    ledger = file.ledger()
    ledger.purge(ROOM, SESSION)
    ledger.verify()
    ledger.rebuild()
    ledger.close()
    left = path.read_bytes()
    assert SECRET.encode() not in left
    assert b"/home/dev" not in left
    assert sum(salt in left for salt in salts if salt) == 1
    assert list(path.parent.iterdir()) == [path]


def test_content_that_goes_before_its_purge_is_no_problem_afterwards(copy: Place, path: Path) -> None:
    """A purge covers everything before it, also where the walk has not come to it yet."""
    ledger = copy.ledger()
    ledger.purge(ROOM, SESSION)
    ledger.close()
    assert verified(copy).ok
