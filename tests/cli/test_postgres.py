"""The command on a PostgreSQL store: every verb, and what is told when the store is not to be had."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from infrastructure.main import SystemClock
from tests.cli.conftest import CHILD, PARENT, ROOM, SAMPLE, Ran, run
from tests.postgres import postgres_url


@pytest.fixture
def url() -> Iterator[str]:
    with postgres_url() as url:
        yield url


def test_every_verb_works_on_a_server_as_on_a_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each prints the same, once both stores have one id and one clock."""
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: 1_772_355_600_000)
    for adapter in ("sqlite", "postgres"):
        monkeypatch.setattr(f"infrastructure.store.{adapter}.uuid4", lambda: UUID(int=7))
    file = f"sqlite:///{tmp_path / 'store.db'}"

    def both(*arguments: str | Path) -> list[Ran]:
        return [run("--db", one, *arguments) for one in (url, file)]

    def same(*arguments: str | Path) -> None:
        on_server, on_file = both(*arguments)
        assert on_server.code == on_file.code == 0
        assert on_server.err == on_file.err
        assert on_server.out == on_file.out

    assert [ran.code for ran in both("sessions", "list")] == [3, 3]
    same("import", "--dry-run", SAMPLE)
    assert [ran.code for ran in both("sessions", "list")] == [3, 3]
    same("import", SAMPLE)
    same("import", SAMPLE)
    same("sessions", "list", "--json")
    same("sessions", "show", PARENT, "--json")
    same("sessions", "events", PARENT, "--json")
    same("messages", PARENT, "--json")
    same("outbox", "--json")
    same("settle", ROOM)
    same("delete", PARENT)
    same("restore", PARENT)
    same("purge", CHILD, "--yes")
    same("rebuild")
    same("verify")
    same("redeliver")
    same("outbox", "--pending")


@pytest.mark.parametrize(
    "url",
    ["postgresql://me:s3cret@127.0.0.1:1/db", "postgresql://me:s3cret@127.0.0.1:x/db"],
)
def test_a_server_that_is_not_there_is_told_without_the_password(url: str) -> None:
    ran = run("--db", url, "sessions", "list")
    assert ran.code == 69
    assert ran.err.startswith("error: ")
    assert "s3cret" not in ran.err
