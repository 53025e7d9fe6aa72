"""Making the read models anew while others write, purge or rebuild too."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from domain.errors import StoreBusy
from infrastructure.main import open_ledger
from infrastructure.store import audit
from infrastructure.store.sqlite import SQLiteDatabase, SQLiteTables
from infrastructure.store.tables import SESSION_CONTENTS

BATCH = 3


def _filled(path: Path) -> str:
    url = f"sqlite:///{path}"
    with open_ledger(url) as ledger:
        for session in ("ses-1", "ses-2"):
            state = {"title": f"a secret of {session}", "turn": {"turnId": "t1", "phase": "running"}}
            ledger.report_state({"state": state}, room="room-1", session=session)
    return url


def _begin_rebuild(path: Path, name: str) -> None:
    """What a rebuild does before its process dies: a first batch beside the live read models."""
    database = SQLiteDatabase(path)
    with database.write() as tables:
        refold = audit.Refold(tables.shadow(name))
        for stored in tables.log(contents=True):
            refold.apply(stored, audit._opened(stored))
        refold.flush()
    database.close()


def test_a_purge_reaches_a_rebuild_that_was_never_done(tmp_path: Path) -> None:
    """A4: What is purged is gone from read models that a dying process left behind, too."""
    path = tmp_path / "store.db"
    url = _filled(path)
    _begin_rebuild(path, "left")
    with open_ledger(url) as ledger:
        ledger.purge("room-1", "ses-1")

    database = SQLiteDatabase(path)
    with database.read() as tables:
        said = [row[1] for row in tables.reopen_shadow("left").rows(SESSION_CONTENTS)]
    database.close()

    assert len(said) == 1
    assert "ses-2" in said[0]


def test_of_two_rebuilds_the_first_one_done_swaps(tmp_path: Path) -> None:
    """The other is told that the read models are fresh, and nothing is lost."""
    path = tmp_path / "store.db"
    url = _filled(path)
    _begin_rebuild(path, "slow")
    with open_ledger(url) as ledger:
        assert ledger.rebuild() == len(list(ledger.events("room-1", "ses-1"))) * 2

    database = SQLiteDatabase(path)
    with database.write() as tables, pytest.raises(StoreBusy, match="another rebuild"):
        tables.reopen_shadow("slow")
    database.close()
    with open_ledger(url) as ledger:
        assert ledger.verify().ok
        assert len(ledger.sessions()) == 2


def test_what_is_written_between_two_batches_is_in_the_rebuilt_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rebuild that others write beside ends in the rows that the log folds to."""
    url = _filled(tmp_path / "store.db")
    monkeypatch.setattr(audit, "BATCH_EVENTS", BATCH)
    with open_ledger(url) as ledger, open_ledger(url) as other:
        phases = iter(("waiting", "settling"))

        def write_between(database: SQLiteDatabase) -> AbstractContextManager[SQLiteTables]:
            if phase := next(phases, ""):
                other.report_state(
                    {"state": {"turn": {"turnId": "t1", "phase": phase}}}, room="room-1", session="ses-1"
                )
            return write(database)

        database = ledger.store._database  # type: ignore[attr-defined]
        write = SQLiteDatabase.write
        monkeypatch.setattr(database, "write", lambda: write_between(database))
        ledger.rebuild()
        monkeypatch.undo()
        assert ledger.verify().ok
        view = ledger.session("room-1", "ses-1")
        assert view is not None
        assert view.turn_list[0].phase == "settling"
