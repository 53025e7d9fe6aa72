"""Named places where the process may die, so that tests can make it die there.

Nothing happens at them unless a test has armed one.
"""

from collections.abc import Callable
from typing import Final

NAMES: Final = (
    "append.before_commit",
    "append.after_commit",
    "outbox.before_send",
    "outbox.after_send",
    "outbox.after_mark",
)

_armed: dict[str, Callable[[], None]] = {}


def crashpoint(name: str) -> None:
    """Die here, if a test wants it so."""
    if _armed and name in _armed:
        _armed[name]()


def arm(name: str, action: Callable[[], None]) -> None:
    """Let `action` run at a crash point; for tests."""
    assert name in NAMES, f"no crash point {name}"
    _armed[name] = action


def disarm() -> None:
    """Let nothing happen at any crash point again."""
    _armed.clear()
