"""What becomes of trouble: one message on stderr, one exit code."""

from collections.abc import Mapping
from typing import Final

import click

EXIT_CODES: Final[Mapping[int, str]] = {
    0: "done",
    1: "a check found problems, or something failed",
    2: "the command was misspelled",
    3: "not found: a session, a room, a file, a store",
    4: "conflict with what is recorded",
    5: "a remote or service answered with an error, or not at all",
    69: "the store cannot be opened, read or written, or an address is taken",
    74: "no room left, or output that cannot be written",
    75: "somebody else holds it: try again",
    78: "a setting means nothing",
    130: "interrupted",
    141: "whoever read the output went away",
}
EXIT_FAILED: Final = 1
EXIT_NOT_FOUND: Final = 3
EXIT_CONFLICT: Final = 4
EXIT_REMOTE: Final = 5
EXIT_UNAVAILABLE: Final = 69
EXIT_NO_ROOM: Final = 74
EXIT_TRY_AGAIN: Final = 75
EXIT_SETTING: Final = 78
EXIT_INTERRUPTED: Final = 130
EXIT_OUTPUT_CLOSED: Final = 141

CONFLICTS: Final = frozenset({"conflict", "deleted", "purged"})
"""Reasons of a rejection that lie in what is recorded, not in what was asked."""


class Failure(Exception):
    """Trouble as it is shown: a line on stderr, or one for each thing that is wrong, and an exit code."""

    def __init__(self, *lines: str, exit_code: int = EXIT_FAILED) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines
        self.exit_code = exit_code


def failure_of(error: BaseException) -> Failure | None:
    """How trouble that is expected ends the command; None for a programmer's mistake."""
    from domain import errors
    from infrastructure.settings import AddressTaken, BadSetting

    match error:
        case Failure():
            return error
        case KeyboardInterrupt() | click.Abort():
            return Failure("interrupted", exit_code=EXIT_INTERRUPTED)
        case errors.NotFound():
            code = EXIT_NOT_FOUND
        case errors.Rejected():
            code = EXIT_CONFLICT if error.reason in CONFLICTS else EXIT_FAILED
        case errors.VersionConflict():
            code = EXIT_CONFLICT
        case errors.StoreBusy():
            code = EXIT_TRY_AGAIN
        case errors.StoreFull():
            code = EXIT_NO_ROOM
        case errors.StoreUnavailable() | AddressTaken():
            code = EXIT_UNAVAILABLE
        case BadSetting():
            return Failure(*map(str, error.args), exit_code=EXIT_SETTING)
        case errors.RepriseError():
            code = EXIT_FAILED
        case OSError():
            return Failure(_told(error), exit_code=EXIT_NO_ROOM)
        case _:
            return None
    return Failure(str(error), exit_code=code)


def _told(error: OSError) -> str:
    where = f"{error.filename}: " if isinstance(error.filename, str) else ""
    return f"{where}{error.strerror or error}"
