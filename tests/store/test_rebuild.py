"""Making the read models anew while others write, purge or rebuild too."""

from contextlib import AbstractContextManager

import pytest

from domain.errors import StoreBusy
from infrastructure.main import open_database, open_ledger
from infrastructure.store import audit
from infrastructure.store.tables import SESSION_CONTENTS, Database, Tables

BATCH = 3


def _fill(url: str) -> None:
    with open_ledger(url) as ledger:
        for session in ("ses-1", "ses-2"):
            state = {"title": f"a secret of {session}", "turn": {"turnId": "t1", "phase": "running"}}
            ledger.report_state({"state": state}, room="room-1", session=session)


def _begin_rebuild(url: str, name: str) -> None:
    """What a rebuild does before its process dies: a first batch beside the live read models."""
    database = open_database(url)
    with database.write() as tables:
        refold = audit.Refold(tables.shadow(name))
        for stored in tables.log(contents=True):
            refold.apply(stored, audit._opened(stored))
        refold.flush()
    database.close()


def test_a_purge_reaches_a_rebuild_that_was_never_done(url: str) -> None:
    """A4: What is purged is gone from read models that a dying process left behind, too."""
    _fill(url)
    _begin_rebuild(url, "left")
    with open_ledger(url) as ledger:
        ledger.purge("room-1", "ses-1")

    database = open_database(url)
    with database.read() as tables:
        said = [row[1] for row in tables.reopen_shadow("left").rows(SESSION_CONTENTS)]
    database.close()

    assert len(said) == 1
    assert "ses-2" in said[0]


def test_of_two_rebuilds_the_first_one_done_swaps(url: str) -> None:
    """The other is told that the read models are fresh, and nothing is lost."""
    _fill(url)
    _begin_rebuild(url, "slow")
    with open_ledger(url) as ledger:
        assert ledger.rebuild() == len(list(ledger.events("room-1", "ses-1"))) * 2

    database = open_database(url)
    with database.write() as tables, pytest.raises(StoreBusy, match="another rebuild"):
        tables.reopen_shadow("slow")
    database.close()
    with open_ledger(url) as ledger:
        assert ledger.verify().ok
        assert len(ledger.sessions()) == 2


def test_what_is_written_between_two_batches_is_in_the_rebuilt_rows(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rebuild that others write beside ends in the rows that the log folds to."""
    _fill(url)
    monkeypatch.setattr(audit, "BATCH_EVENTS", BATCH)
    with open_ledger(url) as ledger, open_ledger(url) as other:
        phases = iter(("waiting", "settling"))

        def write_between() -> AbstractContextManager[Tables]:
            if phase := next(phases, ""):
                other.report_state(
                    {"state": {"turn": {"turnId": "t1", "phase": phase}}}, room="room-1", session="ses-1"
                )
            return write()

        database: Database = ledger.store._database  # type: ignore[attr-defined]
        write = database.write
        monkeypatch.setattr(database, "write", write_between)
        ledger.rebuild()
        monkeypatch.undo()
        assert ledger.verify().ok
        view = ledger.session("room-1", "ses-1")
        assert view is not None
        assert view.turn_list[0].phase == "settling"
