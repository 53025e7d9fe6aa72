"""What is special to PostgreSQL: lines that break, a server that goes away, names, and other writers."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from threading import Event, Thread
from typing import Any

import psycopg
import pytest

from application.ports import Decision, Loader
from domain.delta import CommitDelta
from domain.errors import ForeignStore, NewerStore, RepriseError, StoreBusy, StoreError, StoreUnavailable
from domain.ids import Position, TransactionId
from infrastructure import crashpoints
from infrastructure.main import open_ledger
from infrastructure.store import postgres_connection
from infrastructure.store.event_store import EventStore
from infrastructure.store.postgres import PostgresDatabase
from infrastructure.store.postgres_connection import CONNECT_TIMEOUT_S, place_of
from infrastructure.store.postgres_schema import MIGRATIONS
from infrastructure.store.tables import (
    CLOCKS,
    RUNS_MAX,
    SESSION_CONTENTS,
    SESSIONS,
    Answered,
    OutboxRow,
    in_transaction,
)
from tests.postgres import SERVER, ask, postgres_url
from tests.store.line import Line, line
from tests.store.place import ROOM, SESSION, Place, at, log_of, stream_of, titled
from tests.store.server import Server, own_server
from tests.store.writer_process import Child, context, report_both, report_same

WRITERS = 6
REPORTS = 60
COMMIT = b"COMMIT\0"
"""On the line to the server the statement, on the line from it the answer."""


@pytest.fixture
def url() -> Iterator[str]:
    with postgres_url() as url:
        yield url


@pytest.fixture
def place(url: str) -> Iterator[Place]:
    place = at(url)
    yield place
    place.close()


@pytest.fixture
def schema(url: str) -> str:
    return url.rpartition("schema=")[2]


@pytest.fixture
def cut() -> Iterator[Line]:
    with line() as one:
        yield one


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    crashpoints.disarm()


def database_of(store: EventStore) -> PostgresDatabase:
    assert isinstance(store._database, PostgresDatabase)
    return store._database


def end_backends(schema: str) -> None:
    """End every connection that looks at a schema, and wait until they are gone."""
    ask(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND application_name = %s",
        schema,
    )


@pytest.fixture
def known(url: str, schema: str) -> Iterator[Place]:
    """A store whose connections `end_backends` finds."""
    place = at(f"{url}&application_name={schema}")
    yield place
    place.close()


def titles(store: EventStore) -> list[str]:
    contents = [stored.record.content for stored in log_of(store)]
    return [content.decode() for content in contents if content]


# Other writers.


def test_a_reader_that_tails_six_writers_loses_nothing(url: str, schema: str) -> None:
    """Case D08: Positions come in the order of the commits, also while a transaction is open for long."""
    database = PostgresDatabase(url)
    with psycopg.connect(SERVER) as idle:
        idle.execute(f"SELECT txid_current(), (SELECT count(*) FROM {schema}.stored_events)".encode())
        start = context().Barrier(WRITERS)
        children = [Child(report_both, url, f"own-{one}", REPORTS, start) for one in range(WRITERS)]
        commits: list[str] = []
        position, are_writing = 0, True
        while are_writing:
            are_writing = any(child.process.is_alive() for child in children)
            with database.read() as tables:
                for stored in tables.log(position):
                    assert stored.position == position + 1
                    position = stored.position
                commits = [row.transaction for row in tables.outbox()]
        answered = [transaction for child in children for transaction in child.end()]
    database.close()
    assert [child.process.exitcode for child in children] == [0] * WRITERS
    assert len(answered) == WRITERS * REPORTS
    assert Counter(commits) == Counter(answered)


def waits_for_the_lock(schema: str) -> bool:
    statement = "SELECT 1 FROM pg_locks WHERE relation = %s::regclass AND NOT granted"
    return bool(ask(statement, f"{schema}.writers_turn"))


def test_what_a_transaction_holds_back_comes_before_what_waited_for_it(place: Place, schema: str) -> None:
    """It has the lower positions, and nobody sees the higher ones first."""
    first, second = place.store(), place.store()
    decided, may_commit = Event(), Event()

    def slowly(load: Loader) -> Decision:
        decision = place.decides(titled("first"))(load)
        decided.set()
        assert may_commit.wait(60)
        return decision

    one = Thread(target=first.submit, args=(slowly,))
    one.start()
    assert decided.wait(60)
    other = Thread(target=second.submit, args=(place.decides(titled("second")),))
    other.start()
    while not waits_for_the_lock(schema):
        assert other.is_alive()
    assert log_of(second) == []
    may_commit.set()
    one.join()
    other.join()
    assert [stored.position for stored in log_of(first)] == [1, 2, 3]
    assert titles(first) == ['{"title":"first"}', '{"title":"second"}']


def test_who_waits_too_long_for_another_writer_is_told_so(
    place: Place, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = PostgresDatabase(url)
    monkeypatch.setattr(postgres_connection, "LOCK_TIMEOUT_S", 0.05)
    store = place.store()
    with holder.write(), pytest.raises(StoreBusy, match="try again"):
        store.submit(place.decides(titled("late")))
    holder.close()
    assert store.submit(place.decides(titled("in time"))).events == 2
    assert len(log_of(store)) == 2


def test_every_commit_wakes_whoever_listens(place: Place, schema: str) -> None:
    store = place.store()
    with psycopg.connect(SERVER, autocommit=True) as listener:
        listener.execute(f"LISTEN {schema}".encode())
        store.submit(place.decides(titled("a")))
        store.submit(place.decides(titled("b")))
        heard = list(listener.notifies(timeout=60, stop_after=2))
    assert [one.channel for one in heard] == [schema, schema]


def test_the_library_reads_the_log_and_waits_for_more(place: Place) -> None:
    """Its subscription listens, and looks by itself as well."""
    store = place.store()
    store.submit(place.decides(titled("a")))
    with database_of(store).recorder.subscribe(gt=0) as subscription:
        ids = [next(subscription).id for _ in range(2)]
        store.submit(place.decides(titled("b")))
        ids.append(next(subscription).id)
    assert ids == [1, 2, 3]


# Lost connections.


def test_connections_that_were_ended_while_idle_are_made_anew(known: Place, schema: str) -> None:
    store = known.store()
    store.submit(known.decides(titled("before")))
    assert len(store.sessions()) == 1
    end_backends(schema)
    assert len(store.sessions()) == 1
    store.submit(known.decides(titled("between")))
    end_backends(schema)
    store.submit(known.decides(titled("after")))
    assert titles(store) == ['{"title":"before"}', '{"title":"between"}', '{"title":"after"}']
    assert store.verify().ok


def test_a_writer_whose_backend_is_ended_before_the_commit_tries_again(known: Place, schema: str) -> None:
    """Whoever reported sees nothing of it, and it is stored once."""
    store = known.store()
    ended: list[int] = []

    def end_once() -> None:
        if not ended:
            ended.append(1)
            end_backends(schema)

    crashpoints.arm("append.before_commit", end_once)
    assert store.submit(known.decides(titled("once"))).events == 2
    assert ended == [1]
    assert titles(store) == ['{"title":"once"}']
    assert store.verify().ok


def test_a_backend_ended_while_deciding_is_no_answer(known: Place, schema: str) -> None:
    """The decision that met it, and those beside it, are made again."""
    store = known.store()
    ended: list[int] = []

    def decide(load: Loader) -> Decision:
        if not ended:
            ended.append(1)
            end_backends(schema)
        return known.decides(titled("once"))(load)

    assert store.submit(decide).events == 2
    assert titles(store) == ['{"title":"once"}']


def test_a_backend_that_is_ended_each_time_is_an_error_in_the_end(known: Place, schema: str) -> None:
    store = known.store()
    ended: list[int] = []

    def end_always() -> None:
        ended.append(1)
        end_backends(schema)

    crashpoints.arm("append.before_commit", end_always)
    with pytest.raises(StoreUnavailable, match="nothing was stored; try again"):
        store.submit(known.decides(titled("never")))
    crashpoints.disarm()
    assert len(ended) == RUNS_MAX
    assert log_of(store) == []
    assert store.submit(known.decides(titled("then"))).events == 2


def test_a_commit_that_did_not_reach_the_server_is_made_again(url: str, cut: Line) -> None:
    place = at(cut.url(url))
    store = place.store()
    cut.cut_when_asked(COMMIT)
    committed = store.submit(place.decides(titled("once")))
    assert not cut.is_uncut
    assert committed.delta is not None
    assert titles(store) == ['{"title":"once"}']
    assert [delta.transaction_id for delta in store.deltas()] == [committed.delta.transaction_id]
    place.close()


def test_a_commit_whose_answer_was_lost_is_found_in_the_log(url: str, cut: Line) -> None:
    """It is not made a second time, and whoever reported gets its answer."""
    place = at(cut.url(url))
    store = place.store()
    store.submit(place.decides(titled("before")))
    cut.cut_when_told(COMMIT)
    committed = store.submit(place.decides(titled("once")))
    assert not cut.is_uncut
    assert committed.delta is not None
    assert titles(store) == ['{"title":"before"}', '{"title":"once"}']
    assert store.delta(TransactionId(committed.delta.transaction_id)) == committed.delta
    assert store.submit(place.decides(titled("after"))).events == 1
    assert store.verify().ok
    place.close()


def test_lines_that_break_in_the_middle_of_many_commits_lose_nothing(url: str, cut: Line) -> None:
    place = at(cut.url(url))
    with place.ledger() as ledger:
        answered: list[str] = []

        def report(name: str) -> None:
            for number in range(20):
                reply = ledger.report_state({"state": {"title": f"{name} {number}"}}, room=ROOM, session=name)
                answered.append(reply.transaction_id)
                if name == "ses-0" and number % 2:
                    cut.cut_when_told(COMMIT)
                    cut.cut_when_asked(COMMIT)

        reporters = [Thread(target=report, args=(f"ses-{one}",)) for one in range(8)]
        for reporter in reporters:
            reporter.start()
        for reporter in reporters:
            reporter.join()
    ledger = at(url).ledger()
    assert len(answered) == len(set(answered)) == 160
    assert {delta.transaction_id for delta in ledger.deltas()} == set(answered)
    assert ledger.verify().ok
    ledger.close()
    place.close()


def test_a_server_that_cannot_be_asked_about_a_commit_leaves_it_open(
    url: str, cut: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says to send the command again: its id finds the answer."""
    place = at(cut.url(url))
    ledger = place.ledger()
    monkeypatch.setattr(postgres_connection, "CONNECT_TIMEOUT_S", 0)
    cut.cut_when_told(COMMIT)
    cut.cut_when_asked(b"user\0", times=2)
    body = {"state": {"title": "once"}}
    with pytest.raises(StoreUnavailable, match="send the command again with its command id"):
        ledger.report_state(body, room=ROOM, session=SESSION, command_id="c-1")
    place.close()
    again = at(url).ledger()
    reply = again.report_state(body, room=ROOM, session=SESSION, command_id="c-1")
    assert [delta.transaction_id for delta in again.deltas()] == [reply.transaction_id]
    again.close()


