"""Help is there at once, and says everything."""

import subprocess
import sys
from importlib.metadata import version

import click
import pytest

from infrastructure.cli import reprise
from infrastructure.cli.failures import EXIT_CODES
from infrastructure.settings import VARIABLES
from tests.cli.conftest import run

VERBS = [
    "serve",
    "import",
    "status",
    "sessions",
    "messages",
    "commits",
    "outbox",
    "redeliver",
    "rooms",
    "pull",
    "waits",
    "subscriptions",
    "deliveries",
    "evidence",
    "settle",
    "delete",
    "restore",
    "purge",
    "rebuild",
    "verify",
    "backup",
    "copy",
    "tokens",
    "config",
    "doctor",
]


def test_help_lists_verbs_settings_and_exit_codes() -> None:
    ran = run("--help")

    assert ran.code == 0
    assert list(reprise.commands) == VERBS
    assert all(f"\n  {verb} " in ran.out for verb in VERBS)
    assert all(name in ran.out for name in VARIABLES)
    assert all(f"  {code} " in ran.out for code in EXIT_CODES)


def test_help_imports_nothing_heavy() -> None:
    """The bar is 150 ms from start to end."""
    script = (
        "import sys; from infrastructure.cli import reprise\n"
        "try: reprise.main(['--help'], prog_name='reprise')\n"
        "except SystemExit: pass\n"
        "print(*sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    loaded = {name.split(".")[0] for name in out.splitlines()[-1].split()}

    assert loaded.isdisjoint(
        {
            *("eventsourcing", "fastapi", "httpx", "nats", "platformdirs", "prometheus_client", "psycopg"),
            *("pydantic", "rich", "sqlite3", "starlette", "structlog", "uvicorn"),
        }
    )
    assert "application" not in loaded


def test_every_verb_and_option_explains_itself() -> None:
    def explained(command: click.Command) -> None:
        assert command.help
        for option in command.params:
            assert isinstance(option, click.Argument) or option.help, (command.name, option.name)
        for inner in getattr(command, "commands", {}).values():
            explained(inner)

    explained(reprise)


def test_the_version_is_the_packages() -> None:
    assert run("--version").out == f"reprise {version('reprise')}\n"


@pytest.mark.parametrize(
    "arguments", [["fly"], ["import", "--fly"], ["messages"], ["messages", "s", "--limit", "0"]]
)
def test_a_misspelled_command_is_a_usage_error(arguments: list[str]) -> None:
    ran = run(*arguments)

    assert (ran.code, ran.out) == (2, "")
    assert "Error: " in ran.err
