"""A backup is the store as it was at one moment, in one file, and becomes a store again."""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from domain.errors import DamagedStore, ForeignStore, NewerStore, StoreError, StoreUnavailable
from infrastructure.store.backup import backup, restore
from tests.store.place import Place, in_file, titled


def filled(path: Path) -> Place:
    place = in_file(path)
    place.store().submit(place.decides(titled("a")))
    return place


def files(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


def test_a_backup_of_a_store_in_use_becomes_an_equal_store_with_an_id_of_its_own(
    path: Path, tmp_path: Path
) -> None:
    place, file = filled(path), tmp_path / "backup.db"
    written = backup(path, file)
    store = place.store()
    store.submit(place.decides(titled("later")))

    assert written.position == 2
    assert written.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    read = restore(file, tmp_path / "again.db")
    assert read == written
    again = in_file(tmp_path / "again.db")
    assert list(again.store().deltas()) == list(store.deltas())[:1]
    assert again.store().verify().ok
    assert again.database().store_id != place.database().store_id
    committed = again.store().submit(again.decides(titled("later")))
    assert committed.answer["transactionId"] != list(store.deltas())[1].transaction_id
    again.close()
    place.close()


def test_a_backup_leaves_nothing_beside_its_file(path: Path, tmp_path: Path) -> None:
    filled(path).close()
    folder = tmp_path / "backups"
    folder.mkdir()
    backup(path, folder / "backup.db")

    assert files(folder) == {"backup.db"}
    assert (folder / "backup.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("act", ["backup", "restore"])
def test_what_is_there_is_never_written_over(path: Path, tmp_path: Path, act: str) -> None:
    place, other = filled(path), tmp_path / "other.db"
    other.write_bytes(b"mine")
    with pytest.raises(StoreError, match="there is something already; name a file that is not there"):
        (backup if act == "backup" else restore)(path, other)
    assert other.read_bytes() == b"mine"
    place.close()


def test_only_a_backup_of_ours_becomes_a_store(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.db"
    with pytest.raises(StoreUnavailable, match="no such file; name a backup"):
        restore(tmp_path / "absent", target)
    with pytest.raises(StoreUnavailable, match="no such folder; make it first"):
        restore(path, tmp_path / "absent" / "target.db")
    path.write_bytes(b"no database at all, but long enough to look at")
    with pytest.raises(ForeignStore, match="this is no SQLite database"):
        restore(path, target)
    path.write_bytes(b"")
    with pytest.raises(ForeignStore, match="this file holds no store"):
        restore(path, target)
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as db:
        db.execute("CREATE TABLE theirs (id)")
    with pytest.raises(ForeignStore, match="made by another program"):
        restore(tmp_path / "foreign.db", target)
    assert not target.exists()


def test_a_backup_of_a_newer_release_or_with_damage_is_refused(path: Path, tmp_path: Path) -> None:
    filled(path).close()
    backup(path, tmp_path / "newer.db")
    with closing(sqlite3.connect(tmp_path / "newer.db")) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(NewerStore, match="schema 99"):
        restore(tmp_path / "newer.db", tmp_path / "target.db")
    backup(path, tmp_path / "damaged.db")
    damaged = bytearray((tmp_path / "damaged.db").read_bytes())
    damaged[8192 * 2 : 8192 * 2 + 100] = bytes(100)
    (tmp_path / "damaged.db").write_bytes(damaged)
    with pytest.raises(DamagedStore, match="the backup is damaged"):
        restore(tmp_path / "damaged.db", tmp_path / "target.db")
    assert not (tmp_path / "target.db").exists()


def test_a_store_that_is_not_there_is_not_backed_up(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        backup(tmp_path / "absent.db", tmp_path / "backup.db")
    assert files(tmp_path) == set()