def test_marking_a_delta_outlives_a_lost_connection(known: Place, schema: str) -> None:
    store = known.store()
    runs: list[int] = []

    def work(tables: Any) -> int:
        runs.append(1)
        tables.put_subscription("a", 0)
        if len(runs) == 1:
            end_backends(schema)
        return len(runs)

    assert in_transaction(store._database, work) == 2
    assert store.subscriptions() == ["a"]


def test_a_server_that_is_stopped_and_started_is_gone_for_so_long_only(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open store goes on as soon as the server does, whether it was stopped or died."""
    place = at(server.url())
    store = place.store()
    for number, mode in enumerate(("fast", "immediate"), start=1):
        store.submit(place.decides(titled(f"before {number}")))
        assert len(store.sessions()) == 1
        server.stop(mode)
        with monkeypatch.context() as patch:
            patch.setattr(postgres_connection, "CONNECT_TIMEOUT_S", 0)
            with pytest.raises(StoreUnavailable):
                store.submit(place.decides(titled("never")))
            with pytest.raises(StoreUnavailable):
                store.sessions()
        server.start()
        assert len(store.sessions()) == 1
        store.submit(place.decides(titled(f"after {number}")))
    assert len(titles(store)) == 4
    assert store.verify().ok
    place.close()


def test_a_host_that_brings_about_a_deadlock_is_run_again(place: Place, schema: str) -> None:
    class Host:
        failures = 1

        def participate(self, execute: Callable[[str, Sequence[Any]], None], delta: CommitDelta) -> None:
            if self.failures:
                self.failures -= 1
                execute("DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$", ())

    store = place.store(Host())
    assert store.submit(place.decides(titled("once"))).events == 2
    assert titles(store) == ['{"title":"once"}']


# A host's own statements.


def test_a_host_writes_in_the_transaction_of_the_commit(place: Place, schema: str) -> None:
    class Host:
        def participate(self, execute: Callable[[str, Sequence[Any]], None], delta: CommitDelta) -> None:
            said = "fail" if "fail" in delta.to_json() else "100 %"
            execute(f"INSERT INTO {schema}.host VALUES (%s, %s)", (delta.transaction_id, said))
            execute("SELECT 1 / (CASE WHEN 1 % 1 = 0 THEN 1 END)", ())
            if self.fails:
                execute("INSERT INTO nowhere VALUES (1)", ())

        fails = False

    host = Host()
    store = place.store(host)
    ask(f"CREATE TABLE {schema}.host (id TEXT PRIMARY KEY, said TEXT)")
    committed = store.submit(place.decides(titled("a")))
    assert committed.delta is not None
    host.fails = True
    with pytest.raises(StoreError, match="nowhere"):
        store.submit(place.decides(titled("b")))
    assert ask(f"SELECT * FROM {schema}.host") == [(committed.delta.transaction_id, "100 %")]
    assert len(log_of(store)) == 2


def test_a_decision_that_asks_the_database_to_write_is_stopped(place: Place) -> None:
    store = place.store()

    def decide(_: Loader) -> Decision:
        with store._database.write():
            raise AssertionError("not reached")

    with pytest.raises(StoreError, match="may not write"):
        store.submit(decide)
    assert store.submit(place.decides(titled("after"))).events == 2


# Names and versions.


def refusal(url: str) -> RepriseError:
    with pytest.raises(RepriseError) as caught:
        open_ledger(url)
    return caught.value


def test_schemas_are_stores_of_their_own(url: str) -> None:
    """Whatever their names are."""
    base, schema = url.rsplit("=", 1)
    names = [schema, f"{schema}%22%20Räume%3B%25", f"{schema}&connect_timeout=2"]
    try:
        for name in names[:2]:
            with open_ledger(f"{base}={name}") as ledger:
                ledger.report_state({"state": {"title": name}}, room=ROOM, session=SESSION)
                assert [view.title for view in ledger.sessions()] == [name]
                ledger.rebuild()
                assert ledger.verify().ok
        with open_ledger(f"{base}={names[2]}") as ledger:
            assert len(ledger.sessions()) == 1
    finally:
        ask(f'DROP SCHEMA IF EXISTS "{schema}"" Räume;%" CASCADE')


def test_a_store_is_in_the_schema_reprise_unless_another_is_named() -> None:
    assert place_of("postgresql://h/db").schema == "reprise"
    assert place_of("postgresql://h/db?sslmode=disable&schema=mine&application_name=x").schema == "mine"
    assert "schema" not in place_of("postgresql://h/db?schema=mine").parameters


@pytest.mark.parametrize("name", ["", "%20", "a%00b", "x" * 64, "ä" * 32])
def test_a_schema_that_cannot_be_is_refused(name: str) -> None:
    assert "1 to 63 bytes" in str(refusal(f"postgresql://h/db?schema={name}"))


def test_the_server_has_three_seconds_unless_the_address_says_otherwise() -> None:
    assert place_of("postgresql://h/db").parameters["connect_timeout"] == CONNECT_TIMEOUT_S == 3
    assert place_of("postgresql://h/db?connect_timeout=9").parameters["connect_timeout"] == "9"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cret@127.0.0.1:1/db",
        "postgresql://me:s3cret@127.0.0.1:1/db?schema=",
        "postgresql://me:s3cret@127.0.0.1:port/db",
        "postgresql://me:s3cr/et@127.0.0.1:1/db",
        "postgresql://me:s3c@s3cret@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?password=s3cret&nonsense=1",
    ],
)
def test_an_address_that_leads_nowhere_is_refused_without_its_password(url: str) -> None:
    error = refusal(url)
    while error is not None:
        assert "s3c" not in str(error)
        assert "me:" not in str(error)
        error = error.__cause__  # type: ignore[assignment]


def test_an_address_without_the_packages_for_it_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "infrastructure.store.postgres")
    monkeypatch.delitem(sys.modules, "infrastructure.store.postgres_connection")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    error = refusal("postgresql://me:s3cret@127.0.0.1/db")
    assert type(error) is StoreUnavailable
    assert "install reprise[postgres]" in str(error)


def test_another_programs_schema_is_left_alone(url: str, schema: str) -> None:
    ask(f"CREATE SCHEMA {schema}")
    ask(f"CREATE TABLE {schema}.theirs (id INT)")
    error = refusal(url)
    assert type(error) is ForeignStore
    assert "?schema=" in str(error)
    assert ask("SELECT tablename FROM pg_tables WHERE schemaname = %s", schema) == [("theirs",)]


def test_an_empty_schema_becomes_a_store(url: str, schema: str) -> None:
    ask(f"CREATE SCHEMA {schema}")
    open_ledger(url).close()


def test_a_user_needs_no_more_than_an_empty_schema_of_its_own(server: Server) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE plain LOGIN")
        connection.execute("CREATE SCHEMA given AUTHORIZATION plain")
    address = server.url(user="plain")
    with open_ledger(f"{address}&schema=given") as ledger:
        ledger.report_state({"state": {"title": "a"}}, room=ROOM, session=SESSION)
        ledger.rebuild()
        assert ledger.verify().ok
    error = refusal(f"{address}&schema=other")
    assert type(error) is StoreUnavailable
    assert "check what the user may do here" in str(error)


def test_a_database_that_cannot_keep_every_text_is_refused(server: Server) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    error = refusal(server.url(database="latin"))
    assert type(error) is StoreUnavailable
    assert "make one whose encoding is UTF8" in str(error)


def test_a_newer_releases_store_is_left_alone(url: str, schema: str) -> None:
    open_ledger(url).close()
    ask(f"UPDATE {schema}.store_schema SET version = version + 1")
    error = refusal(url)
    assert type(error) is NewerStore
    assert f"has schema {len(MIGRATIONS) + 1}, this release knows up to {len(MIGRATIONS)}" in str(error)


STEPS = (*MIGRATIONS, "ALTER TABLE lanes ADD note TEXT; CREATE INDEX lanes_by_note ON lanes (note);")


def test_a_new_schema_is_reached_step_by_step_with_everything_kept(place: Place, url: str) -> None:
    store = place.store()
    store.submit(place.decides(titled("kept")))
    before, store_id = log_of(store), database_of(store).store_id
    with pytest.raises(StoreError):
        PostgresDatabase(url, (*STEPS, "SELECT nonsense;"))
    PostgresDatabase(url, MIGRATIONS).close()  # Neither step was made.

    lifted = PostgresDatabase(url, STEPS)

    assert lifted.store_id == store_id
    with lifted.read() as tables:
        assert list(tables.log(contents=True)) == before
        assert tables._all("SELECT note FROM lanes") == []
    lifted.close()
    assert type(refusal(url)) is NewerStore


def test_a_closed_store_says_so(place: Place) -> None:
    store = place.store()
    store.close()
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.submit(place.decides(titled("late")))
    with pytest.raises(StoreUnavailable, match="closed"):
        store.sessions()
    with pytest.raises(StoreUnavailable, match="closed"), store._database.write():
        pass


def test_a_session_that_is_reported_by_many_at_once_on_a_new_schema(url: str) -> None:
    """Making the schema is a matter of one of them, and the others wait for it."""
    start = context().Barrier(WRITERS)
    children = [Child(report_same, url, start) for _ in range(WRITERS)]
    answered = [line for child in children for line in child.end()]
    assert [child.process.exitcode for child in children] == [0] * WRITERS
    assert len([line for line in answered if line]) == 1


# Rows.


def test_a_question_is_answered_with_what_the_transaction_is_yet_to_write(place: Place) -> None:
    database = database_of(place.store())
    row = OutboxRow(TransactionId("t"), ROOM, Position(1), Position(2), 3, "{}")
    said = Answered("digest", "{}", 2)
    session = (1, ROOM, SESSION, 1, "{}", SESSION, "", 1, 0, *range(len(CLOCKS) - 1), "")
    moved = (*session[: -len(CLOCKS)], *range(10, 9 + len(CLOCKS)), "")
    with database.write() as tables:
        tables.put_outbox(row)
        assert tables.outbox_at(2) == row
        tables.put_outbox(replace(row, last_position=Position(4)))
        assert tables.outbox_end() == 4
        tables.remember("key", stream_of(), said, now=0, expires_at=9)
        assert tables.remembered("key", now=0) == said
        tables.put(SESSIONS, session)
        assert tables.get(SESSIONS, 1) == session
        assert tables.live_sessions(ROOM) == [session]
        tables.put_clocks(1, moved[-len(CLOCKS) :])
        assert tables.get(SESSIONS, 1) == moved
        tables.put(SESSIONS, session)
        tables.put_clocks(1, moved[-len(CLOCKS) :])
        assert list(tables.rows(SESSIONS)) == [moved]
    with database.read() as tables:
        assert tables.get(SESSIONS, 1) == moved
        assert len(tables.outbox()) == 2


def test_ids_of_any_length_and_script_find_their_rows(url: str) -> None:
    """Four bytes a character are 2,048 for an id: two of them do not fit into a row of an index."""
    room, session, root, turn, message, request = (
        "".join(chr(0x20000 + (seed * 7919 + one * 104_729) % 40_000) for one in range(512))
        for seed in range(6)
    )
    question = {"requestId": request, "turnId": turn, "kind": "approval", "status": "pending"}
    relations = {"kind": "child", "rootAgentSessionId": root, "parentAgentSessionId": root}
    state = {
        "provider": "p",
        "providerSessionId": request,
        "turn": {"turnId": turn, "phase": "running"},
        "interactionTransition": question,
        **relations,
    }
    update = {"messageId": message, "turnId": turn, "role": "tool", "kind": "tool_call", "status": "running"}
    with open_ledger(url) as ledger:
        ledger.subscribe(lambda _: None, "name")
        ledger.report_state({"state": {"title": "root"}}, room=room, session=root)
        ledger.report_state({"state": state}, room=room, session=session)
        ledger.report_messages({"updates": [update]}, room=room, session=session)
        again = {**state, "interactionTransition": {**question, "status": "answered"}}
        ledger.report_state({"state": again}, room=room, session=session)
        assert len(ledger.sessions(room)) == 2
        assert ledger.store.interactions(room, session)[0].request_id == request  # type: ignore[arg-type]
        ledger.rebuild()
        assert ledger.verify().ok


def test_verify_finds_a_changed_row_and_rebuild_changes_that_one_alone(place: Place, schema: str) -> None:
    ledger = place.ledger()
    for session in ("ses-1", "ses-2"):
        ledger.report_state({"state": {"title": session}}, room=ROOM, session=session)
    before = ask(f"SELECT key, ctid::text FROM {schema}.session_contents ORDER BY key")
    ask(f"UPDATE {schema}.session_contents SET content = 'x' WHERE key = 2")
    assert [problem.where for problem in ledger.verify().problems] == ["session_contents 2"]
    ledger.rebuild()
    assert ledger.verify().ok
    after = ask(f"SELECT key, ctid::text FROM {schema}.session_contents ORDER BY key")
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_whoever_reads_during_a_rebuild_sees_what_was_there_when_he_began(place: Place) -> None:
    ledger = place.ledger()
    ledger.report_state({"state": {"title": "then"}}, room=ROOM, session=SESSION)
    database: PostgresDatabase = ledger.store._database  # type: ignore[attr-defined]
    with database.read() as tables:
        ledger.report_state({"state": {"title": "now"}}, room=ROOM, session=SESSION)
        ledger.rebuild()
        assert [row[1] for row in tables.rows(SESSION_CONTENTS)] == ['{"title":"then"}']
        assert len(list(tables.rows(SESSIONS))) == 1
    assert ledger.sessions()[0].title == "now"


def test_a_reader_does_not_wait_for_a_writer_nor_see_what_is_not_stored(place: Place, url: str) -> None:
    writer = PostgresDatabase(url)
    store = place.store()
    with writer.write() as tables:
        tables.put_subscription("a", 0)
        assert store.subscriptions() == []
    assert store.subscriptions() == ["a"]
    writer.close()
