"""What a user can set: an option of the command, else the environment, else a default."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from domain.errors import RepriseError

DATABASE_URL: Final = "REPRISE_DATABASE_URL"
DATA_FOLDER: Final = "XDG_DATA_HOME"
STATE_FOLDER: Final = "XDG_STATE_HOME"

VARIABLES: Final[Mapping[str, str]] = {
    DATABASE_URL: "the store, as --db names it",
    DATA_FOLDER: "where the store lies that nothing names (~/.local/share)",
    STATE_FOLDER: "where imports remember which files they know (~/.local/state)",
    "CLAUDE_CONFIG_DIR": "Claude Code's folder, when it is not ~/.claude",
    "CODEX_HOME": "Codex's folder, when it is not ~/.codex",
    "GEMINI_CLI_HOME": "where Gemini CLI's folder .gemini is, when it is not your home",
}
"""The environment variables that are read, and what each is for."""

SQLITE: Final = "sqlite:///"
POSTGRES: Final = ("postgresql://", "postgres://")
MEMORY: Final = "memory://"
DATABASE_FILE: Final = "reprise.db"


class BadSetting(RepriseError):
    """A setting has a value that means nothing."""


def database_url(option: str | None) -> str:
    """Where the store is; a URL is not repeated in an error, because it may hold a password."""
    for source, url in (("--db", option), (DATABASE_URL, os.environ.get(DATABASE_URL))):
        if url and url.strip():
            return store_url(source, url)
    return f"{SQLITE}{default_database()}"


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
