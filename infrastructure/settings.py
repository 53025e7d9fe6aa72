"""What a user can set: an option of the command, else the environment, else a file, else a default.

Every verb imports this module, so it is quick; `infrastructure.configuration` knows what a service needs.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from domain.errors import RepriseError

DATABASE_URL: Final = "REPRISE_DATABASE_URL"
CONFIG_FOLDER: Final = "XDG_CONFIG_HOME"
DATA_FOLDER: Final = "XDG_DATA_HOME"
STATE_FOLDER: Final = "XDG_STATE_HOME"

VARIABLES: Final[Mapping[str, str]] = {
    DATABASE_URL: "the store, as --db names it",
    "REPRISE_HOST": "the address that `serve` listens on (127.0.0.1)",
    "REPRISE_PORT": "the port that `serve` listens on (8765)",
    "REPRISE_READ_ONLY": "whether `serve` refuses reports and commands (false)",
    "REPRISE_WORKERS": "whether `serve` works in the background too (true)",
    "REPRISE_REQUIRE_TOKEN": "whether `serve` wants a token from this machine's callers too (false)",
    "REPRISE_ALLOWED_HOSTS": "names, with commas, under which `serve` is reached beside this machine's",
    "REPRISE_CORS_ORIGINS": "origins, with commas, whose pages may call `serve` (none)",
    "REPRISE_DRAIN_SECONDS": "seconds that `serve` may take to stop (10)",
    "REPRISE_REQUIRE_IF_MATCH": "whether commands to `serve` must say which version they mean (false)",
    "REPRISE_LAG_SECONDS_MAX": "seconds behind which `status` finds fault with a subscription (30)",
    "REPRISE_ALLOW_PRIVATE_TARGETS": "whether webhooks may go to this machine and private networks (false)",
    "REPRISE_NATS_CREDENTIALS": "a token or user:password for NATS servers that want one",
    "REPRISE_URL": "a service that verbs with --url ask instead of the store",
    "REPRISE_TOKEN": "the token for that service",
    CONFIG_FOLDER: "where reprise/config.toml with the same settings is (~/.config)",
    DATA_FOLDER: "where the store lies that nothing names (~/.local/share)",
    STATE_FOLDER: "where imports remember which files they know (~/.local/state)",
    "CLAUDE_CONFIG_DIR": "Claude Code's folder, when it is not ~/.claude",
    "CODEX_HOME": "Codex's folder, when it is not ~/.codex",
    "GEMINI_CLI_HOME": "where Gemini CLI's folder .gemini is, when it is not your home",
}
"""The environment variables that are read, and what each is for."""

URL: Final = "REPRISE_URL"
SQLITE: Final = "sqlite:///"
POSTGRES: Final = ("postgresql://", "postgres://")
MEMORY: Final = "memory://"
DATABASE_FILE: Final = "reprise.db"


CONFIG_FILE: Final = "config.toml"


class BadSetting(RepriseError):
    """Settings have values that mean nothing; one line for each."""


class AddressTaken(RepriseError):
    """A service cannot listen where it was told to."""


def database_url(option: str | None) -> str:
    """Where the store is; a URL is not repeated in an error, because it may hold a password."""
    for source, url in (("--db", option), (DATABASE_URL, os.environ.get(DATABASE_URL))):
        if url and url.strip():
            return store_url(source, url)
    if url := configured().get("database_url"):
        return store_url(f"database_url in {config_file()}", str(url))
    return f"{SQLITE}{default_database()}"


def configured() -> Mapping[str, Any]:
    """What the user's file says; nothing when there is none. Raises BadSetting when it is no TOML."""
    import tomllib

    try:
        return tomllib.loads(config_file().read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadSetting(f"{config_file()}: {error}") from error


def config_file() -> Path:
    """The file of settings (`XDG_CONFIG_HOME`)."""
    from platformdirs import user_config_path

    return user_config_path("reprise", appauthor=False) / CONFIG_FILE


def store_url(source: str, url: str) -> str:
    """The URL, if it is one of a store; raises BadSetting, naming where it comes from."""
    if url == MEMORY or url.startswith(POSTGRES) or (url.startswith(SQLITE) and len(url) > len(SQLITE)):
        return url
    raise BadSetting(
        f"{source} names no store; give {SQLITE}path/to/file.db, {POSTGRES[0]}user@host/database or {MEMORY}"
    )


def database_file(url: str) -> Path | None:
    """The file that a store is in; None for one that is elsewhere."""
    return Path(url.removeprefix(SQLITE)).expanduser() if url.startswith(SQLITE) else None


def default_database() -> Path:
    """The file under the user's data folder (`XDG_DATA_HOME`)."""
    from platformdirs import user_data_path

    return user_data_path("reprise", appauthor=False) / DATABASE_FILE


def state_folder() -> Path:
    """The folder for what may be lost (`XDG_STATE_HOME`)."""
    from platformdirs import user_state_path

    return user_state_path("reprise", appauthor=False)
