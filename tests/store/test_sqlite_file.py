"""What an SQLite file promises: durable, ours, never half stored, and clear words when it cannot be used."""

import os
import resource
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from application.ports import Decision
from domain.errors import (
    DamagedStore,
    ForeignStore,
    NewerStore,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from domain.session import Pinned
from infrastructure.main import open_ledger
from infrastructure.store.event_store import EventStore
from infrastructure.store.sqlite import SQLiteDatabase
from infrastructure.store.sqlite_schema import APPLICATION_ID, MIGRATIONS, PAGE_BYTES
from tests.store.place import ROOM, SESSION, Place, head_of, log_of, titled

NOBODY = 65534


def pragma(store: EventStore, name: str) -> Any:
    """A setting of the connection that writes."""
    with store._database.write() as tables:
        return tables._one(f"PRAGMA {name}")[0]  # type: ignore[attr-defined]


@contextmanager
def plain(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that is not ours."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        yield db


# Durability.


def test_each_commit_is_forced_to_the_disk_and_costs_one_write_ahead(file: Place) -> None:
    """With a write-ahead log and FULL, a commit is one fsync; with NORMAL, a power cut takes it back."""
    store = file.store()
    assert pragma(store, "journal_mode") == "wal"
    assert pragma(store, "synchronous") == 2
    assert pragma(store, "secure_delete") == 1
    assert pragma(store, "page_size") == PAGE_BYTES
    assert pragma(store, "application_id") == APPLICATION_ID
    assert pragma(store, "user_version") == len(MIGRATIONS)


def test_one_command_is_one_transaction(file: Place) -> None:
    store = file.store()
    statements: list[str] = []
    with store._database.write() as tables:
        db = tables._db  # type: ignore[attr-defined]
    db.set_trace_callback(statements.append)
    store.submit(file.decides(titled("a"), titled("b"), Pinned()))
    db.set_trace_callback(None)
    ends = [one for one in statements if one.split()[0] in ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT")]
    assert ends == ["BEGIN IMMEDIATE", "COMMIT"]


def test_a_command_without_news_ends_without_a_write(file: Place, path: Path) -> None:
    store = file.store()
    store.submit(file.decides(titled("a")))
    wal = path.with_name("store.db-wal")
    before = wal.stat().st_size
    store.submit(file.decides())
    assert wal.stat().st_size == before


def test_positions_are_not_given_again_after_the_tail_was_deleted(file: Place, path: Path) -> None:
    store = file.store()
    store.submit(file.decides(titled("a")))
    store.close()
    with plain(path) as db:
        db.execute("DELETE FROM stored_events")
        db.execute("DELETE FROM contents")
        db.execute("DELETE FROM outbox")
        db.execute("DELETE FROM streams WHERE key > 0")
        db.execute("DELETE FROM sessions")
        db.execute("DELETE FROM session_contents")
    store = file.store()
    committed = store.submit(file.decides(titled("b")))
    assert committed.delta is not None
    assert (committed.delta.first_position, committed.delta.last_position) == (3, 4)


def test_positions_stay_without_a_gap_after_a_rollback(file: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = file.store()
    store.submit(file.decides(titled("a")))

    def fail(_: str) -> None:
        raise RuntimeError

    with monkeypatch.context() as broken:
        broken.setattr("infrastructure.store.writer.crashpoint", fail)
        with pytest.raises(RuntimeError):
            store.submit(file.decides(titled("b")))
    committed = store.submit(file.decides(titled("c")))
    assert committed.delta is not None
    assert committed.delta.first_position == 3


def test_a_closed_store_leaves_one_file(file: Place, path: Path) -> None:
    store = file.store()
    store.submit(file.decides(titled("a")))
    store.close()
    assert list(path.parent.iterdir()) == [path]


def test_closing_twice_is_once(file: Place) -> None:
    store = file.store()
    store.close()
    store.close()


def test_a_closed_store_says_so(file: Place, path: Path) -> None:
    store = file.store()
    store.close()
    with pytest.raises(StoreUnavailable, match="the store was closed"):
        store.sessions()
    with pytest.raises(StoreUnavailable, match="the store was closed"):
        store.submit(file.decides())


def test_a_store_keeps_its_id(file: Place) -> None:
    ids = {file.store()._database.store_id for _ in range(3)}
    assert len(ids) == 1


# Somebody else's file, or none.


def refusal(path: Path) -> StoreError:
    """What opening a path as a store ends with."""
    with pytest.raises(StoreError) as caught:
        open_ledger(f"sqlite:///{path}")
    assert str(path) in str(caught.value) or str(path.parent) in str(caught.value)
    return caught.value


def test_another_programs_database_is_left_alone(path: Path) -> None:
    with plain(path) as db:
        db.execute("CREATE TABLE theirs (x)")
        db.execute("INSERT INTO theirs VALUES (1)")
    before = path.read_bytes()
    error = refusal(path)
    assert type(error) is ForeignStore
    assert str(error) == f"{path}: this database was made by another program; name another file with --db"
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be one" * 100, b"short", b"SQLite format 3\0"]
)
def test_a_file_that_is_no_database_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    error = refusal(path)
    assert type(error) is ForeignStore
    assert str(error) == f"{path}: this is no SQLite database; name another file with --db"
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with open_ledger(f"sqlite:///{path}") as ledger:
        assert ledger.report_state({}, room=ROOM, session=SESSION).applied


def test_a_folder_is_no_store(path: Path) -> None:
    path.mkdir()
    error = refusal(path)
    assert type(error) is StoreUnavailable
    assert str(error) == f"{path}: this is a folder; name a file in it"


def test_a_missing_folder_is_not_made(path: Path) -> None:
    error = refusal(path / "deep" / "store.db")
    assert type(error) is StoreUnavailable
    assert str(error) == f"{path / 'deep'}: no such folder; make it first"
    assert not path.exists()


def test_a_file_as_folder_is_no_folder(path: Path) -> None:
    path.touch()
    assert type(refusal(path / "store.db")) is StoreUnavailable


@pytest.mark.parametrize("url", ["", "sqlite://", "sqlite:///", "mysql://h/db", "store.db", "memory:"])
def test_an_address_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"names no store; give sqlite:///path/to/file\.db"):
        open_ledger(url)


def test_a_newer_releases_store_is_left_alone(file: Place, path: Path) -> None:
    file.store().close()
    with plain(path) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = path.read_bytes()
    error = refusal(path)
    assert type(error) is NewerStore
    assert f"the store has schema {len(MIGRATIONS) + 1}, this release knows up to {len(MIGRATIONS)}" in str(
        error
    )
    assert path.read_bytes() == before


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user can get to, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


@contextmanager
def without_privileges() -> Iterator[None]:
    """Files and folders are closed to root only while it is somebody else."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_may_not_be_read_is_named(open_folder: Path) -> None:
    path = open_folder / "store.db"
    Place(lambda: SQLiteDatabase(path)).store().close()
    path.chmod(0)
    with without_privileges():
        error = refusal(path)
    path.chmod(0o600)
    assert type(error) is StoreUnavailable
    assert "check that the file and its folder can be written" in str(error)


def test_a_file_that_may_not_be_written_can_be_read(open_folder: Path) -> None:
    path = open_folder / "store.db"
    Place(lambda: SQLiteDatabase(path)).store().close()
    path.chmod(0o444)
    with without_privileges(), closing(Place(lambda: SQLiteDatabase(path))) as place:
        store = place.store()
        assert store.sessions() == []
        assert store.verify().ok
        with pytest.raises(StoreUnavailable) as caught:
            store.submit(place.decides())
    assert "check that the file and its folder can be written" in str(caught.value)


def test_a_folder_that_may_not_be_entered_is_named(open_folder: Path) -> None:
    closed = open_folder / "closed"
    closed.mkdir()
    closed.chmod(0)
    with without_privileges():
        error = refusal(closed / "store.db")
    closed.chmod(0o700)
    assert type(error) is StoreUnavailable
    assert "check that the file and its folder can be written" in str(error)


def test_a_folder_in_which_nothing_may_be_made_is_named(open_folder: Path) -> None:
    closed = open_folder / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    with without_privileges():
        error = refusal(closed / "store.db")
    assert type(error) is StoreUnavailable


def test_a_name_too_long_for_a_file_is_named(path: Path) -> None:
    assert type(refusal(path.with_name("x" * 300))) is StoreUnavailable


def test_a_damaged_database_is_named_and_nothing_more_is_stored(file: Place, path: Path) -> None:
    store = file.store()
    store.submit(file.decides(titled("a")))
    store.close()
    with path.open("r+b") as raw:
        raw.seek(PAGE_BYTES)
        raw.write(b"\xff" * (path.stat().st_size - PAGE_BYTES))
    before = path.read_bytes()
    error = refusal(path)
    assert type(error) is DamagedStore
    assert "restore a backup" in str(error)
    assert path.read_bytes() == before


def test_facts_that_cannot_be_read_are_a_damaged_store(file: Place, path: Path) -> None:
    store = file.store()
    store.submit(file.decides(titled("a")))
    store.close()
    with plain(path) as db:
        db.execute("UPDATE stored_events SET state = X'7b' WHERE notification_id = 2")
    store = file.store()
    for read in (
        lambda: store.submit(file.decides(titled("b"))),
        lambda: store.state(ROOM, SESSION),
        lambda: list(store.events(ROOM, SESSION)),
        store.rebuild,
    ):
        with pytest.raises(DamagedStore, match=r"session\.titled"):
            read()
    assert head_of(store)[0] == 2


def test_who_waits_too_long_for_another_process_is_told_so(
    file: Place, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infrastructure.store.sqlite.LOCK_TIMEOUT_S", 0)
    store = file.store()
    store.submit(file.decides(titled("a")))
    with plain(path) as db:
        db.execute("BEGIN IMMEDIATE")
        for act in (lambda: store.submit(file.decides(titled("b"))), file.store):
            with pytest.raises(StoreBusy, match="another process has held the store for 0 s; try again"):
                act()
        assert store.session(ROOM, SESSION) is not None
        db.execute("ROLLBACK")
    assert store.submit(file.decides(titled("b"))).events == 1


def test_a_decision_that_asks_the_store_to_write_is_stopped(file: Place) -> None:
    store = file.store()

    def decide(_: Any) -> Decision:
        store.submit(file.decides(titled("inside")))
        raise AssertionError("not reached")

    with pytest.raises(StoreError):
        store.submit(decide)
    assert log_of(store) == []
    assert store.submit(file.decides(titled("after"))).events == 2


# No room.


def large(number: int) -> Any:
    return titled(f"{number} " + "x" * 20_000)


def fill(file: Place, store: EventStore) -> int:
    """Commit until there is no more room; how many commits there was room for."""
    for number in range(1_000):
        before = (log_of(store), list(store.deltas()), store.sessions())
        try:
            store.submit(file.decides(large(number)))
        except StoreError:
            assert (log_of(store), list(store.deltas()), store.sessions()) == before
            raise
    return 1_000


def test_a_full_disk_stores_nothing_by_half_and_goes_on_when_there_is_room(file: Place, path: Path) -> None:
    store = file.store()
    store.submit(file.decides(titled("a")))
    pragma(store, f"max_page_count = {pragma(store, 'page_count') + 20}")
    with pytest.raises(StoreFull) as caught:
        fill(file, store)
    assert str(caught.value) == f"{path}: no room left; nothing was stored; free some and try again"
    version = head_of(store)[0]
    assert version > 2
    assert store.verify().ok
    with pytest.raises(StoreFull):
        store.submit(file.decides(large(0)))
    pragma(store, "max_page_count = 1000000")
    committed = store.submit(file.decides(large(0)))
    assert committed.events == 1
    assert head_of(store)[0] == version + 1
    assert store.verify().ok


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """Let the system refuse writes, as a full disk does: at the commit, when pages go to the log."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_commit_that_the_system_refuses_to_write_is_taken_back(file: Place, path: Path) -> None:
    store = file.store()
    store.submit(file.decides(titled("a")))
    wal = path.with_name("store.db-wal")
    before = (log_of(store), list(store.deltas()), store.sessions(), head_of(store))
    with no_file_larger_than(wal.stat().st_size + PAGE_BYTES), pytest.raises(StoreError) as caught:
        store.submit(file.decides(large(1)))
    assert isinstance(caught.value, StoreUnavailable | StoreFull)
    assert str(path) in str(caught.value)
    assert (log_of(store), list(store.deltas()), store.sessions(), head_of(store)) == before
    assert store.submit(file.decides(large(1))).events == 1
    store.close()
    store = file.store()
    assert head_of(store)[0] == 3
    assert store.verify().ok


# Schemas.

EXTRA = "CREATE TABLE extra (id INTEGER PRIMARY KEY, said TEXT NOT NULL)"


def test_a_new_schema_is_reached_step_by_step_with_everything_kept(file: Place, path: Path) -> None:
    store = file.store()
    store.submit(file.decides(titled("a")))
    events, deltas = log_of(store), list(store.deltas())
    store.close()
    steps = (*MIGRATIONS, EXTRA, "INSERT INTO extra VALUES (1, 'from a migration')")
    for known in (steps[:-1], steps, steps):
        database = SQLiteDatabase(path, known)
        store = EventStore(database, file.clock)
        assert pragma(store, "user_version") == len(known)
        assert log_of(store) == events
        assert list(store.deltas()) == deltas
        store.close()
    with plain(path) as db:
        assert db.execute("SELECT * FROM extra").fetchall() == [(1, "from a migration")]
    assert type(refusal(path)) is NewerStore


def test_a_migration_that_fails_leaves_the_store_as_it_was(file: Place, path: Path) -> None:
    file.store().close()
    with pytest.raises(StoreError, match="syntax error"):
        SQLiteDatabase(path, (*MIGRATIONS, f"{EXTRA}; CREATE NONSENSE"))
    with plain(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'extra'").fetchone() == (0,)
    assert file.store().submit(file.decides()).events == 1


def test_a_store_whose_making_was_interrupted_is_made_anew(path: Path) -> None:
    with pytest.raises(StoreError):
        SQLiteDatabase(path, (f"{EXTRA}; CREATE NONSENSE",))
    with open_ledger(f"sqlite:///{path}") as ledger:
        assert ledger.verify().ok


def test_a_copy_of_the_file_is_the_whole_store(file: Place, path: Path) -> None:
    store = file.store()
    store.submit(file.decides(titled("a")))
    events = log_of(store)
    store.close()
    copied = path.with_name("copy.db")
    shutil.copy(path, copied)
    copy = EventStore(SQLiteDatabase(copied), file.clock)
    assert log_of(copy) == events
    assert copy.verify().ok
    copy.close()


def test_reading_makes_no_transaction_that_writes(file: Place) -> None:
    """Whoever reads can do so while somebody else holds the write lock."""
    store = file.store()
    store.submit(file.decides(titled("a")))
    reads: list[Callable[[], object]] = [
        lambda: store.session(ROOM, SESSION),
        store.sessions,
        lambda: list(store.events(ROOM, SESSION)),
        lambda: list(store.deltas()),
        lambda: list(store.outbox()),
        store.verify,
    ]
    with file.store()._database.write():
        for read in reads:
            assert read()


# What a question costs.


@pytest.mark.parametrize(
    ("question", "index"),
    [
        (
            "SELECT * FROM messages WHERE key = 1 AND turn_id = 't' AND is_open_tool ORDER BY sequence",
            "messages_open_tools (key=? AND turn_id=?)",
        ),
        (
            "SELECT * FROM messages WHERE key = 1 AND version > 1 ORDER BY version LIMIT 1",
            "messages_by_version (key=? AND version>?)",
        ),
        (
            "SELECT * FROM sessions WHERE +room = 'r' AND updated_at <= 1"
            " ORDER BY updated_at DESC, room, session",
            "sessions_by_change (updated_at<?)",
        ),
        ("SELECT * FROM sessions WHERE room = 'r' AND is_live ORDER BY session", "sessions_live (room=?)"),
        ("SELECT * FROM sessions WHERE session = 's' ORDER BY room", "sessions_by_session (session=?)"),
    ],
)
def test_a_question_is_answered_from_its_index(file: Place, path: Path, question: str, index: str) -> None:
    """Without it the answer would take longer for every message that a session has, or every session."""
    file.store()
    with plain(path) as db:
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {question}")]
    assert f"USING INDEX {index}" in plan[0]
