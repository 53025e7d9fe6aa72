"""Runs the command as a user would: in a home of its own, on a store of its own."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog
from click.testing import CliRunner

from application.ledger import Ledger
from infrastructure.cli import reprise
from infrastructure.main import open_ledger
from infrastructure.settings import VARIABLES

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
"""Six transcripts of one room."""
ROOM = "/home/dev/tidewatch"
PARENT = "5e550002-7a11-4c0d-8e57-000000000002"
CHILD = f"{PARENT}:agent-a51c0ffee7"


@dataclass(frozen=True)
class Ran:
    """What a run of the command came to."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def objects(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


@dataclass(frozen=True)
class Cli:
    """The command, on the store at `file`."""

    file: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.file}"

    def run(self, *arguments: str | Path, typed: str | None = None) -> Ran:
        return run("--db", self.url, *arguments, typed=typed)

    def ledger(self) -> Ledger:
        return open_ledger(self.url)


def run(*arguments: str | Path, typed: str | None = None) -> Ran:
    result = CliRunner().invoke(reprise, [str(one) for one in arguments], input=typed, prog_name="reprise")
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home, and an environment that says nothing; logging is as it was afterwards."""
    for name in (*VARIABLES, "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    yield tmp_path / "home"
    structlog.reset_defaults()


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The command on a store that is not there yet."""
    return Cli(tmp_path / "reprise.db")


@pytest.fixture
def filled(cli: Cli) -> Cli:
    """The command on a store with the sample."""
    assert cli.run("import", SAMPLE).code == 0
    return cli
