"""A copy has the same events at the same positions, and goes on with an id of its own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from application.commands import purge
from application.ledger import Ledger
from domain.errors import DamagedStore, StoreError
from infrastructure.store import copying
from infrastructure.store.copying import copy
from infrastructure.store.memory import MemoryDatabase
from infrastructure.store.sqlite import SQLiteDatabase
from infrastructure.store.tables import OPERATIONS, READ_MODELS, Database
from tests.postgres import postgres_url
from tests.store.place import ROOM, Place, at, in_file, in_memory, titled

RUNNING = {"state": {"turn": {"turnId": "t1", "phase": "running"}}}
Make = Callable[[], Database]


@pytest.fixture(
    params=[
        "memory to sqlite",
        "sqlite to memory",
        "sqlite to sqlite",
        "sqlite to postgres",
        "postgres to sqlite",
    ]
)
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Place, Place]]:
    """A place to copy from and one to copy into."""
    with ExitStack() as stack:
        made = []
        for number, kind in enumerate(request.param.split(" to ")):
            match kind:
                case "memory":
                    place = in_memory()
                case "sqlite":
                    place = in_file(tmp_path / f"{number}.db")
                case _:
                    place = at(stack.enter_context(postgres_url()))
            stack.callback(place.close)
            made.append(place)
        yield made[0], made[1]


def fill(ledger: Ledger, *, purges: bool = True) -> None:
    """Sessions with messages, one of them deleted, one purged; a child whose root is not known."""
    ledger.subscribe(lambda _: None, "taker")
    for number in range(5):
        session = f"ses-{number}"
        ledger.report_state(RUNNING, room=ROOM, session=session, command_id=f"c{number}")
        for index in range(3):
            update = {
                "messageId": f"m{index}",
                "turnId": "t1",
                "role": "assistant",
                "kind": "text",
                "payload": {"text": f"{number} {index}"},
            }
            ledger.report_messages({"updates": [update]}, room=ROOM, session=session)
    child = {"kind": "child", "rootAgentSessionId": "unseen", "rootTurnId": "t1"}
    ledger.report_state({"state": {**child, "parentAgentSessionId": "unseen"}}, room=ROOM, session="child")
    ledger.delete(ROOM, "ses-1")
    if purges:
        ledger.purge(ROOM, "ses-2")


def everything(database: Database) -> dict[str, object]:
    """All of a store that a copy has too; keys of streams may differ, so rows are compared by verify."""
    with database.read() as tables:
        return {
            "log": list(tables.log(contents=True)),
            "heads": [(stream, head.version, head.hash) for stream, head in tables.heads()],
            "outbox": tables.outbox(),
            **{table.name: list(tables.rows(table)) for table in OPERATIONS},
        }


def end(database: Database) -> int:
    with database.read() as tables:
        return tables.end()


def rows(database: Database) -> int:
    with database.read() as tables:
        return sum(len(list(tables.rows(table))) for table in READ_MODELS)


def test_a_copy_has_everything_and_an_id_of_its_own(places: tuple[Place, Place]) -> None:
    fill(places[0].ledger())
    source, target = places[0].database(), places[1].database()
    copied = copy(source, target)

    assert everything(target) == everything(source)
    assert rows(target) == rows(source)
    assert copied.events == copied.end == end(source)
    assert copied.store_id == target.store_id != source.store_id
    ledger = places[1].ledger()
    assert ledger.verify().ok
    assert {one.session for one in ledger.sessions(deleted=True)} == {
        one.session for one in places[0].ledger().sessions(deleted=True)
    }
    with target.read() as tables:
        assert tables.stores() == [(1, source.store_id), (copied.end + 1, target.store_id)]


def test_the_copy_goes_on_and_its_transaction_ids_are_its_own(places: tuple[Place, Place]) -> None:
    """The same command in both: were the ids equal, whoever has had one delta would leave the other out."""
    fill(places[0].ledger())
    copy(places[0].database(), places[1].database())
    both = [place.ledger() for place in places]
    replies = [ledger.set_title(ROOM, "ses-0", "Tides") for ledger in both]

    assert replies[0].delta is not None
    assert replies[1].delta is not None
    assert replies[0].delta.last_position == replies[1].delta.last_position
    assert replies[0].transaction_id != replies[1].transaction_id
    assert both[1].verify().ok
    again = both[1].report_state(RUNNING, room=ROOM, session="ses-0", command_id="c0")
    assert (
        again.transaction_id
        == both[0].report_state(RUNNING, room=ROOM, session="ses-0", command_id="c0").transaction_id
    )


@pytest.mark.parametrize("chunk", [1, 3, 7])
def test_a_copy_that_was_cut_off_is_whole_and_goes_on(
    places: tuple[Place, Place], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "CHUNK_EVENTS", chunk)
    fill(places[0].ledger(), purges=False)
    source, target = places[0].database(), places[1].database()

    class Cut(Exception):
        pass

    def cut(_: int) -> None:
        raise Cut

    cuts = 0
    while end(target) < end(source):
        with pytest.raises(Cut):
            copy(source, target, cut)
        cuts += 1
        assert places[1].store().verify().problems == ()
    assert cuts > 2
    assert copy(source, target).events == 0
    assert everything(target) == everything(source)


def test_a_second_copy_takes_over_what_has_come_since(places: tuple[Place, Place]) -> None:
    ledger = places[0].ledger()
    fill(ledger)
    source, target = places[0].database(), places[1].database()
    copy(source, target)
    ledger.set_title(ROOM, "ses-0", "Tides")
    ledger.purge(ROOM, "ses-3")

    assert copy(source, target).events > 0
    assert everything(target) == everything(source)
    assert places[1].store().verify().ok
    assert copy(source, target).events == 0


def test_a_store_with_events_of_its_own_is_left_alone(places: tuple[Place, Place]) -> None:
    fill(places[0].ledger())
    places[1].store().submit(places[1].decides(titled("mine")))
    source, target = places[0].database(), places[1].database()
    before = everything(target)
    with pytest.raises(StoreError, match="the new store has events of its own; copy into an empty one"):
        copy(source, target)
    assert everything(target) == before


def test_a_copy_that_was_written_to_is_not_copied_over(places: tuple[Place, Place]) -> None:
    fill(places[0].ledger())
    source, target = places[0].database(), places[1].database()
    copy(source, target)
    for place in places:
        place.ledger().set_title(ROOM, "ses-0", "Tides")
    with pytest.raises(StoreError, match="events of its own"):
        copy(source, target)


def test_an_empty_store_copies_to_an_empty_store(places: tuple[Place, Place]) -> None:
    source, target = places[0].database(), places[1].database()
    copied = copy(source, target)
    assert (copied.events, copied.end) == (0, 0)
    store = places[1].store()
    assert store.submit(places[1].decides(titled("a"))).events == 2
    assert store.verify().ok


def test_a_damaged_event_stops_the_copy_and_is_named(tmp_path: Path) -> None:
    source = SQLiteDatabase(tmp_path / "source.db")
    place = Place(lambda: source)
    store = place.store()
    store.submit(place.decides(titled("a")))
    with source.write() as tables:
        tables.execute('UPDATE contents SET content = CAST(\'{"title":"b"}\' AS BLOB)')
    target = MemoryDatabase()
    with pytest.raises(DamagedStore, match="position 2: its content does not fit the commitment"):
        copy(source, target)
    with target.read() as tables_:
        assert tables_.end() == 0
    place.close()


def test_a_purge_while_the_copy_runs_reaches_what_was_copied(
    places: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "CHUNK_EVENTS", 3)
    ledger = places[0].ledger()
    fill(ledger)
    source, target = places[0].database(), places[1].database()
    purged = [purge(str(ROOM), "ses-0", "")]

    def meanwhile(_: int) -> None:
        if purged:
            ledger._do(purged.pop())

    copy(source, target, meanwhile)
    assert everything(target) == everything(source)
    assert places[1].store().verify().problems == ()
