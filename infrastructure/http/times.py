"""Times of the reading routes: RFC 3339 in UTC goes out, that or Unix milliseconds comes in."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from infrastructure.http.problems import INVALID, Problem

SUFFIX: Final = "UnixMs"
TIME: Final = (
    r"^$|^-?[0-9]{1,18}$|^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}.*([Zz]|[+-][0-9]{2}:[0-9]{2})$"
)
"""What a time in a query looks like, for the OpenAPI document."""
NESTED: Final = ("turnList", "interactionList", "lanes", "heldBy")
"""Lists of views inside a view, whose times are told alike."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def told(unix_ms: int) -> str:
    """A time as text; the last year that can be told stands for all behind it."""
    try:
        moment = datetime.fromtimestamp(unix_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        moment = datetime.max.replace(tzinfo=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{unix_ms % 1000:03}Z"


def as_read(view: Mapping[str, Any]) -> dict[str, Any]:
    """A view with its times as text under names without a unit; unknown times are left out."""
    said: dict[str, Any] = {}
    for name, value in view.items():
        if name.endswith(SUFFIX) and isinstance(value, int):
            if value:
                said[name.removesuffix(SUFFIX)] = told(value)
        elif name in NESTED:
            said[name] = [as_read(item) for item in value]
        else:
            said[name] = value
    return said


def asked(text: str, name: str) -> int:
    """Unix milliseconds of a time in a query; raises a problem when it is none."""
    text = text.strip()
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 18:
        return int(text)
    try:
        # In a query a plus sign is a blank.
        moment = datetime.fromisoformat(text.replace(" ", "+") if text[10:11] in "Tt" else text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        detail = f"{name}: expected a time such as 2026-03-01T09:00:00Z, or Unix milliseconds"
        raise Problem(INVALID, detail, members={"errors": [_error(name, detail)]})
    return int((moment - _EPOCH).total_seconds() * 1000)


def _error(name: str, detail: str) -> dict[str, str]:
    return {"pointer": f"/query/{name}", "message": detail, "code": "invalid_time"}
