"""A setting is an option, else in the environment, else in a file, else a default; `config show` tells."""

from pathlib import Path

import pytest

from infrastructure.configuration import PREFIX, Settings, masked_url
from infrastructure.settings import VARIABLES
from tests.cli.conftest import Cli, run


@pytest.fixture
def file(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's file, which is not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "conf"))
    (home / "conf" / "reprise").mkdir(parents=True)
    return home / "conf" / "reprise" / "config.toml"


def settings() -> dict[str, tuple[object, str]]:
    ran = run("config", "show", "--json")
    assert ran.code == 0, ran.err
    return {one["name"]: (one["value"], one["source"]) for one in ran.objects}


def test_each_setting_is_a_variable_of_the_environment_that_help_lists() -> None:
    assert {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} <= set(VARIABLES)
    assert {name for name in VARIABLES if name.startswith(PREFIX)} == {
        f"{PREFIX}{name.upper()}" for name in Settings.model_fields
    }


def test_without_a_word_the_defaults_hold(home: Path) -> None:
    found = settings()

    assert {source for _, source in found.values()} == {"default"}
    assert found["host"] == ("127.0.0.1", "default")
    assert found["database_url"][0] == f"sqlite:///{home}/.local/share/reprise/reprise.db"


def test_an_option_goes_before_the_environment_and_that_before_the_file(
    file: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('port = 1\nhost = "::1"\ndatabase_url = "memory://"\nallowed_hosts = ["a.example"]\n')
    monkeypatch.setenv("REPRISE_PORT", "2")
    monkeypatch.setenv("REPRISE_CORS_ORIGINS", "https://a.example, https://b.example")

    found = settings()

    assert found["port"] == (2, "environment")
    assert found["host"] == ("::1", "file")
    assert found["database_url"] == ("memory://", "file")
    assert found["allowed_hosts"] == (["a.example"], "file")
    assert found["cors_origins"] == (["https://a.example", "https://b.example"], "environment")
    flagged = {one["name"]: one for one in cli.run("config", "show", "--json").objects}
    assert flagged["database_url"] == {"name": "database_url", "value": cli.url, "source": "flag"}


def test_a_blank_variable_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRISE_PORT", "")

    assert settings()["port"] == (8765, "default")


def test_the_file_names_the_store_of_every_verb(file: Path, filled: Cli) -> None:
    file.write_text(f'database_url = "{filled.url}"\n')

    assert len(run("sessions", "list", "--json").lines) == 6


def test_a_person_sees_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRISE_READ_ONLY", "1")
    ran = run("config", "show")

    assert ran.lines[0].split() == ["SETTING", "VALUE", "FROM"]
    assert ["read_only", "true", "environment"] in [line.split() for line in ran.lines]


def test_secrets_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRISE_DATABASE_URL", "postgresql://me:hidden@db.example/x?schema=s&password=hidden")
    monkeypatch.setenv("REPRISE_TOKEN", "reprise_hidden")

    for ran in (run("config", "show"), run("config", "show", "--json")):
        assert "hidden" not in ran.out
        assert "postgresql://me:***@db.example/x?schema=s&password=***" in ran.out


@pytest.mark.parametrize("url", ["sqlite:////tmp/a.db", "sqlite:///a b?.db", "memory://", "postgresql:///x"])
def test_an_address_without_a_secret_is_shown_as_it_is(url: str) -> None:
    assert masked_url(url) == url


def test_each_setting_that_means_nothing_is_told_in_a_line_of_its_own(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('prot = 80\nhost = ""\ntoken = 3\n')
    monkeypatch.setenv("REPRISE_PORT", "70000")
    monkeypatch.setenv("REPRISE_DRAIN_SECONDS", "soon")
    monkeypatch.setenv("REPRISE_DATABASE_URL", "mysql://me:hidden@host/db")
    monkeypatch.setenv("REPRISE_URL", "https://me:hidden@host")

    ran = run("config", "show")

    assert (ran.code, ran.out) == (78, "")
    lines = ran.err.splitlines()
    assert len(lines) == 7
    assert all(line.startswith("error: ") for line in lines)
    assert f"error: prot in {file}: there is no such setting" in lines
    assert any(line.startswith("error: REPRISE_PORT: ") for line in lines)
    assert any(line.startswith("error: REPRISE_DATABASE_URL: ") for line in lines)
    assert "hidden" not in ran.err


def test_a_file_that_is_no_toml_is_named(file: Path) -> None:
    file.write_text("port: 80\n")

    ran = run("sessions", "list")

    assert ran.code == 78
    assert ran.err.startswith(f"error: {file}: ")
